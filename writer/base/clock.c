/* SPDX-License-Identifier: Apache-2.0 */
/* Ticks to wall clock. clock_start() runs on the thread that wakes cprof, the rest on the cprof
 * thread. */
#include "writer/base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "writer/base/read_file.h"
#include "writer/writer.h"

bool clock_uses_tsc;

/* two per flush, eight per second: eight minutes in which spans may end; older times use the oldest
 * slope */
#define KNOTS   4096u
#define BEND_NS 250e6 /* time in which the map corrects an error */
/* a larger error does not come from slewing: the wall clock was set */
#define STEP_NS 1000000
/* shortest time over which the rate is measured */
#define RATE_NS    250000000u
#define RATE_APART 1e-3 /* slewing changes it by less (adjtimex(2): 500 ppm) */
/* CLOCK_REALTIME less CLOCK_MONOTONIC varies by less between samples, unless the clock was
     * set */
#define SET_NS        100000
#define BASE_FLOOR_NS (INT64_C(30) * 24 * 3600 * 1000000000)

static struct clock_map map;

#if defined(__x86_64__)
/* Linux changes to these clocks when the counters of the processors differ. */
static bool tsc_was_given_up(void)
{
    static const char *const others[] = {"hpet", "acpi_pm", "jiffies", "refined-jiffies"};
    char name[32];
    read_file("/sys/devices/system/clocksource/clocksource0/current_clocksource", name,
              sizeof name);
    name[strcspn(name, "\n")] = '\0';
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name, others[i]) == 0)
            return true;
    return false;
}
#endif

static bool tsc_is_invariant(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;
    if (!__get_cpuid(0x80000007u, &a, &b, &c, &d))
        return false;
    return (d & (1u << 8)) != 0 && !tsc_was_given_up();
#elif defined(__aarch64__)
    return true; /* the generic timer is architecturally constant */
#else
    return false;
#endif
}

int64_t clock_wall_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_base_ns(int64_t wall_ns)
{
    return wall_ns - wall_ns % BASE_FLOOR_NS;
}

/* Samples the clocks at one time. Takes the best of a few tries, in case of preemption between the
 * reads. */
static void sample_clocks(uint64_t *ticks, int64_t *wall, uint64_t *mono)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t before = clock_ticks();
        int64_t w = clock_wall_now();
        uint64_t m = clock_monotonic_ns();
        uint64_t after = clock_ticks();
        if (after - before >= best)
            continue;
        best = after - before;
        *ticks = before + (after - before) / 2;
        *wall = w;
        *mono = m;
    }
}

void clock_start(void)
{
    clock_uses_tsc = tsc_is_invariant();
    uint64_t ticks = 0, mono = 0;
    int64_t wall = 0;
    sample_clocks(&ticks, &wall, &mono);
    clock_map_start(&map, ticks, mono);
}

bool clock_knot(void)
{
    uint64_t ticks = 0, mono = 0;
    int64_t wall = 0, set_before = map.set_ns;
    sample_clocks(&ticks, &wall, &mono);
    clock_map_add(&map, ticks, wall, mono);
    return map.set_ns != set_before;
}

void clock_settle(void)
{
    uint64_t ticks = 0, mono = 0;
    int64_t wall = 0;
    sample_clocks(&ticks, &wall, &mono);
    clock_map_settle(&map, ticks, wall, mono);
}

int64_t clock_wall_ns(uint64_t ticks)
{
    return clock_map_ns(&map, ticks);
}

double clock_ticks_per_second(void)
{
    return 1e9 / (map.count ? map.rate : 1.0);
}

static struct clock_knot *knot(const struct clock_map *m, unsigned i)
{
    return &m->knots[(m->first + i) % m->cap];
}

static int64_t extrapolate(const struct clock_knot *k, uint64_t ticks)
{
    double delta = ticks >= k->ticks ? (double)(ticks - k->ticks) : -(double)(k->ticks - ticks);
    return k->wall_ns + (int64_t)(delta * k->ns_per_tick);
}

static void append(struct clock_map *m, struct clock_knot k)
{
    if (m->count == m->cap) {
        m->first = (m->first + 1) % m->cap;
        m->count--;
    }
    *knot(m, m->count) = k;
    m->count++;
}

/* Measures the rate anew from here on. */
static void restart_rate(struct clock_map *m, uint64_t ticks, uint64_t mono_ns)
{
    m->base_ticks = m->next_ticks = ticks;
    m->base_mono_ns = m->next_mono_ns = mono_ns;
    m->measured = false;
}

