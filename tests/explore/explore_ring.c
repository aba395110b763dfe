/* SPDX-License-Identifier: Apache-2.0 */
/* Every interleaving of writer/record/ring.h and writer/record/thread_log.c: reserve, commit, drop,
 * wrap, the end of a thread, reuse of its log by another thread, the drain, and slabs that are made
 * and used up. tests/e2e/test_explore.py runs this program, also on sources with planted mistakes,
 * which it must find. */
#include "tests/explore/explore.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "writer/writer.h"

#define UNSEEN                                                                                     \
    __attribute__((no_sanitize("thread"))) /* accesses here are not part of the code under test */

static void *pool_map(size_t size);
static void pool_open(void *at, size_t size);

/* Each run must use the same memory, and no real threads. */
#define mmap(at, size, prot, flags, fd, offset) ((void)(prot), pool_map(size))
#define munmap(at, size)                        ((void)(at), (void)(size))
#define mprotect(at, size, prot)                (pool_open(at, size), 0)
#define madvise(at, size, advice)               ((void)(at))
#define pthread_key_create(key, end)            (*(key) = 0, (void)(end), 0)
#define pthread_setspecific(key, value)         ((void)(key), (void)(value), 0)
#define syscall(number)                         tid_of_self()
static long tid_of_self(void);

#include "writer/base/wake.h"
#include "writer/record/edges.h"
#include "writer/base/space.h"

#define space_limited()           false
#define space_take(ring, besides) ((void)(ring), (void)(besides), false)
#define space_give_back(bytes)    ((void)(bytes))
#define wake_thread()             ((void)0)

#include "writer/record/thread_log.c"

enum { SLOTS = 64, RECORDS = 8 };
enum { CONSUMER = 1, OTHERS = 2 | 4, ALL = CONSUMER | OTHERS }; /* masks */

/* One slab from the start, and one from each of up to three threads that find no place in it. */
#define PLACE_BYTES (LOG_BYTES + WHOLE_PAGES(SLOTS * RECORD_SLOT))
static _Alignas(4096) char pool[4 * SLAB_LOGS * PLACE_BYTES];
static size_t pool_used;
static void *opened[4]; /* places of the pool that this run uses */
static unsigned n_opened;

UNSEEN static void *pool_map(size_t size)
{
    char *at = pool + pool_used;
    pool_used += size;
    if (pool_used > sizeof pool)
        explore_fail("a fifth slab");
    return at;
}

UNSEEN static void pool_open(void *at, size_t size)
{
    for (unsigned i = 0; i < n_opened; i++)
        if (opened[i] == at)
            return; /* another thread opened the place, and may use it already */
    if (n_opened == sizeof opened / sizeof *opened)
        explore_fail("a fifth place");
    opened[n_opened++] = at;
    explore_clear(at, size);
    const struct thread_log *log = at;
    explore_quiet(&log->ring.tail, CONSUMER);
    explore_quiet(&log->ring.head, OTHERS);
    explore_quiet(&log->ring.room, ALL);
    explore_quiet(&log->torch_thread, CONSUMER);
    explore_quiet(&log->depth, ALL);
    explore_quiet(&log->tid, 0);
}

UNSEEN static long tid_of_self(void)
{
    return explore_self();
}

/* ---- records and their accounts ---- */

static struct {
    uint64_t slots;         /* constant */
    uint64_t made, refused; /* counts, written by the producer */
    uint64_t taken;         /* count, written by the consumer */
} records[RECORDS];
static unsigned n_records;
static uint64_t
    last_taken[EXPLORE_THREADS]; /* number of the last record taken from each producer */

/* Writes a span as emit.c does. The last word of the record stands for its whole contents. */
static void put(struct ring *ring, unsigned number)
{
    uint64_t slots = records[number].slots;
    struct record *r = ring_reserve(ring, slots);
    if (!r) {
        records[number].refused++;
        return;
    }
    r->kind = REC_SPAN;
    r->slots = slots & 0xffffff;
    r->start = number;
    r->parent = explore_self();
    ((uint64_t *)(r + slots))[-1] = number + 1000;
    ring_commit(ring);
    records[number].made++;
}

