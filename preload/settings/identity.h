/* SPDX-License-Identifier: Apache-2.0 */
/* Which process this is among its relatives and its launch: rank, run name, paths of its traces.
 * Read on application threads at wake-up and at the first recorded step; handed to the cprof thread
 * through the functions below. */
#ifndef PRELOAD_SETTINGS_IDENTITY_H
#define PRELOAD_SETTINGS_IDENTITY_H

#include <stdbool.h>

#include "preload/settings/config.h"
#include "writer/writer.h"

/* The working directory, which relative paths are below. Once, in the constructor. */
void identity_capture(void);

/* Reads rank and run name. Once, at wake-up, on the waking thread. */
void identity_start(const struct config *config);

/* Reads the rank again. Stepping thread. */
void identity_refresh(void);

/* This process is rank `of` of a communicator of so many. Where no launcher has told the rank, that
 * of the largest one counts, if it is as large as the world is said to be. source: "NCCL", static.
 * Application thread; takes a lock: once per communicator. */
void identity_communicator(int64_t of, int64_t size, const char *source);

/* A transfer went through this library ("nccl", "gloo", "ucc", "mpi"; others are passed over): the
 * trace's backend, as torch.distributed names it. Of several the one that trains counts: NCCL
 * before gloo before the rest. Application thread; no lock. */
void identity_backend(const char *name);

/* True when an ancestor of this process has a thread named `cprof`: it is traced, and this process
 * is one of its helpers unless it marks steps. Reads /proc; application thread. */
bool identity_below_traced(void);

/* True when ranks of this launch have left traces: a process without step marks beside them is
 * their launcher, and its trace would pass for that of rank 0. Never without a child so far, nor
 * with CPROF_TRACE_CHILDREN=1, which asks for all. Reads the folder; cprof thread. */
bool identity_ranks_wrote(void);

/* The three that writer_options takes; see writer.h. cprof thread. */
void identity_fill(struct trace_identity *out);
bool identity_trace_path(const struct train_time *time, char *path,
                         unsigned long size);                   /* see writer.h */
bool identity_trace_pattern(char *pattern, unsigned long size); /* see writer.h */

/* The setting that gives another run's traces other names; see writer.h. Any thread, after
 * identity_start(). */
const char *identity_renamed_by(void);

/* Whether runs that begin in the same second have the same names of traces: the run's default name
 * is in them. */
bool identity_shares_second(void);

/* The name to upload a trace saved at `time` as, without a slash in front; number > 1: the nth that
 * would have this name. False: none (said). cprof thread. */
bool identity_remote_name(const struct train_time *time, unsigned number, char *name,
                          unsigned long size);

/* A path with the six run variables, made absolute below the directory in which the process began;
 * false: an unknown variable, or too long. Any thread. */
bool identity_expand(const char *text, char *out, unsigned long size);

/* The run's name. Any thread, after identity_start(). */
const char *identity_run_name(void);

/* True when traces get names that end in .gz. */
bool identity_gzip(void);

#endif
