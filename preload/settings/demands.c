/* SPDX-License-Identifier: Apache-2.0 */
/* The set of windows requested by triggers. */
#include "preload/settings/demands.h"

bool demands_add(struct demands *d, int64_t from, int64_t steps)
{
    /* Adjacent and overlapping windows are merged, so requests during a window need no more
     * room. */
    for (unsigned i = 0; i < d->n; i++) {
        if (from > d->at[i].to || from + steps < d->at[i].from)
            continue;
        d->at[i].from = from < d->at[i].from ? from : d->at[i].from;
        d->at[i].to = from + steps > d->at[i].to ? from + steps : d->at[i].to;
        return true;
    }
    if (d->n == DEMANDS_MOST)
        return false;
    d->at[d->n].from = from;
    d->at[d->n].to = from + steps;
    d->n++;
    return true;
}

bool demands_cover(const struct demands *d, int64_t step)
{
    for (unsigned i = 0; i < d->n; i++)
        if (d->at[i].from <= step && step < d->at[i].to)
            return true;
    return false;
}

void demands_forget(struct demands *d, int64_t step)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < d->n; i++)
        if (d->at[i].to > step)
            d->at[kept++] = d->at[i];
    d->n = kept;
}
