/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of edges between the thread that marks steps and the cprof thread, and the switch that
 * turns recording off. writer.h has the side of the application: writer_set_gate(),
 * writer_edge_begin(), writer_edge(), writer_mark(), writer_wake(), writer_is_off(). */
#ifndef WRITER_RECORD_EDGES_H
#define WRITER_RECORD_EDGES_H

#include <stdbool.h>
#include <stdint.h>

struct step_edge;

/* `start` starts the cprof thread where an edge needs it and it does not run yet; false: it cannot.
 * Before the first edge; the waking thread. */
void edges_start(bool (*start)(void));

/* Nothing more is recorded, for good; what has been is finished. Any thread. */
void edges_stop(void);

/* True while nothing is recorded: for good, or until the edges that filled the queue are taken. Any
 * thread. */
bool edges_paused(void);

/* What filled the queue is taken, and the window that it belonged to has ended: recording goes on
 * at the next edge. cprof thread. */
void edges_caught_up(void);

/* Edges that would have recorded and found no room, since last asked. cprof thread. */
uint64_t edges_missed(void);

/* Edges posted and taken since the beginning. Any thread. */
uint64_t edges_posted_so_far(void);
uint64_t edges_taken_so_far(void); /* as above */

/* Nothing is recorded on either side of the edge: only who listens wants to know of it. */
bool edge_changes_nothing(const struct step_edge *edge);

/* Calls take() for each edge posted so far, in order. Waits until every announced edge has been
 * posted, at most two seconds: its stamp is older than any record that could follow it. cprof
 * thread. */
void edges_take(void (*take)(const struct step_edge *edge));

/* True inside take(): what it replays may ask for room in the rings, which hold what belongs to
 * edges that are not taken yet. cprof thread. */
bool edges_being_taken(void);

#endif
