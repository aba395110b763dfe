/* SPDX-License-Identifier: Apache-2.0 */
/* The buffers that CUPTI writes its records into: one reserved range of addresses, of which as much
 * is made present as is needed, in two sizes. Requests and completions are lock-free; the cprof
 * thread refills, empties and zeroes.
 *
 *     buffers_refill (cprof) -> free -> buffers_request (application) -> CUPTI -> buffers_complete
 *     (any) -> buffers_take (cprof)
 *                                 ^------------------- buffers_recycle (cprof)
 * ------------------------------------------' */
#ifndef CUPTI_BUFFERS_H
#define CUPTI_BUFFERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUFFER_SMALL (64u << 10) /* while CUPTI should give records back soon (T13) */

enum buffer_state { BUFFER_IN, BUFFER_OUT, BUFFER_DONE };

/* What is known of one buffer, apart from its bytes, which CUPTI owns while it is out. */
struct buffer {
    uint8_t *data;       /* constant */
    uint64_t size;       /* constant; bytes */
    uint64_t valid;      /* bytes of records; the completing thread writes before it publishes */
    bool forced;         /* it came during a forced flush: records may be unfinished; as valid */
    struct buffer *next; /* in the list of completed ones; as valid */
    /* in a free list: place of the next + 1; whoever owns it writes; relaxed */
    _Atomic uint32_t link;
    /* enum buffer_state; request, completion and cprof thread move it on; seq_cst */
    _Atomic int state;
    /* ticks when CUPTI got it, 0 = CUPTI has it not; request writes, cprof thread reads and clears;
     * seq_cst */
    _Atomic uint64_t handed;
};

struct buffers_counts {
    uint64_t present;    /* bytes that are made present, free ones included */
    uint64_t out;        /* buffers that CUPTI has */
    uint64_t unprepared; /* requests that found no prepared buffer and made one on the spot */
    uint64_t refused;    /* requests that got none */
};

/* Reserves addresses for buffers of `bytes` and small ones, and makes the first few present. limit:
 * bytes that may be present at once; where a request may not be refused (may_refuse false: CUPTI
 * before 12.9 can crash on it) requests go beyond. false: no addresses to be had. Once, before
 * CUPTI gets the two functions below. */
bool buffers_start(uint64_t bytes, uint64_t limit, bool may_refuse);

/* From now on requests get small buffers, or big ones again. Any thread. */
void buffers_small(bool small);

/* A forced flush begins, or has returned. The flushing thread. */
void buffers_forced(bool begins);

/* What CUPTI gets from `ticks` on holds nothing that anybody wants: it is made free as soon as it
 * comes back, whether or not the cprof thread is awake. UINT64_MAX: all is wanted. Any thread. */
void buffers_unread_from(uint64_t ticks);

/* CUPTI's request. Application thread, inside a CUDA call: no lock, no allocation, no system call
 * but when the pool is empty. */
void buffers_request(uint8_t **data, size_t *size, size_t *max_records);

/* CUPTI gives a buffer back. Any thread; wait-free but for other completions, but zeroes one that
 * is not to be read. A buffer that is not ours is ignored. */
void buffers_complete(void *context, uint32_t stream, uint8_t *data, size_t size, size_t valid);

/* All completed buffers, oldest first, by `next`; NULL when there are none. cprof thread. */
struct buffer *buffers_take(void);

/* Zeroes a buffer that was taken and makes it free. Whoever took it. */
void buffers_recycle(struct buffer *b);

/* Makes as many buffers present and free as requests since the last call let expect. Cheap when
 * there are enough. cprof thread. */
void buffers_refill(void);

/* Gives the memory of free buffers beyond a few back to the system. cprof thread. */
void buffers_trim(void);

/* True when no buffer that was handed out before `ticks` is out or waits to be recycled. cprof
 * thread. */
bool buffers_returned(uint64_t ticks);

/* True while CUPTI has one that was handed out before `ticks`. Any thread. */
bool buffers_out(uint64_t ticks);

/* Waits until that is not so, for `ms` at most: CUPTI's own thread may bring what a flush is for a
 * moment after the flush has returned. Then another client's buffers may be registered already, or
 * nobody looks any more. */
void buffers_await(uint64_t ticks, long ms);

/* What is out will not come back: another client took CUPTI over. It counts as returned; it is used
 * again only if it does come. Any thread. */
void buffers_forget(void);

/* Figures so far. Any thread; not one moment's. */
struct buffers_counts buffers_counts(void);

/* For tests: gives all back. */
void buffers_stop(void);

#endif
