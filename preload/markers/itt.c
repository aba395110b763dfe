/* SPDX-License-Identifier: Apache-2.0 */
/* Implements the calls of ITT clients. Application threads. Tasks, marks and counters take no
 * lock, allocate nothing and make no system call once their names are known.
 *
 * A task is a span of its thread. task_end() names only a domain: it ends the thread's innermost
 * task of that domain, recorded or not. So each thread counts its open tasks. The key of a task's
 * span is its domain and the number of tasks that were open before it. Special cases:
 *
 *   end without a begin             ignored, counted (marker_misuse)
 *   begin that was not recorded     its end is ignored; nothing is counted. The same if the span
 *                                   around the task ended it: emit_itt ends an operator's task
 *                                   after the operator
 *   end of an outer task first      ends the tasks inside, too (domains that do not nest)
 *   overlapped tasks                are asynchronous ranges (writer/record/async.c), known by
 *                                   domain and id, ended on any thread
 *   thread ends                     spans_abandon() writes open tasks as unfinished
 *
 * Libraries such as oneDNN make tasks around their own work. So traces have no tasks of warmup
 * steps (REC_TASK), but they have marks, counters, frames and events of them. */
#include "preload/markers/itt.h"

#include <errno.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "preload/settings/settings.h"
#include "preload/core/core.h"
#include "preload/stacks/stacks.h"
#include "preload/steps/steps.h"
#include "preload/link/link.h"
#include "writer/writer.h"

#define THREAD_NAME 256u /* most bytes of a thread's name, with the NUL */
#define VISIBLE     __attribute__((visibility("default")))

#define TORCH_DOMAIN "PyTorch" /* its name is left out of the arguments */
#define ARGS_MOST    4096u     /* most bytes of a metadata value and of a mark's text */
#define VALUES_MOST  16u       /* most numbers of a metadata value */
#define MARKER_FLAGS ((uint8_t)(REC_MARKER | REC_ENDS_LATE))

/* Keys of spans. The lower three bits distinguish them from addresses (0) and from keys of
 * markers.c (odd). */
#define KEY_TAGS   7u
#define KEY_TASK   2u /* depth << 48 | domain */
#define KEY_EVENT  4u /* number << 48 */
#define KEY_FRAME  6u /* domain */
#define KEY_SHIFT  48u
#define DEPTH_MOST 0xffffu

static __thread struct {
    uint32_t depth; /* open tasks, recorded or not */
    /* 1 + the depth of the outermost open task that ends a step; 0: none */
    uint32_t step_depth : 31;
    uint32_t ignored : 1; /* thread_ignore() was called */
    uint64_t id;          /* of the innermost task; 0: none or unknown */
} per_thread;

static _Atomic bool paused; /* any thread writes, relaxed */
/* glob of names that mark steps; NULL: none. Set by the first client */
static const char *_Atomic step_pattern;

/* ---- recording ------------------------------------------------------------------------------- */

/* Enters cprof if this thread's calls are recorded now; the caller then calls leave(). Else
 * NULL. */
static inline struct thread_log *enter(void)
{
    if (!gate_open(GATE_MARKERS) || atomic_load_explicit(&paused, memory_order_relaxed) ||
        per_thread.ignored || !guard_enter_event())
        return NULL;
    struct thread_log *log = thread_log_self;
    if (__builtin_expect(!log, 0)) {
        int saved = errno;
        log = thread_log_attach();
        errno = saved;
        if (!log)
            guard_leave();
    }
    return log;
}

static inline void leave(void)
{
    guard_leave();
}

/* Counts an invalid call, if markers are recorded. */
static void misuse(void)
{
    if (gate_open(GATE_MARKERS))
        thread_log_lost(thread_log_self, LOSS_MARKER, 1);
}

static inline const void *task_key(const struct itt_domain *domain, uint32_t depth)
{
    uint64_t place =
        (uint64_t)(uintptr_t)domain & ((UINT64_C(1) << KEY_SHIFT) - 1) & ~(uint64_t)KEY_TAGS;
    return (const void *)(uintptr_t)((uint64_t)depth << KEY_SHIFT | place | KEY_TASK);
}

static inline const void *event_key(int event)
{
    return (const void *)(uintptr_t)((uint64_t)(unsigned)event << KEY_SHIFT | KEY_EVENT);
}

