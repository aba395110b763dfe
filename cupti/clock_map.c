/* SPDX-License-Identifier: Apache-2.0 */
/* See cupti/clock_map.h. */
#include "cupti/clock_map.h"

#include <stddef.h>

#include "writer/writer.h"

#define READINGS 5
#define READINGS_MOST                                                                              \
    100 /* of a moment in which the thread is held up again and again; a reading takes some 100 ns */
/* a stamp so little newer than the newest pair is simply new; farther ahead the clock was set back */
#define SOON_NS 1000000000u
#define SLOPE_BY                                                                                   \
    16u /* pairs over which the slope beyond an end is taken: the jitter of one reading does not tilt it */

static const struct clock_pair *pair(const struct cupti_clock *c, unsigned i)
{
    return &c->pairs[(c->first + i) % CLOCK_PAIRS];
}

const struct clock_pair *cupti_clock_last(const struct cupti_clock *c)
{
    return c->count ? pair(c, c->count - 1) : NULL;
}

void cupti_clock_add(struct cupti_clock *c, uint64_t cupti, uint64_t ticks)
{
    const struct clock_pair *last = cupti_clock_last(c);
    if (last && ticks <= last->ticks)
        return;
    if (c->count == CLOCK_PAIRS) {
        c->first = (c->first + 1) % CLOCK_PAIRS;
        c->count--;
    }
    c->pairs[(c->first + c->count) % CLOCK_PAIRS] = (struct clock_pair){cupti, ticks};
    c->count++;
}

/* The longer a reading takes, the less it tells when inside it CUPTI's clock was read: a good one is nearly as short as the shortest
 * of all. */
void cupti_clock_read(struct cupti_clock *c, int (*now)(uint64_t *))
{
    uint64_t best = UINT64_MAX, cupti = 0, ticks = 0;
    for (int i = 0; i < READINGS_MOST && (i < READINGS || best > c->shortest + c->shortest / 2);
         i++) {
        uint64_t stamp = 0;
        uint64_t before = clock_ticks();
        if (now(&stamp) != 0)
            return;
        uint64_t after = clock_ticks();
        if (after - before >= best)
            continue;
        best = after - before;
        cupti = stamp;
        ticks = before + best / 2;
        if (!c->shortest || best < c->shortest)
            c->shortest = best;
    }
    if (best != UINT64_MAX)
        cupti_clock_add(c, cupti, ticks);
}

/* On the line of `slope` through `a`. */
static uint64_t along(const struct clock_pair *a, uint64_t cupti, double slope)
{
    double delta = cupti >= a->cupti ? (double)(cupti - a->cupti) : -(double)(a->cupti - cupti);
    double ticks = delta * slope;
    if (ticks < 0 && (double)a->ticks + ticks < 0)
        return 0;
    return a->ticks + (uint64_t)(int64_t)ticks;
}

static bool slope(const struct clock_pair *from, const struct clock_pair *to, double *out)
{
    if (to->cupti <= from->cupti)
        return false; /* set back meanwhile */
    *out = (double)(to->ticks - from->ticks) / (double)(to->cupti - from->cupti);
    return true;
}

/* The slope at an end: over as many pairs as give one. */
static double end_slope(const struct cupti_clock *c, bool newest)
{
    double s = c->rate > 0 ? c->rate : 1.0;
    unsigned most = c->count - 1 < SLOPE_BY ? c->count - 1 : SLOPE_BY;
    for (unsigned n = most; n > 0; n--)
        if (newest ? slope(pair(c, c->count - 1 - n), pair(c, c->count - 1), &s)
                   : slope(pair(c, 0), pair(c, n), &s))
            break;
    return s;
}

uint64_t cupti_clock_ticks(const struct cupti_clock *c, uint64_t cupti)
{
    const struct clock_pair *below = NULL; /* nearest one */
    if (!c->count)
        return cupti;
    for (unsigned i = c->count; i-- > 0;) {
        const struct clock_pair *a = pair(c, i);
        double s;
        if (cupti < a->cupti)
            continue;
        if (i + 1 < c->count && cupti < pair(c, i + 1)->cupti && slope(a, pair(c, i + 1), &s))
            return along(a, cupti, s);
        if (!below || a->cupti > below->cupti)
            below = a;
        if (i + 1 == c->count && cupti - a->cupti < SOON_NS)
            break;
    }
    return below ? along(below, cupti, end_slope(c, true))
                 : along(pair(c, 0), cupti, end_slope(c, false));
}
