/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that only Python sees: ends of optimizers' steps, and of outermost module calls. */
#ifndef PRELOAD_TORCH_TORCH_GLUE_H
#define PRELOAD_TORCH_TORCH_GLUE_H

/* Marks a step behind each optimizer's step() through torch's own hook, where the layout of its
 * callbacks is not known. Any thread. */
void torch_follow_optimizers(void);

/* CPROF_STEP=forward: marks a step behind each outermost module call. Says so in one line when this
 * process has no Python. Waking thread. */
void torch_follow_forward(void);

#endif
