/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs of this process, from CUPTI's DEVICE and CONTEXT records, and the occupancy of kernels on
 * them. cprof thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cupti/records.h"
#include "writer/writer.h"

/* Stores the properties of a device. Ignores a device that CUDA_VISIBLE_DEVICES hides: its number
 * may be that of a visible one. */
void gpu_device_learn(const struct cupti_device *d);

/* Which of the machine's GPUs a device is. */
struct gpu_identity {
    uint8_t uuid[16];
    bool is_mig; /* divided into instances, one of which this process uses */
};

/* The identity of a device on which this process has had a context; NULL: it has had none, or the
 * device is not known. */
const struct gpu_identity *gpu_device_used(uint32_t device);

/* Whether a device has been learned. */
bool gpu_devices_known(void);

/* Stores which device a context is on. Cheap when it is known. */
void gpu_context_learn(uint32_t context, uint32_t device);

/* Device of a context; GPU_NONE: unknown. */
uint32_t gpu_device_of(uint32_t context);

/* Name as "NVIDIA H200", terminated; NULL: unknown. */
const char *gpu_device_name(uint32_t device);

/* Peak TFLOP/s of the device for an enum flop_class (cupti/gpu_peaks.def); 0: unknown. */
double gpu_device_peak(uint32_t device, unsigned flop_class);

/* JSON of deviceProperties with Kineto's keys, a line per device; "[]" without any. Valid until the
 * next call. */
const char *gpu_devices_json(void);

/* Sets blocks_per_sm, warps_per_sm and occupancy of out->kernel; -1 each for an unknown device. */
void gpu_occupancy(const struct cupti_kernel *k, struct gpu_record *out);

/* For tests: forgets all devices and contexts. */
void gpu_devices_forget(void);
