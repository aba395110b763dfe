/* SPDX-License-Identifier: Apache-2.0 */
/* FLOPs by step and window. */
#include "writer/sums/flop_stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPUS          128u /* more than a process has */
#define CPU           0u   /* GPU n is device 1 + n */
#define NOWHERE       UINT32_MAX
#define UNKNOWN_NAMES 32u
#define DIGITS        6 /* significant digits of rates and shares */

struct work {
    uint64_t flops[FLOP_CLASSES];
    uint64_t again[FLOP_CLASSES]; /* the part of `flops` that is recomputed for the backward pass */
    uint64_t bytes;
    int64_t busy_ns;    /* of kernels, or of outermost operators; windows only */
    int64_t counted_ns; /* the part of busy_ns that has a count */
    bool any;           /* anything was added */
};

struct step {
    int64_t start_ns, end_ns;
    struct work *on; /* by device; owned */
    uint32_t n;      /* devices in `on`; the others did nothing */
};

struct flop_stats {
    uint64_t window;                   /* number of the window, unique in the process */
    struct step steps[FLOP_STEPS + 1]; /* the last one is still running */
    unsigned n;                        /* steps that have ended */
    struct step whole;                 /* the window as a whole */
    uint64_t late;                     /* counts that came for settled steps */
    uint64_t unknown;                  /* spans whose shapes were unknown */
    struct {
        char name[64]; /* may be cut */
        uint64_t n;
        /* by operator, in the order of arrival; later operators are only counted */
    } unknown_of[UNKNOWN_NAMES];
    uint64_t not_placed; /* FLOPs of library calls whose kernel has not come */
};

static const char *const class_names[FLOP_CLASSES] = {
#define FLOP_CLASS(id, name, other) [FLOP_##id] = name,
#include "writer/base/flop_classes.def"
#undef FLOP_CLASS
    [FLOP_OTHER] = "other",
};

enum flop_class flop_class_named(const char *name, size_t n)
{
    static const char *const others[] = {
#define FLOP_CLASS(id, text, other) [FLOP_##id] = other,
#include "writer/base/flop_classes.def"
#undef FLOP_CLASS
    };
    unsigned i = 0;
    while (i < FLOP_OTHER &&
           !(strlen(class_names[i]) == n && memcmp(class_names[i], name, n) == 0) &&
           !(strlen(others[i]) == n && memcmp(others[i], name, n) == 0))
        i++;
    return (enum flop_class)i;
}

enum flop_class flop_class_of(uint32_t dtype)
{
    switch (dtype) { /* c10::ScalarType */
    case 5:
    case 8:
        return FLOP_FP16;
    case 6:
    case 9:
        return FLOP_FP32;
    case 7:
    case 10:
        return FLOP_FP64;
    case 15:
    case 46:
        return FLOP_BF16;
    case 1:
    case 12:
        return FLOP_INT8;
    case 23:
    case 24:
    case 25:
    case 26:
        return FLOP_FP8;
    case 45:
        return FLOP_FP4;
    case DTYPE_TF32:
        return FLOP_TF32;
    default:
        return FLOP_OTHER;
    }
}

struct flop_stats *flop_stats_make(int64_t start_ns)
{
    static uint64_t windows;
    struct flop_stats *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->window = ++windows;
    s->steps[0].start_ns = start_ns;
    return s;
}

void flop_stats_free(struct flop_stats *s)
{
    if (!s)
        return;
    for (unsigned i = 0; i <= s->n; i++)
        free(s->steps[i].on);
    free(s->whole.on);
    free(s);
}

/* ---- adding ---------------------------------------------------------------------------------- */

/* The step at that time; the oldest unsettled one for earlier times. */
static struct step *step_at(struct flop_stats *s, int64_t ns)
{
    unsigned i = s->n;
    while (i > 0 && ns < s->steps[i].start_ns)
        i--;
    return &s->steps[i];
}

/* The work of the device in the step so far, or NULL. */
static const struct work *done_in(const struct step *step, uint32_t device)
{
    return device < step->n && step->on[device].any ? &step->on[device] : NULL;
}

