/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of step edges from the thread that marks steps to the cprof thread, and the state that
 * turns recording off. writer.h has the application's side: writer_set_gate(), writer_edge_begin(),
 * writer_edge(), writer_mark(), writer_wake(), writer_is_off(). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct step_edge;

/* start: starts the cprof thread if it does not run yet; false: it cannot. Before the first edge;
 * the waking thread. */
void edges_start(bool (*start)(void));

/* From now on, edges in idle steps are posted, too. Before the first edge. */
void edges_want_all(void);

/* Stops recording for good. Records so far are still written. Any thread. */
void edges_stop(void);

/* True while recording is stopped for good, or paused until the full queue is taken. Any thread. */
bool edges_paused(void);

/* The full queue is taken and its window has ended, so the next edge resumes recording. cprof
 * thread. */
void edges_caught_up(void);

/* Returns how many edges that change recording found no room since the last call. cprof thread. */
uint64_t edges_missed(void);

/* How many edges have been posted and taken so far. Any thread. */
uint64_t edges_posted_so_far(void);
uint64_t edges_taken_so_far(void); /* as above */

/* True for an edge that matters to the listener only: nothing is recorded before or after it. Any
 * thread. */
bool edge_changes_nothing(const struct step_edge *edge);

/* Calls take() for each posted edge, in order. First waits, at most two seconds, until all
 * announced edges are posted: the rings may already have records that are newer than an announced
 * edge. cprof thread. */
void edges_take(void (*take)(const struct step_edge *edge));

/* True inside take(). The rings then hold records of edges that are not taken yet, so code under
 * take() must not drain them. cprof thread. */
bool edges_being_taken(void);
