/* SPDX-License-Identifier: Apache-2.0 */
/* Lock-free pool of the buffers that CUPTI fills. A free list is a stack of table places. Its head
 * carries a counter against ABA. The list of completed buffers is only pushed to, and taken as a
 * whole. */
#include "cupti/buffers.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "writer/writer.h"

#define PAGE         4096u
#define BIG_FREE     16u /* free buffers kept prepared */
#define SMALL_FREE   16u
#define REFILL_BYTES (32u << 20) /* most bytes made present in one pass */
#define UNREFUSED    8u          /* limit factor when nothing may be refused (CUPTI before 12.9) */
/* older than every tick: marks a buffer that was handed out but whose time is not read yet */
#define HANDED_NOW    1u
#define SIZES         2u
#define COUNTER_SHIFT 32

/* Buffers of one size. */
struct pool {
    uint8_t *base;
    uint64_t size;         /* of one buffer; whole pages */
    uint32_t first, count; /* rows of `table` */
    unsigned low;          /* least number of free buffers */
    /* Decaying maximum of requests per refill. Memory that a burst or a stalled cprof thread needed
     * is freed within a minute, also inside a long window. cprof thread. */
    unsigned recent;
    _Atomic uint32_t made; /* accessible rows; requests and cprof thread add */
    /* counter << 32 | place + 1: prepared buffers; all threads; acquire and release */
    _Atomic uint64_t free;
    /* counter << 32 | place + 1: accessible, zeroed, not present; all threads; acquire and
     * release */
    _Atomic uint64_t cold;
    _Atomic int32_t n_free; /* approximate length of `free`; all threads; relaxed */
    _Atomic uint32_t asked; /* requests since the last refill; relaxed */
};

static struct buffer *table;
static uint8_t *range;
static uint64_t range_bytes, table_bytes, limit_bytes;
static bool refusing;
static struct pool pools[SIZES]; /* big, small */
static _Atomic(struct buffer *) completed;
static _Atomic uint64_t unread_from =
    UINT64_MAX;                 /* ticks; session writes, completions read; relaxed */
static _Atomic bool want_small; /* session writes, requests read; relaxed */
static _Atomic bool forcing;    /* flushing thread writes, completions read; relaxed */
static _Atomic uint64_t present, unprepared, refused;

/* ---- free lists ---- */

static void push(_Atomic uint64_t *head, struct buffer *b)
{
    uint64_t place = (uint64_t)(b - table) + 1;
    uint64_t old = atomic_load_explicit(head, memory_order_relaxed), new;
    do {
        atomic_store_explicit(&b->link, (uint32_t)old, memory_order_relaxed);
        new = ((old >> COUNTER_SHIFT) + 1) << COUNTER_SHIFT | place;
    } while (!atomic_compare_exchange_weak_explicit(head, &old, new, memory_order_release,
                                                    memory_order_relaxed));
}

