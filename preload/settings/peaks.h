/* SPDX-License-Identifier: Apache-2.0 */
/* CPROF_PEAK_TFLOPS: peak rates of the devices. */
#pragma once

#include "writer/writer.h"

/* Parses the peak of each GPU in TFLOP/s, or a list `name=number,…` with the names of
 * flop_classes.def and `cpu`. Empty text is allowed. Returns false, with a message and *out all 0,
 * for anything else. */
bool peaks_read(const char *text, struct flop_peaks *out);