/* The work of the device in the step, to be added to. NULL: no memory. Grows by device, because
 * most programs use few. */
static struct work *work_in(struct step *step, uint32_t device)
{
    if (device >= step->n) {
        struct work *more = realloc(step->on, (device + 1) * sizeof *more);
        if (!more)
            return NULL;
        memset(more + step->n, 0, (device + 1 - step->n) * sizeof *more);
        step->on = more;
        step->n = device + 1;
    }
    step->on[device].any = true;
    return &step->on[device];
}

enum { OF_WINDOW, OF_STEP, PLACES };

/* The sums for a device and time. NULL in `at`: the step is settled, or no memory; counted in
 * `late`. */
static void places_of(struct flop_stats *s, int64_t ns, uint32_t device, struct work *at[PLACES])
{
    struct step *step = step_at(s, ns);
    at[OF_WINDOW] = work_in(&s->whole, device);
    at[OF_STEP] = ns >= step->start_ns ? work_in(step, device) : NULL;
    s->late += !at[OF_WINDOW] || !at[OF_STEP];
}

/* The work of the device in the window. */
static const struct work *whole_of(const struct flop_stats *s, uint32_t device)
{
    static const struct work nothing;
    return device < s->whole.n ? &s->whole.on[device] : &nothing;
}

static void add_flops(struct flop_stats *s, int64_t ns, uint32_t device, uint64_t where,
                      uint64_t flops, uint64_t bytes)
{
    enum flop_class class = flop_class_of((uint32_t)where & 0xffffu);
    struct work *at[PLACES];
    places_of(s, ns, device, at);
    for (unsigned i = 0; i < PLACES; i++) {
        if (!at[i])
            continue;
        at[i]->flops[class] += flops;
        at[i]->again[class] += where & WHERE_RECOMPUTE ? flops : 0;
        at[i]->bytes += bytes;
    }
}

static void add_time(struct flop_stats *s, uint32_t device, int64_t busy, int64_t counted)
{
    struct work *work = work_in(&s->whole, device);
    if (!work)
        return;
    work->busy_ns += busy;
    work->counted_ns += counted;
}

/* The device of a count; NOWHERE: not known yet. */
static uint32_t device_of(uint64_t where)
{
    uint32_t type = where >> 16 & 0x7f, index = where >> 24 & 0xff;
    if (type == 0)
        return CPU;
    return type == 1 && index < GPUS ? 1 + index : NOWHERE;
}

/* Appends an entry. Operators directly inside one span share an entry, because a span around one of
 * them is around all. */
static void put_outermost(struct flop_stats *s, struct thread_log *log, const struct outermost *o)
{
    struct outermost *list = log->outermost, *top = &list[log->n_outermost - 1];
    if (log->n_outermost && top->inside == o->inside && top->window == s->window &&
        o->window == s->window) {
        top->ran_ns += o->ran_ns;
        return;
    }
    if (log->n_outermost == OUTERMOST) { /* too many levels: the older half counts as ended */
        log->n_outermost = OUTERMOST / 2;
        memmove(list, list + OUTERMOST / 2, OUTERMOST / 2 * sizeof *list);
    }
    list[log->n_outermost++] = *o;
}

/* Adds the time of operators that are inside no other operator. Inner operators end first, so their
 * time is subtracted when the outer operator ends. An outer operator of a later window subtracts
 * nothing: the inner ones stay in their own file. */
static void add_operator(struct flop_stats *s, struct thread_log *log, const struct record *r,
                         int64_t start, int64_t ran)
{
    struct outermost *list = log->outermost;
    for (; log->n_outermost && list[log->n_outermost - 1].start_ns >= start; log->n_outermost--) {
        const struct outermost *inside = &list[log->n_outermost - 1];
        if (inside->window == s->window)
            add_time(s, CPU, -inside->ran_ns, 0);
    }
    put_outermost(s, log, &(struct outermost){start, ran, s->window, r->parent});
    add_time(s, CPU, ran, 0);
}

