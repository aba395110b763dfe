/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPROF_TRIGGER: windows on demand, besides those of the schedule.
 *
 *   signal:USR2   A signal opens a window. Takes USR1, USR2, HUP and RTMIN+N. The handler sets a
 *                 flag, wakes the cprof thread and calls the previous handler.
 *   file:PATH     A file opens a window when it appears; cprof removes it. It may hold a request.
 *                 The cprof thread checks four times a second. PATH takes the six run variables,
 *                 since each rank needs its own file. It must be a regular file of this user.
 *   socket        A client sends requests over a Unix socket; see below.
 *   nvtx:GLOB     Each NVTX range whose name or domain/name matches is a region, as between
 *                 cprof_start() and cprof_stop().
 *   cuda          A region lasts from cudaProfilerStart to cudaProfilerStop (or cuProfilerStart,
 *                 cuProfilerStop).
 *
 * Requests:
 *   steps=N       N whole steps, from the next one on.
 *   from=K        From step K on, or from the next one if K has begun. Ranks that get the same K
 *                 record the same steps. May be combined with steps=N.
 *   seconds=S     From now on.
 * The default is CPROF_ACTIVE steps. It is 5 seconds if no step was marked and no K is given.
 *
 * The socket is the abstract address "cprof-PIDNS-PID", with a NUL before it and none after it.
 * PIDNS is the number in the link /proc/PID/ns/pid, PID the process id inside that namespace. Only
 * the process's user and root may connect (SO_PEERCRED); clients should check their peer as well.
 * A client sends one line, then reads lines until the end of the stream. Each answer takes up to
 * 250 ms.
 *
 *   request                         answer
 *   status                          status pid=P rank=R step=N
 *                                   action=skip|warmup|active|active_and_save traces=N
 *   window [steps=M] [from=K]       opens step=N steps=M      N is K or the next step
 *   window [seconds=S]              opens step=N seconds=S    N is the current step
 *   either of these                 open step=N               a window is already open
 *                                   then, once the trace is complete: trace PATH, and done
 *   last                            trace PATH, and done      the flight recorder is saved
 *   anything else                   error TEXT; also when no trace comes (recording is off, nothing
 *                                   was recorded, or the program ends)
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "preload/settings/settings.h"
#include "writer/writer.h"

/* A requested window; all 0: the default window. */
struct trigger_request {
    int64_t steps, from, ms;
};

/* Parses "steps=N", "from=K", both, "seconds=S" (up to three decimals) or nothing; blanks are
 * ignored. Returns false for anything else. Pure. */
bool trigger_parse(const char *text, struct trigger_request *request);

/* The number of a signal that CPROF_TRIGGER=signal:NAME accepts ("USR2", "SIGUSR2", "RTMIN+3"); 0:
 * none. Pure. */
int trigger_signal_number(const char *name);

/* Prepares the trigger, without the cprof thread that serves it. Returns false, with a message,
 * when it is off. Once. Application thread. */
bool trigger_try(const struct config *config);

/* trigger_try(), and starts the cprof thread if needed. Once: at wake-up, or at the first step mark
 * of a process that was no rank. Application thread. */
void trigger_start(const struct config *config);

/* The pattern of CPROF_TRIGGER=nvtx:GLOB, else NULL. Any thread, after config_load(). */
const char *trigger_nvtx_pattern(void);

/* Sets trigger_by_cuda. Once, at wake-up, before trigger_start(). */
void trigger_configure(const struct config *config);

/* True with CPROF_TRIGGER=cuda. Any thread. */
extern _Atomic bool trigger_by_cuda;
static inline bool trigger_is_cuda(void)
{
    return atomic_load_explicit(&trigger_by_cuda, memory_order_relaxed);
}

/* The program called cudaProfilerStart or Stop; repeated calls do nothing. Application thread. */
void trigger_cuda(bool begins);

/* An NVTX range that matches the trigger begins or ends. Application thread. */
void trigger_region(bool begins);

/* Reports a trigger that never fired. Exiting thread. */
void trigger_finish(void);

/* Reports a window of a signal or a file that left no trace. Exiting thread, once all traces are
 * written. */
void trigger_over(void);

/* Opens the requested window. answer: first line of the protocol. *step: a trace with this or a
 * later step serves. *timed: it is a window of seconds. Returns false with an error in `answer`.
 * cprof thread. */
bool trigger_window(const struct trigger_request *request, char *answer, size_t size, int64_t *step,
                    bool *timed);

/* True when the last window of seconds left no trace and everything before it is saved. cprof
 * thread. */
bool trigger_left_nothing(void);

/* Serves requests and ends windows of seconds; see writer_options.each_pass. cprof thread. */
int trigger_poll(bool stopping);

/* Tells waiting clients of a complete trace. cprof thread. */
void trigger_trace(const struct saved_trace *trace);

/* Turns the trigger off in a forked child. In its atfork handler. */
void trigger_in_child(void);
