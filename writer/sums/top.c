/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the spans for the table of `cprof top`. */
#include "writer/sums/top.h"

#include <stdlib.h>
#include <string.h>

#include "writer/sums/summary_limits.h"
#include "writer/sums/top_table.h"

#define KINDS_MOST 16384u /* a program with a name per step gets no table */
#define NO_KIND    UINT32_MAX
_Static_assert(KINDS_MOST <= UINT16_MAX, "top_span.kind has 16 bits");
#define FIRST_ROOM 16u
#define MOVED_FREE                                                                                 \
    (1ull << 30) /* bytes that may be moved to keep rows sorted, plus MOVED_SPAN per span */
#define MOVED_SPAN 4096u
/* Flags that distinguish kinds of one name. */
#define KINDS_APART (KIND_DEVICE | KIND_ANNOTATION | KIND_CALL | KIND_STEP | KIND_STEP_RANGE)

/* The name of all torch.profiler steps where cprof has steps too; its beginning is the name of
 * cprof's steps. Same as in steps.py of the command. */
static const char step_ranges[] = "ProfilerStep* (torch.profiler)";
#define N_STEPS (sizeof "ProfilerStep*" - 1)

struct top *top_make(uint64_t most)
{
    struct top *t = most ? calloc(1, sizeof *t) : NULL;
    if (!t)
        return NULL;
    t->most = most;
    t->by_call = true;
    return t;
}

void top_drop(struct top *t)
{
    for (size_t i = 0; i < t->n_rows; i++) {
        free(t->rows[i].spans.at);
        free(t->rows[i].calls.at);
        free(t->rows[i].memory);
    }
    free(t->rows);
    free(t->row_slots);
    free(t->kinds);
    free(t->slots);
    free(t->work);
    free(t->open);
    free(t->modules.at);
    free(t->modules.slots);
    buf_free(&t->texts);
    *t = (struct top){.dead = true};
}

void top_free(struct top *t)
{
    if (t)
        top_drop(t);
    free(t);
}

uint64_t top_bytes(const struct top *t)
{
    return t ? sizeof *t + t->used : 0;
}

bool top_grow(struct top *t, void **array, size_t *room, size_t n, size_t size)
{
    if (n < *room)
        return true;
    size_t more = *room ? *room : FIRST_ROOM;
    void *grown = t->used + more * size <= t->most ? realloc(*array, (*room + more) * size) : NULL;
    if (!grown) {
        top_drop(t);
        return false;
    }
    t->used += more * size;
    *array = grown;
    *room += more;
    return true;
}

/* ---- names ---- */

static uint32_t flags_of_name(const char *name, size_t len)
{
    static const char *const hidden[] = {"[memory]",
                                         "[OutOfMemory]",
                                         "profiler::_record_function_enter",
                                         "profiler::_record_function_enter_new",
                                         "profiler::_record_function_exit",
                                         "aten::is_leaf",
                                         "aten::output_nr",
                                         "aten::_version",
                                         "PyTorch Profiler (0)"};
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++)
        if (strlen(hidden[i]) == len && memcmp(hidden[i], name, len) == 0)
            return KIND_HIDDEN;
    return 0;
}

static bool starts_with(const char *name, size_t len, const char *start, size_t n)
{
    return len >= n && memcmp(name, start, n) == 0;
}

/* Same as ASYNC_RANGES of spans.py. */
bool is_transfer_range(const char *name, size_t len)
{
    static const char *const starts[] = {"gloo:", "mpi:", "ucc:", "nccl:"};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (starts_with(name, len, starts[i], strlen(starts[i])))
            return true;
    return false;
}

static bool more_slots(struct top *t)
{
    size_t n = t->n_slots ? 2 * t->n_slots : 1024;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots) {
        top_drop(t);
        return false;
    }
    for (size_t i = 0; i < t->n_kinds; i++) {
        size_t at = t->kinds[i].hash & (n - 1);
        while (slots[at])
            at = (at + 1) & (n - 1);
        slots[at] = (uint32_t)i + 1;
    }
    free(t->slots);
    t->slots = slots;
    t->n_slots = n;
    return true;
}

