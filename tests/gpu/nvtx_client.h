/* SPDX-License-Identifier: Apache-2.0 */
/* A client of NVTX without NVTX's headers: does what their code does to find and call a tool. */
#pragma once

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

/* Finds a tool. Call it once, before the first range. False: there is no tool, and ranges have no
 * effect. */
static inline int nvtx_attach(void)
{
    int (*attach)(nvtx_get_export_table *);
    *(void **)&attach = dlsym(RTLD_DEFAULT, "InitializeInjectionNvtx2");
    return attach && attach(nvtx_export_table) && nvtx[NVTX_PUSH_A] && nvtx[NVTX_POP];
}

/* Like nvtxRangePushA(). */
static inline void nvtx_push(const char *name)
{
    if (nvtx[NVTX_PUSH_A])
        ((int (*)(const char *))nvtx[NVTX_PUSH_A])(name);
}

/* Like nvtxRangePop(). */
static inline void nvtx_pop(void)
{
    if (nvtx[NVTX_POP])
        ((int (*)(void))nvtx[NVTX_POP])();
}
