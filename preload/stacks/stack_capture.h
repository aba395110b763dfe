/* SPDX-License-Identifier: Apache-2.0 */
/* Taking the stack of the calling thread: its Python frames (pyframes.h), and the native frames
 * below them (unwind.h). A stack that was seen before costs no more than looking at its frames; a
 * new one is put into the table of stacks (writer/stack/stack_table.h). No lock, no allocation, no
 * system call. Application threads. */
#ifndef PRELOAD_STACKS_STACK_CAPTURE_H
#define PRELOAD_STACKS_STACK_CAPTURE_H

#include "preload/settings/settings.h"
#include "writer/writer.h"

/* Makes ready what the settings ask for; says in one line what cannot be had. Python stacks begin
 * when the interpreter has confirmed what is read (pycheck.h). Once, at wake-up, by the waking
 * thread. */
void stack_capture_start(const struct config *config);

/* Gives the span just opened the thread's stack. Call with GATE_STACKS open. */
void stack_capture_span(struct thread_log *log, struct open_span *span);

/* The same for a record that is no span: fills *out; returns it, or NULL when there is no stack to
 * be had. */
const struct extras *stack_capture_extras(struct thread_log *log, struct extras *out);

/* Adds the stack to the innermost open span, when stacks are recorded and there is such a span. */
static inline void stacks_open_span(struct thread_log *log, struct open_span *span)
{
    if (__builtin_expect(gate_open(GATE_STACKS), 0) && span)
        stack_capture_span(log, span);
}

/* The same as stack_capture_extras() when stacks are recorded, else NULL. */
static inline const struct extras *stacks_of_point(struct thread_log *log, struct extras *out)
{
    return __builtin_expect(gate_open(GATE_STACKS), 0) ? stack_capture_extras(log, out) : NULL;
}

/* From now on the interpreter may be read, or must not be any more. Stopping waits, at most some
 * 100 ms, until no thread reads it. Any thread; the one that stops holds the GIL. */
void stack_capture_python(bool on);

#endif