static uint32_t new_kind(struct top *t, uint64_t hash, const char *name, size_t len, uint32_t flags,
                         uint32_t same)
{
    if (t->n_kinds == KINDS_MOST || t->used + len > t->most) {
        top_drop(t);
        return NO_KIND;
    }
    if (!top_grow(t, (void **)&t->kinds, &t->kinds_room, t->n_kinds, sizeof *t->kinds))
        return NO_KIND;
    struct kind kind = {.hash = hash,
                        .text = (uint32_t)t->texts.len,
                        .text_len = (uint32_t)len,
                        .name = same != NO_KIND ? same : (uint32_t)t->n_kinds,
                        .flags = flags,
                        .first = INT64_MAX};
    if (!(flags & KIND_DEVICE))
        kind.flags |= flags_of_name(name, len);
    if ((flags & (KIND_DEVICE | KIND_ANNOTATION)) == KIND_ANNOTATION &&
        is_transfer_range(name, len))
        kind.flags |= KIND_TRANSFER;
    buf_put(&t->texts, name, len);
    t->used += len;
    t->kinds[t->n_kinds++] = kind;
    if (t->texts.failed) {
        top_drop(t);
        return NO_KIND;
    }
    return (uint32_t)t->n_kinds - 1;
}

bool top_has_other_steps(const struct top *t)
{
    for (size_t i = 0; i < t->n_kinds; i++)
        if (t->kinds[i].flags & KIND_STEP_RANGE)
            return true;
    return false;
}

/* True for ProfilerStep#N, for the name that the trace shows instead, and for the name of all steps
 * together. */
static bool is_step_name(const char *name, size_t len)
{
    return starts_with(name, len, STEP_NAME, sizeof STEP_NAME - 1) ||
           starts_with(name, len, STEP_RANGE_NAME, sizeof STEP_RANGE_NAME - 1) ||
           (len == N_STEPS && memcmp(name, step_ranges, N_STEPS) == 0);
}

uint32_t top_kind_of(struct top *t, const char *name, size_t len, uint32_t flags)
{
    if (is_step_name(name, len)) {
        flags |= flags & KIND_STEP ? 0 : KIND_STEP_RANGE;
        name = step_ranges;
        len = flags & KIND_STEP ? N_STEPS : sizeof step_ranges - 1;
    }
    if (2 * t->n_kinds >= t->n_slots && !more_slots(t))
        return NO_KIND;
    uint64_t hash = hash_text(name, len);
    size_t at = hash & (t->n_slots - 1);
    uint32_t same = NO_KIND;
    for (; t->slots[at]; at = (at + 1) & (t->n_slots - 1)) {
        const struct kind *kind = &t->kinds[t->slots[at] - 1];
        if (kind->hash != hash || kind->text_len != len ||
            memcmp(t->texts.data + kind->text, name, len) != 0)
            continue;
        if (((kind->flags ^ flags) & KINDS_APART) == 0)
            return t->slots[at] - 1;
        same = kind->name;
    }
    uint32_t made = new_kind(t, hash, name, len, flags, same);
    if (made != NO_KIND)
        t->slots[at] = made + 1;
    return made;
}

/* The kind of the record's span. Most names have a number and are cached by it. */
static uint32_t kind_of_record(struct top *t, const struct record *r, uint32_t flags)
{
    struct text name = record_name(r);
    if (!(r->name & NAME_NUMBERED))
        return top_kind_of(t, name.at, name.len, flags);
    unsigned i = r->name & (TOP_SEEN - 1);
    if (t->seen[i].name == r->name && t->seen[i].flags == flags)
        return t->seen[i].kind;
    uint32_t kind = top_kind_of(t, name.at, name.len, flags);
    if (kind != NO_KIND) {
        t->seen[i].name = r->name;
        t->seen[i].flags = flags;
        t->seen[i].kind = kind;
    }
    return kind;
}

