/* SPDX-License-Identifier: Apache-2.0 */
/* Captures the calling thread's stack: its Python frames (pyframes.h) and the native frames below
 * them (unwind.h). A known stack costs only reading its frames; a new one is added to the table of
 * stacks (writer/stack/stack_table.h). No lock, no allocation, no system call. Application
 * threads. */
#pragma once

#include "preload/settings/settings.h"
#include "writer/writer.h"

/* Prepares what the settings ask for; logs what is not available. Python stacks begin after
 * pycheck.h's comparison. Call once, at wake-up, in the waking thread. */
void stack_capture_start(const struct config *config);

/* Adds the thread's stack to the span just opened. Call with GATE_STACKS open. */
void stack_capture_span(struct thread_log *log, struct open_span *span);

/* The same for a record that is no span. Returns *out, or NULL without a stack. */
const struct extras *stack_capture_extras(struct thread_log *log, struct extras *out);

/* Adds the stack to the span, if stacks are recorded. span may be NULL. */
static inline void stacks_open_span(struct thread_log *log, struct open_span *span)
{
    if (__builtin_expect(gate_open(GATE_STACKS), 0) && span)
        stack_capture_span(log, span);
}

/* stack_capture_extras() if stacks are recorded, else NULL. */
static inline const struct extras *stacks_of_point(struct thread_log *log, struct extras *out)
{
    return __builtin_expect(gate_open(GATE_STACKS), 0) ? stack_capture_extras(log, out) : NULL;
}

/* Allows or forbids reading the interpreter. Forbidding waits, at most some 100 ms, until no thread
 * reads it; call it with the GIL. Any thread. */
void stack_capture_python(bool on);
