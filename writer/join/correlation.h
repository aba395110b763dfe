/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that CUPTI has reported, by correlation id, and the device records that came before
 * their call did. Ids are handed out one after the other, so the table is indexed by their low
 * bits; it grows while calls that still wait for something are in each other's way. cprof
 * thread. */
#ifndef WRITER_JOIN_CORRELATION_H
#define WRITER_JOIN_CORRELATION_H

#include "writer/record/record.h"
#include "writer/json/json.h"

enum call_state {
    CALL_FREE,
    CALL_UNSEEN, /* only records that it caused have come */
    /* a driver call that may be part of a runtime call with the same id: `held` begins with its
     * record */
    CALL_DRIVER,
    CALL_WRITTEN, /* its row stands in the file of `window` */
    CALL_OUTSIDE, /* made while no window was open: nothing of it is shown */
    CALL_LATE,    /* made in a window whose file is complete */
};

/* A record that waits for its call. */
struct held {
    struct held *next;
    struct gpu_record r;
};

struct call {
    uint64_t correlation; /* with the wraps counted in the upper half: unique in the process */
    uint64_t window;      /* serial */
    uint64_t external;    /* id of the span that made it */
    uint64_t collective;  /* id of the communication library's call that made it, 0 = none */
    uint64_t counted; /* launches: id of the innermost span around it with a FLOP count; 0 = none */
    struct json_place at; /* of its row */
    struct held *held; /* the newest of the kept records, whose `next` is the oldest; NULL: none */
    uint32_t range;    /* innermost user's range around it */
    uint8_t state;     /* enum call_state */
    uint8_t effect;    /* enum gpu_effect; EFFECT_NONE when it failed or was captured */
    bool arrow;        /* an arrow starts at its row */
    bool done;         /* what it must cause has come */
    bool brought;      /* work has come of it */
};

/* Full ids from CUPTI's 32 bits. */
uint64_t correlation_extend(uint32_t correlation);

/* Nothing is recorded now, and all that was has come: the next id is a new one, however many were
 * handed out meanwhile. */
void correlation_pause(void);

/* The call with this id; a new one with state CALL_FREE is made when `make`. NULL: not there; or no
 * memory, or the table is as large as it may be and the place is taken by one that still waits. */
struct call *correlation_get(uint64_t correlation, bool make);

/* The oldest record that is kept with the call, or NULL. */
static inline const struct gpu_record *calls_oldest(const struct call *c)
{
    return c->held ? &c->held->next->r : NULL;
}

/* Keeps a copy of a record with the call. false: no memory, or too many are kept already. */
bool correlation_hold(struct call *c, const struct gpu_record *r);

/* Takes the kept records off the call, oldest first, and gives them to each(). */
void correlation_release(struct call *c,
                         void (*each)(struct call *, const struct gpu_record *, void *), void *arg);

/* Throws the kept records away. Returns how many there were. */
uint64_t correlation_drop(struct call *c);

/* Nobody wants the window with this serial: its calls count as made outside. */
void correlation_forget(uint64_t window);

/* Calls each() for every call that is not free. */
void correlation_each(void (*each)(struct call *, void *), void *arg);

/* Launches whose kernel has not come, and records whose call has not, that a call made a million
 * ids later has taken the place of; since last asked. */
uint64_t correlation_given_up(void);

/* Records kept now. */
uint64_t correlation_held(void);

#endif
