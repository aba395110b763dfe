/* SPDX-License-Identifier: Apache-2.0 */
/* Native frames of the calling thread, by libunwind's unw_backtrace, and their names. libunwind is
 * opened RTLD_LOCAL, and only for stacks: if linked, it would take over C++ exceptions of the
 * process. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "preload/core/core.h"

/* Opens libunwind; logs if there is none. Call once, at wake-up. */
void unwind_start(void);

/* Whether frames are available. Any thread. */
bool unwind_ready(void);

/* Checks what was loaded and unloaded, and makes libunwind forget code that may be gone. Called
 * between steps and, on the cprof thread, around each unloading. Less than a microsecond if nothing
 * changed. Any thread. */
void unwind_refresh(void);

/* unwind_refresh() at the edge of a step that records stacks. Column of parts.def. */
void unwind_edge_before(const struct edge_change *change);

/* Which of the objects that were at this address one after another is there now, as dso_table_at()
 * (writer/stack/dso_table.h). Checks if an unloading left that unknown. Any thread; free until
 * something was unloaded. */
uint32_t unwind_object(const void *pc);

/* Return addresses from cprof's caller outwards, innermost first; `most` includes cprof's own
 * frames. below_python: only up to the interpreter's code. During an unloading it calls
 * unwind_refresh() first, so that unwind_object() is right for them. Any application thread; some
 * 10 ns per known frame, microseconds per new one. */
unsigned unwind_frames(void **out, unsigned most, bool below_python);
