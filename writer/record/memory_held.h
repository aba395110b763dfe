/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor memory as the writer counts it: allocations, releases, and what holds memory. Plain data;
 * cprof thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "writer/record/record_types.h"

#define OWNERS_TOP 10u /* holders that a trace lists */

/* An allocation, a release, or an allocation that failed, without pointers into a ring. */
struct memory_event {
    uint64_t start; /* ticks */
    uint64_t order; /* sequence number of its arrival */
    uint64_t address;
    int64_t bytes; /* as in struct record */
    struct record_memory state;
    const char *name; /* the operator's or call's name, kept for ever (kept_names.h); or NULL */
    uint32_t name_len;
    uint32_t module; /* id; 0: none */
    uint64_t parent; /* id of the span */
    uint64_t stack;  /* id; 0: none */
    uint32_t tid;
    bool failed;
};

/* The memory that one operator in one module, called from one stack, holds. */
struct memory_holder {
    const char *name; /* as in struct memory_event */
    uint32_t name_len;
    uint32_t module;
    uint32_t stack; /* id; 0: none */
    int64_t bytes;
    uint64_t allocations;
};

/* The largest holders, largest first, and the remaining bytes. */
struct memory_holders {
    struct memory_holder top[OWNERS_TOP];
    unsigned n;
    int64_t others; /* bytes of the other holders */
    /* bytes whose allocation was not recorded: made before the window, or lost */
    int64_t unknown;
};

/* The memory of one device. */
struct memory_device {
    int32_t type, index; /* as in struct record_memory */
    int64_t first;       /* bytes allocated before the window's first record */
    int64_t last;        /* bytes allocated after the window's last record */
    int64_t peak;        /* most bytes allocated, `first` included */
    int64_t peak_reserved;
    uint64_t peak_at; /* ticks */
    uint64_t epoch;   /* counts new peaks */
};
