/* SPDX-License-Identifier: Apache-2.0 */
/* Peak rates of devices, from the table gpu_peaks.def. Pure. */
#pragma once

#include <stdint.h>

struct peak_device {
    const char *name;
    uint32_t major, minor; /* compute capability */
    uint32_t sms;
    uint32_t clock_khz; /* highest SM clock */
};

/* Peak TFLOP/s for an enum flop_class, without sparsity; 0: unknown. */
double peak_tflops(const struct peak_device *device, unsigned flop_class);
