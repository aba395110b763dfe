/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a GPU's state by NVML. Telemetry thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cupti/nvml.h"
#include "writer/writer.h"

/* A sum of bytes at a time, for rates. */
struct byte_count {
    uint64_t kib;
    uint64_t at_ns; /* clock_monotonic_ns(); 0: none yet */
};

/* Energy that is added up from the power, for a GPU that does not count its own. */
struct power_sum {
    double joules, power; /* power: at the last reading, W */
    uint64_t at_ns;       /* clock_monotonic_ns() of it; 0: none yet */
};

/* A GPU, and what it has refused. */
struct device_values {
    void *device;           /* NVML's; NULL: it knows none of this UUID */
    uint32_t refused;       /* bits 1 << enum gpu_value: never asked again */
    uint32_t sm_clock_most; /* MHz; 0: unknown */
    double power_limit;     /* W; 0: unknown */
    bool is_mig;            /* divided: its energy is not the program's */
    struct power_sum sum;
    struct byte_count sent, received; /* over NVLink */
    void *gpm[2];                     /* samples; NULL: it has no GPM */
    uint64_t gpm_ns;                  /* clock_monotonic_ns() of the last one; 0: none yet */
    unsigned gpm_next;                /* which of the two is filled next */
};

/* Finds the GPU with this UUID. is_mig: it is divided, so that numbers about the whole of it are
 * not the program's; only clocks, power, temperature and throttling are read. */
void device_values_open(struct device_values *d, const struct nvml *api, const uint8_t uuid[16],
                        bool is_mig);

/* Reads the state, but for the device's number and PCIe. rates: also what is a rate since the last
 * time. Reads the energy last, and `ticks` behind it. */
struct gpu_state device_values_read(struct device_values *d, const struct nvml *api, bool rates);

/* Reads what goes over PCIe. NVML takes 20 ms for each direction. */
struct gpu_state device_values_read_pcie(struct device_values *d, const struct nvml *api);
