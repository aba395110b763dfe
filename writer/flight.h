/* SPDX-License-Identifier: Apache-2.0 */
/* The flight recorder: the last steps, in one file of limited size. It is a window that never ends
 * and loses its older half when it is full. cprof thread, but for flight_start(). */
#pragma once

#include "writer/join/join.h"

/* Takes the options. The waking thread, before the cprof thread starts. */
void flight_start(struct window_shared *shared);

/* Why a recording is saved. */
enum flight_cause {
    FLIGHT_SLOW,
    FLIGHT_HANG,
    FLIGHT_OUT_OF_MEMORY,
    FLIGHT_TRANSFER,
    FLIGHT_END,
    FLIGHT_ASKED,
    FLIGHT_CAUSES
};

/* "slow_step", "hang" …; static. */
const char *flight_cause_name(enum flight_cause cause);

/* How many were saved for this cause. */
uint64_t flight_saves(enum flight_cause cause);

/* True while there is a recorder. */
bool flight_runs(void);

/* Takes each edge, recorded or not, and writes the step that ends there. */
void flight_edge(const struct step_edge *edge);

/* Writes the record if the recorder keeps its kind. */
void flight_record(const struct record_owner *owner, const struct record *r);

/* Whether the recorder keeps kernels, so that CUPTI records in all steps. */
bool flight_keeps_kernels(void);

/* Writes a kernel, copy, fill or graph, if the recorder keeps them. */
void flight_work(const struct join_windows *in, const struct gpu_record *r);

/* Writes to the file what has come. force: also if little has come. */
void flight_flush(bool force);

/* The process ends: removes the file, or saves it if the end is not a normal one. */
void flight_end(void);
