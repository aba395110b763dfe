/* SPDX-License-Identifier: Apache-2.0 */
/* The activity kinds of kinds.def on and off, and which calls CUPTI records. Each kind's answer is looked at: one that CUPTI refuses is
 * named once, the rest goes on. The caller serialises. */
#ifndef CUPTI_SWITCH_H
#define CUPTI_SWITCH_H

#include "cupti/bind.h"
#include "cupti/gpu_trace.h"

/* Learns by name which calls traces do not show, so that CUPTI (12.5 and newer) need not record them. Once. */
void switch_learn(const struct cupti *c);

/* Enables the kinds that `options` asks for, kernels first and calls last, so that no call is recorded whose kernel is not. Returns how
 * many are on; *calls: whether runtime or driver calls are among them. initializing: inside cuInit. */
unsigned switch_on(const struct cupti *c, const struct gpu_options *options, bool initializing,
                   bool *calls);

/* Takes the calls that traces do not show out of what switch_on() enabled; a thousand calls of CUPTI, so not on a thread that
 * trains. */
void switch_filter(const struct cupti *c);

/* Disables what switch_on() enabled, calls first; but_kernels: CONCURRENT_KERNEL stays on. */
void switch_off(const struct cupti *c, bool but_kernels);

/* Enables CONCURRENT_KERNEL, which is what costs seconds and must come before modules and graphs, and unless it stays disables it again.
 * Returns CUPTI's result. */
int switch_first(const struct cupti *c, bool stays);

#endif
