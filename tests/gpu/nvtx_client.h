/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of NVTX, played: what its headers' code does when it finds a tool, so that they
 * are not needed. */
#ifndef TESTS_GPU_NVTX_CLIENT_H
#define TESTS_GPU_NVTX_CLIENT_H

#include <dlfcn.h>

#include "preload/markers/nvtx_abi.h"

enum { NVTX_FUNCTIONS = 16, NVTX_PUSH_A = 9, NVTX_POP = 11 };

static nvtx_function nvtx[NVTX_FUNCTIONS];

static int nvtx_module_table(int module, nvtx_function ***table, unsigned *n)
{
    static nvtx_function *rows[NVTX_FUNCTIONS];
    for (int i = 1; i < NVTX_FUNCTIONS; i++)
        rows[i] = &nvtx[i];
    *table = rows;
    *n = NVTX_FUNCTIONS;
    return module == NVTX_CORE;
}

static const void *nvtx_export_table(uint32_t id)
{
    static const struct nvtx_callbacks callbacks = {sizeof callbacks, nvtx_module_table};
    return id == NVTX_CALLBACKS ? &callbacks : NULL;
}

/* Looks for a tool; before the first range, once. False: there is none, and ranges do nothing. */
static inline int nvtx_attach(void)
{
    int (*attach)(nvtx_get_export_table *);
    *(void **)&attach = dlsym(RTLD_DEFAULT, "InitializeInjectionNvtx2");
    return attach && attach(nvtx_export_table) && nvtx[NVTX_PUSH_A] && nvtx[NVTX_POP];
}

/* nvtxRangePushA() of the calling thread. */
static inline void nvtx_push(const char *name)
{
    if (nvtx[NVTX_PUSH_A])
        ((int (*)(const char *))nvtx[NVTX_PUSH_A])(name);
}

/* nvtxRangePop(). */
static inline void nvtx_pop(void)
{
    if (nvtx[NVTX_POP])
        ((int (*)(void))nvtx[NVTX_POP])();
}

#endif
