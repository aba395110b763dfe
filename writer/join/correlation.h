/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that CUPTI has reported, by correlation id, and device records that came before their
 * call. Ids are consecutive, so the table is indexed by their low bits. It grows while calls that
 * wait collide. cprof thread. */
#pragma once

#include "writer/record/record.h"
#include "writer/json/json.h"

enum call_state {
    CALL_FREE,
    CALL_UNSEEN, /* only records that it caused have come */
    /* a driver call that may be part of a runtime call with the same id */
    CALL_DRIVER,
    CALL_WRITTEN, /* its row is in the file of `window` */
    CALL_OUTSIDE, /* made while no window was open: not shown */
    CALL_LATE,    /* made in a window whose file is complete */
};

/* A record that waits for its call. */
struct held {
    struct held *next;
    struct gpu_record r;
};

struct call {
    uint64_t correlation; /* wraps are counted in the upper half: unique in the process */
    uint64_t window;      /* serial */
    uint64_t external;    /* id of the span that made it */
    uint64_t collective;  /* id of the communication library's call around it; 0: none */
    uint64_t counted; /* launches: id of the innermost span around it with a FLOP count; 0: none */
    struct json_place at; /* place of its row */
    struct held *held;    /* newest of the kept records, whose `next` is the oldest; NULL: none */
    uint32_t range;       /* innermost range of the user around it */
    uint8_t state;        /* enum call_state */
    uint8_t effect;       /* enum gpu_effect; EFFECT_NONE when it failed or was captured */
    bool arrow;           /* an arrow starts at its row */
    bool done;            /* no more work is expected of it */
    bool brought;         /* some of its work has come */
};

/* The full id for CUPTI's 32 bits. */
uint64_t correlation_extend(uint32_t correlation);

/* Recording pauses and all its records have come: the next id is a new one, however many were
 * handed out meanwhile. */
void correlation_pause(void);

/* The call with this id. `make`: adds it with state CALL_FREE. NULL: unknown; or no memory, or the
 * table is full and its place is taken by a call that waits. */
struct call *correlation_get(uint64_t correlation, bool make);

/* The oldest record kept with the call, or NULL. */
static inline const struct gpu_record *calls_oldest(const struct call *c)
{
    return c->held ? &c->held->next->r : NULL;
}

/* Keeps a copy of a record with the call. False: no memory, or too many are kept. */
bool correlation_hold(struct call *c, const struct gpu_record *r);

/* Removes the kept records, oldest first, and gives each to each(). */
void correlation_release(struct call *c,
                         void (*each)(struct call *, const struct gpu_record *, void *), void *arg);

/* Drops the kept records. Returns how many. */
uint64_t correlation_drop(struct call *c);

/* The window with this serial is dropped: its calls count as made outside of windows. */
void correlation_forget(uint64_t window);

/* Calls each() for every call in the table. */
void correlation_each(void (*each)(struct call *, void *), void *arg);

/* Launches without their kernel, and records without their call, that were replaced a million ids
 * later. Counted since the last call. */
uint64_t correlation_given_up(void);

/* How many records are kept now. */
uint64_t correlation_held(void);
