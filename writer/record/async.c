/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges that may end on another thread than the one they began on. While a range is open, it is
 * in a table that all threads share. The table has a fixed number of places and a lock-free list
 * of free ones; it is mapped at first use. Application threads; the cprof thread copies open
 * ranges. */
#include "writer/record/async.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "writer/record/emit.h"
#include "writer/writer.h"

#define PLACES      4096u
#define TEXT_BYTES  2944u               /* bytes of a name */
#define DATA_BYTES  1080u               /* bytes of args */
#define ID_BIT      (UINT64_C(1) << 52) /* above all ids of spans */
#define CLOSING_BIT (UINT64_C(1) << 53) /* in `id`: a thread is writing the record */

struct place {
    /* ID_BIT | generation << 12 | place; 0: no range. The opener sets it (release), the closer
     * claims it (acquire) and clears it. The cprof thread reads it before and after the other
     * fields. */
    _Atomic uint64_t id;
    _Atomic uint64_t start;    /* ticks; opener writes, others read, relaxed, guarded by `id` */
    _Atomic uint32_t tid;      /* as start: the opener's thread */
    _Atomic uint32_t text_len; /* as start: bytes */
    _Atomic uint8_t category;  /* as start: enum category */
    _Atomic uint8_t flags;     /* as start: enum record_flags */
    uint16_t data_len;         /* opener writes, closer reads */
    _Atomic uint32_t next;     /* next free place + 1, 0: none; relaxed */
    uint64_t generation;       /* owned by the thread that took the place from the free list */
    uint64_t parent;           /* as data_len: the span around the range's beginning */
    uint64_t pad[1];
    uint8_t data[DATA_BYTES];
    _Atomic uint64_t text[TEXT_BYTES / 8]; /* as start */
};
_Static_assert(sizeof(struct place) <= 4096, "a place is a page");

static struct place *_Atomic table; /* set once, by the first thread (release) */
static _Atomic uint64_t free_head;  /* changes << 32 | 1 + place; any thread, by compare and swap */
static _Atomic uint32_t places_begun; /* places that were ever in use; any thread adds */

