/* SPDX-License-Identifier: Apache-2.0 */
/* Implements NVTX's functions. Application threads. Ranges and marks take no lock, allocate nothing
 * and make no system call, except a thread's first range in a named domain. They become the same
 * records as in markers.c: spans and instants, one record for both ends.
 *
 *   push, pop     a span of the thread, flagged REC_LOOSE. Each domain has its own stack, so ranges
 *                 of two domains may cross (push A, push B, pop A, pop B). Then A becomes an
 *                 asynchronous range (writer/record/emit.c). emit_nvtx's ranges of operators end
 *                 with the operators, as emit_itt's do
 *   start, end    an asynchronous range (writer/record/async.c), on any threads
 *   pop or end without its beginning      ignored, counted (marker_misuse); not counted if the
 *                                         beginning was not recorded
 *   open at the end of window or thread   unfinished, as markers are
 *
 * A range's key on the thread's stack is its domain and its level. So a pop finds the range of its
 * own push, also when pushes and pops in between were not recorded. */
#include "preload/markers/nvtx.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/settings/settings.h"
#include "preload/core/core.h"
#include "preload/markers/nvtx_names.h"
#include "preload/markers/nvtx_payload.h"
#include "preload/stacks/stacks.h"
#include "preload/steps/steps.h"
#include "writer/writer.h"

#define NAME_MOST     (1u << 20) /* bytes of a name; much more than a ring takes */
#define PAYLOAD_MOST  40u        /* bytes of a number as a DATA_ARGS item */
#define DATA_MOST     (2 * NVTX_ITEM_MOST + NVTX_SOURCE_MOST)
#define MATCHING_MOST 64u          /* open ranges of one thread that have a use */
#define MATCHED_MOST  1024u        /* bytes of domain/name that are matched */
#define NOT_RECORDED  (1ull << 61) /* bit of a range's id; programs get the id << 2 */

typedef const struct nvtx_domain *domain;
typedef const struct nvtx_attributes *attributes;

/* State of a thread that uses named domains or ranges with a use. Mapped memory, freed at its
 * end. */
struct tables {
    int levels[NVTX_DOMAINS];
    uint32_t n_matching;
    const void *matching[MATCHING_MOST]; /* keys of open ranges, plus their enum use */
};

/* Per-thread state, 24 bytes of the library's TLS. */
static __thread struct {
    struct tables *tables;
    int level;     /* open ranges of the default domain, recorded or not */
    bool past_end; /* the thread-end hook ran */
} per_thread;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t end_key;
static bool has_key;                        /* written in the constructor, or under `once` */
static const char *_Atomic step_pattern;    /* CPROF_STEP=nvtx:GLOB, else NULL; set under `once` */
static const char *_Atomic capture_pattern; /* CPROF_TRIGGER=nvtx:GLOB, else NULL; as above */
static _Atomic uint64_t not_recorded_ids;   /* any thread adds */

/* Bits: what a range's name makes it do besides being recorded. */
enum use { USE_STEP = 1, USE_CAPTURE = 2 };

struct message {
    const char *text;
    uint32_t len;
};

/* ---- the thread ------------------------------------------------------------------------------ */

static void thread_ended(void *tables)
{
    per_thread.tables = NULL;
    per_thread.past_end = true;
    munmap(tables, sizeof(struct tables));
}

