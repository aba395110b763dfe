/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs of this process as CUPTI's DEVICE and CONTEXT records describe them, and the occupancy
 * that follows from that. cprof thread. */
#ifndef CUPTI_DEVICES_H
#define CUPTI_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "cupti/records.h"
#include "writer/writer.h"

/* Takes over the properties of a device. One that CUDA_VISIBLE_DEVICES hides is ignored: its number
 * may be that of a visible one. */
void gpu_device_learn(const struct cupti_device *d);

/* Whether a device has been learned. */
bool gpu_devices_known(void);

/* The context lives on the device. Cheap when that is known. */
void gpu_context_learn(uint32_t context, uint32_t device);

/* The device of a context; GPU_NONE: not known. */
uint32_t gpu_device_of(uint32_t context);

/* "NVIDIA H200", terminated; NULL: not known. */
const char *gpu_device_name(uint32_t device);

/* Most TFLOP/s of the device for numbers of an enum flop_class (cupti/gpu_peaks.def); 0 = not
 * known. */
double gpu_device_peak(uint32_t device, unsigned flop_class);

/* The value of deviceProperties in Kineto's keys, a line per device; "[]" without any. Valid until
 * the next call. */
const char *gpu_devices_json(void);

/* Fills in blocks_per_sm, warps_per_sm and occupancy of out->kernel: -1 each for an unknown
 * device. */
void gpu_occupancy(const struct cupti_kernel *k, struct gpu_record *out);

/* Forgets all devices and contexts. For tests. */
void gpu_devices_forget(void);

#endif
