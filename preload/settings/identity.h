/* SPDX-License-Identifier: Apache-2.0 */
/* Rank and run name of this process, and the paths of its traces. Application threads read the
 * environment; the cprof thread gets the results here. */
#pragma once

#include <stdbool.h>

#include "preload/settings/config.h"
#include "writer/writer.h"

/* Notes the working directory, the base of relative paths. Once, in the constructor. */
void identity_capture(void);

/* Reads the rank and the run name. Once, on the waking thread. */
void identity_start(const struct config *config);

/* Reads the rank again. The thread that marks a step. */
void identity_refresh(void);

/* Notes that this process is rank `of` in a communicator of `size` ranks. Without a launcher's
 * rank, the largest communicator counts, unless a launcher set another world size. source: "NCCL",
 * static. Application thread; takes a lock, so call it once per communicator. */
void identity_communicator(int64_t of, int64_t size, const char *source);

/* Notes that a transfer used this library ("nccl", "gloo", "ucc" or "mpi"; others are ignored). The
 * trace names one backend: NCCL before gloo before UCC before MPI. Application thread; no lock. */
void identity_backend(const char *name);

/* True when an ancestor has a cprof thread. This process is then a helper of a traced one unless it
 * marks steps. Reads /proc; application thread. */
bool identity_below_traced(void);

/* True when ranks of this launch have left traces. A process without step marks is then their
 * launcher, and its trace would look like rank 0's. False without children, or with
 * CPROF_TRACE_CHILDREN=1. Reads the folder; cprof thread. */
bool identity_ranks_wrote(void);

/* These three are callbacks of writer_options; see writer.h. cprof thread. */
void identity_fill(struct trace_identity *out);
bool identity_trace_path(const struct train_time *time, char *path, unsigned long size);
bool identity_trace_pattern(char *pattern, unsigned long size);

/* The setting by which another run gets other trace names; see writer.h. Any thread, after
 * identity_start(). */
const char *identity_renamed_by(void);

/* Whether runs that begin in the same second share their trace names: the names hold the default
 * run name. */
bool identity_shares_second(void);

/* The remote name of a trace saved at `time`, without a leading slash. number > 1: a variant for
 * the nth trace of that name. Returns false, with a message, when there is none. cprof thread. */
bool identity_remote_name(const struct train_time *time, unsigned number, char *name,
                          unsigned long size);

/* Writes the absolute path of CPROF_METRICS. False: too long. cprof thread. */
bool identity_metrics_path(char *path, unsigned long size);

/* Expands the six run variables in `text` and makes the path absolute. Returns false for an unknown
 * variable or a path that is too long. Any thread. */
bool identity_expand(const char *text, char *out, unsigned long size);

/* The run's name. Any thread, after identity_start(). */
const char *identity_run_name(void);

/* True when trace names end in .gz. */
bool identity_gzip(void);