/* ---- rows ---- */

/* The slot of a row, or the free slot for it. */
static size_t row_place(const struct top *t, uint64_t key)
{
    size_t at = key * 0x9e3779b97f4a7c15u >> 32 & (t->n_row_slots - 1);
    while (t->row_slots[at] && t->rows[t->row_slots[at] - 1].key != key)
        at = (at + 1) & (t->n_row_slots - 1);
    return at;
}

static bool more_row_slots(struct top *t)
{
    size_t n = t->n_row_slots ? 2 * t->n_row_slots : 64;
    uint32_t *slots = t->used + n * sizeof *slots <= t->most ? calloc(n, sizeof *slots) : NULL;
    if (!slots) {
        top_drop(t);
        return false;
    }
    t->used += (n - t->n_row_slots) * sizeof *slots;
    free(t->row_slots);
    t->row_slots = slots;
    t->n_row_slots = n;
    for (size_t i = 0; i < t->n_rows; i++)
        slots[row_place(t, t->rows[i].key)] = (uint32_t)i + 1;
    return true;
}

struct top_row *top_row_of(struct top *t, uint64_t key)
{
    if (t->last_row < t->n_rows && t->rows[t->last_row].key == key)
        return &t->rows[t->last_row];
    if (2 * t->n_rows >= t->n_row_slots && !more_row_slots(t))
        return NULL;
    size_t at = row_place(t, key);
    if (!t->row_slots[at]) {
        if (!top_grow(t, (void **)&t->rows, &t->rows_room, t->n_rows, sizeof *t->rows))
            return NULL;
        t->rows[t->n_rows++] =
            (struct top_row){.key = key, .steps_only = true, .step_ranges_only = true};
        t->row_slots[at] = (uint32_t)t->n_rows;
    }
    t->last_row = t->row_slots[at] - 1;
    return &t->rows[t->last_row];
}

/* The position in a sorted array, after all equal spans. Searches from the end, where the position
 * nearly always is. */
static size_t span_place(const struct top_spans *spans, const struct top_span *span)
{
    size_t high = spans->n, step = 1;
    while (high && top_before(span, &spans->at[high - 1])) {
        size_t low = high > step ? high - step : 0;
        if (top_before(span, &spans->at[low])) {
            high = low;
            step *= 2;
            continue;
        }
        while (low + 1 < high) { /* `low` stays before the position, `high` does not */
            size_t middle = low + (high - low) / 2;
            if (top_before(span, &spans->at[middle]))
                high = middle;
            else
                low = middle;
        }
        return high;
    }
    return high;
}

/* Counts bytes that were moved to keep a row sorted. The row may be freed by this. */
static void count_moved(struct top *t, uint64_t bytes)
{
    t->moved += bytes;
    if (t->moved > MOVED_FREE + (uint64_t)t->serial * MOVED_SPAN)
        top_drop(t); /* sorting spans that come in this order costs too much */
}

void top_insert(struct top *t, struct top_spans *spans, const struct top_span *span)
{
    if (!top_grow(t, (void **)&spans->at, &spans->room, spans->n, sizeof *spans->at))
        return;
    size_t at = span_place(spans, span), behind = (spans->n - at) * sizeof *spans->at;
    memmove(spans->at + at + 1, spans->at + at, behind);
    spans->at[at] = *span;
    spans->n++;
    count_moved(t, behind);
}

static int64_t start_of(const struct json_place *at)
{
    return at->start_ns > 0 ? at->start_ns : 0;
}

static int64_t end_of(const struct json_place *at)
{
    int64_t start = start_of(at);
    return at->end_ns > start ? at->end_ns : start;
}

/* For kinds whose spans are in no tree. */
static void note_first(struct kind *kind, int64_t start, int64_t end)
{
    if (start < kind->first || (start == kind->first && end > kind->first_end)) {
        kind->first = start;
        kind->first_end = end;
    }
}

