/* SPDX-License-Identifier: Apache-2.0 */
/* Marks steps that only Python code can see: ends of optimizer steps and of outermost module
 * calls. */
#pragma once

/* Marks a step after each optimizer's step(), through torch's own hook. For a torch whose layout is
 * unknown. Any thread. */
void torch_follow_optimizers(void);

/* CPROF_STEP=forward: marks a step after each outermost module call. Logs one line if this process
 * has no Python. Waking thread. */
void torch_follow_forward(void);
