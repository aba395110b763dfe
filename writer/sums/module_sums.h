/* SPDX-License-Identifier: Apache-2.0 */
/* The self times of the spans of a window by module, for the summary. cprof thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/base/base.h"

struct top;

struct module_sum {
    uint32_t id; /* modules.h */
    uint64_t count;
    int64_t self_cpu, self_device; /* ns */
};

struct module_sums {
    struct module_sum *at;
    size_t n, room;
    uint16_t *slots; /* index + 1, by id; 0: free */
    size_t n_slots;  /* a power of two */
    bool full;       /* some module found no room */
};

/* The number of a module in t->modules, from 1 on; 0: none, or no room. */
uint16_t module_sums_number(struct top *t, uint32_t id);

/* Adds a span to the module with this number, unless that is 0. */
void module_sums_add(struct top *t, uint16_t number, int64_t self_cpu, int64_t self_device);

/* Writes columns of the largest, by time on devices, time on the CPU, and name. There are at most
 * FILE_MODULES_MOST, and they take at most FILE_MODULES_BYTES_MOST. Sorts t->modules. `null`: there
 * are none. Returns the bytes that count against the file's limit. */
size_t module_sums_put(struct top *t, struct buf *out);
