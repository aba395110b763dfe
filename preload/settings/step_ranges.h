/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps that are named one by one (CPROF_STEPS), instead of a cycle. Pure: no allocation, no
 * output; any thread.
 */
#ifndef PRELOAD_SETTINGS_STEP_RANGES_H
#define PRELOAD_SETTINGS_STEP_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/writer.h"

#define STEP_RANGES_MOST 64u
#define STEP_RANGES_STEP 2147483647 /* the largest step that can be named */

/* Ascending; no step is in two of them. Empty: no steps are named. */
struct step_ranges {
    unsigned n;
    struct {
        int64_t first, last; /* both included; numbered as ProfilerStep# */
    } at[STEP_RANGES_MOST];
};

/*
 * "10", "10-13" or "10-13,50-53", with blanks anywhere but in a number; blank text is an empty
 * list. False, and a reason for people in why (terminated, cut at size), for anything else: then
 * *out is not written.
 */
bool step_ranges_parse(const char *text, struct step_ranges *out, char *why, size_t size);

/* The action for the step: the last step of a range saves, and the one before a range warms up
 * unless it is recorded itself. ranges is not empty. */
enum action step_ranges_action(const struct step_ranges *ranges, int64_t step);

#endif
