/* SPDX-License-Identifier: Apache-2.0 */
/* Markers and ranges of cprof.h. Application threads. Start, finish, instant and counter take no
 * lock, allocate nothing and make no system call. A marker is made once, in a table without locks,
 * because a fork may come at any time.
 *
 * A duration is a span of its thread, written as one record when it ends, so that no sequence of
 * calls can unbalance a file. Calls that do not match:
 *
 *   finish without a start       ignored, counted (marker_misuse)
 *   start of a started marker    ignored, counted; so is its finish
 *   finish of an outer marker    ends what is open inside as unfinished, counted
 *   start that was not recorded  its finish is ignored; nothing is counted
 *   thread ends                  spans_abandon() writes open spans as unfinished */
#define CPROF_IMPLEMENTATION
#include "preload/cprof.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "preload/core/core.h"
#include "preload/stacks/stacks.h"
#include "preload/steps/steps.h"
#include "preload/link/link.h"
#include "writer/writer.h"

#define BUCKETS      4096u      /* of the table of markers; a power of two */
#define MARKERS_MOST (1u << 16) /* limits programs that put numbers into names */
/* The first markers get numbered names; operators need numbers, too. */
#define NUMBERED_MARKERS 1024
#define NAMES_MOST       (64u << 20) /* bytes of all names and categories */
#define NAME_MOST        (1u << 20)  /* bytes of one name; much more than a ring takes */
#define CATEGORY_MOST    4096u       /* bytes of joined categories */
#define COUNTER_BYTES    2048u       /* of one counter record; more series make more records */
#define SERIES_MOST      1024u       /* bytes of a series' name */
#define CATEGORY_ITEM    (ARG_HEAD + 4u + CATEGORY_MOST)
/* Half of the address space that is the kernel's; low addresses may be heap in a non-PIE
 * program. */
#define RANGE_KEYS (~(UINTPTR_MAX >> 1))

_Static_assert((int)CPROF_SKIP == ACTION_SKIP && (int)CPROF_WARMUP == ACTION_WARMUP &&
                   (int)CPROF_ACTIVE == ACTION_ACTIVE &&
                   (int)CPROF_ACTIVE_AND_SAVE == ACTION_ACTIVE_AND_SAVE,
               "cprof.h and writer/base/action.h name the same actions");

#define ACTIVE_ACTIONS (CPROF_ACTION_BIT(CPROF_ACTIVE) | CPROF_ACTION_BIT(CPROF_ACTIVE_AND_SAVE))
#define USUAL_ACTIONS  (CPROF_ACTION_BIT(CPROF_WARMUP) | ACTIVE_ACTIONS)
#define ALL_ACTIONS    (CPROF_ACTION_BIT(CPROF_SKIP) | USUAL_ACTIONS)

/* Constant once it is in the table. */
struct cprof_marker {
    struct cprof_marker *next;
    uint64_t bit;          /* its bit in per_thread.open; 0: none is left, so search the stack */
    uint32_t actions;      /* bits of CPROF_ACTION_BIT() */
    uint32_t gates;        /* enum gate: any of these records it */
    uint32_t name;         /* number or length (writer/record/numbered.h) */
    uint32_t name_len;     /* bytes */
    uint32_t category_len; /* bytes of the DATA_ARGS item behind the name; 0: none */
    bool instant_on_start, instant_on_finish;
    bool plain;  /* usual actions, a bit, and only a name */
    char text[]; /* name, then item */
};

static struct cprof_marker *_Atomic table[BUCKETS];
static _Atomic uint64_t markers_made, names_bytes; /* any thread adds */

/* Per-thread state, 16 bytes of the library's TLS. */
static __thread struct {
    int depth;           /* open ranges of cprof_range_push(), recorded or not */
    uint32_t unrecorded; /* starts without a span, whose finish has not come */
    uint64_t open;       /* bits of markers that may be on the stack of spans */
} per_thread;

/* ---- recording ------------------------------------------------------------------------------- */

/* Flags of a record for this marker's actions now; -1: not recorded. Step 0 may become the trace of
 * a program that never marks a step, so it records what an active step would. Such a record comes
 * into a later file only if the action of step 0 is in the set. */
