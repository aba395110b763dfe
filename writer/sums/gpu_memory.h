/* SPDX-License-Identifier: Apache-2.0 */
/* Driver memory that a window allocated and has not freed, by device and kind. A release counts
 * only if its allocation was in the same window, because CUPTI does not report releases between
 * windows. Bounded memory. cprof thread. */
#pragma once

#include "writer/record/record.h"

#define GPU_MEMORY_LIVE                                                                            \
    (1u << 17) /* most allocations remembered; others are in no total, but in `refused` */
#define GPU_MEMORY_TOTALS 128u /* most pairs of device and kind */

struct gpu_memory_slot; /* one allocation */

struct gpu_memory_total {
    uint32_t device; /* gpu_memory_device() */
    uint8_t kind;
    uint64_t bytes;
    uint64_t peak, peak_at; /* most bytes, 0: none; ticks of the peak */
};

/* Zeroed: empty. */
struct gpu_memory {
    struct gpu_memory_slot *slots; /* open addressing by address, owned */
    uint32_t capacity;             /* of `slots`: 0 or a power of two */
    uint32_t live;                 /* slots in use */
    uint32_t n_totals;
    uint64_t refused; /* allocations in no total */
    struct gpu_memory_total totals[GPU_MEMORY_TOTALS];
};

/* Takes a GPU_MEMORY record. Returns the bytes of its device and kind after it. A second allocation
 * at an address replaces the first, whose release was lost. A release older than the allocation is
 * ignored: it came late, for an earlier one. */
uint64_t gpu_memory_note(struct gpu_memory *m, const struct gpu_record *r);

/* Frees the slots and empties m. */
void gpu_memory_free(struct gpu_memory *m);
