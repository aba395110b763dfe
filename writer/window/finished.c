/* SPDX-License-Identifier: Apache-2.0 */
/* Windows whose file is complete. */
#include "writer/window/finished.h"

#include "writer/window/window.h"

struct finished {
    uint64_t start, end;
    struct buf open_ids;
};

static struct finished all[FINISHED]; /* window n of the process is at n % FINISHED */
static uint64_t added;
/* the latest end: records that began later, the usual case, need no search */
static uint64_t latest;

void finished_add(uint64_t start, uint64_t end, struct buf *open_ids)
{
    struct finished *f = &all[added++ % FINISHED];
    buf_free(&f->open_ids);
    *f = (struct finished){start, end, *open_ids};
    *open_ids = (struct buf){0};
    if (end > latest)
        latest = end;
}

/* The newest first; windows do not overlap. */
static const struct finished *find_finished(uint64_t ticks)
{
    if (ticks >= latest)
        return NULL;
    for (uint64_t n = added; n > 0 && added - n < FINISHED; n--) {
        const struct finished *f = &all[(n - 1) % FINISHED];
        if (ticks >= f->start && ticks < f->end)
            return f;
    }
    return NULL;
}

bool finished_missed(uint64_t ticks)
{
    return find_finished(ticks) != NULL;
}

bool finished_missed_span(uint64_t ticks, uint64_t id)
{
    const struct finished *f = find_finished(ticks);
    return f && !window_left_open(&f->open_ids, id);
}