static void add_row(struct top *t, uint64_t key, const struct top_span *span)
{
    struct kind *kind = &t->kinds[span->kind];
    bool call = kind->flags & KIND_CALL;
    struct top_row *row = top_row_of(t, key);
    if (!row)
        return;
    row->has_operators |= !call;
    row->steps_only &= (kind->flags & KIND_STEP) != 0;
    row->step_ranges_only &= (kind->flags & KIND_STEP_RANGE) != 0;
    top_insert(t, call ? &row->calls : &row->spans, span);
}

static void add_async(struct kind *kind, int64_t start, int64_t end)
{
    kind->flags |= KIND_ASYNC;
    kind->count++;
    kind->cpu += end - start;
    note_first(kind, start, end);
}

/* ---- records ---- */

/* Names of args and categories with a meaning to readers; a program's own arg of that name would be
 * taken for it. */
static bool has_meaning(const char *text, size_t len)
{
    static const char *const words[] = {
        "External id", "flops",      "correlation",  "cuda_runtime",        "cuda_driver",
        "xpu_runtime", "xpu_driver", "mtia_runtime", "privateuse1_runtime", "privateuse1_driver",
        "kernel",      "gpu_memcpy", "gpu_memset",   "gpu_user_annotation", "collective_comm",
        "cuda_sync",   "cuda_event", "Trace",        "cuda_profiler_range", "nn_module",
        "overhead"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i]) == len && memcmp(words[i], text, len) == 0)
            return true;
    return false;
}

/* Applies the program's own category and args to the flags. False: no table. */
static bool read_args(const struct record *r, uint32_t *flags)
{
    static const char annotation[] = "user_annotation";
    const uint8_t *at = record_data(r), *end = at + r->data_len;
    struct json_arg a;
    while (json_next_arg(&at, end, &a)) {
        const char *text = json_arg_is_category(&a) ? (const char *)a.value : a.key;
        size_t len = json_arg_is_category(&a) ? a.value_len : a.key_len;
        if (len != 0 && has_meaning(text, len))
            return false;
        if (!json_arg_is_category(&a) || len == 0)
            continue;
        *flags = len == sizeof annotation - 1 && memcmp(text, annotation, len) == 0
                     ? KIND_ANNOTATION
                     : 0;
    }
    return true;
}

static uint32_t flags_of(enum category category)
{
    switch (category) {
    case CAT_CUDA_RUNTIME:
    case CAT_CUDA_DRIVER:
        return KIND_CALL;
    case CAT_USER_ANNOTATION:
        return KIND_ANNOTATION;
    case CAT_GPU_USER_ANNOTATION:
        return KIND_DEVICE | KIND_ANNOTATION;
    case CAT_KERNEL:
    case CAT_GPU_MEMCPY:
    case CAT_GPU_MEMSET:
        return KIND_DEVICE;
    default:
        return 0;
    }
}

/* Reads a span or asynchronous range. False: not in the table. */
static bool read_span(struct top *t, const struct record *r, const struct json_place *at,
                      struct top_opened *out)
{
    uint32_t flags = flags_of(r->category < CAT_COUNT ? r->category : CAT_USER_ANNOTATION);
    if (r->category == CAT_MODULE && r->kind == REC_SPAN)
        return false;
    if (r->data_kind == DATA_ARGS && !read_args(r, &flags)) {
        top_drop(t);
        return false;
    }
    uint32_t kind = kind_of_record(t, r, flags);
    if (kind == NO_KIND)
        return false;
    uint16_t module = module_sums_number(t, (uint32_t)record_extra(r, EXTRA_MODULE, 0));
    if (t->dead)
        return false;
    bool call = flags & KIND_CALL;
    out->async = r->kind == REC_ASYNC;
    out->span = (struct top_span){.start = start_of(at),
                                  .end = end_of(at),
                                  .external = call ? r->parent : r->id,
                                  .kind = (uint16_t)kind,
                                  .module = module,
                                  .serial = t->serial++};
    /* counted when the graph is launched */
    bool captured = record_extra(r, EXTRA_DTYPE, 0) & WHERE_CAPTURED;
    out->flops = captured ? 0 : record_extra(r, EXTRA_FLOPS, 0);
    out->row = row_key(at, call ? !out->span.external : r->category == CAT_OVERHEAD);
    return true;
}

