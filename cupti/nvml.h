/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: its functions, the structs and numbers that cprof uses of nvml.h, and the gate that all
 * calls pass. The build needs no nvml.h; tests/e2e/test_nvml_header.py compares with it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* nvmlReturn_t */
#define NVML_OK               0
#define NVML_INVALID_ARGUMENT 2
#define NVML_NOT_SUPPORTED    3
#define NVML_NO_PERMISSION    4
#define NVML_NO_FUNCTION      13
#define NVML_GPU_IS_LOST      15
#define NVML_VERSION_MISMATCH 25
#define NVML_UNKNOWN          999

#define NVML_CLOCK_OF_SM     1 /* NVML_CLOCK_SM */
#define NVML_CLOCK_OF_MEMORY 2 /* NVML_CLOCK_MEM */
#define NVML_SENSOR_OF_GPU   0 /* NVML_TEMPERATURE_GPU */
#define NVML_PCIE_SENT       0 /* NVML_PCIE_UTIL_TX_BYTES */
#define NVML_PCIE_RECEIVED   1 /* NVML_PCIE_UTIL_RX_BYTES */

#define NVML_NVLINK_SENT     138u       /* NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, KiB */
#define NVML_NVLINK_RECEIVED 139u       /* NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, KiB */
#define NVML_ALL_LINKS       UINT32_MAX /* scopeId */

#define NVML_GPM_SM     2u  /* NVML_GPM_METRIC_SM_UTIL */
#define NVML_GPM_TENSOR 5u  /* NVML_GPM_METRIC_ANY_TENSOR_UTIL */
#define NVML_GPM_DRAM   10u /* NVML_GPM_METRIC_DRAM_BW_UTIL */

#define NVML_IDLE 1u /* nvmlClocksEventReasonGpuIdle */

/* nvmlMemory_v2_t */
struct nvml_memory {
    unsigned version; /* NVML_MEMORY_VERSION */
    unsigned long long total, reserved, free, used;
};
#define NVML_MEMORY_VERSION ((unsigned)sizeof(struct nvml_memory) | 2u << 24)

/* nvmlFieldValue_t */
struct nvml_field {
    unsigned field, scope;
    long long at_us, latency_us;
    int type, result;
    union {
        double real;
        unsigned long long whole; /* all types of whole numbers, when set to 0 before */
    } value;
};

/* nvmlGpmSupport_t */
struct nvml_gpm_support {
    unsigned version; /* NVML_GPM_VERSION */
    unsigned is_supported;
};
#define NVML_GPM_VERSION 1u

/* nvmlGpmMetric_t */
struct nvml_gpm_metric {
    unsigned metric;
    int result;
    double value;
    char *names[3];
};

/* nvmlGpmMetricsGet_t. NVML touches the first `n` metrics only; the array is longer with each
 * version of nvml.h (210 in 12.9, 477 in 13.5). */
struct nvml_gpm {
    unsigned version; /* NVML_GPM_VERSION */
    unsigned n;
    void *from, *to; /* samples */
    struct nvml_gpm_metric metrics[512];
};

enum nvml_call {
#define NVML(field, function, parameters) NVML_CALL_##field,
#include "cupti/nvml.def"
#undef NVML
};

struct nvml {
#define NVML(field, function, parameters) int(*field) parameters;
#include "cupti/nvml.def"
#undef NVML
};

/* Opens the library and initialises it. NULL: there is none, or it refuses (logged at debug).
 * Telemetry thread. */
const struct nvml *nvml_open(void);

/* ---- the gate: no call while the process forks, and none after one that took too long ---- */

/* Before a call and after it. False: no call may be made any more. Telemetry thread. */
bool nvml_enter(enum nvml_call call);
int nvml_leave(int result); /* returns `result` */

/* Makes a call, or returns NVML_UNKNOWN; NVML_NO_FUNCTION if the driver lacks it. */
#define NVML_CALL(api, field, ...)                                                                 \
    (!(api)->field                   ? NVML_NO_FUNCTION                                            \
     : nvml_enter(NVML_CALL_##field) ? nvml_leave((api)->field(__VA_ARGS__))                       \
                                     : NVML_UNKNOWN)

/* Whether a call of more than 200 ms is the last one. The time in which the thread waited for a
 * processor does not count. To start NVML and to find a GPU may take
 * seconds. Telemetry thread. */
void nvml_limit_calls(bool limit);

/* Whether no call will be made any more. Any thread. */
bool nvml_is_over(void);

/* Ends all calls if the one in progress takes too long. cprof thread. */
void nvml_look(void);

/* No call will be made any more. Any thread. */
void nvml_end(void);

/* Around fork(): between the two no call is in progress, so that the child inherits no lock of
 * NVML's. Waits 100 ms at most. Forking thread. */
void nvml_hold(void);
void nvml_release(void);
