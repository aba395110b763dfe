/* SPDX-License-Identifier: Apache-2.0 */
/* Converts CUPTI's timestamps to ticks of the CPU. */
#include "cupti/clock_map.h"

#include <float.h>
#include <stddef.h>

#include "writer/writer.h"

#define READINGS 5
/* while the thread is preempted again and again; one reading takes some 100 ns */
#define READINGS_MOST 100
/* A stamp this little newer than the newest pair is simply newer. A larger gap means that the clock
 * was set back. */
#define SOON_NS     1000000000u
#define STRAIGHT_NS 50.0 /* twice the jitter of a reading */
#define SLEWED_MOST 0.25 /* chrony slews by 0.08 at most */
/* Pairs that give the slope beyond an end: the jitter of one reading must not tilt it. */
#define SLOPE_BY 16u

static const struct clock_pair *pair(const struct cupti_clock *c, unsigned i)
{
    return &c->pairs[(c->first + i) % CLOCK_PAIRS];
}

const struct clock_pair *cupti_clock_last(const struct cupti_clock *c)
{
    return c->count ? pair(c, c->count - 1) : NULL;
}

static bool slope(const struct clock_pair *from, const struct clock_pair *to, double *out)
{
    if (to->cupti <= from->cupti)
        return false; /* the clock was set back */
    *out = (double)(to->ticks - from->ticks) / (double)(to->cupti - from->cupti);
    return true;
}

static double rate(const struct cupti_clock *c)
{
    return c->rate > 0 ? c->rate : 1.0;
}

/* Whether the clock was set between two pairs: slewing does not change its rate that much. While
 * the rate is unknown, only a clock that was set back is noticed. */
static bool was_set(const struct cupti_clock *c, const struct clock_pair *from,
                    const struct clock_pair *to)
{
    if (to->cupti <= from->cupti)
        return true;
    double ran = (double)(to->cupti - from->cupti) * c->rate,
           ticks = (double)(to->ticks - from->ticks);
    if (c->rate <= 0)
        return false;
    return ran < ticks * (1 - SLEWED_MOST) || ran > ticks * (1 + SLEWED_MOST);
}

/* Narrows the allowed slopes to lines from `a` that pass near `b`. */
static void narrow(struct cupti_clock *c, const struct clock_pair *a, const struct clock_pair *b)
{
    double cupti = (double)(b->cupti - a->cupti), ticks = (double)(b->ticks - a->ticks);
    double near = STRAIGHT_NS * rate(c);
    double low = (ticks - near) / cupti, high = (ticks + near) / cupti;
    c->low = low > c->low ? low : c->low;
    c->high = high < c->high ? high : c->high;
}

/* Whether `next` continues the line, so that the last pair is redundant. */
static bool in_line(const struct cupti_clock *c, const struct clock_pair *next)
{
    double s;
    if (c->count < 2)
        return false;
    const struct clock_pair *from = pair(c, c->count - 2), *last = pair(c, c->count - 1);
    return !was_set(c, from, last) && !was_set(c, last, next) && slope(from, next, &s) &&
           s >= c->low && s <= c->high;
}

void cupti_clock_add(struct cupti_clock *c, uint64_t cupti, uint64_t ticks)
{
    const struct clock_pair *last = cupti_clock_last(c);
    struct clock_pair next = {cupti, ticks};
    if (last && ticks <= last->ticks)
        return;
    if (in_line(c, &next)) {
        c->count--;
        last = pair(c, c->count - 1);
    } else {
        c->low = -DBL_MAX;
        c->high = DBL_MAX;
    }
    if (c->count == CLOCK_PAIRS) {
        c->first = (c->first + 1) % CLOCK_PAIRS;
        c->count--;
    }
    c->pairs[(c->first + c->count) % CLOCK_PAIRS] = next;
    c->count++;
    if (last && next.cupti > last->cupti)
        narrow(c, last, &next);
}

void cupti_clock_keep(struct cupti_clock *c)
{
    c->low = DBL_MAX; /* no slope is allowed, so the last pair stays */
    c->high = -DBL_MAX;
}

/* A reading pins down CUPTI's time better the shorter it is. A good one is nearly as short as the
 * shortest so far. */
bool cupti_clock_read(struct cupti_clock *c, int (*now)(uint64_t *), struct clock_pair *out)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < READINGS_MOST && (i < READINGS || best > c->shortest + c->shortest / 2);
         i++) {
        uint64_t stamp = 0;
        uint64_t before = clock_ticks();
        if (now(&stamp) != 0)
            return false;
        uint64_t after = clock_ticks();
        if (after - before >= best)
            continue;
        best = after - before;
        *out = (struct clock_pair){stamp, before + best / 2};
        if (!c->shortest || best < c->shortest)
            c->shortest = best;
    }
    return best != UINT64_MAX;
}

/* Ticks on the line through `a` with `slope`. */
static uint64_t along(const struct clock_pair *a, uint64_t cupti, double slope)
{
    double delta = cupti >= a->cupti ? (double)(cupti - a->cupti) : -(double)(a->cupti - cupti);
    double ticks = delta * slope;
    if (ticks < 0 && (double)a->ticks + ticks < 0)
        return 0;
    return a->ticks + (uint64_t)(int64_t)ticks;
}

/* Slope at the oldest or newest end, over up to SLOPE_BY pairs that give one. */
static double end_slope(const struct cupti_clock *c, bool newest)
{
    double s = rate(c);
    unsigned most = c->count - 1 < SLOPE_BY ? c->count - 1 : SLOPE_BY;
    for (unsigned n = most; n > 0; n--)
        if (newest ? slope(pair(c, c->count - 1 - n), pair(c, c->count - 1), &s)
                   : slope(pair(c, 0), pair(c, n), &s))
            break;
    return s;
}

/* Converts a stamp between two pairs. Returns false if it does not lie there. If the clock was set
 * between them, a stamp that fits both sides counts as after the change. */
static bool between(const struct cupti_clock *c, const struct clock_pair *a,
                    const struct clock_pair *b, uint64_t cupti, uint64_t *ticks)
{
    double s;
    if (b->cupti > a->cupti && (cupti < a->cupti || cupti >= b->cupti))
        return false;
    if (!was_set(c, a, b) && slope(a, b, &s)) {
        *ticks = along(a, cupti, s);
        return true;
    }
    uint64_t passed = (uint64_t)((double)(b->ticks - a->ticks) / rate(c));
    const struct clock_pair *side = cupti < b->cupti && b->cupti - cupti <= passed    ? b
                                    : cupti >= a->cupti && cupti - a->cupti <= passed ? a
                                                                                      : NULL;
    if (side)
        *ticks = along(side, cupti, rate(c));
    return side != NULL;
}

uint64_t cupti_clock_ticks(const struct cupti_clock *c, uint64_t cupti)
{
    const struct clock_pair *newest = cupti_clock_last(c);
    const struct clock_pair *below = NULL, *next = NULL; /* nearest earlier pair; pair after `a` */
    uint64_t ticks;
    if (!newest)
        return cupti;
    for (unsigned i = c->count; i-- > 0;) {
        const struct clock_pair *a = pair(c, i);
        if (next && between(c, a, next, cupti, &ticks))
            return ticks;
        if (a->cupti <= cupti && (!below || a->cupti > below->cupti))
            below = a;
        next = a;
    }
    if (!below)
        return along(pair(c, 0), cupti, end_slope(c, false));
    if (cupti >= newest->cupti && cupti - newest->cupti < SOON_NS)
        below = newest;
    return along(below, cupti, end_slope(c, true));
}