static size_t work_place(const struct top *t, uint64_t external)
{
    size_t i = external * 0x9e3779b97f4a7c15u >> 20 & (t->work_slots - 1);
    while (t->work[i].external && t->work[i].external != external)
        i = (i + 1) & (t->work_slots - 1);
    return i;
}

int64_t top_work_of(const struct top *t, uint64_t external)
{
    return t->n_work ? t->work[work_place(t, external)].time : 0;
}

static bool more_work(struct top *t)
{
    struct top_work *old = t->work;
    size_t n_old = t->work_slots, n = n_old ? 2 * n_old : 256;
    struct top_work *made =
        t->used + (n - n_old) * sizeof *made <= t->most ? calloc(n, sizeof *made) : NULL;
    if (!made) {
        top_drop(t);
        return false;
    }
    t->used += (n - n_old) * sizeof *made;
    t->work = made;
    t->work_slots = n;
    for (size_t i = 0; i < n_old; i++)
        if (old[i].external)
            t->work[work_place(t, old[i].external)] = old[i];
    free(old);
    return true;
}

/* Adds work that ran on a device. */
static void add_work(struct top *t, enum category category, const char *name, size_t len,
                     const struct json_place *at, uint64_t external, uint32_t correlation)
{
    uint32_t number = top_kind_of(t, name, len, flags_of(category));
    if (number == NO_KIND)
        return;
    struct kind *kind = &t->kinds[number];
    int64_t start = start_of(at), end = end_of(at);
    kind->count++;
    kind->device += end - start;
    kind->self_device += end - start;
    note_first(kind, start, end);
    if (!external || category == CAT_GPU_USER_ANNOTATION)
        return;
    t->by_call &= correlation == external;
    if (2 * t->n_work >= t->work_slots && !more_work(t))
        return;
    struct top_work *work = &t->work[work_place(t, external)];
    t->n_work += work->external == 0;
    work->external = external;
    work->time += end - start;
}

static void take_span(struct top *t, const struct top_opened *o)
{
    struct kind *kind = &t->kinds[o->span.kind];
    if (o->async) {
        add_async(kind, o->span.start, o->span.end);
        return;
    }
    if (kind->flags & KIND_HIDDEN)
        return;
    kind->flops += o->flops;
    add_row(t, o->row, &o->span);
}

static void take_memory(struct top *t, const struct record *r, const struct json_place *at)
{
    struct record_memory m;
    struct top_row *row = top_row_of(t, row_key(at, false));
    if (!row || r->data_kind != DATA_MEMORY || r->data_len < sizeof m ||
        !top_grow(t, (void **)&row->memory, &row->memory_room, row->n_memory, sizeof *row->memory))
        return;
    memcpy(&m, record_data(r), sizeof m);
    bool cpu = m.device_type == 0 || m.device_type == 2 || m.device_type == 5;
    bool device =
        m.device_type == 1 || m.device_type == 6 || m.device_type == 12 || m.device_type == 20;
    struct top_memory event = {start_of(at), cpu ? r->memory.bytes : 0,
                               device ? r->memory.bytes : 0};
    size_t last = row->n_memory++, i = last;
    for (; i && row->memory[i - 1].at > event.at; i--)
        row->memory[i] = row->memory[i - 1];
    row->memory[i] = event;
    count_moved(t, (last - i) * sizeof event);
}