static inline const void *frame_key(const struct itt_domain *domain)
{
    return (const void *)(((uintptr_t)domain & ~(uintptr_t)KEY_TAGS) | KEY_FRAME);
}

static bool is_task(const void *key)
{
    return ((uintptr_t)key & KEY_TAGS) == KEY_TASK;
}

static bool is_shown(const char *domain)
{
    return domain && *domain && strcmp(domain, TORCH_DOMAIN) != 0;
}

static void add_domain(struct thread_log *log, struct open_span *span, const char *domain)
{
    size_t len = strnlen(domain, ARGS_MOST);
    uint8_t *room = span_data_room(log, span, (uint32_t)len + 16);
    if (room)
        span_data_done(log, span, DATA_ARGS,
                       put_arg_bytes(room, ARG_TEXT, "domain", 6, domain, len));
}

static struct open_span *open_task(struct thread_log *log, const void *key, const char *name,
                                   size_t len, const char *domain)
{
    struct open_span *span = span_open(log, key, CAT_USER_ANNOTATION, name, (uint32_t)len);
    if (!span)
        return NULL;
    stacks_open_span(log, span);
    span_add_flags(span, is_task(key) ? MARKER_FLAGS | REC_TASK : MARKER_FLAGS);
    if (is_shown(domain))
        add_domain(log, span, domain);
    return span;
}

/* Records an instant with its domain and at most one more text. */
static void put_instant(struct thread_log *log, const char *name, const char *domain,
                        const char *key, const char *text)
{
    /* in the log, not on the stack, which may be small and must hold an unwinder, too */
    uint8_t *data = is_shown(domain) || text ? span_data_room(log, NULL, 2 * ARGS_MOST + 64) : NULL;
    uint32_t used = 0;
    struct extras stack;
    if (data && is_shown(domain))
        used += put_arg_bytes(data, ARG_TEXT, "domain", 6, domain,
                              (uint32_t)strnlen(domain, ARGS_MOST));
    if (data && text)
        used += put_arg_bytes(data + used, ARG_TEXT, key, strlen(key), text,
                              (uint32_t)strnlen(text, ARGS_MOST));
    emit_instant(log, CAT_USER_ANNOTATION, REC_MARKER, name, (uint32_t)strnlen(name, ITT_NAME_MOST),
                 used ? DATA_ARGS : DATA_NONE, data, used, stacks_of_point(log, &stack));
}