static __attribute__((noinline)) struct tables *make_tables(void)
{
    if (per_thread.past_end || !has_key)
        return NULL;
    int saved = errno;
    struct tables *tables =
        mmap(NULL, sizeof *tables, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (tables != MAP_FAILED && pthread_setspecific(end_key, tables) != 0) {
        munmap(tables, sizeof *tables);
        tables = MAP_FAILED;
    }
    per_thread.tables = tables == MAP_FAILED ? NULL : tables;
    errno = saved;
    return per_thread.tables;
}

static inline struct tables *tables_of_thread(void)
{
    return __builtin_expect(per_thread.tables != NULL, 1) ? per_thread.tables : make_tables();
}

/* Where the thread counts its open ranges of a domain; NULL: no memory. */
static inline int *level_of(domain d)
{
    if (!d)
        return &per_thread.level;
    struct tables *tables = tables_of_thread();
    return tables ? &tables->levels[d->number] : NULL;
}

static void misuse(void)
{
    if (gate_open(GATE_MARKERS))
        thread_log_lost(thread_log_self, LOSS_MARKER, 1);
}

/* Key of a range: no object has such an address, and markers.c has odd keys. */
static inline const void *key_of(domain d, int level)
{
    uint64_t number = d ? d->number : 0;
    return (const void *)(uintptr_t)(1ull << 62 | number << 34 | (uint64_t)(unsigned)level << 2);
}

static inline bool is_open(const struct thread_log *log, const void *key)
{
    uint32_t at = atomic_load_explicit(&log->depth, memory_order_relaxed);
    while (at > 0 && span_key(&log->spans[at - 1]) != key)
        at--;
    return at > 0;
}

/* ---- name and data of an event --------------------------------------------------------------- */

static inline struct message message_of_text(const char *text)
{
    size_t len = text ? strnlen(text, NAME_MOST) : 0;
    return len ? (struct message){text, (uint32_t)len} : (struct message){"(unnamed)", 9};
}

static struct message message_of_wide(const wchar_t *text, char room[NVTX_WIDE_MOST])
{
    size_t len = nvtx_utf8(text, room, NVTX_WIDE_MOST);
    return len ? (struct message){room, (uint32_t)len} : message_of_text(NULL);
}

static struct message message_of(int type, union nvtx_message m, char room[NVTX_WIDE_MOST])
{
    if (type == NVTX_ASCII)
        return message_of_text(m.ascii);
    if (type == NVTX_UNICODE)
        return message_of_wide(m.unicode, room);
    if (type == NVTX_REGISTERED && m.registered && m.registered->len)
        return (struct message){m.registered->text, m.registered->len};
    return message_of_text(NULL);
}

static struct message message_in(attributes a, char room[NVTX_WIDE_MOST])
{
    return a && a->size >= sizeof *a ? message_of(a->message_type, a->message, room)
                                     : message_of_text(NULL);
}

/* Writes the payload as an item. Returns its length; 0: unknown type. */
static uint32_t put_payload(uint8_t *to, domain d, attributes a)
{
    static const char key[] = "payload";
    const size_t key_len = sizeof key - 1;
    int64_t whole = a->payload.i64;
    double real = a->payload.f64;
    char digits[24];
    uint32_t n = 0;
    switch (a->payload_type) {
    case NVTX_UINT64:
        if (whole < 0) /* as text: readers silently lose such numbers */
            n = (uint32_t)snprintf(digits, sizeof digits, "%llu",
                                   (unsigned long long)a->payload.u64);
        break;
    case NVTX_UINT32:
        whole = a->payload.u32;
        break;
    case NVTX_INT32:
        whole = a->payload.i32;
        break;
    case NVTX_FLOAT:
        real = (double)a->payload.f32;
        break;
    case NVTX_INT64:
    case NVTX_DOUBLE:
        break;
    case NVTX_EXTENDED:
        return nvtx_source_item(d, a, to);
    default:
        return 0;
    }
    bool is_real = a->payload_type == NVTX_DOUBLE || a->payload_type == NVTX_FLOAT;
    if (n)
        return put_arg_bytes(to, ARG_TEXT, key, key_len, digits, n);
    if (is_real)
        return put_arg_number(to, ARG_REAL, key, key_len, &real);
    return put_arg_number(to, ARG_INT, key, key_len, &whole);
}

/* Most bytes that put_data() writes. */
static inline uint32_t data_most(domain d, attributes a)
{
    uint32_t most = d ? d->item_len : 0;
    if (a && a->size >= sizeof *a)
        most += (a->category ? NVTX_ITEM_MOST : 0) + (a->payload_type == NVTX_EXTENDED
                                                          ? NVTX_SOURCE_MOST
                                                      : a->payload_type ? PAYLOAD_MOST
                                                                        : 0);
    return most;
}

/* Writes domain, category and payload as DATA_ARGS. Returns the length. */
static uint32_t put_data(uint8_t *to, domain d, attributes a)
{
    uint32_t n = 0;
    if (d) {
        memcpy(to, d->item, d->item_len);
        n = d->item_len;
    }
    if (!a || a->size < sizeof *a)
        return n;
    if (a->category)
        n += nvtx_category_item(d ? d->number : 0, a->category, to + n);
    if (a->payload_type)
        n += put_payload(to + n, d, a);
    return n;
}

/* ---- steps and captures ---------------------------------------------------------------------- */

static inline const char *pattern(const char *_Atomic *which)
{
    return atomic_load_explicit(which, memory_order_relaxed);
}

/* Whether CPROF_STEP or CPROF_TRIGGER names NVTX ranges. */
static inline bool has_patterns(void)
{
    return pattern(&step_pattern) || pattern(&capture_pattern);
}

/* Whether a range or mark needs more than counting its level. */
static inline bool is_nvtx_wanted(void)
{
    return gate_open(GATE_MARKERS) || has_patterns();
}

static bool matches(const char *glob, domain d, struct message m)
{
    if (!glob)
        return false;
    if (glob_match(glob, m.text, m.len))
        return true;
    char whole[MATCHED_MOST];
    if (!d || d->len + 1 + m.len > sizeof whole)
        return false;
    memcpy(whole, d->name, d->len);
    whole[d->len] = '/';
    memcpy(whole + d->len + 1, m.text, m.len);
    return glob_match(glob, whole, d->len + 1 + m.len);
}

/* Bits of enum use. */
static inline unsigned uses_of(domain d, struct message m)
{
    if (__builtin_expect(!has_patterns(), 1))
        return 0;
    return (matches(pattern(&step_pattern), d, m) ? USE_STEP : 0u) |
           (matches(pattern(&capture_pattern), d, m) ? USE_CAPTURE : 0u);
}

/* Notes that the range has this use, until its end. False: no room. */
static bool remember_range(const void *key, unsigned use)
{
    struct tables *tables = tables_of_thread();
    if (!tables || tables->n_matching == MATCHING_MOST)
        return false;
    tables->matching[tables->n_matching++] = (const char *)key + use;
    return true;
}

/* The range has ended: whether it had this use; forgets it. */
static bool was_remembered(const void *key, unsigned use)
{
    const void *wanted_key = (const char *)key + use;
    struct tables *tables = per_thread.tables;
    uint32_t n = tables ? tables->n_matching : 0;
    while (n > 0 && tables->matching[n - 1] != wanted_key)
        n--;
    if (n == 0)
        return false;
    tables->n_matching--;
    memmove(&tables->matching[n - 1], &tables->matching[n],
            (tables->n_matching - (n - 1)) * sizeof tables->matching[0]);
    return true;
}

static void mark_step(void)
{
    int saved = errno;
    steps_mark(STEP_NVTX, 0);
    errno = saved;
}

static void capture(bool begins)
{
    int saved = errno;
    trigger_region(begins);
    errno = saved;
}

/* ---- push and pop ---------------------------------------------------------------------------- */

/* Whether this is emit_nvtx's range of the operator just opened ("aten::mm", "aten::mm, seq = 7
 * ..."). Its callback runs after cprof's at both ends, so the range would end after its operator
 * and cross it. */
static inline bool is_of_operator(const struct thread_log *log, struct message m)
{
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed);
    const struct open_span *top = depth ? &log->spans[depth - 1] : NULL;
    if (!top || atomic_load_explicit(&top->flags, memory_order_relaxed) & REC_MARKER)
        return false;
    struct text name = span_name(log, top);
    return name.len > 0 && m.len >= name.len && memcmp(name.at, m.text, name.len) == 0 &&
           (m.len == name.len || m.text[name.len] == ',');
}

