/* SPDX-License-Identifier: Apache-2.0 */
/* The doors through which the CUDA driver, NVTX clients and ITT clients come in, each of its own accord, because the constructor put
 * this library's path into their variables. The driver's starts the GPU side, NVTX's puts nvtx.c into the client; ITT's only wakes cprof.
 * Application threads, possibly inside dlopen. */
#include <stddef.h>
#include <stdint.h>

#include "preload/init.h"
#include "preload/nvtx.h"

#define VISIBLE __attribute__((visibility("default")))

int InitializeInjection(void);
int InitializeInjectionNvtx2(nvtx_get_export_table *get_export_table);
void __itt_api_init(void *global, int groups);

/* Called by the driver at cuInit. 1 = success. */
VISIBLE int InitializeInjection(void)
{
    cprof_wake_once(WAKE_INJECTION);
    cprof_cuda_begins();
    return 1;
}

/* Called once by each NVTX client library. 1 = success: NVTX makes every function that was not taken over a no-op. */
VISIBLE int InitializeInjectionNvtx2(nvtx_get_export_table *get_export_table)
{
    cprof_wake_once(WAKE_INJECTION);
    if (atomic_load(&cprof_life) != LIFE_OVER)
        nvtx_attach(get_export_table);
    return 1;
}

/* One row of ITT's table of functions (ittnotify_config.h, __itt_api_info). */
struct itt_function {
    const char *name;
    void **pointer;
    void *init;
    void *null;
    int group;
};

#define ITT_FUNCTIONS_AT 120 /* of api_list_ptr in __itt_global, 64-bit */

/* Called by ITT's static part at a client's first call. Every function becomes its own no-op, as without a collector. */
VISIBLE void __itt_api_init(void *global, int groups)
{
    (void)groups;
    struct itt_function *f =
        global ? *(struct itt_function **)((char *)global + ITT_FUNCTIONS_AT) : NULL;
    for (; f && f->name; f++)
        if (f->pointer && f->null)
            *f->pointer = f->null;
    cprof_wake_once(WAKE_INJECTION);
}
