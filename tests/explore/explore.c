/* SPDX-License-Identifier: Apache-2.0 */
/* Runs threads through every interleaving. Implements the calls that the compiler inserts for
 * LLVM's ThreadSanitizer (tsan_interface.h and tsan_interface_atomic.h of compiler-rt). Must be
 * compiled without the sanitizer. */
#undef _FORTIFY_SOURCE /* a fortified longjmp() refuses to go down the stack */
#include "tests/explore/explore.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define THREADS   EXPLORE_THREADS
#define LOCATIONS 64u /* atomic locations in a run */
#define STORES    64u /* stores to each location in a run */
#define CHOICES   4096u
#define WORDS     (1u << 14) /* words of 8 bytes with plain accesses in a run */
#define STACK     (256u << 10)
#define IGNORED   8u
#define QUIET     32u
#define PASSED    4u

/* ---- what each thread has seen ---- */

struct sight {
    uint32_t clock[THREADS]; /* operations of each thread that happened before */
    uint8_t at[LOCATIONS];   /* the newest store seen of each location */
};

struct store {
    uint64_t value;
    struct sight released; /* what an acquire load of this store sees */
};

struct location {
    const void *address;
    unsigned n;
    uint64_t hash; /* of all stores in order */
    struct store stores[STORES];
};

struct word {
    uintptr_t address; /* of the 8 bytes; 0: free */
    uint64_t run;
    uint32_t read[THREADS]; /* clocks of the last reads */
    uint32_t write;         /* clock of the last write … */
    uint8_t writer;         /* … and its thread */
};

static struct thread {
    ucontext_t start;
    jmp_buf at;
    bool begun, ended;
    struct sight sight;
    uint64_t hash; /* of all results of its atomic operations */
    char *stack;
} threads[THREADS];

static const struct scenario *scenario;
static unsigned self;
static bool running;           /* accesses are part of a run */
static jmp_buf scheduler_back; /* where the scheduler continues when a thread gives way */
static struct location locations[LOCATIONS];
static unsigned n_locations;
static struct word *words;
static uint64_t run_number;
static struct {
    uintptr_t at;
    size_t size;
} ignored[IGNORED];
static unsigned n_ignored;
static struct {
    const void *at;
    unsigned mask;
} quiet[QUIET];
static unsigned n_quiet;
static const void *passed[PASSED];
static unsigned n_passed;

/* ---- choices: a depth-first walk through the tree of all choices ---- */

static struct {
    uint16_t taken, of;
} choices[CHOICES];
static unsigned n_choices, next_choice;

static unsigned choose(unsigned of)
{
    if (of < 2)
        return 0;
    if (next_choice == n_choices) {
        if (n_choices == CHOICES)
            explore_fail("more than %u choices in one run", CHOICES);
        choices[n_choices].taken = 0;
        choices[n_choices++].of = (uint16_t)of;
    }
    if (choices[next_choice].of != of)
        explore_fail("this run differs from the last: %u ways instead of %u", of,
                     choices[next_choice].of);
    return choices[next_choice++].taken;
}

/* Goes to the next path through the tree. False after the last path. */
static bool next_path(void)
{
    while (n_choices && choices[n_choices - 1].taken + 1u == choices[n_choices - 1].of)
        n_choices--;
    if (n_choices == 0)
        return false;
    choices[n_choices - 1].taken++;
    return true;
}

void explore_fail(const char *format, ...)
{
    va_list args;
    running = false;
    fprintf(stderr, "%s: run %llu, thread %u: ", scenario ? scenario->name : "explore",
            (unsigned long long)run_number, self);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "; choices");
    for (unsigned i = 0; i < next_choice; i++)
        fprintf(stderr, " %u", choices[i].taken);
    fprintf(stderr, "\n");
    _Exit(1);
}

/* ---- known states ---- */

static uint64_t *states;
static uint64_t n_states, states_size;

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdu;
    x ^= x >> 32;
    x *= 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 29;
}

static uint64_t hash_bytes(const void *bytes, size_t n)
{
    uint64_t h = n, part = 0;
    for (const char *p = bytes; n; n -= n < 8 ? n : 8, p += 8) {
        memcpy(&part, p, n < 8 ? n : 8);
        h = mix(h, part);
    }
    return h;
}