static inline void open_range(domain d, const void *key, struct message m, attributes a)
{
    if (!gate_open(GATE_MARKERS) || !guard_enter_event())
        return;
    struct thread_log *log = thread_log_get();
    uint8_t flags =
        log && is_of_operator(log, m) ? REC_MARKER | REC_ENDS_LATE : REC_MARKER | REC_LOOSE;
    struct open_span *span = log ? span_open(log, key, CAT_USER_ANNOTATION, m.text, m.len) : NULL;
    if (span) {
        stacks_open_span(log, span);
        span_add_flags(span, flags);
        uint32_t most = data_most(d, a);
        uint8_t *room = most ? span_data_room(log, span, most) : NULL;
        if (room)
            span_data_done(log, span, DATA_ARGS, put_data(room, d, a));
    }
    guard_leave();
}

/* Counts a range that begins and returns its level; negative: it cannot be tracked. */
static inline int next_level(domain d)
{
    int *level = level_of(d);
    if (__builtin_expect(!level || *level == INT_MAX, 0)) {
        thread_log_lost(thread_log_self, LOSS_DEPTH, 1);
        return NVTX_UNTRACKED;
    }
    return (*level)++;
}

static void push(domain d, int level, struct message m, attributes a)
{
    const void *key = key_of(d, level);
    unsigned uses = uses_of(d, m);
    if (uses & USE_STEP)
        remember_range(key, USE_STEP);
    if (uses & USE_CAPTURE && remember_range(key, USE_CAPTURE))
        capture(true); /* first, so that the capture includes the range */
    open_range(d, key, m, a);
}

