/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shortcuts in torch's own record path. Two calls that libtorch_cpu makes to answer the same thing
 * again and again lead here:
 *
 *   lists   at::set_record_function_tls_: the engine sets a thread's callbacks twice for each node.
 *           Torch then makes its ten lists of callbacks anew, under its lock. Nothing is to be done
 *           where the thread has no callbacks of its own before and after. From the first window
 *           until the end: between windows cprof listens to ranges, for steps, and a list takes
 *           longer to make with one callback than with none.
 *   names   c10::demangle: the name of a node without a name of its own (AccumulateGrad) is
 *           demangled twice for each node. The text depends on the mangled name only. Only while a
 *           window records.
 *
 * The calls are led here by writing libtorch_cpu's GOT entries. An entry is written only where it
 * holds torch's own function, in a page that is writable, and only that function is put back. Where
 * one cannot be led here, torch does all that it does without cprof.
 */
#ifndef PRELOAD_TORCH_TORCH_PATH_H
#define PRELOAD_TORCH_TORCH_PATH_H

#include "preload/settings/settings.h"

/* Finds the calls, unless CPROF_TORCH_PATH says callbacks. With CPROF_LOG=debug, says one line when
 * torch has a function but its calls cannot be led here: nobody can change that, and each trace
 * tells which path it has. Once, when torch is found. */
void torch_path_start(const struct config *config);

/* Leads the calls here, and tells the trace which. Under the torch lock. */
void torch_path_on(void);

/* Puts back what is led here only while a window records. A thread may still be in our function,
 * and returns from it. Under the torch lock. */
void torch_path_off(void);

/* Puts all back for good (exit, forked child, operators are off). Any thread, without a lock. */
void torch_path_end(void);

#endif