static void put_state(uint64_t key)
{
    uint64_t at = key & (states_size - 1);
    while (states[at])
        at = (at + 1) & (states_size - 1);
    states[at] = key;
}

/* Adds the key. True if the state was known. */
static bool note_state(uint64_t key)
{
    key |= !key;
    if (2 * n_states >= states_size) {
        uint64_t *old = states, old_size = states_size;
        states_size = states_size ? 2 * states_size : 1u << 16;
        states = calloc(states_size, sizeof *states);
        if (!states)
            explore_fail("no memory for %llu states", (unsigned long long)states_size);
        for (uint64_t i = 0; i < old_size; i++)
            if (old[i])
                put_state(old[i]);
        free(old);
    }
    for (uint64_t at = key & (states_size - 1); states[at]; at = (at + 1) & (states_size - 1))
        if (states[at] == key)
            return true;
    put_state(key);
    n_states++;
    return false;
}

static uint64_t state(void)
{
    uint64_t h = 1;
    for (unsigned t = 0; t < scenario->n_threads; t++)
        h = mix(mix(h, threads[t].hash), threads[t].begun + 2u * threads[t].ended);
    for (unsigned i = 0; i < n_locations; i++)
        h += mix((uint64_t)(uintptr_t)locations[i].address, locations[i].hash);
    return h;
}

/* ---- threads ---- */

unsigned explore_self(void)
{
    return self;
}

static void body(void)
{
    scenario->thread[self]();
    threads[self].ended = true;
    _longjmp(scheduler_back, 1);
}

/* Lets another thread run. */
static void give_way(void)
{
    if (_setjmp(threads[self].at) == 0)
        _longjmp(scheduler_back, 1);
}

static void resume(unsigned t)
{
    if (_setjmp(scheduler_back) != 0)
        return;
    self = t;
    if (scenario->switched)
        scenario->switched(t);
    if (threads[t].begun)
        _longjmp(threads[t].at, 1);
    threads[t].begun = true;
    setcontext(&threads[t].start);
}

static void make_thread(unsigned t)
{
    struct thread *thread = &threads[t];
    char *stack = thread->stack ? thread->stack : malloc(STACK);
    memset(thread, 0, sizeof *thread);
    thread->stack = stack;
    thread->sight.clock[t] = 1;
    getcontext(&thread->start);
    thread->start.uc_stack.ss_sp = stack;
    thread->start.uc_stack.ss_size = STACK;
    thread->start.uc_link = NULL;
    makecontext(&thread->start, body, 0);
}

static void join_sight(struct sight *to, const struct sight *from)
{
    for (unsigned i = 0; i < THREADS; i++)
        to->clock[i] = to->clock[i] > from->clock[i] ? to->clock[i] : from->clock[i];
    for (unsigned i = 0; i < LOCATIONS; i++)
        to->at[i] = to->at[i] > from->at[i] ? to->at[i] : from->at[i];
}

/* One run: repeats the choices so far and makes further ones. False if it reached a known state. */
static bool one_run(void)
{
    bool fresh = true;
    run_number++;
    n_locations = n_quiet = n_passed = 0;
    next_choice = 0;
    for (unsigned t = 0; t < scenario->n_threads; t++)
        make_thread(t);
    self = 0;
    scenario->reset();
    running = true;
    while (fresh) {
        unsigned ready[THREADS], n = 0;
        for (unsigned t = 0; t < scenario->n_threads; t++)
            if (!threads[t].ended)
                ready[n++] = t;
        if (n == 0)
            break;
        /* states of repeated choices are known, of course */
        fresh = next_choice < n_choices || !note_state(state());
        if (fresh)
            resume(ready[choose(n)]);
    }
    running = false;
    self = 0;
    if (fresh)
        scenario->check();
    return fresh;
}

struct explored explore(const struct scenario *s)
{
    scenario = s;
    if (!words)
        words = calloc(WORDS, sizeof *words);
    if (!words)
        explore_fail("no memory");
    if (states)
        memset(states, 0, states_size * sizeof *states);
    n_states = n_choices = 0;
    uint64_t first = run_number;
    do
        one_run();
    while (next_path());
    return (struct explored){run_number - first, n_states};
}

/* ---- plain accesses ---- */