/* The slow part of a push. It returns its caller's result, so that the caller ends in a jump and
 * saves no register on the fast path. */
static __attribute__((noinline)) int push_wanted_a(int level, const char *text)
{
    push(NULL, level, message_of_text(text), NULL);
    return level;
}

static __attribute__((noinline)) int push_wanted_w(int level, const wchar_t *text)
{
    char room[NVTX_WIDE_MOST];
    push(NULL, level, message_of_wide(text, room), NULL);
    return level;
}

static __attribute__((noinline)) int push_wanted(int level, domain d, attributes a)
{
    char room[NVTX_WIDE_MOST];
    push(d, level, message_in(a, room), a);
    return level;
}

static int push_a(const char *text)
{
    int level = next_level(NULL);
    return level >= 0 && is_nvtx_wanted() ? push_wanted_a(level, text) : level;
}

static int push_w(const wchar_t *text)
{
    int level = next_level(NULL);
    return level >= 0 && is_nvtx_wanted() ? push_wanted_w(level, text) : level;
}

static int domain_push(domain d, attributes a)
{
    int level = next_level(d);
    return level >= 0 && is_nvtx_wanted() ? push_wanted(level, d, a) : level;
}

static int push_ex(attributes a)
{
    return domain_push(NULL, a);
}

static __attribute__((noinline)) int pop_wanted(domain d, int ended)
{
    const void *key = key_of(d, ended);
    struct thread_log *log = thread_log_self;
    if (log && is_open(log, key) && guard_enter()) {
        span_close(log, key);
        guard_leave();
    }
    if (has_patterns()) {
        if (was_remembered(key, USE_STEP))
            mark_step();
        if (was_remembered(key, USE_CAPTURE))
            capture(false);
    }
    return ended;
}

static __attribute__((noinline)) int pop_misused(void)
{
    misuse();
    return -1;
}

/* A recorded range also needs its end after recording stopped. */
static inline bool ends_are_wanted(void)
{
    const struct thread_log *log = thread_log_self;
    return (log && atomic_load_explicit(&log->depth, memory_order_relaxed) > 0) || has_patterns();
}

