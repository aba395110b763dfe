/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that reads the state of the GPUs that this process uses. It sleeps while no window
 * records.
 *
 *     cprof thread:      gpu_states() of gpu_trace.h   which GPUs, when; takes what was read
 *     telemetry thread:  nvml.h, device_values.h       NVML's calls; a ring, no lock
 *
 * No NVML, no permission and a GPU that NVML does not know are normal: then nothing is recorded. */
#pragma once

/* In a forked child, which has no such thread: NVML is never called again. */
void telemetry_abandon(void);
