/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule's action for a step. preload/ decides it on the thread that marks the step, writer/
 * obeys. */
#pragma once

/* torch's NONE, WARMUP, RECORD and RECORD_AND_SAVE. The values are part of the API of cprof.h. */
enum action {
    ACTION_SKIP = 0,            /* nothing is recorded */
    ACTION_WARMUP = 1,          /* sources are on, their records are dropped */
    ACTION_ACTIVE = 2,          /* recorded */
    ACTION_ACTIVE_AND_SAVE = 3, /* recorded; the window ends with this step */
};
