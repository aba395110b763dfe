/* SPDX-License-Identifier: Apache-2.0 */
/* The data that summary.c collects and summary_file.c writes. cprof thread. */
#pragma once

#include "writer/sums/collective_list.h"
#include "writer/sums/step_parts.h"
#include "writer/sums/summary.h"
#include "writer/sums/summary_limits.h"
#include "writer/sums/top.h"

#define SHARES_MOST 16u /* devices of a process */

struct summary {
    struct top *table;
    struct summary_step *steps;
    size_t n_steps, steps_room;
    struct device_works works;
    struct collective_list collectives;
    uint64_t used, most; /* bytes of memory, without the table and the collectives */
    struct step_shares shares[SHARES_MOST];
    unsigned n_shares;
    uint32_t devices[FILE_DEVICES_MOST + 1]; /* ordinals; GPU_NONE: the CPU */
    size_t n_devices;
    unsigned joined_shift; /* 2^joined_shift steps share a row of the file */
    bool no_steps;         /* some step is missing */
    bool no_parts;         /* the parts of the steps are unknown */
};

/* From now on the parts are unknown. */
void summary_drop_parts(struct summary *s);
