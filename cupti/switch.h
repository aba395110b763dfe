/* SPDX-License-Identifier: Apache-2.0 */
/* The activity kinds of kinds.def on and off, and which calls CUPTI records. Each kind's answer is
 * looked at: one that CUPTI refuses is named once, the rest goes on. The caller serialises. */
#ifndef CUPTI_SWITCH_H
#define CUPTI_SWITCH_H

#include "cupti/bind.h"
#include "cupti/gpu_trace.h"

/* Learns by name which calls traces do not show, so that CUPTI (12.5 and newer) need not record
 * them. Once. */
void switch_learn(const struct cupti *c);

/* Enables the kinds that `options` asks for, kernels first and calls last, so that no call is
 * recorded whose kernel is not; 0.2 ms, the first time 3 ms. Returns whether runtime or driver
 * calls are among what is on. initializing: inside cuInit. Any thread. */
bool switch_on(const struct cupti *c, const struct gpu_options *options, bool initializing);

/* Takes the calls that traces do not show out of what switch_on() enabled; 0.1 ms. Like
 * switch_off() on a thread that is in no CUDA call (gpu_edge() in session.c says why). */
void switch_filter(const struct cupti *c);

/* What may stay on between windows: kernels, where it is their going off that does harm; graphs as
 * a whole, because "the graph trace activity for a graph cannot be collected if it is enabled after
 * the graph was instantiated" (CUPTI's usage guide). */
#define SWITCH_KERNELS 1u
#define SWITCH_GRAPHS  2u

/* Disables what switch_on() enabled, calls first, but for what `stays`. */
void switch_off(const struct cupti *c, unsigned stays);

/* Enables what must be on before modules and graphs are made: CONCURRENT_KERNEL, whose first time
 * costs seconds, and disables it again unless it `stays`; and graphs as a whole, where they do.
 * Returns CUPTI's result for kernels. */
int switch_first(const struct cupti *c, unsigned stays);

/* Disables graphs as a whole, where they stayed on. */
void switch_last(const struct cupti *c, unsigned stays);

#endif