static struct place *map_table(void)
{
    int saved = errno;
    struct place *mapped = mmap(NULL, PLACES * sizeof *mapped, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct place *seen = NULL;
    if (mapped == MAP_FAILED)
        seen = atomic_load_explicit(&table, memory_order_acquire);
    else if (atomic_compare_exchange_strong(&table, &seen, mapped))
        seen = mapped;
    else
        munmap(mapped, PLACES * sizeof *mapped);
    errno = saved;
    return seen;
}

/* Takes a place; NULL: all are in use. The count of changes in free_head prevents the ABA
 * problem. */
static struct place *take_place(void)
{
    struct place *places = atomic_load_explicit(&table, memory_order_acquire);
    if (__builtin_expect(!places, 0) && !(places = map_table()))
        return NULL;
    uint64_t head = atomic_load_explicit(&free_head, memory_order_acquire);
    while ((uint32_t)head) {
        struct place *p = &places[(uint32_t)head - 1];
        uint64_t next =
            ((head >> 32) + 1) << 32 | atomic_load_explicit(&p->next, memory_order_relaxed);
        if (atomic_compare_exchange_weak_explicit(&free_head, &head, next, memory_order_acquire,
                                                  memory_order_acquire))
            return p;
    }
    uint32_t at = atomic_load_explicit(&places_begun, memory_order_relaxed);
    while (at < PLACES)
        if (atomic_compare_exchange_weak(&places_begun, &at, at + 1))
            return &places[at];
    return NULL;
}

static void give_back(struct place *p)
{
    uint32_t number = (uint32_t)(p - atomic_load_explicit(&table, memory_order_relaxed)) + 1;
    uint64_t head = atomic_load_explicit(&free_head, memory_order_relaxed), next;
    do {
        atomic_store_explicit(&p->next, (uint32_t)head, memory_order_relaxed);
        next = ((head >> 32) + 1) << 32 | number;
    } while (!atomic_compare_exchange_weak_explicit(&free_head, &head, next, memory_order_release,
                                                    memory_order_relaxed));
}

static void put_place_text(struct place *p, const char *text, uint32_t len)
{
    for (uint32_t done = 0; done < len; done += 8) {
        uint64_t word = 0;
        memcpy(&word, text + done, len - done < 8 ? len - done : 8);
        atomic_store_explicit(&p->text[done / 8], word, memory_order_relaxed);
    }
}

static void copy_place_text(const struct place *p, char *to, uint32_t len)
{
    for (uint32_t done = 0; done < len; done += 8) {
        uint64_t word = atomic_load_explicit(&p->text[done / 8], memory_order_relaxed);
        memcpy(to + done, &word, len - done < 8 ? len - done : 8);
    }
}

uint64_t async_open(struct thread_log *log, enum category category, uint8_t flags, const char *text,
                    uint32_t text_len, const void *data, uint32_t data_len)
{
    struct place *p = take_place();
    if (!p) {
        thread_log_lost(log, LOSS_ASYNC, 1);
        return 0;
    }
    if (text_len > TEXT_BYTES || data_len > DATA_BYTES)
        thread_log_lost(log, LOSS_TEXT, 1);
    if (text_len > TEXT_BYTES)
        text_len = TEXT_BYTES;
    /* A thread that is still copying the former range sees that its id is gone. */
    atomic_thread_fence(memory_order_release);
    p->data_len = data_len > DATA_BYTES ? 0 : (uint16_t)data_len;
    uint64_t number = (uint64_t)(p - atomic_load_explicit(&table, memory_order_relaxed));
    uint64_t id = ID_BIT | ++p->generation * PLACES | number;
    uint32_t tid = atomic_load_explicit(&log->tid, memory_order_relaxed);
    atomic_store_explicit(&p->tid, tid, memory_order_relaxed);
    atomic_store_explicit(&p->text_len, text_len, memory_order_relaxed);
    atomic_store_explicit(&p->category, (uint8_t)category, memory_order_relaxed);
    atomic_store_explicit(&p->flags, flags | REC_CROSSES, memory_order_relaxed);
    p->parent = span_top(log);
    put_place_text(p, text, text_len);
    if (p->data_len)
        memcpy(p->data, data, p->data_len);
    atomic_store_explicit(&p->start, clock_ticks(), memory_order_relaxed);
    atomic_store_explicit(&p->id, id, memory_order_release);
    return id;
}

bool async_close(struct thread_log *log, uint64_t id)
{
    uint64_t end = clock_ticks(), seen = id;
    struct place *places = atomic_load_explicit(&table, memory_order_acquire);
    struct place *p = places && (id & ID_BIT) ? &places[id & (PLACES - 1)] : NULL;
    if (!p || !atomic_compare_exchange_strong_explicit(&p->id, &seen, id | CLOSING_BIT,
                                                       memory_order_acquire, memory_order_relaxed))
        return false;
    uint32_t text_len = atomic_load_explicit(&p->text_len, memory_order_relaxed);
    struct record *r = log ? emit_begin(log, text_len, p->data_len) : NULL;
    if (r) {
        r->kind = REC_ASYNC;
        r->category = atomic_load_explicit(&p->category, memory_order_relaxed);
        r->data_kind = p->data_len ? DATA_ARGS : DATA_NONE;
        r->flags = atomic_load_explicit(&p->flags, memory_order_relaxed);
        r->start = atomic_load_explicit(&p->start, memory_order_relaxed);
        r->end = end > r->start ? end : r->start;
        r->id = id;
        r->parent = p->parent;
        r->async.tid = atomic_load_explicit(&p->tid, memory_order_relaxed);
        copy_place_text(p, (char *)(r + 1), text_len);
        memcpy((char *)(r + 1) + text_len, p->data, p->data_len);
        emit_end(log);
    }
    /* Last, because the cprof thread shows the range as open until here, and recognizes its record
     * by the id. */
    atomic_store_explicit(&p->id, 0, memory_order_release);
    give_back(p);
    return true;
}

uint32_t async_places(void)
{
    return atomic_load_explicit(&table, memory_order_acquire)
               ? atomic_load_explicit(&places_begun, memory_order_relaxed)
               : 0;
}

static __attribute__((no_sanitize("thread"))) uint32_t data_len_of(const struct place *p)
{
    return p->data_len;
}

bool async_copy_take(uint32_t at, struct open_copy *copy, uint32_t *tid)
{
    const struct place *p = &atomic_load_explicit(&table, memory_order_acquire)[at];
    uint64_t id = atomic_load_explicit(&p->id, memory_order_acquire);
    if (id == 0)
        return false;
    copy->id = id & ~CLOSING_BIT;
    copy->parent = copy->ended = 0;
    copy->start = atomic_load_explicit(&p->start, memory_order_relaxed);
    copy->sequence = -1;
    copy->forward_thread = 0;
    copy->extras = 0;
    copy->category = atomic_load_explicit(&p->category, memory_order_relaxed);
    copy->flags = atomic_load_explicit(&p->flags, memory_order_relaxed);
    open_copy_data(copy, DATA_ARGS, p->data, data_len_of(p));
    uint32_t len = atomic_load_explicit(&p->text_len, memory_order_relaxed);
    copy->name = len < OPEN_TEXT ? len : OPEN_TEXT;
    copy_place_text(p, copy->text, copy->name);
    *tid = atomic_load_explicit(&p->tid, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    return (atomic_load_explicit(&p->id, memory_order_relaxed) & ~CLOSING_BIT) == copy->id;
}