static inline int pop_level(domain d)
{
    int *level = level_of(d);
    if (!level)
        return NVTX_UNTRACKED;
    if (__builtin_expect(*level == 0, 0))
        return pop_misused();
    int ended = --*level;
    return ends_are_wanted() ? pop_wanted(d, ended) : ended;
}

static int domain_pop(domain d)
{
    return pop_level(d);
}

static int pop(void)
{
    return pop_level(NULL);
}

/* ---- start and end --------------------------------------------------------------------------- */

static uint64_t start(domain d, struct message m, attributes a)
{
    uint64_t id = 0, uses = uses_of(d, m);
    if (uses & USE_CAPTURE)
        capture(true);
    if (gate_open(GATE_MARKERS) && guard_enter_event()) {
        uint8_t data[DATA_MOST];
        struct thread_log *log = thread_log_get();
        if (log)
            id = async_open(log, CAT_USER_ANNOTATION, REC_MARKER, m.text, m.len, data,
                            put_data(data, d, a));
        guard_leave();
    }
    if (id == 0)
        id = NOT_RECORDED |
             (atomic_fetch_add_explicit(&not_recorded_ids, 1, memory_order_relaxed) + 1);
    return id << 2 | uses;
}

static uint64_t start_a(const char *text)
{
    return start(NULL, is_nvtx_wanted() ? message_of_text(text) : (struct message){0}, NULL);
}

static uint64_t start_w(const wchar_t *text)
{
    char room[NVTX_WIDE_MOST];
    return start(NULL, message_of_wide(text, room), NULL);
}

static uint64_t domain_start(domain d, attributes a)
{
    char room[NVTX_WIDE_MOST];
    return start(d, is_nvtx_wanted() ? message_in(a, room) : (struct message){0}, a);
}

static uint64_t start_ex(attributes a)
{
    return domain_start(NULL, a);
}

static void end(uint64_t given)
{
    uint64_t id = given >> 2;
    if (!(id & NOT_RECORDED)) {
        bool closed = id != 0;
        if (id && guard_enter_event()) {
            closed = async_close(thread_log_get(), id); /* also without a log, to free its place */
            guard_leave();
        }
        if (!closed) {
            misuse();
            return;
        }
    }
    if (given & USE_STEP && pattern(&step_pattern))
        mark_step();
    if (given & USE_CAPTURE && pattern(&capture_pattern))
        capture(false);
}

static void domain_end(domain d, uint64_t id)
{
    (void)d; /* the id is unique */
    end(id);
}

/* ---- marks ----------------------------------------------------------------------------------- */

static void mark(domain d, struct message m, attributes a)
{
    if (gate_open(GATE_MARKERS) && guard_enter_event()) {
        uint8_t data[DATA_MOST];
        uint32_t n = put_data(data, d, a);
        struct thread_log *log = thread_log_get();
        struct extras stack;
        if (log)
            emit_instant(log, CAT_USER_ANNOTATION, REC_MARKER, m.text, m.len,
                         n ? DATA_ARGS : DATA_NONE, data, n, stacks_of_point(log, &stack));
        guard_leave();
    }
    if (uses_of(d, m) & USE_STEP)
        mark_step();
}

static void mark_a(const char *text)
{
    if (is_nvtx_wanted())
        mark(NULL, message_of_text(text), NULL);
}

static void mark_w(const wchar_t *text)
{
    char room[NVTX_WIDE_MOST];
    if (is_nvtx_wanted())
        mark(NULL, message_of_wide(text, room), NULL);
}

static void domain_mark(domain d, attributes a)
{
    char room[NVTX_WIDE_MOST];
    if (is_nvtx_wanted())
        mark(d, message_in(a, room), a);
}

static void mark_ex(attributes a)
{
    domain_mark(NULL, a);
}

/* ---- names ----------------------------------------------------------------------------------- */

static void domain_name_category_a(domain d, uint32_t category, const char *name)
{
    if (name)
        nvtx_name_category(d ? d->number : 0, category, name, strnlen(name, NVTX_STRING_MOST));
}

