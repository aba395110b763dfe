/* SPDX-License-Identifier: Apache-2.0 */
/* Energy of GPUs by time. */
#include "writer/sums/energy.h"

#include "writer/base/base.h"
#include "writer/writer.h"

#define READINGS 256u /* of a device: 25 s */
#define GAP_S    1.0  /* readings that are farther apart, as of two windows, are not joined */

struct reading {
    uint64_t ticks;
    double joules;
};

static struct {
    struct reading last[READINGS]; /* reading n at n % READINGS */
    uint64_t n, first;             /* readings from `first` on are joined */
    bool is_counted;
} gpus[GPU_STATES];

static const struct reading *reading(uint32_t device, uint64_t n)
{
    return &gpus[device].last[n % READINGS];
}

/* The oldest reading that is kept and joined to the last one. */
static uint64_t oldest(uint32_t device)
{
    uint64_t kept = gpus[device].n > READINGS ? gpus[device].n - READINGS : 0;
    return gpus[device].first > kept ? gpus[device].first : kept;
}

static double seconds(uint64_t from, uint64_t to)
{
    return (double)(to - from) / clock_ticks_per_second();
}

void energy_add(const struct gpu_state *s)
{
    if (!gpu_state_knows(s, GPU_ENERGY))
        return;
    uint64_t n = gpus[s->device].n;
    const struct reading *before = reading(s->device, n - 1);
    bool joined = n && seconds(before->ticks, s->ticks) <= GAP_S &&
                  s->is_counted == gpus[s->device].is_counted;
    if (!joined || s->joules < before->joules) /* less: the driver was loaded anew */
        gpus[s->device].first = n;
    gpus[s->device].last[n % READINGS] = (struct reading){s->ticks, s->joules};
    gpus[s->device].n = n + 1;
    gpus[s->device].is_counted = s->is_counted;
}

/* The energy at a time. False: there is no reading before or after it. */
static bool energy_at(uint32_t device, uint64_t ticks, double *joules)
{
    uint64_t after = gpus[device].n;
    while (after > oldest(device) && reading(device, after - 1)->ticks >= ticks)
        after--;
    if (after == gpus[device].n || after == oldest(device))
        return false;
    const struct reading *from = reading(device, after - 1), *to = reading(device, after);
    double part = (double)(ticks - from->ticks) / (double)(to->ticks - from->ticks);
    *joules = from->joules + part * (to->joules - from->joules);
    return true;
}

void energy_begin(struct energy_since *since, uint32_t device, uint64_t start, int64_t step)
{
    uint64_t first = oldest(device);
    if (since->ticks || first == gpus[device].n || reading(device, first)->ticks >= start)
        return;
    since->ticks = start;
    since->step = step;
}

struct energy_use energy_spent(struct energy_since *since, uint32_t device, uint64_t end,
                               int64_t last_step)
{
    struct energy_use use = {.is_counted = gpus[device].is_counted};
    double at_end;
    if (!since->ticks)
        return use;
    since->known = since->known || energy_at(device, since->ticks, &since->joules);
    if (!since->known || last_step < since->step || !energy_at(device, end, &at_end))
        return use;
    use.joules = at_end - since->joules;
    use.steps = (uint64_t)(last_step - since->step) + 1;
    return use;
}
