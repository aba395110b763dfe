/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the schedule says about one step. Shared by the schedule (preload/), which decides on the
 * thread that marks the step, and by the windows (writer/), which obey.
 */
#ifndef WRITER_BASE_ACTION_H
#define WRITER_BASE_ACTION_H

/* torch's names: NONE, WARMUP, RECORD, RECORD_AND_SAVE. The values are part of cprof.h's API. */
enum action {
    ACTION_SKIP = 0,            /* nothing is recorded */
    ACTION_WARMUP = 1,          /* sources are on, what they deliver is thrown away */
    ACTION_ACTIVE = 2,          /* recorded */
    ACTION_ACTIVE_AND_SAVE = 3, /* recorded; the window ends with this step */
};

#endif
