/* SPDX-License-Identifier: Apache-2.0 */
/* What GPU records are called: kernel names demangled, CUDA calls without their version suffixes,
 * copies, waits and overheads in Kineto's words. Every text is kept once and lives as long as the
 * process, because CUPTI's names do not. cprof thread, and the thread that starts CUPTI before the
 * cprof thread collects anything. */
#ifndef CUPTI_GPU_NAMES_H
#define CUPTI_GPU_NAMES_H

#include <stdbool.h>
#include <stdint.h>

/* Plain text, not terminated. */
struct gpu_text {
    const char *text;
    uint16_t len;
};

/* A CUDA call as traces know it. */
struct gpu_call {
    struct gpu_text name; /* text NULL: CUPTI does not know the id */
    uint8_t effect;       /* enum gpu_effect */
    bool shown;
};

/* The kept, demangled form of a kernel's name (cut at 65535 bytes); NULL is "(unnamed kernel)". A
 * name of more than 1024 characters stays mangled: that is as far as libsupc++ goes. Past 64 MB of
 * names, or without memory: "(names are full)", which is counted. About 20 ns for a name seen
 * before. */
struct gpu_text gpu_name(const char *name);

/* How often a name has been refused since the last call. */
uint64_t gpu_names_refused(void);

/* "Memcpy HtoD (Pageable -> Device)"; CUpti_ActivityMemcpyKind and two CUpti_ActivityMemoryKind. */
struct gpu_text gpu_copy_name(unsigned kind, unsigned from, unsigned to);

/* "Memset (Device)"; CUpti_ActivityMemoryKind. */
struct gpu_text gpu_fill_name(unsigned kind);

/* "Stream Sync" …; CUpti_ActivitySynchronizationType. */
struct gpu_text gpu_sync_name(unsigned type);

/* "Buffer Flush" …; CUpti_ActivityOverheadKind. */
struct gpu_text gpu_overhead_name(unsigned kind);

/* "CUDA graph 7" */
struct gpu_text gpu_graph_name(uint32_t graph);

/* The call with CUPTI's id `cbid`, its name asked of callback_name() (translate.h) the first time.
 * Valid until the next call. */
const struct gpu_call *gpu_call(int (*callback_name)(int domain, uint32_t cbid, const char **name),
                                bool driver, uint32_t cbid);

#endif
