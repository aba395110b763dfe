/* SPDX-License-Identifier: Apache-2.0 */
/* What driver memory was allocated in a window and is still, by device and kind. A release counts
 * only if its allocation was seen in the same window: CUPTI tells nothing of what is released
 * between windows, so that what an earlier one allocated may be gone. Bounded memory. cprof
 * thread. */
#ifndef WRITER_SUMS_GPU_MEMORY_H
#define WRITER_SUMS_GPU_MEMORY_H

#include "writer/record/record.h"

#define GPU_MEMORY_LIVE                                                                            \
    (1u << 17) /* most allocations remembered; those beyond are not in the totals: `refused` */
#define GPU_MEMORY_TOTALS 128u /* most pairs of device and kind */

struct gpu_memory_slot; /* one allocation */

struct gpu_memory_total {
    uint32_t device; /* as gpu_memory_device() */
    uint8_t kind;
    uint64_t bytes;
    uint64_t peak, peak_at; /* the most bytes, 0 = never any; ticks when that was reached */
};

/* Zeroed = empty. */
struct gpu_memory {
    struct gpu_memory_slot *slots; /* open addressing by address, owned */
    uint32_t capacity;             /* 0 or a power of two */
    uint32_t live;                 /* slots in use */
    uint32_t n_totals;
    uint64_t refused; /* allocations that are in no total */
    struct gpu_memory_total totals[GPU_MEMORY_TOTALS];
};

/* Takes a GPU_MEMORY record. Returns the bytes that its device and kind have allocated after it. A
 * second allocation at an address takes the place of the first (its release was lost); a release
 * that is older than the allocation there is left out (it came late and was another one's). */
uint64_t gpu_memory_note(struct gpu_memory *m, const struct gpu_record *r);

/* Gives the memory back and empties it. */
void gpu_memory_free(struct gpu_memory *m);

#endif
