/* SPDX-License-Identifier: Apache-2.0 */
/* Enables and disables the kinds of kinds.def and selects the calls that CUPTI records. A kind that
 * CUPTI refuses is logged once; the others are still recorded. The caller serialises. */
#pragma once

#include "cupti/bind.h"
#include "cupti/gpu_trace.h"

/* Finds the calls that traces do not show, so that CUPTI (12.5 and newer) need not record them.
 * Call once. */
void switch_learn(const struct cupti *c);

/* Enables the kinds that `options` ask for: kernels first, calls last, so that no call is recorded
 * whose kernel is not. Takes 0.2 ms, 3 ms the first time. Returns whether runtime or driver calls
 * were enabled. initializing: inside cuInit. Any thread. */
bool switch_on(const struct cupti *c, const struct gpu_options *options, bool initializing);

/* Disables the calls that traces do not show, after switch_on(). Takes 0.1 ms. Call it and
 * switch_off() on a thread that is in no CUDA call; gpu_edge() in session.c says why. */
void switch_filter(const struct cupti *c);

/* Kinds that may stay on between windows: kernels, where disabling them does harm; whole graphs,
 * because "the graph trace activity for a graph cannot be collected if it is enabled after the
 * graph was instantiated" (CUPTI's usage guide). */
#define SWITCH_KERNELS 1u
#define SWITCH_GRAPHS  2u

/* Disables what switch_on() enabled, calls first, except `stays`. */
void switch_off(const struct cupti *c, unsigned stays);

/* Enables what must be on before modules and graphs exist: CONCURRENT_KERNEL, which takes seconds
 * the first time and is disabled again unless it `stays`; and whole graphs, if they stay. Returns
 * CUPTI's result for kernels. */
int switch_first(const struct cupti *c, unsigned stays);

/* Disables whole graphs if they stayed on. */
void switch_last(const struct cupti *c, unsigned stays);