/* A range that is no operator has ended: the operators inside it are now directly inside the span
 * around the range. */
static void end_range(struct flop_stats *s, struct thread_log *log, const struct record *r)
{
    uint32_t to = log->n_outermost;
    while (to && log->outermost[to - 1].inside == r->id)
        to--;
    uint32_t n = log->n_outermost;
    log->n_outermost = to;
    for (; to < n; to++) {
        struct outermost moved = log->outermost[to];
        moved.inside = r->parent;
        put_outermost(s, log, &moved);
    }
}

/* The type in which a product was computed. The operator's formula knows its tensor type, but only
 * the library call inside knows TF32. */
static uint64_t as_computed(const struct thread_log *log, const struct record *r, uint64_t where)
{
    bool tf32 = log && (where & 0xffffu) == DTYPE_FLOAT && log->tf32_at > r->start;
    return tf32 ? (where & ~(uint64_t)0xffff) | DTYPE_TF32 : where;
}

static void count_unknown(struct flop_stats *s, struct text name)
{
    unsigned i = 0;
    size_t len =
        name.len < sizeof s->unknown_of[0].name ? name.len : sizeof s->unknown_of[0].name - 1;
    s->unknown++;
    while (
        i < UNKNOWN_NAMES && s->unknown_of[i].n &&
        (strlen(s->unknown_of[i].name) != len || memcmp(s->unknown_of[i].name, name.at, len) != 0))
        i++;
    if (i == UNKNOWN_NAMES)
        return;
    memcpy(s->unknown_of[i].name, name.at, len);
    s->unknown_of[i].n++;
}

/* True when a product inside the span was counted or is unknown itself, so that an unknown one is
 * not counted twice. */
static bool has_counted_product(struct thread_log *log, const struct record *r, uint64_t where)
{
    if (!log || !(where & WHERE_PRODUCT || r->category == CAT_LIBRARY))
        return false;
    bool inside = log->product_at >= r->start;
    if (!inside)
        log->product_at = r->start;
    return inside;
}

void flop_stats_span(struct flop_stats *s, struct thread_log *log, const struct record *r,
                     const struct json_place *at)
{
    if (!s || r->kind != REC_SPAN)
        return;
    int64_t ran = at->end_ns - at->start_ns;
    if (log && r->category == CAT_CPU_OP)
        add_operator(s, log, r, at->start_ns, ran);
    else if (log)
        end_range(s, log, r);
    if (!(r->extras & 1u << EXTRA_DTYPE))
        return;
    uint64_t where = record_extra(r, EXTRA_DTYPE, 0), flops = record_extra(r, EXTRA_FLOPS, 0);
    if (r->flags & REC_IN_COUNTED) {
        if (log && (where & 0xffffu) == DTYPE_TF32)
            log->tf32_at = r->start;
        return;
    }
    where = as_computed(log, r, where);
    uint32_t device = device_of(where);
    bool inside = has_counted_product(log, r, where);
    if ((where & 0xffffu) == FLOPS_NOT_KNOWN) {
        if (!inside)
            count_unknown(s, record_name(r));
    } else if (where & WHERE_CAPTURED) {
        ; /* counted when its graph is launched */
    } else if (device == NOWHERE) {
        s->not_placed += flops;
    } else {
        add_flops(s, at->start_ns, device, where, flops, record_extra(r, EXTRA_BYTES, 0));
        if (r->category == CAT_CPU_OP && device == CPU)
            add_time(s, CPU, 0, ran);
    }
}

void flop_stats_kernel(struct flop_stats *s, uint32_t device, int64_t ran_ns, bool counted)
{
    if (s && device < GPUS)
        add_time(s, 1 + device, ran_ns, counted ? ran_ns : 0);
}

void flop_stats_placed(struct flop_stats *s, int64_t ns, uint32_t device, uint64_t where,
                       uint64_t flops, uint64_t bytes)
{
    if (!s || device >= GPUS || device_of(where) != NOWHERE)
        return;
    s->not_placed -= flops < s->not_placed ? flops : s->not_placed;
    add_flops(s, ns, 1 + device, where, flops, bytes);
}