void explore_ignore(const void *at, size_t size)
{
    for (unsigned i = 0; i < n_ignored; i++)
        if (ignored[i].at == (uintptr_t)at)
            return;
    if (n_ignored == IGNORED)
        explore_fail("too many places to ignore");
    ignored[n_ignored].at = (uintptr_t)at;
    ignored[n_ignored++].size = size;
}

static bool is_ignored(uintptr_t at)
{
    for (unsigned i = 0; i < n_ignored; i++)
        if (at - ignored[i].at < ignored[i].size)
            return true;
    uintptr_t stack = (uintptr_t)threads[self].stack;
    return at - stack < STACK;
}

static struct word *word_at(uintptr_t address)
{
    uint64_t i = mix(0, address);
    for (unsigned probes = 0; probes < WORDS; probes++, i++) {
        struct word *w = &words[i & (WORDS - 1)];
        if (w->run == run_number && w->address == address)
            return w;
        if (w->run != run_number) {
            memset(w, 0, sizeof *w);
            w->address = address;
            w->run = run_number;
            return w;
        }
    }
    explore_fail("plain accesses to more than %u words", WORDS);
}

static void access_word(uintptr_t address, bool writes)
{
    const uint32_t *seen = threads[self].sight.clock;
    struct word *w = word_at(address);
    if (w->write > seen[w->writer])
        explore_fail("a race: a %s of %p that thread %u wrote at the same time",
                     writes ? "write" : "read", (void *)address, w->writer);
    for (unsigned t = 0; writes && t < THREADS; t++)
        if (w->read[t] > seen[t])
            explore_fail("a race: a write of %p that thread %u read at the same time",
                         (void *)address, t);
    if (writes) {
        w->write = seen[self];
        w->writer = (uint8_t)self;
    } else {
        w->read[self] = seen[self];
    }
}

/* ---- memory that is cleared between runs ---- */

#define PAGE ((size_t)4096)

static char *tracked;
static size_t tracked_size;
static bool *written; /* pages */

void explore_tracks(void *memory, size_t size)
{
    tracked = memory;
    tracked_size = size;
    written = calloc(size / PAGE + 1, sizeof *written);
    if (!written)
        explore_fail("no memory");
}

static void note_written(const void *at, size_t size)
{
    size_t first = (uintptr_t)at - (uintptr_t)tracked;
    if (first < tracked_size)
        for (size_t page = first / PAGE; page <= (first + size - 1) / PAGE; page++)
            written[page] = true;
}

void explore_clear(void *pages, size_t size)
{
    static unsigned times;
    char *at = pages;
    for (char *page = at; page < at + size; page += PAGE) {
        bool *w = &written[(size_t)(page - tracked) / PAGE];
        if (*w)
            memset(page, 0, PAGE);
        *w = false;
    }
    if (times++ % 1000 == 0)
        for (size_t i = 0; i < size; i++)
            if (at[i])
                explore_fail("%p was written without a recorded access", (void *)&at[i]);
}

static void access(const void *at, size_t size, bool writes)
{
    if (writes)
        note_written(at, size);
    if (!running || is_ignored((uintptr_t)at))
        return;
    uintptr_t first = (uintptr_t)at & ~(uintptr_t)7, last = (uintptr_t)at + size - 1;
    for (; first <= last; first += 8)
        access_word(first, writes);
}

/* ---- atomic accesses ---- */

void explore_pass_over(const void *at)
{
    if (n_passed == PASSED)
        explore_fail("too many places to pass over");
    passed[n_passed++] = at;
}

static bool is_explored(const void *at)
{
    for (unsigned i = 0; i < n_passed; i++)
        if (passed[i] == at)
            return false;
    return running;
}

void explore_quiet(const void *at, unsigned mask)
{
    if (n_quiet == QUIET)
        explore_fail("too many quiet places");
    quiet[n_quiet].at = at;
    quiet[n_quiet++].mask = mask;
}

/* 0: another thread may run before an access; 1: only before a load; 2: before no access. */
static int quietness(const void *at)
{
    for (unsigned i = 0; i < n_quiet; i++)
        if (quiet[i].at == at)
            return quiet[i].mask >> self & 1 ? 2 : 1;
    return 0;
}

static uint64_t value_in_memory(const void *at, size_t size)
{
    uint64_t value = 0;
    memcpy(&value, at, size);
    return value;
}

/* The value before the first access of a run counts as the first store, which all threads have
 * seen. */
