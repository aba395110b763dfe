/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for the CUDA driver and NVTX. The constructor put this library's path into their
 * injection variables, so they load it and call these functions. ITT's entry point is in
 * preload/markers/itt.c. Application threads, possibly inside dlopen(). */
#include "preload/injection.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "preload/core/core.h"
#include "preload/hooks/hooks.h"
#include "preload/markers/markers.h"
#include "writer/writer.h"

#define VISIBLE __attribute__((visibility("default")))

int InitializeInjection(void);
int InitializeInjectionNvtx2(nvtx_get_export_table *get_export_table);
int InitializeInjectionNvtxExtension(const struct nvtx_extension *extension);

/* The CUDA driver calls this once, inside cuInit(): starts GPU recording. It will not be called
 * again, so cprof_awake() waits for another thread that is waking cprof. The driver expects 1. */
VISIBLE int InitializeInjection(void)
{
    cprof_wake_once(WAKE_INJECTION);
    if (cprof_awake())
        cuda_begins(true);
    return 1;
}

/* Each library that was compiled with NVTX calls this once, at its first NVTX call: puts cprof's
 * functions into that library's tables. After 1, NVTX turns only the functions into no-ops that
 * cprof did not replace; after 0, all. */
VISIBLE int InitializeInjectionNvtx2(nvtx_get_export_table *get_export_table)
{
    cprof_wake_once(WAKE_INJECTION);
    if (atomic_load(&cprof_life) != LIFE_OVER)
        nvtx_attach(get_export_table);
    return 1;
}

/* The same for each extension of NVTX, at its first call. */
VISIBLE int InitializeInjectionNvtxExtension(const struct nvtx_extension *extension)
{
    cprof_wake_once(WAKE_INJECTION);
    if (atomic_load(&cprof_life) != LIFE_OVER)
        nvtx_extend(extension);
    return 1;
}

static const char *name_in(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* True if the variable names another tool. This library, or a copy with the same file name, is not
 * another tool. */
static bool is_taken(const char *variable, const char **by)
{
    *by = config_env(variable);
    return *by && **by && strcmp(name_in(*by), name_in(cprof_path())) != 0;
}

void injection_say_taken(const struct config *config)
{
    const char *by;
    if (is_taken("NVTX_INJECTION64_PATH", &by)) {
        if (config->step == CONFIG_STEP_NVTX || config->trigger == CONFIG_TRIGGER_NVTX)
            log_warn("NVTX_INJECTION64_PATH is %s: NVTX ranges go there, so none marks a step or "
                     "starts a recording",
                     by);
        else
            log_info("NVTX_INJECTION64_PATH is %s: NVTX ranges go there and are not recorded", by);
    }
    if (is_taken("INTEL_LIBITTNOTIFY64", &by)) {
        if (config->step == CONFIG_STEP_ITT)
            log_warn("INTEL_LIBITTNOTIFY64 is %s: ITT tasks go there, so none marks a step", by);
        else
            log_info("INTEL_LIBITTNOTIFY64 is %s: ITT tasks go there and are not recorded", by);
    }
}