static const char *text_of_string(const struct itt_string *name)
{
    return name && name->text ? name->text : "";
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool marks_steps(const char *name)
{
    const char *glob = atomic_load_explicit(&step_pattern, memory_order_acquire);
    return __builtin_expect(glob != NULL, 0) &&
           glob_match(glob, name, strnlen(name, ITT_NAME_MOST));
}

static __attribute__((noinline)) void mark_step(uint64_t ticks)
{
    int saved = errno;
    steps_mark(STEP_ITT, ticks);
    errno = saved;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void begin_itt_task(const struct itt_domain *domain, uint64_t id, const char *name)
{
    uint32_t depth = per_thread.depth++;
    per_thread.id = id;
    if (marks_steps(name) && per_thread.step_depth == 0)
        per_thread.step_depth = depth + 1;
    struct thread_log *log = depth <= DEPTH_MOST ? enter() : NULL;
    if (!log)
        return;
    open_task(log, task_key(domain, depth), name, strnlen(name, ITT_NAME_MOST),
              domain ? domain->name : NULL);
    leave();
}

static void task_begin(const struct itt_domain *domain, struct itt_id id, struct itt_id parent,
                       const struct itt_string *name)
{
    (void)parent;
    begin_itt_task(domain, id.d1, text_of_string(name));
}

/* Names the task after its function. dladdr() takes the loader's lock, so it is called only if the
 * name is needed. */
static void task_begin_fn(const struct itt_domain *domain, struct itt_id id, struct itt_id parent,
                          void *function)
{
    char name[32] = "";
    const char *shown = name;
    (void)parent;
    if (gate_open(GATE_MARKERS) || atomic_load_explicit(&step_pattern, memory_order_relaxed)) {
        Dl_info info;
        if (function && dladdr(function, &info) && info.dli_sname && info.dli_saddr == function)
            shown = info.dli_sname;
        else
            snprintf(name, sizeof name, "%p", function);
    }
    begin_itt_task(domain, id.d1, shown);
}

/* The key of the span that an end in this domain closes, while `depth` tasks are open around it.
 * NULL: no span. */
static const void *find_task(const struct thread_log *log, const struct itt_domain *domain,
                             uint32_t depth)
{
    if (depth > DEPTH_MOST)
        return NULL;
    const void *wanted = task_key(domain, depth);
    bool there = false; /* a span of the innermost task exists, in another domain */
    for (uint32_t i = atomic_load_explicit(&log->depth, memory_order_relaxed); i > 0; i--) {
        const void *key = span_key(&log->spans[i - 1]);
        if (key == wanted)
            return key;
        if (!is_task(key))
            continue;
        uint32_t at = (uint32_t)((uint64_t)(uintptr_t)key >> KEY_SHIFT);
        there = there || at == depth;
        if (at < depth && !there)
            return NULL;
        if (key == task_key(domain, at))
            return key;
    }
    return NULL;
}

static void task_end(const struct itt_domain *domain)
{
    if (per_thread.depth == 0) {
        misuse();
        return;
    }
    uint32_t depth = --per_thread.depth;
    uint64_t end = 0;
    struct thread_log *log = thread_log_self;
    per_thread.id = 0;
    if (log && atomic_load_explicit(&log->depth, memory_order_relaxed) > 0 && guard_enter()) {
        const void *key = find_task(log, domain, depth);
        if (key)
            end = span_close(log, key);
        leave();
    }
    if (__builtin_expect(per_thread.step_depth == depth + 1, 0)) {
        per_thread.step_depth = 0;
        mark_step(end);
    }
}

static void task_begin_overlapped(const struct itt_domain *domain, struct itt_id id,
                                  struct itt_id parent, const struct itt_string *name)
{
    (void)parent;
    const char *text = text_of_string(name), *shown = domain ? domain->name : NULL;
    bool marks = marks_steps(text);
    struct thread_log *log = enter();
    struct itt_running *task = log || marks ? itt_running_add(domain, id, marks) : NULL;
    if (log && task) {
        uint8_t data[ARGS_MOST + 64];
        uint32_t used = is_shown(shown) ? put_arg_bytes(data, ARG_TEXT, "domain", 6, shown,
                                                        (uint32_t)strnlen(shown, ARGS_MOST))
                                        : 0;
        itt_running_set_range(task,
                              async_open(log, CAT_USER_ANNOTATION, REC_MARKER | REC_TASK, text,
                                         (uint32_t)strnlen(text, ITT_NAME_MOST), data, used));
    } else if (log) {
        thread_log_lost(log, LOSS_ASYNC, 1);
    }
    if (log)
        leave();
}

static void task_end_overlapped(const struct itt_domain *domain, struct itt_id id)
{
    uint64_t range;
    bool marks;
    if (!itt_running_take(domain, id, &range, &marks))
        return; /* its begin was not recorded */
    if (range && guard_enter_event()) {
        async_close(thread_log_get(), range); /* also without a log, to free its place */
        leave();
    }
    if (marks)
        mark_step(0);
}

static void marker(const struct itt_domain *domain, struct itt_id id, const struct itt_string *name,
                   int scope)
{
    (void)id;
    (void)scope;
    struct thread_log *log = enter();
    if (log) {
        put_instant(log, text_of_string(name), domain ? domain->name : NULL, NULL, NULL);
        leave();
    }
    if (marks_steps(text_of_string(name)))
        mark_step(0);
}

/* ---- metadata: arguments of the innermost task ----------------------------------------------- */

/* The span of the innermost task, if data can be added to it; else NULL. Counts a loss if the span
 * can take no more data. */
static struct open_span *innermost(struct thread_log *log, struct itt_id id)
{
    uint32_t top = atomic_load_explicit(&log->depth, memory_order_relaxed);
    uint32_t at = top;
    while (at > 0 && !is_task(span_key(&log->spans[at - 1])))
        at--;
    if (at == 0 ||
        (uint64_t)(uintptr_t)span_key(&log->spans[at - 1]) >> KEY_SHIFT != per_thread.depth - 1)
        return NULL; /* the innermost task is not recorded */
    struct open_span *span = &log->spans[at - 1];
    bool names_it = id.d1 == 0 || id.d1 == per_thread.id;
    if (names_it && (uint32_t)span->data_at + span->data_len == log->data_used)
        return span;
    thread_log_lost(log, LOSS_TEXT, 1);
    return NULL;
}

/* Reserves room for an item behind the span's data. add_done() makes it part of the data. */
static uint8_t *add_room(struct thread_log *log, struct open_span *span, size_t key_len,
                         size_t value_len)
{
    return span_data_room(log, span, (uint32_t)(ARG_HEAD + key_len + sizeof(uint32_t) + value_len));
}

static void add_done(struct thread_log *log, struct open_span *span, uint32_t used)
{
    span->data_kind = DATA_ARGS;
    span->data_len = (uint16_t)(span->data_len + used);
    log->data_used += used;
}

static void metadata_str_add(const struct itt_domain *domain, struct itt_id id,
                             const struct itt_string *name, const char *data, size_t length)
{
    (void)domain;
    struct thread_log *log = enter();
    if (!log)
        return;
    struct open_span *span = name && data ? innermost(log, id) : NULL;
    const char *key = text_of_string(name);
    size_t len = span ? strnlen(data, length && length < ARGS_MOST ? length : ARGS_MOST) : 0;
    size_t key_len = strnlen(key, ARGS_MOST);
    uint8_t *room = span ? add_room(log, span, key_len, len) : NULL;
    if (room)
        add_done(log, span, put_arg_bytes(room, ARG_TEXT, key, key_len, data, (uint32_t)len));
    leave();
}

/* Adds one number under the key, several under "key[0]", "key[1]" … */
static void metadata_add(const struct itt_domain *domain, struct itt_id id,
                         const struct itt_string *name, int type, size_t count, void *data)
{
    (void)domain;
    struct thread_log *log = enter();
    if (!log)
        return;
    struct open_span *span = name && data && count ? innermost(log, id) : NULL;
    if (span && count > VALUES_MOST)
        thread_log_lost(log, LOSS_TEXT, 1);
    for (size_t i = 0; span && i < count && i < VALUES_MOST; i++) {
        char key[256];
        uint64_t bits;
        int item = itt_number_at(type, data, i, &bits);
        if (item < 0) {
            misuse();
            continue;
        }
        int len = count == 1 ? snprintf(key, sizeof key, "%.200s", text_of_string(name))
                             : snprintf(key, sizeof key, "%.200s[%zu]", text_of_string(name), i);
        uint8_t *room = add_room(log, span, (size_t)len, 8);
        if (!room)
            break;
        add_done(log, span, put_arg_number(room, item, key, (size_t)len, &bits));
    }
    leave();
}

/* ---- frames, events, marks ------------------------------------------------------------------- */

/* A frame belongs to the thread that begins it; a second begin ends the first. */
static void frame_begin(const struct itt_domain *domain, struct itt_id *id)
{
    (void)id;
    struct thread_log *log = domain ? enter() : NULL;
    if (!log)
        return;
    const char *name = domain->name ? domain->name : "";
    span_close(log, frame_key(domain));
    open_task(log, frame_key(domain), name, strnlen(name, ITT_NAME_MOST), NULL);
    leave();
}

static void frame_end(const struct itt_domain *domain, struct itt_id *id)
{
    (void)id;
    struct thread_log *log = thread_log_self;
    if (!log || !guard_enter())
        return;
    span_close(log, frame_key(domain));
    leave();
    if (domain && marks_steps(domain->name ? domain->name : ""))
        mark_step(0);
}

/* Events that never end are instants: set when an event is started again while it is open. Bit by
 * event number, any thread. */
static _Atomic uint64_t instants[64];

static bool is_instant(int event)
{
    unsigned n = (unsigned)event - 1;
    return atomic_load_explicit(&instants[n / 64 % 64], memory_order_relaxed) >> n % 64 & 1;
}

static bool is_open(const struct thread_log *log, const void *key)
{
    uint32_t at = atomic_load_explicit(&log->depth, memory_order_relaxed);
    while (at > 0 && span_key(&log->spans[at - 1]) != key)
        at--;
    return at > 0;
}

static int event_start(int event)
{
    const struct itt_string *name = itt_event_name(event);
    struct thread_log *log = enter();
    if (!log)
        return 0;
    if (!name) { /* the event was refused: too many */
        thread_log_lost(log, LOSS_MARKER, 1);
        leave();
        return 0;
    }
    const void *key = event_key(event);
    if (is_open(log, key)) {
        unsigned n = (unsigned)event - 1;
        atomic_fetch_or_explicit(&instants[n / 64 % 64], UINT64_C(1) << n % 64,
                                 memory_order_relaxed);
        span_close(log, key);
    }
    if (is_instant(event))
        put_instant(log, text_of_string(name), NULL, NULL, NULL);
    else
        open_task(log, key, text_of_string(name), strnlen(text_of_string(name), ITT_NAME_MOST),
                  NULL);
    leave();
    return 0;
}

static int event_end(int event)
{
    const struct itt_string *name = itt_event_name(event);
    struct thread_log *log = thread_log_self;
    if (log && name && guard_enter()) {
        span_close(log, event_key(event));
        leave();
    }
    if (name && marks_steps(text_of_string(name)))
        mark_step(0);
    return 0;
}

static int mark(int event, const char *parameter)
{
    const struct itt_string *name = itt_event_name(event);
    struct thread_log *log = name ? enter() : NULL;
    if (log) {
        put_instant(log, text_of_string(name), NULL, "parameter", parameter);
        leave();
    }
    if (name && marks_steps(text_of_string(name)))
        mark_step(0);
    return 0;
}

/* ---- counters -------------------------------------------------------------------------------- */

static void put_counter(struct itt_cell *cell)
{
    struct thread_log *log = enter();
    if (!log)
        return;
    uint64_t value = atomic_load_explicit(&cell->value, memory_order_relaxed), bits;
    uint8_t data[ARG_HEAD + 8];
    int item = itt_number_at(cell->type, &value, 0, &bits);
    if (item >= 0)
        emit_counter(log, REC_MARKER, cell->text, cell->text_len, data,
                     put_arg_number(data, item, "", 0, &bits));
    else
        misuse();
    leave();
}

/* Changes an integer counter, also while nothing is recorded. Ignores floating-point counters. */
static void count_cell(struct itt_cell *cell, uint64_t delta)
{
    if (!cell || cell->type == ITT_FLOAT || cell->type == ITT_DOUBLE)
        return;
    atomic_fetch_add_explicit(&cell->value, delta, memory_order_relaxed);
    put_counter(cell);
}

static void counter_inc(const struct itt_counter *counter)
{
    count_cell(itt_cell_of(counter), 1);
}

static void counter_inc_delta(const struct itt_counter *counter, unsigned long long delta)
{
    count_cell(itt_cell_of(counter), delta);
}

static void counter_dec(const struct itt_counter *counter)
{
    count_cell(itt_cell_of(counter), -UINT64_C(1));
}

static void counter_dec_delta(const struct itt_counter *counter, unsigned long long delta)
{
    count_cell(itt_cell_of(counter), -(uint64_t)delta);
}

static void counter_inc_v3(const struct itt_domain *domain, const struct itt_string *name)
{
    count_cell(itt_cell_named(domain, name), 1);
}

static void counter_inc_delta_v3(const struct itt_domain *domain, const struct itt_string *name,
                                 unsigned long long delta)
{
    count_cell(itt_cell_named(domain, name), delta);
}

static void counter_dec_v3(const struct itt_domain *domain, const struct itt_string *name)
{
    count_cell(itt_cell_named(domain, name), -UINT64_C(1));
}

static void counter_dec_delta_v3(const struct itt_domain *domain, const struct itt_string *name,
                                 unsigned long long delta)
{
    count_cell(itt_cell_named(domain, name), -(uint64_t)delta);
}

static void counter_set_value(const struct itt_counter *counter, const void *value)
{
    static const uint8_t sizes[] = {
        [ITT_U64] = 8, [ITT_S64] = 8, [ITT_U32] = 4,   [ITT_S32] = 4,
        [ITT_U16] = 2, [ITT_S16] = 2, [ITT_FLOAT] = 4, [ITT_DOUBLE] = 8};
    struct itt_cell *cell = itt_cell_of(counter);
    if (!cell || !value || (size_t)cell->type >= sizeof sizes)
        return;
    uint64_t bits = 0;
    memcpy(&bits, value, sizes[cell->type]);
    atomic_store_explicit(&cell->value, bits, memory_order_relaxed);
    put_counter(cell);
}

/* ---- names, thread names, pause -------------------------------------------------------------- */

/* Keeps errno: a new name may allocate. */
static struct itt_domain *domain_create(const char *name)
{
    int saved = errno;
    struct itt_domain *domain = itt_domain_of(name);
    errno = saved;
    return domain;
}

static struct itt_string *string_handle_create(const char *text)
{
    int saved = errno;
    struct itt_string *string = itt_string_of(text, text ? strnlen(text, ITT_NAME_MOST) : 0);
    errno = saved;
    return string;
}

static struct itt_counter *counter_create_typed(const char *name, const char *domain, int type)
{
    int saved = errno;
    struct itt_counter *counter = itt_counter_make(name, domain, type);
    errno = saved;
    return counter;
}

static struct itt_counter *counter_create(const char *name, const char *domain)
{
    return counter_create_typed(name, domain, ITT_U64);
}

static struct itt_counter *counter_create_v3(const struct itt_domain *domain, const char *name,
                                             int type)
{
    return counter_create_typed(name, domain ? domain->name : NULL, type);
}

static int event_create(const char *name, int length)
{
    size_t most = length >= 0 && (unsigned)length < ITT_NAME_MOST ? (size_t)length : ITT_NAME_MOST;
    int saved = errno;
    int event = name ? itt_event_make(name, strnlen(name, most)) : 0;
    errno = saved;
    return event;
}

static int mark_create(const char *name)
{
    return event_create(name, -1);
}

static void thread_set_name(const char *name)
{
    if (!name || atomic_load_explicit(&cprof_life, memory_order_relaxed) != LIFE_AWAKE ||
        !guard_enter())
        return;
    int saved = errno;
    struct thread_log *log = thread_log_get();
    if (log)
        writer_name_thread(atomic_load(&log->tid), name, strnlen(name, THREAD_NAME - 1));
    errno = saved;
    leave();
}

static int thr_name_set(const char *name, int length)
{
    char text[THREAD_NAME];
    size_t most = length >= 0 && length < (int)sizeof text ? (size_t)length : sizeof text - 1;
    snprintf(text, sizeof text, "%.*s", (int)most, name ? name : "");
    thread_set_name(text);
    return 0;
}

static void thread_ignore(void)
{
    per_thread.ignored = true;
}

static void collection_pause(void)
{
    atomic_store_explicit(&paused, true, memory_order_relaxed);
}

static void collection_resume(void)
{
    atomic_store_explicit(&paused, false, memory_order_relaxed);
}

static void collection_pause_scoped(int scope)
{
    (void)scope;
    collection_pause();
}

static void collection_resume_scoped(int scope)
{
    (void)scope;
    collection_resume();
}

/* ---- entry point ----------------------------------------------------------------------------- */

typedef void (*any_function)(void);

/* Text arrays and a switch need no relocation at start-up, unlike a table of addresses. */
static const char names[][24] = {
#define ITT(name, function) #name,
#include "preload/markers/itt.def"
#undef ITT
};

enum {
#define ITT(name, function) ITT_##name,
#include "preload/markers/itt.def"
#undef ITT
    ITT_COUNT
};

static any_function function_of(const char *name)
{
    unsigned i = 0;
    while (i < ITT_COUNT && strcmp(names[i], name) != 0)
        i++;
    switch (i) {
#define ITT(name, function)                                                                        \
    case ITT_##name:                                                                               \
        return (any_function)function;
#include "preload/markers/itt.def"
#undef ITT
    default:
        return NULL;
    }
}

void __itt_api_init(void *given, int groups);

/* Called by a client's static part at its first call, under the client's lock. Calls that cprof
 * does not implement get the client's null function. So do all calls when cprof is off. */
VISIBLE void __itt_api_init(void *given, int groups)
{
    struct itt_global *global = given;
    (void)groups;
    cprof_wake_once(WAKE_INJECTION);
    symbol_look();
    bool off = atomic_load_explicit(&cprof_life, memory_order_acquire) == LIFE_OVER;
    const char *glob = config_step_name(CONFIG_STEP_ITT);
    if (!off && *glob)
        atomic_store_explicit(&step_pattern, glob, memory_order_release);
    if (!global || memcmp(global->magic, ITT_MAGIC, sizeof global->magic) != 0)
        return;
    for (struct itt_function *f = global->functions; f && f->name; f++) {
        const char *name = strncmp(f->name, "__itt_", 6) == 0 ? f->name + 6 : f->name;
        any_function ours = off ? NULL : function_of(name);
        if (f->pointer)
            *f->pointer = ours ? (void *)ours : f->null;
    }
}
