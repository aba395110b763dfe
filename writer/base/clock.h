/* SPDX-License-Identifier: Apache-2.0 */
/* The one clock of cprof. Application threads stamp raw ticks. The cprof thread maps ticks to
 * wall-clock nanoseconds by a piecewise-linear, continuous, monotone map with a knot per flush. A
 * fit per window would follow every slew of NTP, or contradict what is already written (tried.md
 * T16). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "writer/os/os.h"

/* clock_start() found an invariant time-stamp counter. Written once, before any thread stamps. */
extern bool clock_uses_tsc __attribute__((visibility("hidden")));

/* True when clock_ticks() reads a processor counter, without a call. */
static inline bool clock_is_counter(void)
{
#if defined(__x86_64__)
    return __builtin_expect(clock_uses_tsc, 1);
#elif defined(__aarch64__)
    return true;
#else
    return false;
#endif
}

/* clock_ticks() where clock_is_counter(). */
static inline uint64_t clock_counter(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return clock_monotonic_ns();
#endif
}

/* Now, in ticks. About 9 ns with a counter, 21 ns without. Never fails, never goes back on a
 * thread. Any thread. */
static inline uint64_t clock_ticks(void)
{
    return clock_is_counter() ? clock_counter() : clock_monotonic_ns();
}

/* Chooses the source of ticks and takes the first sample. Once, at wake-up: CPUID traps in virtual
 * machines. */
void clock_start(void);

/* Adds a knot now. True when the wall clock was set since the last knot; the map continues the
 * clock as it was. cprof thread, once per flush; first at least 1 ms after clock_start(), to
 * measure the rate. */
bool clock_knot(void);

/* Adds a knot now by clock_map_settle(), so that a wall clock set between two windows does not bend
 * the next one. cprof thread, when a window opens and no other is being written. */
void clock_settle(void);

/* Wall-clock nanoseconds since 1970 of a tick. cprof thread; the exiting thread once that has
 * stopped. */
int64_t clock_wall_ns(uint64_t ticks);

/* Wall-clock nanoseconds now, from the system. Any thread. */
int64_t clock_wall_now(void);

/* Ticks per second as last measured. cprof thread. */
double clock_ticks_per_second(void);

/* A trace's baseTimeNanoseconds: `wall_ns` rounded down to 30 days. Traces of one job
 * then share it, and `ts` stays exact to the nanosecond in a double. */
int64_t clock_base_ns(int64_t wall_ns);

/* ---- for tests: the map alone, without clocks ---- */
struct clock_knot {
    uint64_t ticks;
    int64_t wall_ns;
    double ns_per_tick; /* slope until the next knot */
};

struct clock_map {
    struct clock_knot *knots; /* ring of the newest, owned */
    unsigned count, first, cap;
    uint64_t base_ticks, base_mono_ns; /* the sample from which the rate is measured */
    uint64_t next_ticks, next_mono_ns; /* the sample that replaces it */
    double rate;                       /* nanoseconds per tick as last measured */
    bool measured;                     /* over at least a quarter of a second */
    int64_t apart_ns;                  /* CLOCK_REALTIME less CLOCK_MONOTONIC at the last sample */
    int64_t set_ns;                    /* how much the wall clock was set since the map began */
};

/* Takes the first sample, from which the rate is measured. */
void clock_map_start(struct clock_map *m, uint64_t ticks, uint64_t mono_ns);

/* Adds a sample of the three clocks at one time. The map stays continuous and monotone: the new
 * segment starts where the old one predicts, and bends to meet the wall clock a quarter of a second
 * later. When the wall clock is set, the map continues the clock as it was, or durations would be
 * wrong.
 * The rate is that of CLOCK_MONOTONIC over the last quarter to half of a second: it is slewed like
 * the wall clock and never set. A rate that slewing cannot cause is ignored. False: no memory, the
 * old slope continues. */
bool clock_map_add(struct clock_map *m, uint64_t ticks, int64_t wall_ns, uint64_t mono_ns);

/* As clock_map_add(), but accepts a wall clock that is off by more than a millisecond: the map
 * starts again. Only while nothing is being written that a jump would contradict. */
bool clock_map_settle(struct clock_map *m, uint64_t ticks, int64_t wall_ns, uint64_t mono_ns);

/* Wall-clock nanoseconds of `ticks`; before the first knot, by its slope. */
int64_t clock_map_ns(const struct clock_map *m, uint64_t ticks);

/* Frees the knots. */
void clock_map_free(struct clock_map *m);