static unsigned location_at(const void *at, size_t size)
{
    for (unsigned i = 0; i < n_locations; i++)
        if (locations[i].address == at)
            return i;
    if (n_locations == LOCATIONS)
        explore_fail("more than %u atomic locations", LOCATIONS);
    struct location *l = &locations[n_locations];
    l->address = at;
    l->n = 1;
    memset(&l->stores[0], 0, sizeof l->stores[0]);
    l->stores[0].value = value_in_memory(at, size);
    l->hash = mix(7, l->stores[0].value);
    return n_locations++;
}

static bool acquires(int order)
{
    return order == __ATOMIC_ACQUIRE || order == __ATOMIC_CONSUME || order == __ATOMIC_ACQ_REL ||
           order == __ATOMIC_SEQ_CST;
}

static bool releases(int order)
{
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

static void note(uint64_t location, uint64_t result)
{
    threads[self].hash = mix(mix(threads[self].hash, location), result);
}

static uint64_t read_store(unsigned location, unsigned which, int order)
{
    struct sight *seen = &threads[self].sight;
    const struct store *store = &locations[location].stores[which];
    seen->at[location] = (uint8_t)which;
    if (acquires(order))
        join_sight(seen, &store->released);
    note((uintptr_t)locations[location].address, which);
    return store->value;
}

/* carried: for a read-modify-write, what the replaced store had released. NULL for a plain
 * store. */
static void add_store(unsigned location, uint64_t value, int order, const struct sight *carried)
{
    struct location *l = &locations[location];
    struct sight *seen = &threads[self].sight;
    if (l->n == STORES)
        explore_fail("more than %u stores to one location", STORES);
    struct store *store = &l->stores[l->n];
    memset(store, 0, sizeof *store);
    store->value = value;
    seen->at[location] = (uint8_t)l->n++;
    if (carried)
        store->released = *carried;
    if (releases(order))
        join_sight(&store->released, seen);
    seen->clock[self]++;
    l->hash = mix(mix(l->hash, value), hash_bytes(&store->released, sizeof store->released));
    note((uintptr_t)l->address + 1, value);
}

static uint64_t atomic_read(const void *at, size_t size, int order)
{
    if (!is_explored(at))
        return value_in_memory(at, size);
    bool mine = quietness(at) == 2;
    if (!mine)
        give_way();
    unsigned location = location_at(at, size), newest = locations[location].n - 1;
    unsigned seen = threads[self].sight.at[location];
    unsigned which = mine ? newest : newest - choose(newest - seen + 1);
    return read_store(location, which, order);
}

static void atomic_write(void *at, size_t size, uint64_t value, int order)
{
    if (running) {
        if (quietness(at) == 0)
            give_way();
        add_store(location_at(at, size), value, order, NULL);
    }
    note_written(at, size);
    memcpy(at, &value, size);
}

/* Starts a read-modify-write: returns the newest value and what its store released. */
static uint64_t begin_update(const void *at, size_t size, int order, unsigned *location,
                             struct sight *carried)
{
    if (!is_explored(at))
        return value_in_memory(at, size);
    give_way();
    *location = location_at(at, size);
    *carried = locations[*location].stores[locations[*location].n - 1].released;
    return read_store(*location, locations[*location].n - 1, order);
}

static void end_update(void *at, size_t size, uint64_t value, int order, unsigned location,
                       const struct sight *carried)
{
    if (is_explored(at))
        add_store(location, value, order, carried);
    note_written(at, size);
    memcpy(at, &value, size);
}

/* ---- functions that the compiler calls ---- */

#define PLAIN(size)                                                                                \
    void __tsan_read##size(void *at);                                                              \
    void __tsan_write##size(void *at);                                                             \
    void __tsan_unaligned_read##size(void *at);                                                    \
    void __tsan_unaligned_write##size(void *at);                                                   \
    void __tsan_read##size(void *at)                                                               \
    {                                                                                              \
        access(at, size, false);                                                                   \
    }                                                                                              \
    void __tsan_write##size(void *at)                                                              \
    {                                                                                              \
        access(at, size, true);                                                                    \
    }                                                                                              \
    void __tsan_unaligned_read##size(void *at)                                                     \
    {                                                                                              \
        access(at, size, false);                                                                   \
    }                                                                                              \
    void __tsan_unaligned_write##size(void *at)                                                    \
    {                                                                                              \
        access(at, size, true);                                                                    \
    }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

#define ATOMIC(bits, type)                                                                         \
    type __tsan_atomic##bits##_load(const volatile type *at, int order);                           \
    void __tsan_atomic##bits##_store(volatile type *at, type value, int order);                    \
    type __tsan_atomic##bits##_exchange(volatile type *at, type value, int order);                 \
    type __tsan_atomic##bits##_fetch_add(volatile type *at, type value, int order);                \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type *at, type *expected,           \
                                                      type value, int order, int otherwise);       \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile type *at, type *expected, type value, \
                                                    int order, int otherwise);                     \
    type __tsan_atomic##bits##_load(const volatile type *at, int order)                            \
    {                                                                                              \
        return (type)atomic_read((const void *)at, sizeof *at, order);                             \
    }                                                                                              \
    void __tsan_atomic##bits##_store(volatile type *at, type value, int order)                     \
    {                                                                                              \
        atomic_write((void *)at, sizeof *at, value, order);                                        \
    }                                                                                              \
    type __tsan_atomic##bits##_exchange(volatile type *at, type value, int order)                  \
    {                                                                                              \
        unsigned location = 0;                                                                     \
        struct sight carried;                                                                      \
        type old = (type)begin_update((void *)at, sizeof *at, order, &location, &carried);         \
        end_update((void *)at, sizeof *at, value, order, location, &carried);                      \
        return old;                                                                                \
    }                                                                                              \
    type __tsan_atomic##bits##_fetch_add(volatile type *at, type value, int order)                 \
    {                                                                                              \
        unsigned location = 0;                                                                     \
        struct sight carried;                                                                      \
        type old = (type)begin_update((void *)at, sizeof *at, order, &location, &carried);         \
        end_update((void *)at, sizeof *at, (type)(old + value), order, location, &carried);        \
        return old;                                                                                \
    }                                                                                              \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type *at, type *expected,           \
                                                      type value, int order, int otherwise)        \
    {                                                                                              \
        unsigned location = 0;                                                                     \
        struct sight carried;                                                                      \
        (void)otherwise;                                                                           \
        type old = (type)begin_update((void *)at, sizeof *at, order, &location, &carried);         \
        if (old != *expected) {                                                                    \
            *expected = old;                                                                       \
            return 0;                                                                              \
        }                                                                                          \
        end_update((void *)at, sizeof *at, value, order, location, &carried);                      \
        return 1;                                                                                  \
    }                                                                                              \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile type *at, type *expected, type value, \
                                                    int order, int otherwise)                      \
    {                                                                                              \
        return __tsan_atomic##bits##_compare_exchange_strong(at, expected, value, order,           \
                                                             otherwise);                           \
    }                                                                                              \
    /* the form that clang calls */                                                                \
    type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type expected, type value,  \
                                                    int order, int otherwise);                     \
    type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type expected, type value,  \
                                                    int order, int otherwise)                      \
    {                                                                                              \
        __tsan_atomic##bits##_compare_exchange_strong(at, &expected, value, order, otherwise);     \
        return expected;                                                                           \
    }
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

void __tsan_read_range(void *at, size_t size);
void __tsan_write_range(void *at, size_t size);
void __tsan_init(void);
void __tsan_func_entry(void *caller);
void __tsan_func_exit(void);
void *__tsan_memset(void *to, int byte, size_t n);
void *__tsan_memcpy(void *to, const void *from, size_t n);
void *__tsan_memmove(void *to, const void *from, size_t n);

void __tsan_read_range(void *at, size_t size)
{
    access(at, size, false);
}

void __tsan_write_range(void *at, size_t size)
{
    access(at, size, true);
}

void __tsan_init(void)
{
}

void __tsan_func_entry(void *caller)
{
    (void)caller;
}

void __tsan_func_exit(void)
{
}

void *__tsan_memset(void *to, int byte, size_t n)
{
    if (n)
        access(to, n, true);
    return memset(to, byte, n);
}

void *__tsan_memcpy(void *to, const void *from, size_t n)
{
    if (n) {
        access(from, n, false);
        access(to, n, true);
    }
    return memcpy(to, from, n);
}

void *__tsan_memmove(void *to, const void *from, size_t n)
{
    if (n) {
        access(from, n, false);
        access(to, n, true);
    }
    return memmove(to, from, n);
}
