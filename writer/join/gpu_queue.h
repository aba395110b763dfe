/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of GPU records in the order of arrival. cprof thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "writer/record/record.h"

struct queue {
    struct gpu_record *records; /* owned */
    size_t n, room;
};

/* Appends a copy. False: no memory. */
static inline bool queue_put(struct queue *q, const struct gpu_record *r)
{
    if (q->n == q->room) {
        size_t room = q->room ? q->room * 2 : 256;
        struct gpu_record *bigger = realloc(q->records, room * sizeof *bigger);
        if (!bigger)
            return false;
        q->records = bigger;
        q->room = room;
    }
    q->records[q->n++] = *r;
    return true;
}