/* owner: the thread that owns the ring, as the consumer sees it. */
static void take(struct ring *ring, const struct record *r, unsigned owner)
{
    unsigned number = (unsigned)r->start;
    if (r->kind != REC_SPAN || number >= n_records || r->slots != records[number].slots)
        explore_fail("not a record of this scenario: kind %u, number %u, %u slots", r->kind, number,
                     r->slots);
    if (((const uint64_t *)(r + r->slots))[-1] != number + 1000)
        explore_fail("record %u is not whole", number);
    if (r->parent != owner)
        explore_fail("record %u of thread %u was read as a record of thread %u", number,
                     (unsigned)r->parent, owner);
    if (records[number].taken++)
        explore_fail("record %u was read twice", number);
    if (number < last_taken[owner])
        explore_fail("record %u was read after record %u", number, (unsigned)last_taken[owner]);
    last_taken[owner] = number;
    ring_take(ring, r);
}

static bool some_lost,
    none_lost; /* over all runs; both must happen, else the scenario proves nothing */

UNSEEN static void account(void)
{
    bool lost = false;
    for (unsigned i = 0; i < n_records; i++) {
        if (records[i].made + records[i].refused != 1 || records[i].taken != records[i].made)
            explore_fail("record %u: made %u, refused %u, taken %u", i, (unsigned)records[i].made,
                         (unsigned)records[i].refused, (unsigned)records[i].taken);
        lost |= records[i].refused != 0;
    }
    *(lost ? &some_lost : &none_lost) = true;
}

UNSEEN static void set_records(const unsigned *slots, unsigned n)
{
    memset(records, 0, sizeof records);
    memset(last_taken, 0, sizeof last_taken);
    for (unsigned i = 0; i < n; i++)
        records[i].slots = slots[i];
    n_records = n;
    pool_used = 0;
    n_opened = 0;
}

/* ---- one ring: full, wrapping, dropping ---- */

static struct ring ring;

UNSEEN static void reset_ring(void)
{
    static const unsigned slots[] = {20, 20, 40, 1, 30, 12};
    set_records(slots, sizeof slots / sizeof *slots);
    memset(pool, 0, SLOTS * RECORD_SLOT);
    ring_make(&ring, pool, SLOTS * RECORD_SLOT);
    explore_quiet(&ring.tail, CONSUMER);
    explore_quiet(&ring.head, OTHERS);
}

static void produce(void)
{
    for (unsigned i = 0; i < n_records; i++)
        put(&ring, i);
}

static void drain(void)
{
    const struct record *r;
    uint64_t until = ring_head(&ring);
    while ((r = ring_peek(&ring, until)))
        take(&ring, r, 1);
}

static void consume(void)
{
    for (int pass = 0; pass < 4; pass++)
        drain();
}

static void check_ring(void)
{
    drain();
    account();
    if (atomic_load(&ring.tail) != atomic_load(&ring.head))
        explore_fail("the ring is not empty");
}

/* ---- two threads that start, end, and reuse each other's log ---- */

static struct {
    struct thread_log *log;
    bool past_end;
} local[EXPLORE_THREADS];
static unsigned local_of;

/* Swaps the thread-local variables when another coroutine continues. */
UNSEEN static void switch_thread_locals(unsigned t)
{
    local[local_of].log = thread_log_self;
    local[local_of].past_end = past_end;
    thread_log_self = local[t].log;
    past_end = local[t].past_end;
    local_of = t;
}

UNSEEN static void reset_threads(void)
{
    static const unsigned slots[] = {20, 40, 20, 40};
    set_records(slots, sizeof slots / sizeof *slots);
    memset(local, 0, sizeof local);
    local_of = 0;
    thread_log_self = NULL;
    past_end = false;
    atomic_store(&first, NULL);
    atomic_store(&made, 0);
    atomic_store(&n_free, 0);
    atomic_store(&n_ended, 0);
    atomic_store(&slab_next, 0);
    memset((void *)process_losses, 0, sizeof process_losses);
    explore_ignore(&thread_log_self, sizeof thread_log_self);
    explore_ignore(&past_end, sizeof past_end);
    explore_ignore(&errno, sizeof errno);
    explore_quiet(&ready, ALL);
    explore_pass_over(&halved);  /* does not change here */
    explore_pass_over(&n_ended); /* far below its limit */
    explore_pass_over(&slab_next);
    if (!thread_log_start(SLOTS * RECORD_SLOT))
        explore_fail("thread_log_start() failed");
}

