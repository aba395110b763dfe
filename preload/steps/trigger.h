/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPROF_TRIGGER: windows that begin when somebody asks for one in the running job, before, between
 * or after those of the schedule.
 *
 *   signal:USR2   A signal begins a window. The only handler that cprof ever installs; it sets a
 *                 flag, wakes the cprof thread and calls the handler that was there before. USR1,
 *                 USR2, HUP or RTMIN+N.
 *   file:PATH     A file begins a window when it appears; it is removed. Its text may be a request.
 *                 The cprof thread looks four times a second. PATH takes the six run variables:
 *                 each rank needs a file of its own. Only a regular file of this user counts.
 *   socket        Requests over a Unix socket; protocol below.
 *   nvtx:GLOB     Each NVTX range whose name or domain/name matches is a region, as cprof_start()
 *                 and cprof_stop() make one.
 *   cuda          So is what lies between cudaProfilerStart and cudaProfilerStop (cuProfilerStart,
 *                 cuProfilerStop).
 *
 * A request is "steps=N" (N whole steps, beginning with the next), "from=K" (beginning with step K,
 * or with the next where that has begun: ranks that are told the same K record the same steps),
 * both, or "seconds=S" (from now on). Without a number of steps: as many as CPROF_ACTIVE says, or,
 * without any of them, 5 seconds as long as no step has been marked.
 *
 * The socket is the abstract address "cprof-PIDNS-PID" (a NUL before it, none behind): PIDNS is the
 * number in the link /proc/PID/ns/pid, PID the process as it sees itself. Only the process's own
 * user and root are listened to (SO_PEERCRED); clients should look in the same way whom they talk
 * to. A client sends one line and reads lines until the end of the stream, at most some 250 ms
 * apart from what they answer:
 *
 *   status                          status pid=P rank=R step=N
 *                                   action=skip|warmup|active|active_and_save traces=N
 *   window [steps=M] [from=K]       opens step=N steps=M      with step N: K, or the next
 *   window [seconds=S]              opens step=N seconds=S    now, in step N
 *                                   open step=N               a window is being recorded already:
 *                                                             its trace follows
 *                                   then, when the trace is whole: trace PATH, and done
 *   anything else                   error TEXT, also when no trace comes: recording is off, nothing
 *                                   was recorded, the program ends
 */
#ifndef PRELOAD_STEPS_TRIGGER_H
#define PRELOAD_STEPS_TRIGGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "preload/settings/settings.h"
#include "writer/writer.h"

/* What is asked for; all 0: the usual. */
struct trigger_request {
    int64_t steps, from, ms;
};

/* Reads "steps=N", "from=K", both, "seconds=S" (decimals allowed) or nothing, blanks around them
 * ignored. False: it is none of these. Pure. */
bool trigger_parse(const char *text, struct trigger_request *request);

/* The number of the signal that CPROF_TRIGGER=signal:NAME may name ("USR2", "SIGUSR2", "RTMIN+3");
 * 0: none. Pure. */
int trigger_signal_number(const char *name);

/* Makes what waits for requests ready, but for the cprof thread that looks for them. False: nothing
 * is waited for, after a line where the trigger cannot be. Once. Application thread. */
bool trigger_try(const struct config *config);

/* trigger_try(), and starts the cprof thread where it is needed. Once: at wake-up, or for a process
 * that is no rank yet with its first step mark. Application thread. */
void trigger_start(const struct config *config);

/* The pattern of CPROF_TRIGGER=nvtx:GLOB, else NULL. Any thread, after config_load(). */
const char *trigger_nvtx_pattern(void);

/* Notes which calls of the program are triggers. Once, at wake-up, before trigger_start(). */
void trigger_configure(const struct config *config);

/* CPROF_TRIGGER=cuda. Any thread. */
extern _Atomic bool trigger_by_cuda;
static inline bool trigger_is_cuda(void)
{
    return atomic_load_explicit(&trigger_by_cuda, memory_order_relaxed);
}

/* cudaProfilerStart or Stop was called; repetitions do not count. Application thread. */
void trigger_cuda(bool begins);

/* A range of the program that says where to record begins or ends. Application thread. */
void trigger_region(bool begins);

/* Says so when there was no range of the program where to record. Exiting thread. */
void trigger_finish(void);

/* Says so when a window that a signal or a file asked for has left no trace. Exiting thread, once
 * all traces are written. */
void trigger_over(void);

/* Opens the window asked for. answer: the first line of the protocol; *step: traces with this step
 * or later ones are its; *timed: it is one of seconds, see below. False: the answer is an error.
 * cprof thread. */
bool trigger_window(const struct trigger_request *request, char *answer, size_t size, int64_t *step,
                    bool *timed);

/* True when a timed window has ended since and left no trace: all that came before it is saved.
 * cprof thread. */
bool trigger_left_nothing(void);

/* Looks for requests and ends timed windows; see writer_options.each_pass. cprof thread. */
int trigger_poll(bool stopping);

/* A trace is whole. cprof thread. */
void trigger_trace(const struct saved_trace *trace);

/* A forked child listens to nobody. In the child's atfork handler. */
void trigger_in_child(void);

#endif
