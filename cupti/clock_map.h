/* SPDX-License-Identifier: Apache-2.0 */
/* Maps CUPTI's clock (CLOCK_REALTIME, which NTP slews and sets) to clock_ticks(). The map is
 * piecewise linear through pairs of readings, one every few milliseconds while CUPTI records
 * (clock_pairs.h). Pairs on a line are merged. cprof thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Hours of a steady clock; two seconds if every pair were kept. Older stamps use the oldest
 * slope. */
#define CLOCK_PAIRS 8192u

struct clock_pair {
    uint64_t cupti; /* cuptiGetTimestamp() */
    uint64_t ticks; /* clock_ticks() at that moment */
};

struct cupti_clock {
    struct clock_pair pairs[CLOCK_PAIRS]; /* ring, oldest at `first` */
    unsigned first, count;
    double rate; /* ticks per unit of CUPTI's clock where no two pairs tell; 0 = 1 */
    /* slopes from the last pair but one that pass near the last pair and all merged into it */
    double low, high;
    uint64_t shortest; /* ticks of the shortest reading; 0: none yet */
};

/* Adds a pair. Ignores one whose ticks are not later than the last pair's. The new pair replaces
 * the last one if the line from the pair before passes within 50 ns of it and of all pairs merged
 * into it. */
void cupti_clock_add(struct cupti_clock *c, uint64_t cupti, uint64_t ticks);

/* Fixes the conversion of stamps older than the newest pair, whatever pairs follow. A call may have
 * been written already when its wait, 100 ns apart, is converted. */
void cupti_clock_keep(struct cupti_clock *c);

/* Reads both clocks until one reading is about as short as the shortest ever, at most 100 times.
 * *out gets the pair of the shortest reading; the caller adds it. now() returns 0 on success.
 * Returns false if it failed. */
bool cupti_clock_read(struct cupti_clock *c, int (*now)(uint64_t *), struct clock_pair *out);

/* Converts a stamp of CUPTI's clock to ticks, between the two pairs around it. A clock that was set
 * back gives two such places: the newer counts. Where the clock was set between two pairs, the
 * nearer pair counts. Beyond the ends the slope there continues. Without pairs, returns the
 * stamp. */
uint64_t cupti_clock_ticks(const struct cupti_clock *c, uint64_t cupti);

/* The newest pair, or NULL. */
const struct clock_pair *cupti_clock_last(const struct cupti_clock *c);