void top_record(struct top *t, const struct record *r, const struct json_place *at)
{
    struct top_opened o;
    if (!t || t->dead)
        return;
    if (r->kind == REC_MEMORY) {
        take_memory(t, r, at);
    } else if (r->kind == REC_SPAN && flags_of(r->category) & KIND_DEVICE) {
        uint32_t flags = KIND_DEVICE;
        struct text name = record_name(r);
        if (r->data_kind == DATA_ARGS && (!read_args(r, &flags) || flags != KIND_DEVICE))
            top_drop(t);
        else
            add_work(t, r->category, name.at, name.len, at, r->id, 0);
    } else if ((r->kind == REC_SPAN || r->kind == REC_ASYNC) && read_span(t, r, at, &o)) {
        take_span(t, &o);
    }
}

void top_open(struct top *t, const struct record *r, const struct json_place *at)
{
    if (!t || t->dead)
        return;
    if (!top_grow(t, (void **)&t->open, &t->open_room, t->n_open, sizeof *t->open))
        return;
    struct top_opened o;
    uint32_t serial = t->serial;
    if (read_span(t, r, at, &o))
        t->open[t->n_open++] = o;
    if (!t->dead)
        t->serial = serial; /* the span gets a number when the window ends */
}

void top_forget_open(struct top *t)
{
    if (t)
        t->n_open = 0;
}

/* ---- cprof's own rows, and CUPTI's records ---- */

static void add_span(struct top *t, uint32_t flags, const char *name, size_t len,
                     const struct json_place *at, uint64_t external, bool apart)
{
    uint32_t kind = top_kind_of(t, name, len, flags);
    if (kind == NO_KIND || t->kinds[kind].flags & KIND_HIDDEN)
        return;
    struct top_span span = {.start = start_of(at),
                            .end = end_of(at),
                            .external = external,
                            .kind = (uint16_t)kind,
                            .serial = t->serial++};
    add_row(t, row_key(at, apart), &span);
}

void top_step(struct top *t, const char *name, const struct json_place *at, uint32_t thread)
{
    if (!t || t->dead)
        return;
    if (thread && !t->stepping) {
        struct json_place stepping = {.pid = at->pid, .tid = thread};
        t->stepping = row_key(&stepping, false);
    }
    t->has_steps = true;
    add_span(t, flags_of(CAT_USER_ANNOTATION) | KIND_STEP, name, strlen(name), at, 0, false);
}

void top_gpu(struct top *t, const struct gpu_record *r, const struct json_place *at,
             uint64_t external)
{
    char room[JSON_NAME_ROOM];
    if (!t || t->dead)
        return;
    struct json_name name = json_gpu_name(r, room);
    if (flags_of(name.category) & KIND_DEVICE)
        add_work(t, name.category, name.text, name.len, at, external, r->correlation);
    else if (name.category == CAT_OVERHEAD)
        add_span(t, flags_of(name.category), name.text, name.len, at, 0, true);
    else
        add_span(t, flags_of(name.category), name.text, name.len, at, external, !external);
}

void top_annotation(struct top *t, const char *name, size_t len, const struct json_place *at)
{
    if (t && !t->dead)
        add_work(t, CAT_GPU_USER_ANNOTATION, name, len, at, 0, 0);
}

/* ---- the end ---- */

/* torch.profiler's ranges are the steps where cprof has none. */
static size_t shown_length(const struct top *t, const struct kind *kind)
{
    return kind->flags & KIND_STEP_RANGE && !t->has_steps ? N_STEPS : kind->text_len;
}

bool top_finish(struct top *t)
{
    if (!t || t->dead)
        return false;
    for (size_t i = 0; i < t->n_open && !t->dead; i++) {
        t->open[i].span.serial = t->serial++;
        take_span(t, &t->open[i]);
    }
    return !t->dead && top_add_up(t);
}

/* A row of the table, for sorting. */
struct top_ranked {
    const struct kind *kind;
    struct text name;
};

/* Same as summarize.py. */
static int most_time_first(const void *a, const void *b)
{
    const struct top_ranked *x = a, *y = b;
    const struct kind *j = x->kind, *k = y->kind;
    if (j->self_device != k->self_device)
        return j->self_device < k->self_device ? 1 : -1;
    if (j->self_cpu != k->self_cpu)
        return j->self_cpu < k->self_cpu ? 1 : -1;
    uint32_t n = x->name.len < y->name.len ? x->name.len : y->name.len;
    int order = memcmp(x->name.at, y->name.at, n);
    return order ? order : (x->name.len > y->name.len) - (x->name.len < y->name.len);
}