static inline int flags_now(const struct cprof_marker *m)
{
    uint32_t gate = atomic_load_explicit(&writer_gate, memory_order_relaxed);
    uint32_t actions = m->actions;
    if (!(gate & m->gates))
        return -1;
    /* the gate is open only in such steps, or step 0's records are discarded with it */
    if ((actions & ALL_ACTIONS) == USUAL_ACTIONS)
        return REC_MARKER;
    unsigned action = (unsigned)steps_action();
    if (actions >> action & 1)
        return action == ACTION_SKIP ? REC_MARKER | REC_SKIPPED : REC_MARKER;
    return (gate & GATE_KEPT) && (actions & ACTIVE_ACTIONS) ? 0 : -1;
}

/* Counts an invalid call, if markers are recorded. */
static void misuse(struct thread_log *log)
{
    if (gate_open(GATE_MARKERS))
        thread_log_lost(log, LOSS_MARKER, 1);
}

/* Keys of spans are odd, unlike addresses of other code's objects. A marker's key is the address of
 * its second byte. A range's key is made of its depth, where no address is. */
static inline const void *marker_key(const struct cprof_marker *m)
{
    return (const char *)m + 1;
}

static inline const void *range_key(int depth)
{
    return (const void *)(RANGE_KEYS | (uintptr_t)(unsigned)depth << 1 | 1);
}

static bool is_own_key(const void *key)
{
    return (uintptr_t)key & 1;
}

static bool is_range(const void *key)
{
    return (uintptr_t)key & RANGE_KEYS;
}

/* Whether the innermost open span has this key. */
static inline bool is_top(const struct thread_log *log, const void *key)
{
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed);
    return depth > 0 && span_key(&log->spans[depth - 1]) == key;
}

/* 1 + the place of the span with this key on the thread's stack; 0: none. */
static inline uint32_t find_marker(const struct thread_log *log, const void *key)
{
    uint32_t at = atomic_load_explicit(&log->depth, memory_order_relaxed);
    while (at > 0 && span_key(&log->spans[at - 1]) != key)
        at--;
    return at;
}

/* Ends markers and ranges above place `at`, because rows of a thread nest. span_close() drops other
 * spans there: they ended without a call. */
static __attribute__((noinline)) void cut_above(struct thread_log *log, uint32_t at)
{
    for (uint32_t i = atomic_load_explicit(&log->depth, memory_order_relaxed); i > at; i--) {
        struct open_span *span = &log->spans[i - 1];
        if (!is_own_key(span_key(span)))
            continue;
        if (!is_range(span_key(span)))
            per_thread.unrecorded++; /* its finish is still to come */
        span_add_flags(span, REC_UNFINISHED);
        thread_log_lost(log, LOSS_MARKER, 1);
        span_close(log, span_key(span));
    }
}

static void put_instant(struct thread_log *log, const struct cprof_marker *m, int flags)
{
    struct extras stack;
    emit_instant(log, CAT_USER_ANNOTATION, (uint8_t)flags, m->text, m->name,
                 m->category_len ? DATA_ARGS : DATA_NONE, m->text + m->name_len, m->category_len,
                 stacks_of_point(log, &stack));
}

/* Ends the span with this key; false: it is not on the stack. finish: a marker with an instant at
 * its finish, or NULL. */
static __attribute__((noinline)) bool close_key(struct thread_log *log, const void *key,
                                                const struct cprof_marker *finish)
{
    uint32_t at = find_marker(log, key);
    if (at == 0)
        return false;
    if (__builtin_expect(at != atomic_load_explicit(&log->depth, memory_order_relaxed), 0))
        cut_above(log, at);
    int flags;
    if (finish && (flags = flags_now(finish)) >= 0)
        put_instant(log, finish, flags);
    span_close(log, key);
    return true;
}

/* ---- durations ------------------------------------------------------------------------------- */