void flop_stats_replayed(struct flop_stats *s, int64_t ns, uint32_t device,
                         const struct captured *work)
{
    if (s && device < GPUS)
        add_flops(s, ns, 1 + device, work->where, work->flops, work->bytes);
}

/* ---- what follows from it -------------------------------------------------------------------- */

static uint64_t sum_of(const uint64_t flops[FLOP_CLASSES])
{
    uint64_t all = 0;
    for (unsigned i = 0; i < FLOP_CLASSES; i++)
        all += flops[i];
    return all;
}

static uint64_t sum(const struct work *work)
{
    return sum_of(work->flops);
}

/* Peak of the device in TFLOP/s; 0: unknown. The user's figure has precedence. */
static double peak(const struct writer_options *options, uint32_t device, enum flop_class class)
{
    if (device == CPU)
        return options->peaks.cpu;
    if (options->peaks.gpu[class] > 0)
        return options->peaks.gpu[class];
    double own = options->gpu && options->gpu->peak_tflops
                     ? options->gpu->peak_tflops(device - 1, class)
                     : 0;
    /* units without TF32 do the same work in single precision */
    return own <= 0 && class == FLOP_TF32 ? peak(options, device, FLOP_FP32) : own;
}

/* Time that the work would take at the device's peak, in percent of the time it took; negative:
 * unknown. */
struct utilisation {
    double model;    /* MFU: without recomputed work */
    double hardware; /* HFU: all work */
};

static double share_of(double ideal_ns, int64_t ns)
{
    double share = ns > 0 ? 100 * ideal_ns / (double)ns : -1;
    return __builtin_isfinite(share) ? share : -1;
}

static struct utilisation utilisation(const struct work *work, int64_t ns, uint32_t device,
                                      const struct writer_options *options)
{
    double all_ns = 0, useful_ns = 0;
    bool known = false;
    for (unsigned i = 0; i < FLOP_OTHER; i++) {
        double rate = peak(options, device, (enum flop_class)i);
        known |= rate > 0;
        if (!work->flops[i])
            continue;
        if (rate <= 0)
            return (struct utilisation){-1, -1};
        all_ns += (double)work->flops[i] / (rate * 1e3);
        useful_ns += (double)(work->flops[i] - work->again[i]) / (rate * 1e3);
    }
    if (!known)
        return (struct utilisation){-1, -1};
    return (struct utilisation){share_of(useful_ns, ns), share_of(all_ns, ns)};
}

static double rate(const struct work *work, int64_t ns)
{
    return ns > 0 ? (double)sum(work) / (double)ns / 1e3 : 0;
}

/* Beside a GPU, operators of the CPU mostly launch. */
static bool has_coverage(const struct flop_stats *s, uint32_t device)
{
    if (device == CPU && s->whole.n > 1)
        return false;
    return whole_of(s, device)->busy_ns > 0;
}

static double coverage(const struct work *work)
{
    double part = work->busy_ns > 0 ? 100 * (double)work->counted_ns / (double)work->busy_ns : 0;
    return part < 100 ? part : 100; /* rounded ends may exceed 100 % */
}

/* True when the account lists the device: a GPU that did anything; the CPU when it has FLOPs or
 * coverage. */
static bool is_listed(const struct flop_stats *s, uint32_t device)
{
    return whole_of(s, device)->any &&
           (device != CPU || sum(whole_of(s, CPU)) > 0 || has_coverage(s, device));
}

/* Without counts, no counters are written: rows of zeros would mislead. */
static bool has_rates(const struct flop_stats *s, uint32_t device)
{
    return sum(whole_of(s, device)) > 0;
}

