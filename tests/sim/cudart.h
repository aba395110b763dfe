/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the simulated CUDA runtime: how its functions open and close a call, and the driver
 * functions they call. Those come from libcuda.so.1 by dlopen(), as in the real runtime.
 * Compiled with SIM_CUDART=12, 13 and, hidden, for the static runtime. The top of core.c lists
 * what is not modelled. */
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cupti_runtime_cbid.h>
#include <stdatomic.h>

#include "tests/sim/sim.h"
#include "tests/sim/twin.h"

#ifndef SIM_CUDART
#define SIM_CUDART 13
#endif

struct rt_driver {
    const struct sim_core *core;
#define DRIVER(name)            __typeof__(name) *name;
#define DRIVER_LIKE(name, like) __typeof__(like) *name;
#include "tests/sim/cudart_calls.def"
};
extern __attribute__((visibility("hidden"))) struct rt_driver drv;

#define HIDDEN __attribute__((visibility("hidden")))

/* Opens a call of the runtime. With a context, it makes the thread's device current and
 * initialises CUDA if needed. Returns 0, or the error that the function must return at once. */
HIDDEN cudaError_t rt_begin(struct sim_call *call, uint32_t cbid, const char *name, bool context);
/* Closes the call and stores a failure as the thread's last error. Accepts results of the
 * driver, whose numbers are the same. */
HIDDEN cudaError_t rt_end(struct sim_call *call, int result);
HIDDEN int rt_device(void);
HIDDEN void rt_set_device(int device);
HIDDEN CUcontext rt_context_of(int device);
/* The driver's function behind a registered kernel or a cudaKernel_t. NULL: unknown to this
 * runtime. */
HIDDEN CUfunction rt_function(const void *function);

#define RT_OPEN(name, cbid, context)                                                               \
    struct sim_call call_;                                                                         \
    cudaError_t refused_ = rt_begin(&call_, cbid, #name, context);                                 \
    if (refused_)                                                                                  \
    return refused_
/* version: v7000, as in the CUPTI_RUNTIME_TRACE_CBID_… of the headers. */
#define RT(name, version)       RT_OPEN(name, CUPTI_RUNTIME_TRACE_CBID_##name##_##version, true)
#define RT_EARLY(name, version) RT_OPEN(name, CUPTI_RUNTIME_TRACE_CBID_##name##_##version, false)
#define RT_TWIN(name, suffix, version, twin_version)                                               \
    bool twin_ = sim_take_twin();                                                                  \
    RT_OPEN(name,                                                                                  \
            twin_ ? (uint32_t)CUPTI_RUNTIME_TRACE_CBID_##name##suffix##_##twin_version             \
                  : (uint32_t)CUPTI_RUNTIME_TRACE_CBID_##name##_##version,                         \
            true)
#define RT_Z(name, version, twin_version) RT_TWIN(name, _ptsz, version, twin_version)
#define RT_D(name, version, twin_version) RT_TWIN(name, _ptds, version, twin_version)
#define RT_END(result)                    return rt_end(&call_, (int)(result))
#define STREAM(stream)                    (twin_ && !(stream) ? cudaStreamPerThread : (stream))
#define EITHER(name)                      (twin_ ? drv.name##_ptds : drv.name)
#define DEVICE_AT(pointer)                ((CUdeviceptr)(uintptr_t)(pointer))