/* Opens the marker's span. False: it has none afterwards. */
static bool open_marker(struct cprof_marker *m, int flags)
{
    struct thread_log *log = thread_log_get();
    if (!log)
        return false;
    const void *key = marker_key(m);
    if (__builtin_expect((per_thread.open & m->bit) || !m->bit, 0) && find_marker(log, key)) {
        misuse(log);
        return false;
    }
    struct open_span *span = span_open(log, key, CAT_USER_ANNOTATION, m->text, m->name);
    if (!span)
        return false;
    stacks_open_span(log, span);
    span_add_flags(span, (uint8_t)flags);
    if (m->category_len) {
        uint8_t *room = span_data_room(log, span, m->category_len);
        if (room) {
            memcpy(room, m->text + m->name_len, m->category_len);
            span_data_done(log, span, DATA_ARGS, m->category_len);
        }
    }
    per_thread.open |= m->bit;
    if (__builtin_expect(m->instant_on_start, 0))
        put_instant(log, m, flags);
    return true;
}

static __attribute__((noinline)) void start_any(struct cprof_marker *m)
{
    int flags = flags_now(m);
    bool opened = false;
    if (flags >= 0 && guard_enter_event()) {
        opened = open_marker(m, flags);
        guard_leave();
    }
    if (!opened)
        per_thread.unrecorded++;
}

void cprof_marker_start(struct cprof_marker *marker)
{
    if (!marker)
        return;
    uint32_t gate = atomic_load_explicit(&writer_gate, memory_order_relaxed);
    if (!(gate & marker->gates)) {
        per_thread.unrecorded++;
        return;
    }
    struct thread_log *log = thread_log_self;
    if (!marker->plain || (gate & GATE_STACKS) || !log || (per_thread.open & marker->bit) ||
        !guard_enter()) {
        start_any(marker);
        return;
    }
    /* the usual case of start_any(), without saved registers */
    struct open_span *span =
        span_open(log, marker_key(marker), CAT_USER_ANNOTATION, marker->text, marker->name);
    guard_leave();
    if (!span) {
        per_thread.unrecorded++;
        return;
    }
    span_add_flags(span, REC_MARKER);
    per_thread.open |= marker->bit;
}

static __attribute__((noinline)) void finish_any(struct cprof_marker *m)
{
    struct thread_log *log = thread_log_self;
    uint64_t bit = per_thread.open & m->bit;
    bool closed = false;
    if (log && (bit || !m->bit) && guard_enter()) {
        per_thread.open &= ~bit;
        closed = close_key(log, marker_key(m), m->instant_on_finish ? m : NULL);
        guard_leave();
    }
    if (closed)
        return;
    if (per_thread.unrecorded)
        per_thread.unrecorded--;
    else if (!bit) /* else an outer span ended it and counted it */
        misuse(log);
}

void cprof_marker_finish(struct cprof_marker *marker)
{
    if (!marker)
        return;
    struct thread_log *log = thread_log_self;
    if (!marker->plain || !log || !(per_thread.open & marker->bit) ||
        !is_top(log, marker_key(marker)) || !guard_enter()) {
        finish_any(marker);
        return;
    }
    per_thread.open &= ~marker->bit;
    span_close(log, marker_key(marker));
    guard_leave();
}

int cprof_range_push(const char *name)
{
    cprof_wake_once(WAKE_MARKER);
    symbol_look();
    int depth = per_thread.depth;
    if (depth < INT_MAX)
        per_thread.depth = depth + 1;
    if (!gate_open(GATE_MARKERS) || !guard_enter_event())
        return depth;
    struct thread_log *log = thread_log_get();
    struct open_span *span = NULL;
    if (log)
        span = span_open(log, range_key(depth), CAT_USER_ANNOTATION, name ? name : "",
                         name ? (uint32_t)strnlen(name, NAME_MOST) : 0);
    if (span) {
        stacks_open_span(log, span);
        span_add_flags(span, REC_MARKER);
    }
    guard_leave();
    return depth;
}

int cprof_range_pop(void)
{
    cprof_wake_once(WAKE_MARKER);
    struct thread_log *log = thread_log_self;
    if (per_thread.depth == 0) {
        misuse(log);
        return -1;
    }
    int depth = --per_thread.depth;
    if (!log || !guard_enter())
        return depth;
    if (is_top(log, range_key(depth)))
        span_close(log, range_key(depth));
    else
        close_key(log, range_key(depth), NULL);
    guard_leave();
    return depth;
}

/* ---- instants and counters ------------------------------------------------------------------- */