static void domain_name_category_w(domain d, uint32_t category, const wchar_t *name)
{
    char room[NVTX_WIDE_MOST];
    nvtx_name_category(d ? d->number : 0, category, room, nvtx_utf8(name, room, sizeof room));
}

static void name_category_a(uint32_t category, const char *name)
{
    domain_name_category_a(NULL, category, name);
}

static void name_category_w(uint32_t category, const wchar_t *name)
{
    domain_name_category_w(NULL, category, name);
}

static void name_thread(uint32_t tid, const char *name, size_t len)
{
    int saved = errno;
    /* in a forked child, a missing thread may hold the writer's lock */
    if (atomic_load(&cprof_life) != LIFE_OVER)
        writer_name_thread(tid, name, len);
    errno = saved;
}

static void name_thread_a(uint32_t tid, const char *name)
{
    if (name)
        name_thread(tid, name, strnlen(name, NVTX_STRING_MOST));
}

static void name_thread_w(uint32_t tid, const wchar_t *name)
{
    char room[NVTX_WIDE_MOST];
    name_thread(tid, room, nvtx_utf8(name, room, sizeof room));
}

/* Records names of threads; other resources have no place in a trace. A pthread_t gives a thread id
 * only if it is the caller's. */
static const void *resource_create(domain d, const struct nvtx_resource *r)
{
    char room[NVTX_WIDE_MOST];
    (void)d;
    if (!r || r->size < sizeof *r)
        return NULL;
    struct message m = message_of(r->message_type, r->message, room);
    if (r->type == NVTX_THREAD_NATIVE)
        name_thread((uint32_t)r->identifier, m.text, m.len);
    else if (r->type == NVTX_THREAD_POSIX && (pthread_t)r->identifier == pthread_self())
        name_thread((uint32_t)syscall(SYS_gettid), m.text, m.len);
    return nvtx_string(m.text, m.len);
}

static const void *register_string_a(domain d, const char *text)
{
    (void)d;
    return nvtx_string(text ? text : "", text ? strnlen(text, NVTX_STRING_MOST) : 0);
}

static const void *register_string_w(domain d, const wchar_t *text)
{
    char room[NVTX_WIDE_MOST];
    (void)d;
    return nvtx_string(room, nvtx_utf8(text, room, sizeof room));
}

static domain domain_create_a(const char *name)
{
    return nvtx_domain(name ? name : "", name ? strnlen(name, NVTX_STRING_MOST) : 0);
}

static domain domain_create_w(const wchar_t *name)
{
    char room[NVTX_WIDE_MOST];
    return nvtx_domain(room, nvtx_utf8(name, room, sizeof room));
}

/* ---- clients --------------------------------------------------------------------------------- */

void nvtx_take_key(void)
{
    has_key = has_key || pthread_key_create(&end_key, thread_ended) == 0;
}

static void start_once(void)
{
    nvtx_take_key();
    const struct config *config = config_get();
    if (config->step == CONFIG_STEP_NVTX)
        atomic_store(&step_pattern, config_step_name(CONFIG_STEP_NVTX));
    atomic_store(&capture_pattern, trigger_nvtx_pattern());
}

void nvtx_attach(nvtx_get_export_table *get_export_table)
{
    static const struct {
        int module;
        unsigned number;
        nvtx_function function;
    } rows[] = {
#define NVTX(module, number, function) {module, number, (nvtx_function)(function)},
#include "preload/markers/nvtx.def"
#undef NVTX
    };
    const struct nvtx_callbacks *callbacks =
        get_export_table ? get_export_table(NVTX_CALLBACKS) : NULL;
    if (!callbacks || callbacks->size < sizeof *callbacks || !callbacks->module_table)
        return;
    pthread_once(&once, start_once);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        nvtx_function **table = NULL;
        unsigned n = 0;
        if (callbacks->module_table(rows[i].module, &table, &n) && table && rows[i].number < n &&
            table[rows[i].number])
            *table[rows[i].number] = rows[i].function;
    }
}
