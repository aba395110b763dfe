/* SPDX-License-Identifier: Apache-2.0 */
/* The Python frames of all threads of this process, read from outside them: no GIL, no stop, no
 * call of the interpreter. The kernel copies what an address holds. So a thread that runs meanwhile
 * may give wrong or missing frames, but never a fault. Before CPython 3.11 only the frames of the
 * thread that called pythreads_start() can be told. */
#pragma once

#include "writer/writer.h"

/* Finds the interpreter; takes the loader's lock. Call once, at wake-up, in the waking thread. */
void pythreads_start(void);

/* Calls take() for each frame of the threads of the main interpreter, the innermost of a thread
 * first, at most 64 of a thread and 4096 in all. None without Python, or where its layout is
 * unknown. cprof thread; waits for no lock. */
void pythreads_read(python_line_taker *take, void *to);