static struct buffer *pop(_Atomic uint64_t *head)
{
    uint64_t old = atomic_load_explicit(head, memory_order_acquire), new;
    struct buffer *b;
    do {
        uint32_t place = (uint32_t)old;
        if (!place)
            return NULL;
        b = &table[place - 1];
        new = ((old >> COUNTER_SHIFT) + 1) << COUNTER_SHIFT |
              atomic_load_explicit(&b->link, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(head, &old, new, memory_order_acquire,
                                                    memory_order_acquire));
    return b;
}

static void put_free(struct pool *p, struct buffer *b)
{
    push(&p->free, b);
    atomic_fetch_add_explicit(&p->n_free, 1, memory_order_relaxed);
}

static struct buffer *take_free(struct pool *p)
{
    struct buffer *b = pop(&p->free);
    if (b)
        atomic_fetch_sub_explicit(&p->n_free, 1, memory_order_relaxed);
    return b;
}

/* ---- memory ---- */

/* Counts `bytes` as present. Returns false if `limited` and that exceeds the limit. */
static bool within_limit(uint64_t bytes, bool limited)
{
    uint64_t before = atomic_fetch_add_explicit(&present, bytes, memory_order_relaxed);
    if (!limited || before + bytes <= limit_bytes)
        return true;
    atomic_fetch_sub_explicit(&present, bytes, memory_order_relaxed);
    return false;
}

/* Returns a zeroed buffer whose pages are not present. At most one system call. Any thread. */
static struct buffer *make_buffer(struct pool *p, bool limited)
{
    if (!within_limit(p->size, limited))
        return NULL;
    struct buffer *b = pop(&p->cold);
    if (b)
        return b;
    uint32_t made = atomic_load_explicit(&p->made, memory_order_relaxed);
    while (made < p->count && !atomic_compare_exchange_weak(&p->made, &made, made + 1))
        ;
    if (made < p->count) {
        b = &table[p->first + made];
        if (mprotect(b->data, b->size, PROT_READ | PROT_WRITE) == 0)
            return b;
    }
    atomic_fetch_sub_explicit(&present, p->size, memory_order_relaxed);
    return NULL;
}

static void touch(struct buffer *b)
{
    for (uint64_t at = 0; at < b->size; at += PAGE)
        *(volatile uint8_t *)(b->data + at) = 0;
}

static void prepare_buffers(struct pool *p, int32_t least, uint64_t most_bytes)
{
    for (uint64_t bytes = 0; bytes < most_bytes; bytes += p->size) {
        struct buffer *b;
        if (atomic_load_explicit(&p->n_free, memory_order_relaxed) >= least ||
            !(b = make_buffer(p, true)))
            return;
        touch(b);
        put_free(p, b);
    }
}

/* ---- life ---- */

static uint64_t pages(uint64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static void lay_out(struct pool *p, uint8_t *base, uint64_t size, uint32_t first, uint32_t count,
                    unsigned low)
{
    p->base = base;
    p->size = size;
    p->first = first;
    p->count = count;
    p->low = low;
    for (uint32_t i = 0; i < count; i++) {
        table[first + i].data = base + i * size;
        table[first + i].size = size;
    }
}

static void *reserve(uint64_t bytes, int protection)
{
    void *at = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

bool buffers_start(uint64_t bytes, uint64_t limit, bool may_refuse)
{
    uint64_t big = pages(bytes ? bytes : 1), small = BUFFER_SMALL < big ? BUFFER_SMALL : big;
    uint64_t reach = may_refuse ? limit : limit * UNREFUSED;
    limit_bytes = limit;
    refusing = may_refuse;
    for (;; reach /= 2) { /* smaller under RLIMIT_AS */
        uint64_t n_big = reach / big, n_small = reach / small;
        if (n_big < 2 || n_small < 2)
            return false;
        range_bytes = n_big * big + n_small * small;
        table_bytes = pages((n_big + n_small) * sizeof *table);
        range = reserve(range_bytes, PROT_NONE);
        table = range ? reserve(table_bytes, PROT_READ | PROT_WRITE) : NULL;
        if (!table) {
            if (range)
                munmap(range, range_bytes);
            continue;
        }
        madvise(range, range_bytes, MADV_DONTDUMP); /* keep the buffers out of core files */
        lay_out(&pools[0], range, big, 0, (uint32_t)n_big, BIG_FREE);
        lay_out(&pools[1], range + n_big * big, small, (uint32_t)n_big, (uint32_t)n_small,
                SMALL_FREE);
        break;
    }
    prepare_buffers(&pools[0], BIG_FREE, REFILL_BYTES); /* the cprof thread adds the rest */
    return true;
}

void buffers_stop(void)
{
    munmap(range, range_bytes);
    munmap(table, table_bytes);
    memset(pools, 0, sizeof pools);
    table = NULL;
    range = NULL;
    range_bytes = 0;
    atomic_store(&completed, NULL);
    atomic_store(&want_small, false);
    atomic_store(&unread_from, UINT64_MAX);
    atomic_store(&forcing, false);
    atomic_store(&present, 0);
    atomic_store(&unprepared, 0);
    atomic_store(&refused, 0);
}

void buffers_small(bool small)
{
    atomic_store_explicit(&want_small, small, memory_order_relaxed);
}

void buffers_forced(bool begins)
{
    atomic_store_explicit(&forcing, begins, memory_order_relaxed);
}

void buffers_unread_from(uint64_t ticks)
{
    atomic_store_explicit(&unread_from, ticks, memory_order_relaxed);
}

/* ---- CUPTI's side ---- */

/* Marks the buffer as out before reading the time. Otherwise buffers_returned(ticks) could miss a
 * buffer that was handed out before `ticks`. */
static void hand_out(struct buffer *b)
{
    atomic_store(&b->handed, HANDED_NOW);
    atomic_store(&b->state, BUFFER_OUT);
    atomic_store(&b->handed, clock_ticks());
}

void buffers_request(uint8_t **data, size_t *size, size_t *max_records)
{
    bool small = atomic_load_explicit(&want_small, memory_order_relaxed);
    struct pool *p = &pools[small], *other = &pools[!small];
    atomic_fetch_add_explicit(&p->asked, 1, memory_order_relaxed);
    struct buffer *b = take_free(p);
    if (!b && !small)
        b = take_free(other);
    if (!b) {
        atomic_fetch_add_explicit(&unprepared, 1, memory_order_relaxed);
        b = make_buffer(p, refusing);
    }
    if (!b && small)
        b = take_free(other);
    *max_records = 0; /* no limit but the size */
    *data = b ? b->data : NULL;
    *size = b ? b->size : 0;
    if (b)
        hand_out(b);
    else
        atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
}

static struct buffer *buffer_at(const uint8_t *data)
{
    for (unsigned i = 0; i < SIZES; i++) {
        const struct pool *p = &pools[i];
        uint64_t offset = (uint64_t)(data - p->base);
        if (data >= p->base && offset < p->count * p->size)
            return offset % p->size ? NULL : &table[p->first + offset / p->size];
    }
    return NULL;
}

void buffers_complete(void *context, uint32_t stream, uint8_t *data, size_t size, size_t valid)
{
    (void)context;
    (void)stream;
    (void)size;
    struct buffer *b = buffer_at(data);
    int out = BUFFER_OUT;
    if (!b || !atomic_compare_exchange_strong(&b->state, &out, BUFFER_DONE))
        return;
    if (atomic_load(&b->handed) >= atomic_load_explicit(&unread_from, memory_order_relaxed)) {
        buffers_recycle(b);
        return;
    }
    b->valid = valid < b->size ? valid : b->size;
    b->forced = atomic_load_explicit(&forcing, memory_order_relaxed);
    b->next = atomic_load_explicit(&completed, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&completed, &b->next, b, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

/* ---- the cprof thread's side ---- */

struct buffer *buffers_take(void)
{
    struct buffer *newest = atomic_exchange_explicit(&completed, NULL, memory_order_acquire);
    struct buffer *oldest = NULL;
    while (newest) {
        struct buffer *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

/* Zeroes the whole buffer: CUPTI may write beyond what it reports as valid, and does not zero
 * buffers itself (CUPTI_ZEROED_BUFFERS). */
void buffers_recycle(struct buffer *b)
{
    struct pool *p = &pools[b >= &table[pools[1].first]];
    memset(b->data, 0, b->size);
    atomic_store(&b->state, BUFFER_IN);
    atomic_store(&b->handed, 0);
    put_free(p, b);
}

static void trim(struct pool *p, unsigned keep, uint64_t most_bytes)
{
    for (uint64_t bytes = 0; bytes < most_bytes; bytes += p->size) {
        if (atomic_load_explicit(&p->n_free, memory_order_relaxed) <= (int32_t)keep)
            return;
        struct buffer *b = take_free(p);
        if (!b)
            return;
        madvise(b->data, b->size, MADV_DONTNEED); /* reads as zeros afterwards */
        atomic_fetch_sub_explicit(&present, b->size, memory_order_relaxed);
        push(&p->cold, b);
    }
}

void buffers_refill(void)
{
    for (unsigned i = 0; i < SIZES; i++) {
        struct pool *p = &pools[i];
        uint32_t asked = atomic_exchange_explicit(&p->asked, 0, memory_order_relaxed);
        uint32_t faded = p->recent - (p->recent + 63) / 64;
        p->recent = asked > faded ? asked : faded;
        prepare_buffers(p, (int32_t)(asked * 2 > p->low ? asked * 2 : p->low), REFILL_BYTES);
        trim(p, (p->low > p->recent * 2 ? p->low : p->recent * 2) * 2, REFILL_BYTES);
    }
}

void buffers_trim(void)
{
    for (unsigned i = 0; i < SIZES; i++)
        trim(&pools[i], pools[i].low * 2, UINT64_MAX);
}

static uint32_t rows_made(const struct pool *p)
{
    uint32_t made = atomic_load(&p->made);
    return made < p->count ? made : p->count;
}

/* Whether a buffer that was handed out before `ticks` is still with CUPTI or, unless only_out,
 * still unread. */
static bool any_pending(uint64_t ticks, bool only_out)
{
    for (unsigned i = 0; i < SIZES; i++)
        for (uint32_t n = rows_made(&pools[i]), at = 0; at < n; at++) {
            struct buffer *b = &table[pools[i].first + at];
            uint64_t handed = atomic_load(&b->handed);
            if (handed && handed < ticks && !(only_out && atomic_load(&b->state) != BUFFER_OUT))
                return true;
        }
    return false;
}

bool buffers_returned(uint64_t ticks)
{
    return !any_pending(ticks, false);
}

bool buffers_out(uint64_t ticks)
{
    return any_pending(ticks, true);
}

void buffers_await(uint64_t ticks, long ms)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (long i = 0; i < ms && buffers_out(ticks); i++)
        nanosleep(&pause, NULL);
}

void buffers_forget(void)
{
    for (unsigned i = 0; i < SIZES; i++)
        for (uint32_t n = rows_made(&pools[i]), at = 0; at < n; at++) {
            struct buffer *b = &table[pools[i].first + at];
            if (atomic_load(&b->state) == BUFFER_OUT)
                atomic_store(&b->handed, 0);
        }
}

struct buffers_counts buffers_counts(void)
{
    struct buffers_counts c = {
        .present = atomic_load(&present),
        .unprepared = atomic_load(&unprepared),
        .refused = atomic_load(&refused),
    };
    for (unsigned i = 0; i < SIZES; i++)
        for (uint32_t n = rows_made(&pools[i]), at = 0; at < n; at++)
            c.out += atomic_load(&table[pools[i].first + at].state) == BUFFER_OUT;
    return c;
}
