/* SPDX-License-Identifier: Apache-2.0 */
/* Names of GPU records: demangled kernels, CUDA calls without version suffixes, and overheads.
 * json_gpu.c names the rest. Each text is kept once for the process's life, because CUPTI's names
 * do not live as long. cprof thread; before it collects, the thread that starts CUPTI. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Not terminated. */
struct gpu_text {
    const char *text;
    uint16_t len;
};

/* A CUDA call as traces show it. */
struct gpu_call {
    struct gpu_text name; /* text NULL: CUPTI does not know the id */
    uint8_t effect;       /* enum gpu_effect */
    bool shown;
};

/* Demangled name of a kernel, cut at 65535 bytes; "(unnamed kernel)" for NULL. A name of more than
 * 1024 characters stays mangled: libsupc++ demangles no longer ones. Beyond 64 MB of names, or
 * without memory, returns "(names are full)" and counts it. About 20 ns for a known name. */
struct gpu_text gpu_name(const char *name);

/* Names refused since the last call. */
uint64_t gpu_names_refused(void);

/* "Buffer Flush" …; CUpti_ActivityOverheadKind. */
struct gpu_text gpu_overhead_name(unsigned kind);

/* The call with CUPTI's id `cbid`. Asks callback_name() (translate.h) for its name the first time.
 * Valid until the next call. */
const struct gpu_call *gpu_call(int (*callback_name)(int domain, uint32_t cbid, const char **name),
                                bool driver, uint32_t cbid);
