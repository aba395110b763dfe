/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of steps to record (CPROF_STEPS) instead of cycles. Pure: no allocation, no output; any
 * thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/writer.h"

#define STEP_RANGES_MOST 64u
#define STEP_RANGES_STEP 2147483647 /* the largest step */

/* Ascending and disjoint. n == 0: no steps are named. */
struct step_ranges {
    unsigned n;
    struct {
        int64_t first, last; /* both included; numbered as ProfilerStep# */
    } at[STEP_RANGES_MOST];
};

/* Parses "10", "10-13" or "10-13,50-53", with blanks except inside a number. Blank text gives an
 * empty list. Otherwise returns false, with a reason in `why` (cut at size), and leaves *out
 * alone. */
bool step_ranges_parse(const char *text, struct step_ranges *out, char *why, size_t size);

/* The action of a step; ranges is not empty. The last step of a range saves. The step before a
 * range warms up unless another range records it. */
enum action step_ranges_action(const struct step_ranges *ranges, int64_t step);
