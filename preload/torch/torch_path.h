/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shortcuts in torch's own record path. These calls of libtorch_cpu are redirected:
 *
 *   lists   at::set_record_function_tls_: the autograd engine sets a thread's callbacks twice per
 *           node. torch then rebuilds its ten callback lists, under its lock. The replacement does
 *           nothing if the thread has no callbacks of its own before and after. Redirected from the
 *           first window until the end: between windows cprof listens to ranges, for steps, and a
 *           list with one callback takes longer to build than an empty one.
 *   names   c10::demangle: torch demangles the name of a node that has no name of its own
 *           (AccumulateGrad), twice per node. The replacement keeps the results. Redirected only
 *           while a window records.
 *   objects the constructors and other functions of at::RecordFunction (torch_objects.h).
 *           Only with CPROF_TORCH_PATH=objects. Redirected only while a window records, but the
 *           destructor until the end.
 *
 * A call is redirected in libtorch_cpu's GOT entry, if the entry holds torch's own function and its
 * page is writable. Only that function is put back. A call that cannot be redirected works as
 * without cprof.
 */
#pragma once

#include "preload/settings/settings.h"
#include "preload/torch/torch_objects.h"

/* Finds the calls, unless CPROF_TORCH_PATH=callbacks. Logs a debug line if torch has a function
 * whose calls cannot be redirected. It is no warning, because the user cannot change that, and each
 * trace names its path. callbacks: copied. Once, when torch is found. */
void torch_path_start(const struct config *config, const struct operator_callbacks *callbacks);

/* Redirects the calls, and records in the trace which ones. Under the torch lock. */
void torch_path_on(void);

/* Restores the calls that are redirected only while a window records. A thread may still be in a
 * replacement, and returns from it. Under the torch lock. */
void torch_path_off(void);

/* Restores all calls for good: at exit, in a forked child, or when operators are off. Any thread,
 * without a lock. */
void torch_path_end(void);