static int in_place(const void *a, const void *b)
{
    const struct top_ranked *x = a, *y = b;
    return (x->kind > y->kind) - (x->kind < y->kind);
}

static uint32_t flags_shown(const struct kind *k)
{
    return (k->flags & KIND_DEVICE ? 1u : 0u) | (k->flags & KIND_ANNOTATION ? 2u : 0u) |
           (k->flags & (KIND_ASYNC | KIND_TRANSFER) ? 4u : 0u);
}

static void put_row(struct text name, uint32_t flags, const struct kind *k, struct buf *out)
{
    const int64_t numbers[] = {
        flags & 1,    flags >> 1 & 1,    flags >> 2 & 1,    (int64_t)k->count, k->cpu,
        k->self_cpu,  k->device,         k->self_device,    k->memory,         k->self_memory,
        k->on_device, k->self_on_device, (int64_t)k->flops, k->first,          -k->first_end};
    buf_put(out, "[", 1);
    json_string(out, name.at, name.len);
    for (size_t n = 0; n < sizeof numbers / sizeof numbers[0]; n++) {
        buf_put(out, ", ", 2);
        json_int(out, numbers[n]);
    }
    buf_puts(out, "]\n");
}

static void add_kind(struct kind *sum, const struct kind *k)
{
    bool earlier = !sum->text_len || k->first < sum->first ||
                   (k->first == sum->first && k->first_end > sum->first_end);
    sum->text_len = 1; /* some were added */
    sum->first = earlier ? k->first : sum->first;
    sum->first_end = earlier ? k->first_end : sum->first_end;
    sum->count += k->count;
    sum->flops += k->flops;
    sum->cpu += k->cpu;
    sum->self_cpu += k->self_cpu;
    sum->device += k->device;
    sum->self_device += k->self_device;
    sum->memory += k->memory;
    sum->self_memory += k->self_memory;
    sum->on_device += k->on_device;
    sum->self_on_device += k->self_on_device;
}

/* Appends the sums of the other rows, one for each combination of flags. */
static void put_rest(const struct top_ranked *ranked, size_t n, struct buf *out)
{
    struct kind sums[8] = {{.count = 0}};
    for (size_t i = 0; i < n; i++)
        add_kind(&sums[flags_shown(ranked[i].kind)], ranked[i].kind);
    for (uint32_t flags = 0; flags < 8; flags++)
        if (sums[flags].text_len)
            put_row((struct text){TOP_REST, sizeof TOP_REST - 1}, flags, &sums[flags], out);
}

struct top_rows top_put(const struct top *t, size_t most, struct buf *out)
{
    struct top_rows rows = {0, 0};
    struct top_ranked *ranked = malloc((t->n_kinds + 1) * sizeof *ranked);
    size_t taken = 0;
    out->failed |= !ranked;
    for (size_t i = 0; ranked && i < t->n_kinds; i++) {
        const struct kind *k = &t->kinds[i];
        if (k->count || k->flops)
            ranked[rows.all++] =
                (struct top_ranked){k, {t->texts.data + k->text, (uint32_t)shown_length(t, k)}};
    }
    if (rows.all)
        qsort(ranked, rows.all, sizeof *ranked, most_time_first);
    while (rows.shown < rows.all && (taken += ranked[rows.shown].name.len + FILE_ROW_BYTES) <= most)
        rows.shown++;
    if (rows.shown)
        qsort(ranked, rows.shown, sizeof *ranked, in_place);
    for (size_t i = 0; i < rows.shown; i++)
        put_row(ranked[i].name, flags_shown(ranked[i].kind), ranked[i].kind, out);
    put_rest(ranked + rows.shown, rows.all - rows.shown, out);
    free(ranked);
    return rows;
}