void cprof_marker_instant(struct cprof_marker *marker)
{
    int flags = marker ? flags_now(marker) : -1;
    if (flags < 0 || !guard_enter_event())
        return;
    struct thread_log *log = thread_log_get();
    if (log)
        put_instant(log, marker, flags);
    guard_leave();
}

void cprof_mark(const char *name)
{
    cprof_wake_once(WAKE_MARKER);
    if (!gate_open(GATE_MARKERS) || !guard_enter_event())
        return;
    struct thread_log *log = thread_log_get();
    struct extras stack;
    if (log)
        emit_instant(log, CAT_USER_ANNOTATION, REC_MARKER, name ? name : "",
                     name ? (uint32_t)strnlen(name, NAME_MOST) : 0, DATA_NONE, NULL, 0,
                     stacks_of_point(log, &stack));
    guard_leave();
}

/* Records one sample of n series with 8-byte values, in as many records as needed. */
static void put_counter(struct thread_log *log, const struct cprof_marker *m, int flags, size_t n,
                        const char *const *series, enum arg_type type, const void *values)
{
    uint8_t data[CATEGORY_ITEM + COUNTER_BYTES];
    uint8_t *first = data + m->category_len, *to = first, *end = first + COUNTER_BYTES;
    memcpy(data, m->text + m->name_len, m->category_len);
    for (size_t i = 0; i < n; i++) {
        const char *value = (const char *)values + 8 * i;
        double real;
        memcpy(&real, value, sizeof real);
        if (type == ARG_REAL && !isfinite(real)) {
            misuse(log);
            continue;
        }
        const char *key = series && series[i] ? series[i] : "";
        size_t len = strnlen(key, SERIES_MOST + 1);
        if (len > SERIES_MOST) {
            thread_log_lost(log, LOSS_TEXT, 1);
            len = SERIES_MOST;
        }
        if (ARG_HEAD + len + 8 > (size_t)(end - to)) {
            emit_counter(log, (uint8_t)flags, m->text, m->name, data, (uint32_t)(to - data));
            to = first;
        }
        to += put_arg_number(to, type, key, len, value);
    }
    if (to > first)
        emit_counter(log, (uint8_t)flags, m->text, m->name, data, (uint32_t)(to - data));
}

static void sample(struct cprof_marker *m, size_t n, const char *const *series, enum arg_type type,
                   const void *values)
{
    int flags = m ? flags_now(m) : -1;
    if (flags < 0 || n == 0 || !guard_enter_event())
        return;
    struct thread_log *log = thread_log_get();
    if (!values || (!series && n > 1))
        misuse(log);
    else if (log)
        put_counter(log, m, flags, n, series, type, values);
    guard_leave();
}

void cprof_marker_counter(struct cprof_marker *marker, size_t n, const char *const *series,
                          const double *values)
{
    sample(marker, n, series, ARG_REAL, values);
}

void cprof_marker_counter_int(struct cprof_marker *marker, size_t n, const char *const *series,
                              const int64_t *values)
{
    sample(marker, n, series, ARG_INT, values);
}

/* ---- making markers -------------------------------------------------------------------------- */

/* The marker of this name in a chain that ends at `end`. */
static struct cprof_marker *search(struct cprof_marker *m, const struct cprof_marker *end,
                                   const char *name, size_t len)
{
    for (; m != end; m = m->next)
        if (m->name_len == len && memcmp(m->text, name, len) == 0)
            return m;
    return NULL;
}

/* Copies the caller's options into this version's struct. */
static struct cprof_marker_options options_from(const struct cprof_marker_options *given)
{
    struct cprof_marker_options o = CPROF_MARKER_DEFAULTS;
    if (given && given->size > sizeof given->size && given->size <= 4096)
        memcpy(&o, given, given->size < sizeof o ? given->size : sizeof o);
    else if (given)
        log_warn("cprof_marker(): options without a size are ignored; begin them with "
                 "CPROF_MARKER_DEFAULTS");
    return o;
}

