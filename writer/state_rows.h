/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the state of the GPUs into the windows of its time. cprof thread. */
#pragma once

struct gpu_side;

/* Once per pass. */
void states_collect(struct gpu_side *g);
