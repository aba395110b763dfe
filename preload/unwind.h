/* SPDX-License-Identifier: Apache-2.0 */
/* Native frames of the calling thread, by libunwind's unw_backtrace, and what they are called. The library is opened RTLD_LOCAL and only
 * when stacks are asked for: linked, it would take the process' C++ exceptions over. */
#ifndef PRELOAD_UNWIND_H
#define PRELOAD_UNWIND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Opens the library; says in one line when there is none. Once, at wake-up. */
void unwind_start(void);

/* True when frames can be had. Any thread. */
bool unwind_ready(void);

/* Forgets how code is unwound that may have been unloaded since the last call, and where another file may now be. Between steps, and on the
 * cprof thread; nothing while another thread does it. */
void unwind_refresh(void);

/* Which of the files that were one after the other at an address is there now: 0 for the first one, else how many had been unloaded when
 * it was noticed that another came (writer/symbols.h). Any thread; costs nothing until something was unloaded. */
uint32_t unwind_epoch(const void *pc);

/* Return addresses from the caller of cprof outwards, innermost first, at most `most` with cprof's own; below_python: only up to the
 * interpreter's code. Any application thread; a place seen before costs some 10 ns a frame, a new one microseconds. */
unsigned unwind_frames(void **out, unsigned most, bool below_python);

#endif