/* Stand-ins for the functions that the end of a thread calls. No span was ended elsewhere, and an
 * open span becomes the last record. */
void spans_take_ended(struct thread_log *log)
{
    (void)log;
}

void thread_log_note_loss(struct thread_log *log)
{
    (void)log;
}

void spans_abandon(struct thread_log *log)
{
    put(&log->ring, 2 * (explore_self() - 1) + 1);
    log->text_used = log->data_used = 0;
}

/* Thread t writes records 2(t - 1) and 2(t - 1) + 1. */
static void live(void)
{
    struct thread_log *log = thread_log_get();
    if (!log)
        explore_fail("no log");
    log->next_id++;
    log->text_used += 8;
    put(&log->ring, 2 * (explore_self() - 1));
    thread_ended(log);
}

/* Drains all logs as drain_rings() in writer.c does. */
static void drain_logs(void)
{
    thread_log_look();
    for (struct thread_log *log = thread_log_first(); log; log = log->next) {
        const struct record *r;
        while ((r = ring_peek(&log->ring, log->until)))
            take(&log->ring, r, thread_log_owner(log).tid);
        if (log->ended) {
            log->ended = false;
            thread_log_recycle(log);
        }
    }
}

static bool shared_log, own_logs; /* over all runs */

static void collect(void)
{
    drain_logs();
    drain_logs();
}

static void check_threads(void)
{
    drain_logs();
    drain_logs();
    account();
    *(atomic_load(&made) == 1 ? &shared_log : &own_logs) = true;
    if (atomic_load(&made) > 2 || atomic_load(&n_ended) != 0)
        explore_fail("%u logs for two threads, %u not emptied", atomic_load(&made),
                     atomic_load(&n_ended));
    for (struct thread_log *log = thread_log_first(); log; log = log->next)
        if (atomic_load(&log->state) != THREAD_FREE)
            explore_fail("a log was not given back");
}

/* ---- three threads that take places at the end of a slab ---- */

static void *taken[EXPLORE_THREADS];

UNSEEN static void reset_places(void)
{
    set_records(NULL, 0);
    ring_size = SLOTS * RECORD_SLOT;
    char *slab = pool_map(SLAB_LOGS * place_bytes());
    atomic_store(&slab_next, (uintptr_t)slab + (SLAB_LOGS - 1) * place_bytes() + 1);
}

static void take_one(void)
{
    void *place = take_place();
    *(uint64_t *)place = explore_self(); /* a race if another thread has the same place */
    taken[explore_self()] = place;
}

static bool one_slab_more, slabs_met; /* over all runs */

UNSEEN static void check_places(void)
{
    for (unsigned i = 0; i < 3; i++)
        if (*(uint64_t *)taken[i] != i || taken[i] == taken[(i + 1) % 3])
            explore_fail("another thread has the place of thread %u", i);
    *(pool_used == 2 * SLAB_LOGS * place_bytes() ? &one_slab_more : &slabs_met) = true;
}

static void tell(const char *name, struct explored done)
{
    printf("%s: %llu runs, %llu states\n", name, (unsigned long long)done.runs,
           (unsigned long long)done.states);
}

int main(void)
{
    static const struct scenario one_ring = {"ring", reset_ring, {consume, produce},
                                             2,      check_ring, NULL};
    static const struct scenario two_threads = {"threads", reset_threads, {collect, live, live},
                                                3,         check_threads, switch_thread_locals};
    static const struct scenario three_places = {
        "places", reset_places, {take_one, take_one, take_one}, 3, check_places, NULL};
    explore_tracks(pool, sizeof pool);
    struct explored ring_runs = explore(&one_ring);
    if (!some_lost || !none_lost)
        explore_fail("records were %s refused", some_lost ? "always" : "never");
    struct explored thread_runs = explore(&two_threads);
    if (!shared_log || !own_logs)
        explore_fail("the second thread %s the log of the first",
                     own_logs ? "never took" : "always took");
    struct explored place_runs = explore(&three_places);
    if (!one_slab_more || !slabs_met)
        explore_fail("two threads %s made a slab at once", slabs_met ? "always" : "never");
    tell("ring", ring_runs);
    tell("threads", thread_runs);
    tell("places", place_runs);
    return 0;
}
