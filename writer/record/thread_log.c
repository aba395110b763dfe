/* SPDX-License-Identifier: Apache-2.0 */
/* Creates, ends and reuses thread logs. They are in a lock-free list: logs are added at its head
 * and never freed, so the cprof thread can walk it while threads come and go. Logs are cut from
 * slabs, one mapping each. A process may have 65,530 mappings (vm.max_map_count); at the limit the
 * program would get no memory, library or thread. */
#include "writer/writer.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "writer/record/edges.h"
#include "writer/base/base.h"

#define POPULATE_SLOTS     ((1u << 20) / RECORD_SLOT) /* most slots populated ahead of an owner */
#define PAGE               (64u << 10)                /* a multiple of all page sizes */
#define PAGE_SLOTS         (PAGE / RECORD_SLOT)
#define WHOLE_PAGES(bytes) (((bytes) + PAGE - 1) & ~(uint64_t)(PAGE - 1))
#define LOG_BYTES          WHOLE_PAGES(sizeof(struct thread_log)) /* its ring follows it */
#define SLAB_LOGS          32u
#define SLAB_LEFT          ((uintptr_t)0xfff) /* bits below all page sizes */
#define ENDED_MAX          4096u /* most logs of ended threads that wait for the cprof thread */
#define SMALLEST_RING      4096u
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

__thread struct thread_log *thread_log_self;
/* the thread-end hook ran: events in later destructors are lost */
static __thread bool past_end;

_Atomic uint64_t process_losses[LOSS_COUNT];

static struct thread_log *_Atomic first;
static _Atomic uint32_t made;
/* number of free logs; if 0, a new thread need not search a list of thousands */
static _Atomic uint32_t n_free;
/* number of ended threads' logs, not yet emptied: grows while the cprof thread is held up */
static _Atomic uint32_t n_ended;
/* Address of the next log, a page; its low bits count the logs left in the slab. Slabs in use are
 * never unmapped, so no value occurs twice. */
static _Atomic uintptr_t slab_next;
static _Atomic bool ready;
static uint64_t ring_size;
static pthread_key_t end_key;
static bool has_key; /* written in the constructor or at wake-up */

const uint32_t thread_log_not_asked;

/* The thread-end hook. The cprof thread empties the ring later, and is woken before too many wait.
 * n_ended is incremented before the state is published; the cprof thread decrements it. */
static void thread_ended(void *arg)
{
    struct thread_log *log = arg;
    spans_take_ended(log);
    spans_abandon(log);
    thread_log_self = NULL;
    past_end = true;
    uint32_t before = atomic_fetch_add_explicit(&n_ended, 1, memory_order_relaxed);
    atomic_store_explicit(&log->state, THREAD_ENDED, memory_order_release);
    if (before == ENDED_MAX / 2)
        wake_thread();
}

void thread_log_take_key(void)
{
    has_key = has_key || pthread_key_create(&end_key, thread_ended) == 0;
}

bool thread_log_start(uint64_t ring_bytes)
{
    ring_size = SMALLEST_RING;
    while (ring_size < ring_bytes)
        ring_size *= 2;
    thread_log_take_key();
    if (!has_key)
        return false;
    atomic_store(&ready, true);
    return true;
}

/* n_free is incremented before the state is published; the thread that takes the log decrements it.
 * Relaxed, because the state publishes the log. */
static void give_back(struct thread_log *log)
{
    atomic_fetch_add_explicit(&n_free, 1, memory_order_relaxed);
    atomic_store_explicit(&log->state, THREAD_FREE, memory_order_release);
}

/* ---- memory ---- */

/* Maps memory without huge pages, of which each would cost a thread of few events 2 MB. */
static void *map_memory(uint64_t bytes, int protection)
{
    void *at = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    madvise(at, bytes, MADV_NOHUGEPAGE);
    return at;
}

static uint64_t place_bytes(void)
{
    return LOG_BYTES + WHOLE_PAGES(ring_size);
}

/* Maps a slab and makes it the current one. Its places stay inaccessible until they are taken, so
 * that they do not count under vm.overcommit_memory=2 and are not populated under mlockall(). */
static bool add_slab(uintptr_t used_up)
{
    uintptr_t n = SLAB_LOGS;
    char *slab = map_memory(n * place_bytes(), PROT_NONE);
    if (!slab) {
        n = 1;
        slab = map_memory(place_bytes(), PROT_NONE);
    }
    if (!slab)
        return false;
    if (!atomic_compare_exchange_strong(&slab_next, &used_up, (uintptr_t)slab + n))
        munmap(slab, n * place_bytes()); /* another thread was first */
    return true;
}

/* slab_next with at least one place left; 0: no memory. */
static uintptr_t next_place(void)
{
    uintptr_t next;
    while (!((next = atomic_load(&slab_next)) & SLAB_LEFT))
        if (!add_slab(next))
            return 0;
    return next;
}

/* Takes a place. It is made accessible before, so that a failure leaves it for the next thread. Two
 * threads may do that to the same place. */
static struct thread_log *take_place(void)
{
    uintptr_t next;
    void *log;
    do {
        next = next_place();
        log = (void *)(next & ~SLAB_LEFT);
        if (!log || mprotect(log, place_bytes(), PROT_READ | PROT_WRITE) != 0)
            return NULL;
    } while (!atomic_compare_exchange_strong(&slab_next, &next, next + place_bytes() - 1));
    return log;
}

/* Maps a single log, for a limited address space (ulimit -v). */
static struct thread_log *map_alone(uint64_t *ring)
{
    if (!space_take(ring, LOG_BYTES))
        return NULL;
    struct thread_log *log = map_memory(LOG_BYTES + *ring, PROT_READ | PROT_WRITE);
    if (!log)
        space_give_back(LOG_BYTES + *ring);
    return log;
}