static const char *name_of(uint32_t device, char room[16])
{
    if (device == CPU)
        return "CPU";
    snprintf(room, 16, "CUDA:%u", device - 1);
    return room;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Viewers join both texts to the row's name: "MFU CUDA:0 %". */
static void put_sample(struct buf *b, const char *what, const char *unit, uint32_t device,
                       uint32_t pid, int64_t ns, double value)
{
    char room[16];
    size_t start = b->len;
    buf_printf(b, "{\"ph\": \"C\", \"name\": \"%s %s\", \"pid\": %u, \"tid\": %u, \"ts\": ", what,
               name_of(device, room), pid, pid);
    json_us(b, ns);
    buf_printf(b, ", \"args\": {\"%s\": ", unit);
    json_rounded(b, value, DIGITS);
    buf_puts(b, "}},\n");
    if (b->failed)
        b->len = start;
}

/* GFLOP/s for the CPU: it is a thousand times slower than a GPU. */
static void put_rate(struct buf *b, uint32_t device, uint32_t pid, int64_t ns, double tflops)
{
    if (device == CPU)
        put_sample(b, "Compute", "GFLOP/s", device, pid, ns, tflops * 1e3);
    else
        put_sample(b, "Compute", "TFLOP/s", device, pid, ns, tflops);
}

static void put_utilisation(struct buf *b, uint32_t device, uint32_t pid, int64_t ns,
                            struct utilisation used)
{
    if (used.model >= 0)
        put_sample(b, "MFU", "%", device, pid, ns, used.model);
    if (used.hardware >= 0)
        put_sample(b, "HFU", "%", device, pid, ns, used.hardware);
}

/* Writes the step's counters at its start. ended: zeros at its end, because nothing is known after
 * it. */
static void put_step(const struct flop_stats *s, const struct step *step, int64_t end_ns,
                     bool ended, const struct writer_options *options, uint32_t pid, struct buf *b)
{
    static const struct work nothing;
    for (uint32_t d = 0; d < s->whole.n; d++) {
        if (!has_rates(s, d))
            continue;
        const struct work *done = done_in(step, d), *work = done ? done : &nothing;
        int64_t ns = end_ns - step->start_ns;
        struct utilisation used = utilisation(work, ns, d, options);
        put_rate(b, d, pid, step->start_ns, rate(work, ns));
        put_utilisation(b, d, pid, step->start_ns, used);
        if (!ended)
            continue;
        put_rate(b, d, pid, end_ns, 0);
        if (used.hardware >= 0)
            put_utilisation(b, d, pid, end_ns, (struct utilisation){0, 0});
    }
}

void flop_stats_step(struct flop_stats *s, int64_t start_ns, int64_t end_ns,
                     const struct writer_options *options, uint32_t pid, struct buf *body)
{
    if (!s)
        return;
    struct step *step = &s->steps[s->n];
    step->start_ns = start_ns;
    step->end_ns = end_ns;
    s->n++;
    s->steps[s->n] = (struct step){.start_ns = end_ns};
    if (s->n < FLOP_STEPS)
        return;
    put_step(s, &s->steps[0], s->steps[0].end_ns, false, options, pid, body);
    free(s->steps[0].on);
    memmove(s->steps, s->steps + 1, s->n * sizeof s->steps[0]);
    s->n--;
}

void flop_stats_counters(const struct flop_stats *s, int64_t end_ns,
                         const struct writer_options *options, uint32_t pid, struct buf *b)
{
    if (!s)
        return;
    const struct step *rest = &s->steps[s->n];
    bool more = false;
    for (unsigned d = 0; d < s->whole.n; d++)
        more |= done_in(rest, d) && has_rates(s, d) && end_ns > rest->start_ns;
    for (unsigned i = 0; i < s->n; i++)
        put_step(s, &s->steps[i], s->steps[i].end_ns, !more && i + 1 == s->n, options, pid, b);
    if (more)
        put_step(s, rest, end_ns, true, options, pid, b);
}

static void put_real(struct buf *b, const char *key, double value)
{
    buf_printf(b, ", \"%s\": ", key);
    json_rounded(b, value, DIGITS);
}

static void put_energy(const struct energy_use *spent, struct buf *b)
{
    if (!spent->steps)
        return;
    put_real(b, "joules_per_step", spent->joules / (double)spent->steps);
    buf_printf(b, ", \"joules_steps\": %llu, \"joules_from\": \"%s\"",
               (unsigned long long)spent->steps, spent->is_counted ? "counter" : "power");
}

static void put_device(const struct flop_stats *s, uint32_t device, int64_t ns,
                       const struct energy_use spent[GPU_STATES],
                       const struct writer_options *options, struct buf *b)
{
    char room[16];
    const struct work *work = whole_of(s, device);
    struct utilisation used = utilisation(work, ns, device, options);
    buf_printf(b,
               "\"%s\": {\"flops\": %llu, \"recompute_flops\": %llu, \"bytes\": %llu, "
               "\"busy_ns\": %lld, \"counted_ns\": %lld",
               name_of(device, room), (unsigned long long)sum(work),
               (unsigned long long)sum_of(work->again), (unsigned long long)work->bytes,
               (long long)work->busy_ns, (long long)work->counted_ns);
    put_real(b, "tflops_per_s", rate(work, ns));
    if (used.model >= 0)
        put_real(b, "mfu_percent", used.model);
    if (used.hardware >= 0)
        put_real(b, "hfu_percent", used.hardware);
    if (has_coverage(s, device))
        put_real(b, "coverage_percent", coverage(work));
    if (device != CPU && device <= GPU_STATES)
        put_energy(&spent[device - 1], b);
    for (unsigned i = 0; i < FLOP_CLASSES; i++) {
        if (!work->flops[i])
            continue;
        double most = i < FLOP_OTHER ? peak(options, device, (enum flop_class)i) : 0;
        buf_printf(b, ", \"%s\": {\"flops\": %llu", class_names[i],
                   (unsigned long long)work->flops[i]);
        if (most > 0)
            put_real(b, "peak_tflops_per_s", most);
        buf_puts(b, "}");
    }
    buf_puts(b, "}, ");
}

static void put_unknown(const struct flop_stats *s, struct buf *b)
{
    if (!s->unknown)
        return;
    buf_puts(b, "\"unknown_operators\": {");
    for (unsigned i = 0; i < UNKNOWN_NAMES && s->unknown_of[i].n; i++) {
        buf_puts(b, i ? ", " : "");
        json_string(b, s->unknown_of[i].name, strlen(s->unknown_of[i].name));
        buf_printf(b, ": %llu", (unsigned long long)s->unknown_of[i].n);
    }
    buf_puts(b, "}, ");
}

void flop_stats_account(const struct flop_stats *s, int64_t duration_ns,
                        const struct energy_use spent[GPU_STATES],
                        const struct writer_options *options, struct buf *b)
{
    if (!s)
        return;
    buf_puts(b, "\"flops\": {");
    for (uint32_t d = 0; d < s->whole.n; d++)
        if (is_listed(s, d))
            put_device(s, d, duration_ns, spent, options, b);
    buf_printf(b, "\"unknown\": %llu, ", (unsigned long long)s->unknown);
    put_unknown(s, b);
    buf_printf(b, "\"not_placed\": %llu, \"late\": %llu}, ", (unsigned long long)s->not_placed,
               (unsigned long long)s->late);
}

unsigned flop_stats_rates(const struct flop_stats *s, int64_t duration_ns,
                          const struct writer_options *options, struct flop_rates *out,
                          unsigned most)
{
    unsigned n = 0;
    for (uint32_t d = 0; s && d < s->whole.n && n < most; d++) {
        char room[16];
        if (!is_listed(s, d) || duration_ns <= 0)
            continue;
        const struct work *work = whole_of(s, d);
        struct utilisation used = utilisation(work, duration_ns, d, options);
        struct flop_rates *r = &out[n++];
        snprintf(r->device, sizeof r->device, "%s", name_of(d, room));
        r->per_second = rate(work, duration_ns) * 1e12;
        r->model = used.model < 0 ? -1 : used.model / 100;
        r->hardware = used.hardware < 0 ? -1 : used.hardware / 100;
    }
    return n;
}
