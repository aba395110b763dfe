/* SPDX-License-Identifier: Apache-2.0 */
/* Where training stands, in Composer's terms, for template variables and handlers. Plain data. */
#pragma once

#include <stdint.h>

/* Counts are of completed things since the start of the run or, by name, of the epoch. *_wct_ns:
 * wall-clock nanoseconds of the run, the current epoch and the last batch. Values that the program
 * does not report stay 0. */
struct train_time {
    int64_t epoch;
    int64_t batch; /* completed steps */
    int64_t batch_in_epoch;
    int64_t sample;
    int64_t sample_in_epoch;
    int64_t token;
    int64_t token_in_epoch;
    int64_t total_wct_ns;
    int64_t epoch_wct_ns;
    int64_t batch_wct_ns;
};