static struct thread_log *map_log(void)
{
    uint64_t bytes = ring_size;
    struct thread_log *log = space_limited() ? map_alone(&bytes) : take_place();
    if (log)
        ring_make(&log->ring, (char *)log + LOG_BYTES, bytes);
    return log;
}

/* ---- a log for the calling thread ---- */

static struct thread_log *reuse_log(void)
{
    if (atomic_load_explicit(&n_free, memory_order_relaxed) == 0)
        return NULL;
    for (struct thread_log *log = thread_log_first(); log; log = log->next) {
        int expected = THREAD_FREE;
        if (atomic_load_explicit(&log->state, memory_order_relaxed) == THREAD_FREE &&
            atomic_compare_exchange_strong(&log->state, &expected, THREAD_LIVE)) {
            atomic_fetch_add_explicit(&n_free, UINT32_MAX, memory_order_relaxed); /* one less */
            return log;
        }
    }
    return NULL;
}

static _Atomic bool halved; /* stepping thread sets, any thread reads */

static void set_room(struct thread_log *log)
{
    uint64_t slots = log->ring.slots;
    atomic_store_explicit(&log->ring.room, atomic_load(&halved) ? slots / 2 : slots,
                          memory_order_relaxed);
}

void thread_log_halve(bool halve)
{
    if (atomic_exchange(&halved, halve) == halve)
        return;
    for (struct thread_log *log = thread_log_first(); log; log = log->next)
        set_room(log);
}

static struct thread_log *make_log(void)
{
    if (atomic_load(&made) >= THREADS_MAX - 1 ||
        atomic_load_explicit(&n_ended, memory_order_relaxed) >= ENDED_MAX)
        return NULL;
    struct thread_log *log = map_log();
    if (!log)
        return NULL;
    uint32_t number = atomic_fetch_add(&made, 1) + 1;
    if (number >= THREADS_MAX) /* other threads were first; the place stays unused */
        return NULL;
    log->number = number;
    log->uncaught = &thread_log_not_asked;
    log->next_id = (uint64_t)number << SPAN_ID_THREAD_SHIFT;
    atomic_store(&log->state, THREAD_LIVE);
    atomic_store(&log->tid, (uint32_t)syscall(SYS_gettid));
    log->next = atomic_load(&first);
    while (!atomic_compare_exchange_weak(&first, &log->next, log))
        ;
    set_room(log); /* after it is in the list, where the stepping thread finds it */
    return log;
}

static struct thread_log *attach_log(void)
{
    struct thread_log *log = reuse_log();
    if (log)
        atomic_store(&log->tid, (uint32_t)syscall(SYS_gettid));
    else
        log = make_log();
    /* before pthread_setspecific(), which may allocate: hooks of that find this log */
    thread_log_self = log;
    if (log && pthread_setspecific(end_key, log) != 0) {
        thread_log_self = NULL;
        give_back(log);
        log = NULL;
    }
    return log;
}

struct thread_log *thread_log_attach(void)
{
    if (!atomic_load_explicit(&ready, memory_order_acquire))
        return NULL;
    int saved = errno;
    struct thread_log *log = past_end ? NULL : attach_log();
    if (!log)
        thread_log_lost(NULL, LOSS_NO_THREAD, 1);
    errno = saved;
    return log;
}

struct thread_log *thread_log_first(void)
{
    return atomic_load_explicit(&first, memory_order_acquire);
}

void thread_log_recycle(struct thread_log *log)
{
    atomic_store_explicit(&log->depth, 0, memory_order_relaxed);
    log->text_used = log->data_used = 0;
    log->uncaught = &thread_log_not_asked;
    atomic_store_explicit(&log->torch_thread, 0, memory_order_relaxed);
    log->named = 0;
    ring_restart(&log->ring); /* else many short threads would touch all of its pages */
    log->until = 0;
    give_back(log);
    atomic_fetch_add_explicit(&n_ended, UINT32_MAX, memory_order_relaxed); /* one less */
}

void thread_log_populate(struct thread_log *log, uint64_t head)
{
    /* little for a thread with few events */
    uint64_t ahead = head < POPULATE_SLOTS ? head : POPULATE_SLOTS;
    uint64_t until = (head + ahead) & ~(uint64_t)(PAGE_SLOTS - 1);
    until = until < log->ring.slots ? until : log->ring.slots;
    if (log->populated >= until)
        return;
    madvise(log->ring.base + log->populated, (until - log->populated) * RECORD_SLOT,
            MADV_POPULATE_WRITE);
    log->populated = until;
}

void thread_log_abandon(void)
{
    atomic_store(&ready, false);
    thread_log_self = NULL;
    past_end = true;
}

void thread_log_lost(struct thread_log *log, enum loss cause, uint64_t n)
{
    _Atomic uint64_t *counter = log ? &log->losses[cause] : &process_losses[cause];
    if (log)
        thread_log_note_loss(log);
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

void thread_log_look(void)
{
    for (struct thread_log *log = thread_log_first(); log; log = log->next) {
        log->ended = atomic_load_explicit(&log->state, memory_order_acquire) == THREAD_ENDED;
        log->until = ring_head(&log->ring);
        thread_log_populate(log, log->until);
    }
}

bool thread_log_fills(void)
{
    for (struct thread_log *log = thread_log_first(); log; log = log->next)
        if (ring_head(&log->ring) - atomic_load_explicit(&log->ring.tail, memory_order_relaxed) >
            log->ring.slots / 4)
            return true;
    return false;
}

uint64_t thread_log_refused_late(void)
{
    uint64_t n = 0;
    for (struct thread_log *log = thread_log_first(); log; log = log->next)
        n += atomic_load_explicit(&log->refused_late, memory_order_relaxed);
    return n;
}
