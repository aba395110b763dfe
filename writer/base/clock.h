/* SPDX-License-Identifier: Apache-2.0 */
/* The one clock of cprof. Application threads stamp raw ticks; the cprof thread maps ticks to
 * wall-clock nanoseconds by a piecewise-linear, continuous, monotone map that gets one knot per
 * flush (one fit per window would follow every slew of NTP or contradict what is already written,
 * tried.md T16). */
#ifndef WRITER_BASE_CLOCK_H
#define WRITER_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "writer/os/os.h"

/* True once clock_start() found an invariant time-stamp counter. Written once, before any thread
 * stamps. */
extern bool clock_uses_tsc __attribute__((visibility("hidden")));

/* Whether clock_ticks() reads a counter of the processor, without a call. */
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

/* What clock_ticks() is where clock_is_counter(). */
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

/* Now, in ticks. Any thread, about 9 ns with a counter, 21 ns without; never fails, never goes back
 * on a thread. */
static inline uint64_t clock_ticks(void)
{
    return clock_is_counter() ? clock_counter() : clock_monotonic_ns();
}

/* Chooses the tick source and takes the first sample. Once, at wake-up (CPUID traps in virtual
 * machines). */
void clock_start(void);

/* Lays a knot at now. True when somebody has set the wall clock since the last one; times go on by
 * the clock as it was. cprof thread, once per flush; the first one a millisecond or more after
 * clock_start(), because the rate is measured between the two. */
bool clock_knot(void);

/* Lays a knot at now by clock_map_settle(): a step of the wall clock between two windows does not
 * bend the times of the next. cprof thread, when a window opens and no other is being written. */
void clock_settle(void);

/* Wall-clock nanoseconds since 1970 of a tick, by the map. cprof thread (and the exiting thread
 * once it has stopped). */
int64_t clock_wall_ns(uint64_t ticks);

/* Wall-clock nanoseconds now, straight from the system. Any thread. */
int64_t clock_wall_now(void);

/* Ticks per second as last measured, for turning a span of ticks into seconds. cprof thread. */
double clock_ticks_per_second(void);

/* The floor of `wall_ns` to 30 days, which is a trace's baseTimeNanoseconds (design.md section 6,
 * T12). */
int64_t clock_base_ns(int64_t wall_ns);

/* ---- for tests: the map alone, without clocks ---- */
struct clock_knot {
    uint64_t ticks;
    int64_t wall_ns;
    double ns_per_tick; /* slope from this knot on, until the next one */
};

struct clock_map {
    struct clock_knot *knots; /* ring of the newest, owned */
    unsigned count, first, cap;
    uint64_t base_ticks, base_mono_ns; /* the sample from which on the rate is measured */
    uint64_t next_ticks, next_mono_ns; /* the one that takes its place */
    double rate;                       /* nanoseconds per tick as last measured */
    bool measured;                     /* over a quarter of a second or more */
    int64_t apart_ns;                  /* CLOCK_REALTIME less CLOCK_MONOTONIC, at the last sample */
    int64_t set_ns;                    /* by how much the wall clock was set since the map began */
};

/* The first sample, from which on the rate is measured. */
void clock_map_start(struct clock_map *m, uint64_t ticks, uint64_t mono_ns);

/* Adds a sample of the three clocks at one time. The map stays continuous and monotone: the new
 * segment starts where the old one predicts and bends so as to meet the wall clock a quarter of a
 * second later. A wall clock that is set changes nothing: the map goes on by the clock as it was,
 * because durations would be wrong else. The rate is that of CLOCK_MONOTONIC, which is slewed as
 * the wall clock is and never steps, over the last quarter to half of a second; one that no slewing
 * makes is not taken. false: no memory, the old slope goes on. */
bool clock_map_add(struct clock_map *m, uint64_t ticks, int64_t wall_ns, uint64_t mono_ns);

/* As clock_map_add(), but a wall clock that is off by more than a millisecond, or was set by so
 * much, is taken over at once: the map begins anew. Only while nothing is being written that a jump
 * could contradict. */
bool clock_map_settle(struct clock_map *m, uint64_t ticks, int64_t wall_ns, uint64_t mono_ns);

/* Wall nanoseconds of `ticks`; before the first knot by its slope. */
int64_t clock_map_ns(const struct clock_map *m, uint64_t ticks);

/* Frees the knots. */
void clock_map_free(struct clock_map *m);

#endif
