/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of edges between the thread that marks steps and the cprof thread, the word on which the cprof thread sleeps, and the switch that
 * turns recording off. Its application side is in writer.h: writer_set_gate(), writer_edge_begin(), writer_edge(), writer_mark(), writer_wake(),
 * writer_is_off(). */
#ifndef WRITER_RECORD_EDGES_H
#define WRITER_RECORD_EDGES_H

#include "writer/writer.h"

/* Nothing more is recorded, for good; what has been is finished. Any thread. */
void edges_stop(void);

/* True while nothing is recorded: for good, or until the edges that filled the queue are taken. Any thread. */
bool edges_paused(void);

/* What filled the queue is taken, and the window that it belonged to has ended: recording goes on at the next edge. cprof thread. */
void edges_caught_up(void);

/* Edges that would have recorded and found no room, since last asked. cprof thread. */
uint64_t edges_missed(void);

/* Wakes the cprof thread. Any thread. */
void edges_wake(void);

/* What edges_wait() wants, read before looking for work; waits until edges_wake() is called after that, at most `ms` milliseconds; below 0: for
 * ever. cprof thread. */
uint32_t edges_wake_word(void);
void edges_wait(uint32_t word, int64_t ms); /* as above */

/* Edges posted and taken since the beginning. Any thread. */
uint64_t edges_posted_so_far(void);
uint64_t edges_taken_so_far(void); /* as above */

/* Nothing is recorded on either side of the edge: only who listens wants to know of it. */
bool edge_changes_nothing(const struct step_edge *edge);

/* Calls take() for each edge posted so far, in order. Waits until every announced edge has been posted, at most two seconds: its stamp is older
 * than any record that could follow it. cprof thread. */
void edges_take(void (*take)(const struct step_edge *edge));

/* True inside take(): what it replays may ask for room in the rings, which hold what belongs to edges that are not taken yet. cprof thread. */
bool edges_being_taken(void);

#endif
