/* SPDX-License-Identifier: Apache-2.0 */
/* Native frames of the calling thread, by libunwind's unw_backtrace, and what they are called. The
 * library is opened RTLD_LOCAL and only when stacks are asked for: linked, it would take the
 * process' C++ exceptions over. */
#ifndef PRELOAD_STACKS_UNWIND_H
#define PRELOAD_STACKS_UNWIND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "preload/core/core.h"

/* Opens the library; says in one line when there is none. Once, at wake-up. */
void unwind_start(void);

/* True when frames can be had. Any thread. */
bool unwind_ready(void);

/* Looks what was loaded and unloaded, and forgets how code is unwound that may be gone. Between
 * steps, before and after something is closed, on the cprof thread; less than a microsecond when
 * nothing changed. Any thread. */
void unwind_refresh(void);

/* The same at the edge of a step that takes stacks. Column of parts.def. */
void unwind_edge_before(const struct edge_change *change);

/* Which of the objects that were one after the other at an address is there now, as dso_table_at()
 * says (writer/stack/dso_table.h). Looks what is there where something was unloaded and it is not
 * known yet. Any thread; costs nothing until something was unloaded. */
uint32_t unwind_object(const void *pc);

/* Return addresses from the caller of cprof outwards, innermost first, at most `most` with cprof's
 * own; below_python: only up to the interpreter's code. While something is being closed it looks
 * first, as unwind_refresh() does, so that unwind_object() of them tells what is there now. Any
 * application thread; a place seen before costs some 10 ns a frame, a new one microseconds. */
unsigned unwind_frames(void **out, unsigned most, bool below_python);

#endif
