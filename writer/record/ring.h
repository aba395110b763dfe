/* SPDX-License-Identifier: Apache-2.0 */
/* Single-producer, single-consumer ring of 64-byte slots. The producer is an application thread:
 * reserve, fill, commit; no lock, no allocation, no system call. The consumer is the cprof thread.
 * A record never wraps: a PAD record fills the ring's end. Positions count slots and only grow
 * while one thread produces. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "writer/record/record_types.h"

struct ring {
    /* producer's cache line */
    /* first slot that is not committed; producer writes (release), consumer reads (acquire) */
    _Atomic uint64_t head;
    uint64_t reserved;     /* producer only: position of the record being filled */
    uint64_t tail_seen;    /* producer only: the consumer's tail as last read */
    uint64_t slots;        /* capacity, a power of two; constant */
    struct record *base;   /* slots x 64 bytes; constant */
    uint64_t filling;      /* producer only: slots of the record being filled */
    _Atomic uint64_t room; /* the most slots in use; any thread writes (relaxed) */
    char pad[8];
    /* consumer's cache line */
    /* first slot that is not taken; consumer writes (release), producer reads (acquire) */
    _Atomic uint64_t tail;
    char pad2[56];
};
_Static_assert(offsetof(struct ring, tail) == 64,
               "producer and consumer must not share a cache line");

/* Makes an empty ring in `bytes` of memory, a power of two of slots. Before any producer. */
static inline void ring_make(struct ring *r, void *at, uint64_t bytes)
{
    *r = (struct ring){.slots = bytes / RECORD_SLOT, .room = bytes / RECORD_SLOT, .base = at};
}

/* Restarts an empty ring at its first slot, whose page is present. Consumer, while there is no
 * producer. */
static inline void ring_restart(struct ring *r)
{
    r->reserved = r->tail_seen = 0;
    atomic_store_explicit(&r->head, 0, memory_order_relaxed);
    atomic_store_explicit(&r->tail, 0, memory_order_relaxed);
}

/* Reserves a record of `slots`; NULL: no room now. Without a commit, the next call returns the same
 * place. Producer. */
static inline struct record *ring_reserve(struct ring *r, uint64_t slots)
{
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    uint64_t at = head & (r->slots - 1);
    uint64_t to_end = r->slots - at;
    uint64_t need = slots <= to_end ? slots : to_end + slots;
    uint64_t room = atomic_load_explicit(&r->room, memory_order_relaxed);
    if (__builtin_expect(head + need - r->tail_seen > room, 0)) {
        r->tail_seen = atomic_load_explicit(&r->tail, memory_order_acquire);
        if (head + need - r->tail_seen > room)
            return NULL;
    }
    if (__builtin_expect(slots > to_end, 0)) {
        r->base[at].kind = REC_PAD;
        r->base[at].slots_and_extras = (uint32_t)to_end;
        head += to_end;
        at = 0;
    }
    r->reserved = head;
    r->filling = slots;
    return &r->base[at];
}

/* True when a record of `slots` surely fits before the ring's end, without reading the consumer's
 * tail. False: ring_reserve() must decide. Producer. */
static inline bool ring_has(const struct ring *r, uint64_t slots)
{
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    return (head & (r->slots - 1)) + slots <= r->slots &&
           head + slots - r->tail_seen <= atomic_load_explicit(&r->room, memory_order_relaxed);
}

/* Commits the record of the last ring_reserve() to the consumer. Does not read the record, whose
 * lines may not be in the cache yet. Producer. */
static inline void ring_commit(struct ring *r)
{
    atomic_store_explicit(&r->head, r->reserved + r->filling, memory_order_release);
}

/* The position up to which records are committed. Consumer. */
static inline uint64_t ring_head(struct ring *r)
{
    return atomic_load_explicit(&r->head, memory_order_acquire);
}

/* The oldest record before position `until`, skipping pads; NULL: none. Valid until ring_take().
 * Consumer. */
static inline const struct record *ring_peek(struct ring *r, uint64_t until)
{
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    while (tail < until) {
        const struct record *rec = &r->base[tail & (r->slots - 1)];
        if (rec->kind != REC_PAD)
            return rec;
        tail += rec->slots;
        atomic_store_explicit(&r->tail, tail, memory_order_release);
    }
    return NULL;
}

/* Returns the slots of the record from ring_peek() to the producer. Consumer. */
static inline void ring_take(struct ring *r, const struct record *rec)
{
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    atomic_store_explicit(&r->tail, tail + rec->slots, memory_order_release);
}
