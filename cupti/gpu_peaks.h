/* SPDX-License-Identifier: Apache-2.0 */
/* What a device can do at most, from the table gpu_peaks.def. Pure. */
#ifndef CUPTI_GPU_PEAKS_H
#define CUPTI_GPU_PEAKS_H

#include <stdint.h>

/* What is known of a device. */
struct peak_device {
    const char *name;
    uint32_t major, minor; /* compute capability */
    uint32_t sms;
    uint32_t clock_khz; /* the highest of the SMs */
};

/* TFLOP/s for numbers of an enum flop_class, without sparsity; 0 = not known. */
double peak_tflops(const struct peak_device *device, unsigned flop_class);

#endif
