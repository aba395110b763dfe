/* SPDX-License-Identifier: Apache-2.0 */
/* Parses CPROF_STEPS, and gives the action of a step. */
#include "preload/settings/step_ranges.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "preload/core/core.h"

/* Parses a number in text[0..length). */
static bool parse_step(const char *text, size_t length, int64_t *out)
{
    char number[32];
    if (length >= sizeof number)
        return false;
    memcpy(number, text, length);
    number[length] = '\0';
    return parse_int(number, 0, STEP_RANGES_STEP, out);
}

/* Parses "10" or "10-13" in text[0..length). */
static bool parse_range(const char *text, size_t length, int64_t *first, int64_t *last)
{
    const char *dash = memchr(text, '-', length);
    if (!dash)
        return parse_step(text, length, first) && parse_step(text, length, last);
    size_t before = (size_t)(dash - text);
    return parse_step(text, before, first) && parse_step(dash + 1, length - before - 1, last);
}

bool step_ranges_parse(const char *text, struct step_ranges *out, char *why, size_t size)
{
    struct step_ranges found = {.n = 0};
    int64_t before = -1;
    const char *at = parse_is_blank(text) ? NULL : text;
    while (at) {
        int64_t first, last;
        if (found.n == STEP_RANGES_MOST) {
            snprintf(why, size, "must name at most %u ranges", STEP_RANGES_MOST);
            return false;
        }
        if (!parse_range(at, strcspn(at, ","), &first, &last)) {
            snprintf(why, size, "must be steps from 0 to %d, as 10 or 10-13 or 10-13,50-53",
                     STEP_RANGES_STEP);
            return false;
        }
        if (last < first) {
            snprintf(why, size, "%" PRId64 "-%" PRId64 " ends before it begins", first, last);
            return false;
        }
        if (first <= before) {
            snprintf(why, size, "steps must ascend, but %" PRId64 " follows %" PRId64, first,
                     before);
            return false;
        }
        found.at[found.n].first = first;
        found.at[found.n++].last = before = last;
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    *out = found;
    return true;
}

enum action step_ranges_action(const struct step_ranges *ranges, int64_t step)
{
    enum action action = ACTION_SKIP;
    for (unsigned i = 0; i < ranges->n; i++) {
        if (step >= ranges->at[i].first && step <= ranges->at[i].last)
            return step == ranges->at[i].last ? ACTION_ACTIVE_AND_SAVE : ACTION_ACTIVE;
        if (step == ranges->at[i].first - 1)
            action = ACTION_WARMUP;
    }
    return action;
}