/* Joins the categories with ',' into out[0..CATEGORY_MOST). Returns the length. */
static size_t join_categories(const struct cprof_marker_options *o, char *out)
{
    size_t len = 0;
    for (size_t i = 0; o->categories && i < o->n_categories; i++) {
        const char *category = o->categories[i] ? o->categories[i] : "";
        size_t n = strnlen(category, CATEGORY_MOST);
        if (n == 0)
            continue;
        if (len + 1 + n > CATEGORY_MOST) {
            log_warn("cprof_marker(): categories of more than %u bytes are left out",
                     CATEGORY_MOST);
            break;
        }
        if (len)
            out[len++] = ',';
        memcpy(out + len, category, n);
        len += n;
    }
    return len;
}

/* Number, from 0, of a new marker that takes `bytes`; -1: too many. Numbers are unique. */
static int64_t marker_number(size_t bytes)
{
    uint64_t number = atomic_fetch_add(&markers_made, 1);
    uint64_t before = atomic_fetch_add(&names_bytes, bytes);
    if (number < MARKERS_MOST && before + bytes <= NAMES_MOST)
        return (int64_t)number;
    if (once_here())
        log_warn("more than %u markers or %u MiB of their names: new ones are not recorded. A name "
                 "that contains a number makes a new marker each time; cprof_range_push() does not",
                 MARKERS_MOST, NAMES_MOST >> 20);
    thread_log_lost(NULL, LOSS_NO_MEMORY, 1);
    return -1;
}

static struct cprof_marker *make_marker(const char *name, size_t len,
                                        const struct cprof_marker_options *given)
{
    char category[CATEGORY_MOST];
    struct cprof_marker_options o = options_from(given);
    uint32_t joined = (uint32_t)join_categories(&o, category);
    uint32_t item = joined ? ARG_HEAD + (uint32_t)sizeof joined + joined : 0;
    int64_t number = marker_number(len + item);
    if (number < 0)
        return NULL;
    struct cprof_marker *m = malloc(sizeof *m + len + item);
    if (!m) {
        thread_log_lost(NULL, LOSS_NO_MEMORY, 1);
        return NULL;
    }
    m->bit = number < 64 ? UINT64_C(1) << number : 0;
    m->actions = o.actions;
    m->name_len = (uint32_t)len;
    m->name = number < NUMBERED_MARKERS ? numbered_name(name, m->name_len) : m->name_len;
    m->category_len = item;
    m->instant_on_start = o.record_instant_on_start != 0;
    m->instant_on_finish = o.record_instant_on_finish != 0;
    m->plain = (m->actions & ALL_ACTIONS) == USUAL_ACTIONS && m->bit && !item &&
               !m->instant_on_start && !m->instant_on_finish;
    m->gates = GATE_MARKERS;
    if (m->actions & CPROF_ACTION_BIT(CPROF_SKIP)) {
        m->gates |= GATE_SKIPPED;
        writer_want_skipped();
    }
    memcpy(m->text, name, len);
    if (item) /* json.c makes the item with an empty key the event's category */
        put_arg_bytes((uint8_t *)m->text + len, ARG_TEXT, "", 0, category, joined);
    return m;
}

/* Adds a new marker to its bucket, or frees it if another thread added one of the same name
 * first. */
static struct cprof_marker *publish(struct cprof_marker *_Atomic *bucket, struct cprof_marker *m,
                                    struct cprof_marker *seen)
{
    m->next = seen;
    while (!atomic_compare_exchange_weak(bucket, &m->next, m)) {
        struct cprof_marker *first = search(m->next, seen, m->text, m->name_len);
        if (first) {
            free(m);
            return first;
        }
        seen = m->next;
    }
    return m;
}

struct cprof_marker *cprof_marker(const char *name, const struct cprof_marker_options *options)
{
    cprof_wake_once(WAKE_MARKER);
    symbol_look();
    if (!name || atomic_load_explicit(&cprof_life, memory_order_acquire) == LIFE_OVER)
        return NULL;
    int saved = errno;
    size_t len = strnlen(name, NAME_MOST);
    struct cprof_marker *_Atomic *bucket = &table[hash_text(name, len) % BUCKETS];
    struct cprof_marker *seen = atomic_load_explicit(bucket, memory_order_acquire);
    struct cprof_marker *m = search(seen, NULL, name, len);
    if (!m && (m = make_marker(name, len, options)))
        m = publish(bucket, m, seen);
    errno = saved;
    return m;
}
