/* SPDX-License-Identifier: Apache-2.0 */
/* CUPTI's clock (CLOCK_REALTIME, which NTP slews and sets) in clock_ticks(): a piecewise-linear map
 * through pairs of readings. One pair every few milliseconds while records are made
 * (clock_pairs.h); those that lie on a line are not kept. cprof thread. */
#ifndef CUPTI_CLOCK_MAP_H
#define CUPTI_CLOCK_MAP_H

#include <stdbool.h>
#include <stdint.h>

/* of a steady clock for hours, two seconds were each one kept; older stamps go by the oldest
 * slope */
#define CLOCK_PAIRS 8192u

struct clock_pair {
    uint64_t cupti; /* cuptiGetTimestamp() */
    uint64_t ticks; /* clock_ticks() at that moment */
};

struct cupti_clock {
    struct clock_pair pairs[CLOCK_PAIRS]; /* ring, oldest at `first` */
    unsigned first, count;
    double rate; /* ticks per unit of CUPTI's clock where no two pairs tell; 0 = 1 */
    double low,
        /* slopes from the last pair but one that pass near all that the last one stands for */
        high;
    uint64_t shortest; /* ticks that the shortest reading took; 0 = none yet */
};

/* Adds a pair; its ticks must be later than those of the last, else it is ignored. Takes the place
 * of the last one when the line from the one before passes within 50 ns of that and of all whose
 * place it took. */
void cupti_clock_add(struct cupti_clock *c, uint64_t cupti, uint64_t ticks);

/* Stamps older than the newest pair are told the same from now on, whatever pairs are added: of a
 * call and its wait, 100 ns apart, one may have been written already. */
void cupti_clock_keep(struct cupti_clock *c);

/* Reads both clocks until a reading was about as short as the shortest ever, at most 100 times. The
 * pair of the shortest of them is the caller's to add. now(): 0 = success. False: it failed. */
bool cupti_clock_read(struct cupti_clock *c, int (*now)(uint64_t *), struct clock_pair *out);

/* Ticks of a stamp of CUPTI's clock: between the two pairs around it, the newest ones where the
 * clock was set back and it fits twice; where it was set between two pairs, by the nearer of them;
 * beyond the ends by the slope there. The stamp itself while there is no pair. */
uint64_t cupti_clock_ticks(const struct cupti_clock *c, uint64_t cupti);

/* The newest pair, or NULL. */
const struct clock_pair *cupti_clock_last(const struct cupti_clock *c);

#endif
