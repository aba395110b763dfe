/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the programs of tests/gpu: options, checks of calls, and the tally of everything that
 * the program launched. The tally is printed as one line of JSON, for comparison with a trace. On
 * the simulated GPU it is also compared with the simulator's counts (exit code 3). */
#pragma once

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

/* In the order of CUpti_ActivityMemcpyKind. */
enum { HTOD = 1, DTOH, HTOA, ATOH, ATOA, ATOD, DTOA, DTOD, HTOH, PTOP, N_COPY_KINDS };

static struct {
    _Atomic uint64_t kernels, fills, fill_bytes, graph_launches, graph_kernels, graph_copies,
        graph_fills;
    _Atomic uint64_t copies[N_COPY_KINDS], copy_bytes[N_COPY_KINDS];
    _Atomic uint64_t stream_syncs, device_syncs, event_syncs, event_waits, event_records;
    _Atomic uint64_t allocs, frees, steps;
} tally;

static inline void tally_copy(int kind, uint64_t bytes)
{
    tally.copies[kind]++;
    tally.copy_bytes[kind] += bytes;
}

static inline void tally_fill(uint64_t bytes)
{
    tally.fills++;
    tally.fill_bytes += bytes;
}

/* cudaSuccess and CUDA_SUCCESS are 0. */
#define CHECK(call)                                                                                \
    do {                                                                                           \
        int result_ = (int)(call);                                                                 \
        if (result_ != 0) {                                                                        \
            fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, result_);          \
            exit(2);                                                                               \
        }                                                                                          \
    } while (0)

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: expected: %s\n", __FILE__, __LINE__, #condition);              \
            exit(2);                                                                               \
        }                                                                                          \
    } while (0)

/* The value of the option "--name VALUE" or "--name=VALUE"; `otherwise` without it. */
static inline const char *option(int argc, char **argv, const char *name, const char *otherwise)
{
    size_t length = strlen(name);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0 || strncmp(argv[i] + 2, name, length) != 0)
            continue;
        if (argv[i][2 + length] == '=')
            return argv[i] + 3 + length;
        if (argv[i][2 + length] == '\0' && i + 1 < argc)
            return argv[i + 1];
    }
    return otherwise;
}

static inline long number(int argc, char **argv, const char *name, long otherwise)
{
    const char *text = option(argc, argv, name, NULL);
    return text ? strtol(text, NULL, 0) : otherwise;
}

static inline const struct sim_core *simulator(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    const struct sim_core *(*core)(void) = NULL;
    if (library)
        *(void **)&core = dlsym(library, "sim_core");
    return core ? core() : NULL;
}

static inline int differs(const struct sim_core *core, const char *name, uint64_t mine)
{
    if (core->count(name) == mine)
        return 0;
    fprintf(stderr, "%s: the simulator counted %llu, the program %llu\n", name,
            (unsigned long long)core->count(name), (unsigned long long)mine);
    return 3;
}

static inline int compare(void)
{
    const struct sim_core *core = simulator();
    uint64_t copies = 0, bytes = tally.fill_bytes;
    for (int i = 0; i < N_COPY_KINDS; i++) {
        copies += i == PTOP ? 0 : tally.copies[i];
        bytes += tally.copy_bytes[i];
    }
    if (!core || core->forked())
        return 0;
    return differs(core, "launched.kernels", tally.kernels) |
           differs(core, "launched.fills", tally.fills) | differs(core, "launched.copies", copies) |
           differs(core, "launched.peer_copies", tally.copies[PTOP]) |
           differs(core, "launched.bytes", bytes) |
           differs(core, "launched.graphs", tally.graph_launches) |
           differs(core, "graph.kernels", tally.graph_kernels) |
           differs(core, "graph.copies", tally.graph_copies) |
           differs(core, "graph.fills", tally.graph_fills) |
           differs(core, "sync.stream", tally.stream_syncs) |
           differs(core, "device_syncs", tally.device_syncs) |
           differs(core, "sync.event", tally.event_syncs) |
           differs(core, "sync.wait_event", tally.event_waits) |
           differs(core, "event.records", tally.event_records);
}

#define FIELD(name)                                                                                \
    printf("%s\"" #name "\": %llu", comma_, (unsigned long long)tally.name), comma_ = ", "

/* Prints the tally. Returns the program's exit code. */
static inline int report(void)
{
    static const char *const kinds[N_COPY_KINDS] = {"?",    "htod", "dtoh", "htoa", "atoh", "atoa",
                                                    "atod", "dtoa", "dtod", "htoh", "ptop"};
    const char *comma_ = "";
    printf("{");
    FIELD(kernels);
    FIELD(fills);
    FIELD(fill_bytes);
    FIELD(graph_launches);
    FIELD(graph_kernels);
    FIELD(graph_copies);
    FIELD(graph_fills);
    FIELD(stream_syncs);
    FIELD(device_syncs);
    FIELD(event_syncs);
    FIELD(event_waits);
    FIELD(event_records);
    FIELD(allocs);
    FIELD(frees);
    FIELD(steps);
    printf(", \"copies\": {");
    comma_ = "";
    for (int i = 1; i < N_COPY_KINDS; i++)
        if (tally.copies[i]) {
            printf("%s\"%s\": {\"count\": %llu, \"bytes\": %llu}", comma_, kinds[i],
                   (unsigned long long)tally.copies[i], (unsigned long long)tally.copy_bytes[i]);
            comma_ = ", ";
        }
    printf("}}\n");
    fflush(stdout);
    return compare();
}
