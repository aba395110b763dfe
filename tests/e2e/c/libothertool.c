/* SPDX-License-Identifier: Apache-2.0 */
/* A tool that the CUDA driver and NVTX load through their variables, like Nsight Systems and
 * compute-sanitizer. OTHER_TOOL=cupti: subscribes to CUPTI before the program's first CUDA call
 * and prints the number of kernels at the end. Otherwise it does nothing. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int InitializeInjection(void);
int InitializeInjectionNvtx2(void *);

enum { KIND_CONCURRENT_KERNEL = 10, DOMAIN_RESOURCE = 3, CU_INIT_FINISHED = 5, BUFFER = 1 << 20 };

static void *subscriber;
static _Atomic unsigned long kernels;
static int (*next_record)(uint8_t *, size_t, void **);
static int (*flush_all)(uint32_t);

static void give(uint8_t **data, size_t *size, size_t *most)
{
    *data = aligned_alloc(8, BUFFER);
    *size = BUFFER;
    *most = 0;
}

static void take(void *context, uint32_t stream, uint8_t *data, size_t size, size_t valid)
{
    void *record = NULL;
    (void)context, (void)stream, (void)size;
    while (next_record(data, valid, &record) == 0)
        kernels += *(int *)record == KIND_CONCURRENT_KERNEL;
    free(data);
}

static void at_end(void)
{
    flush_all(1);
    fprintf(stderr, "other tool: %lu kernels\n", kernels);
}

/* The driver has registered its own handler by now, which would otherwise run first. */
static void on_call(void *user, int domain, uint32_t id, const void *data)
{
    (void)user, (void)data;
    if (domain == DOMAIN_RESOURCE && id == CU_INIT_FINISHED)
        atexit(at_end);
}

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found)
        fprintf(stderr, "other tool: no %s\n", name);
    return found;
}

/* OTHER_TOOL=cupti: subscribes to CUPTI, enables kernels and the kinds whose numbers OTHER_KINDS
 * lists, and drops all records. */
int InitializeInjection(void)
{
    const char *what = getenv("OTHER_TOOL");
    fprintf(stderr, "other tool: injected\n");
    if (!what || strcmp(what, "cupti") != 0)
        return 1;
    void *cupti = dlopen("libcupti.so.13", RTLD_NOW);
    if (!cupti)
        return 0;
    int (*subscribe)(void **, void (*)(void *, int, uint32_t, const void *), void *) =
        symbol(cupti, "cuptiSubscribe");
    int (*callbacks)(void (*)(uint8_t **, size_t *, size_t *),
                     void (*)(void *, uint32_t, uint8_t *, size_t, size_t)) =
        symbol(cupti, "cuptiActivityRegisterCallbacks");
    int (*enable)(int) = symbol(cupti, "cuptiActivityEnable");
    int (*enable_callback)(uint32_t, void *, int, uint32_t) = symbol(cupti, "cuptiEnableCallback");
    next_record = symbol(cupti, "cuptiActivityGetNextRecord");
    flush_all = symbol(cupti, "cuptiActivityFlushAll");
    fprintf(stderr, "other tool: %d %d %d\n", subscribe(&subscriber, on_call, NULL),
            callbacks(give, take), enable(KIND_CONCURRENT_KERNEL));
    for (char *more = getenv("OTHER_KINDS"); more && *more; more += *more == ',')
        enable((int)strtol(more, &more, 10));
    enable_callback(1, subscriber, DOMAIN_RESOURCE, CU_INIT_FINISHED);
    return 1;
}

int InitializeInjectionNvtx2(void *get_export_table)
{
    (void)get_export_table;
    fprintf(stderr, "other tool: NVTX\n");
    return 1;
}

void __itt_api_init(void *global, int groups);
void __itt_api_init(void *global, int groups)
{
    (void)global, (void)groups;
    fprintf(stderr, "other tool: ITT\n");
}
