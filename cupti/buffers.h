/* SPDX-License-Identifier: Apache-2.0 */
/* The buffers that CUPTI writes records into, in two sizes. One range of addresses is reserved; its
 * memory is made present as needed. Requests and completions are lock-free. The cprof thread
 * prepares, reads and zeroes buffers.
 *
 *     buffers_refill (cprof thread) -> free list
 *     free list -> buffers_request (application thread) -> CUPTI -> buffers_complete (any thread)
 *     -> buffers_take (cprof thread) -> buffers_recycle (cprof thread) -> free list */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUFFER_SMALL (64u << 10) /* used while CUPTI should return records soon (T13) */

enum buffer_state { BUFFER_IN, BUFFER_OUT, BUFFER_DONE };

/* Description of one buffer. CUPTI owns the buffer's bytes while it is out. */
struct buffer {
    uint8_t *data;       /* constant */
    uint64_t size;       /* constant; bytes */
    uint64_t valid;      /* bytes of records; completing thread writes before publishing */
    bool forced;         /* from a forced flush: records may be unfinished; as `valid` */
    struct buffer *next; /* in the list of completed buffers; written as `valid` */
    /* in a free list: place of the next buffer + 1; written by the owner; relaxed */
    _Atomic uint32_t link;
    /* enum buffer_state; requests, completions and cprof thread change it; seq_cst */
    _Atomic int state;
    /* ticks when CUPTI got the buffer; 0: not handed out. Requests write, cprof thread reads and
     * clears; seq_cst */
    _Atomic uint64_t handed;
};

struct buffers_counts {
    uint64_t present;    /* bytes of memory present, free buffers included */
    uint64_t out;        /* buffers that CUPTI holds */
    uint64_t unprepared; /* requests that found no prepared buffer and prepared one themselves */
    uint64_t refused;    /* requests that got no buffer */
};

/* Reserves addresses for buffers of `bytes` and for small ones; makes the first few present. limit:
 * most bytes present at once. may_refuse false: requests may exceed the limit, because CUPTI before
 * 12.9 can crash on a refusal. Returns false if no addresses are free. Call once, before CUPTI gets
 * buffers_request() and buffers_complete(). */
bool buffers_start(uint64_t bytes, uint64_t limit, bool may_refuse);

/* Selects the size that later requests get. Any thread. */
void buffers_small(bool small);

/* Tells that a forced flush begins or has returned. Flushing thread. */
void buffers_forced(bool begins);

/* Declares records in buffers handed out from `ticks` on unwanted: a completion recycles such a
 * buffer at once. UINT64_MAX: all are wanted. Any thread. */
void buffers_unread_from(uint64_t ticks);

/* CUPTI requests a buffer. Application thread inside a CUDA call. No lock, no allocation; one
 * system call when no free buffer is prepared. */
void buffers_request(uint8_t **data, size_t *size, size_t *max_records);

/* CUPTI returns a buffer. Any thread, lock-free. Zeroes an unwanted buffer. Ignores a buffer that
 * is not cprof's. */
void buffers_complete(void *context, uint32_t stream, uint8_t *data, size_t size, size_t valid);

/* Takes all completed buffers, oldest first, linked by `next`; NULL: none. cprof thread. */
struct buffer *buffers_take(void);

/* Zeroes a taken buffer and frees it. Called by its taker. */
void buffers_recycle(struct buffer *b);

/* Prepares as many free buffers as the requests since the last call suggest. Cheap when there are
 * enough. cprof thread. */
void buffers_refill(void);

/* Returns the memory of all but a few free buffers to the system. cprof thread. */
void buffers_trim(void);

/* True when every buffer handed out before `ticks` has been completed and recycled. cprof
 * thread. */
bool buffers_returned(uint64_t ticks);

/* True while CUPTI holds a buffer that was handed out before `ticks`. Any thread. */
bool buffers_out(uint64_t ticks);

/* Waits at most `ms` until buffers_out(ticks) is false. CUPTI's thread may complete a flush's
 * buffers shortly after the flush returned. Without the wait they could go to another client's
 * callbacks, or nothing would collect them. */
void buffers_await(uint64_t ticks, long ms);

/* Counts buffers that are out as returned: another client took CUPTI over. Such a buffer is reused
 * only if CUPTI completes it after all. Any thread. */
void buffers_forget(void);

/* Counts so far, not an atomic snapshot. Any thread. */
struct buffers_counts buffers_counts(void);

/* For tests: frees everything. */
void buffers_stop(void);