void clock_map_start(struct clock_map *m, uint64_t ticks, uint64_t mono_ns)
{
    restart_rate(m, ticks, mono_ns);
    m->rate = 1.0;
}

static void measure_rate(struct clock_map *m, uint64_t ticks, uint64_t mono_ns)
{
    if (ticks <= m->next_ticks || mono_ns <= m->next_mono_ns)
        return;
    if (mono_ns - m->next_mono_ns >= RATE_NS) {
        m->base_ticks = m->next_ticks;
        m->base_mono_ns = m->next_mono_ns;
        m->next_ticks = ticks;
        m->next_mono_ns = mono_ns;
    }
    double rate = (double)(mono_ns - m->base_mono_ns) / (double)(ticks - m->base_ticks);
    if (m->measured && fabs(rate / m->rate - 1) > RATE_APART) {
        restart_rate(m, ticks, mono_ns); /* one clock stood still: the machine was suspended */
        return;
    }
    m->rate = rate;
    m->measured = m->measured || mono_ns - m->base_mono_ns >= RATE_NS;
}

/* Returns the error of the map without changes by a set wall clock. off: the error with them.
 * CLOCK_MONOTONIC is slewed like the wall clock but never set, so their distance jumps when the
 * wall clock is set. It also jumps after a suspend. If the counter went on meanwhile, `off` is
 * small, and nothing was set. */
static int64_t error_without_set(struct clock_map *m, int64_t off, int64_t wall_ns,
                                 uint64_t mono_ns)
{
    int64_t apart = wall_ns - (int64_t)mono_ns, set = apart - m->apart_ns;
    m->apart_ns = apart;
    if (llabs(set) <= SET_NS || llabs(off - set) >= llabs(off))
        return off;
    m->set_ns += set;
    return off - set;
}

bool clock_map_add(struct clock_map *m, uint64_t ticks, int64_t wall_ns, uint64_t mono_ns)
{
    measure_rate(m, ticks, mono_ns);
    if (!m->knots) {
        m->knots = calloc(KNOTS, sizeof *m->knots);
        if (!m->knots)
            return false;
        m->cap = KNOTS;
    }
    struct clock_knot next = {ticks, wall_ns, m->rate};
    while (m->count && knot(m, m->count - 1)->ticks >= ticks && m->count > 1)
        m->count--; /* the planned end of the last bend: this sample is earlier */
    if (!m->count) {
        m->apart_ns = wall_ns - (int64_t)mono_ns;
        m->set_ns = 0;
    } else {
        const struct clock_knot *last = knot(m, m->count - 1);
        if (ticks <= last->ticks)
            return true;
        next.wall_ns = extrapolate(last, ticks);
        int64_t off = error_without_set(m, wall_ns - m->set_ns - next.wall_ns, wall_ns, mono_ns);
        double bend = (double)off * m->rate / BEND_NS;
        double most = m->rate / 2; /* at most half the rate: never backwards, never a jump */
        next.ns_per_tick += bend > most ? most : bend < -most ? -most : bend;
    }
    append(m, next);
    struct clock_knot end = {ticks + (uint64_t)(BEND_NS / m->rate), 0, m->rate};
    end.wall_ns = extrapolate(&next, end.ticks);
    append(m, end);
    return true;
}

bool clock_map_settle(struct clock_map *m, uint64_t ticks, int64_t wall_ns, uint64_t mono_ns)
{
    if (m->count && llabs(wall_ns - clock_map_ns(m, ticks)) > STEP_NS)
        m->count = 0;
    return clock_map_add(m, ticks, wall_ns, mono_ns);
}

int64_t clock_map_ns(const struct clock_map *m, uint64_t ticks)
{
    if (!m->count)
        return (int64_t)ticks;
    unsigned low = 0, high = m->count - 1;
    if (ticks >= knot(m, high)->ticks)
        return extrapolate(knot(m, high), ticks);
    while (low + 1 < high) {
        unsigned middle = low + (high - low) / 2;
        if (knot(m, middle)->ticks <= ticks)
            low = middle;
        else
            high = middle;
    }
    return extrapolate(knot(m, low), ticks);
}

void clock_map_free(struct clock_map *m)
{
    free(m->knots);
    memset(m, 0, sizeof *m);
}
