/* SPDX-License-Identifier: Apache-2.0 */
/* The doors through which the CUDA driver and NVTX clients come in, each of its own accord, because the constructor put this library's
 * path into their variables (ITT's is in preload/itt.c). The driver's starts the GPU side; NVTX's puts nvtx.c into the client. Application
 * threads, possibly inside dlopen. */
#include <stddef.h>
#include <stdint.h>

#include "preload/init.h"
#include "preload/nvtx.h"

#define VISIBLE __attribute__((visibility("default")))

int InitializeInjection(void);
int InitializeInjectionNvtx2(nvtx_get_export_table *get_export_table);

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
