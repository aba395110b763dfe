/* SPDX-License-Identifier: Apache-2.0 */
/* CPROF_PEAK_TFLOPS: what the user says the devices can do. */
#ifndef PRELOAD_SETTINGS_PEAKS_H
#define PRELOAD_SETTINGS_PEAKS_H

#include "writer/writer.h"

/* Reads a number (TFLOP/s of each GPU, for any kind of numbers), or a list `name=number,…` with the
 * names of flop_classes.def and `cpu`. False: the text is neither; *out is all 0 then, and one line
 * has said so. An empty text is fine. */
bool peaks_read(const char *text, struct flop_peaks *out);

#endif
