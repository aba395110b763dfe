/* SPDX-License-Identifier: Apache-2.0 */
/* The driver API: modules, functions, launches of kernels and host functions. */
#include "tests/sim/core.h"

#include <stdlib.h>
#include <string.h>

/* ---- modules ---- */

static CUmodule new_module(const void *image)
{
    CUmodule module = calloc(1, sizeof *module);
    uint64_t magic = 0;
    if (!module)
        return NULL;
    pthread_mutex_init(&module->lock, NULL);
    /* Any image starts with at least eight bytes: an ELF or fat binary header, or text. */
    if (image)
        memcpy(&magic, image, sizeof magic);
    module->image = magic == SIM_IMAGE_MAGIC ? image : NULL;
    CUcontext context = sim_context();
    struct sim_resource_info info = {.device = context ? (uint32_t)context->device : NOT_AN_ID,
                                     .context = context ? context->id : NOT_AN_ID};
    sim_tap()->resource(SIM_MODULE_LOADED, &info);
    return module;
}

static CUresult load(CUmodule *module, const void *image)
{
    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    *module = new_module(image);
    return *module ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    ENTER(cuModuleLoadData);
    LEAVE(load(module, image));
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n, CUjit_option *options,
                            void **values)
{
    ENTER(cuModuleLoadDataEx);
    (void)n;
    (void)options;
    (void)values;
    LEAVE(load(module, image));
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    ENTER(cuModuleLoadFatBinary);
    LEAVE(load(module, image));
}

CUresult cuModuleLoad(CUmodule *module, const char *path)
{
    ENTER(cuModuleLoad);
    LEAVE(load(module, path ? "any file!" : NULL));
}

CUresult cuModuleUnload(CUmodule module)
{
    ENTER(cuModuleUnload);
    if (!module)
        LEAVE(CUDA_ERROR_INVALID_VALUE);
    if (sim_context())
        sim_wait_context(sim_context());
    while (module->functions) {
        CUfunction next = module->functions->next;
        free(module->functions->name);
        free(module->functions);
        module->functions = next;
    }
    free(module);
    LEAVE(CUDA_SUCCESS);
}

/* A kernel whose code cannot run has a name only. A "spin" kernel also has a duration. */
static void unknown_kernel(CUfunction function)
{
    function->kernel.duration_arg = -1;
    if (strstr(function->name, "spin")) {
        function->kernel.duration_arg = 0;
        function->kernel.sizes[0] = sizeof(uint64_t);
    }
}

static CUresult find_function(CUfunction *found, CUmodule module, const char *name)
{
    const struct sim_kernel *known = NULL;
    if (!found || !module || !name)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; module->image && !known && i < module->image->n_kernels; i++)
        if (!strcmp(module->image->kernels[i].name, name))
            known = &module->image->kernels[i];
    if (module->image && !known)
        return CUDA_ERROR_NOT_FOUND;
    pthread_mutex_lock(&module->lock);
    CUfunction function = module->functions;
    while (function && strcmp(function->name, name) != 0)
        function = function->next;
    if (!function && (function = calloc(1, sizeof *function))) {
        function->name = strdup(name);
        function->module = module;
        if (known)
            function->kernel = *known;
        else
            unknown_kernel(function);
        function->kernel.name = function->name;
        function->next = module->functions;
        module->functions = function;
    }
    pthread_mutex_unlock(&module->lock);
    *found = function;
    return function ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    ENTER(cuModuleGetFunction);
    LEAVE(find_function(function, module, name));
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options,
                           void **values, unsigned n_options, CUlibraryOption *library_options,
                           void **library_values, unsigned n_library_options)
{
    ENTER(cuLibraryLoadData);
    (void)options;
    (void)values;
    (void)n_options;
    (void)library_options;
    (void)library_values;
    (void)n_library_options;
    LEAVE(load((CUmodule *)library, code));
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    ENTER(cuLibraryGetKernel);
    LEAVE(find_function((CUfunction *)kernel, (CUmodule)library, name));
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    ENTER(cuLibraryGetModule);
    *module = (CUmodule)library;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuLibraryUnload(CUlibrary library)
{
    ENTER(cuLibraryUnload);
    (void)library;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    ENTER(cuKernelGetFunction);
    *function = (CUfunction)kernel;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute wanted, CUfunction function)
{
    ENTER(cuFuncGetAttribute);
    *value = wanted == CU_FUNC_ATTRIBUTE_NUM_REGS                ? 32
             : wanted == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024
             : wanted == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES ? (int)function->kernel.static_shared
                                                             : 0;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute wanted, int value)
{
    ENTER(cuFuncSetAttribute);
    (void)function;
    (void)wanted;
    (void)value;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuFuncGetName(const char **name, CUfunction function)
{
    ENTER(cuFuncGetName);
    *name = function->name;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
    ENTER(cuFuncGetModule);
    *module = function->module;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                     size_t shared)
{
    ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor);
    (void)function;
    (void)shared;
    *blocks = threads > 0 ? 2048 / ((threads + 31) / 32 * 32) : 0;
    *blocks = *blocks > 32 ? 32 : *blocks;
    LEAVE(CUDA_SUCCESS);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function,
                                                              int threads, size_t shared,
                                                              unsigned flags)
{
    ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags);
    (void)flags;
    LEAVE(cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared));
}

/* ---- launches ---- */

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream stream, void **args, void **extra)
{
    ENTER_Z(cuLaunchKernel);
    (void)extra;
    struct launch launch = {
        function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, {0, 0, 0}, shared, args};
    LEAVE(sim_launch(STREAM(stream), &launch));
}
TWIN(cuLaunchKernel, _ptsz);

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared, CUstream stream, void **args)
{
    ENTER_Z(cuLaunchCooperativeKernel);
    struct launch launch = {
        function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, {0, 0, 0}, shared, args};
    LEAVE(sim_launch(STREAM(stream), &launch));
}
TWIN(cuLaunchCooperativeKernel, _ptsz);

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **args,
                          void **extra)
{
    ENTER_Z(cuLaunchKernelEx);
    (void)extra;
    if (!config)
        LEAVE(CUDA_ERROR_INVALID_VALUE);
    struct launch launch = {function,
                            {config->gridDimX, config->gridDimY, config->gridDimZ},
                            {config->blockDimX, config->blockDimY, config->blockDimZ},
                            {0, 0, 0},
                            config->sharedMemBytes,
                            args};
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
            launch.cluster[0] = config->attrs[i].value.clusterDim.x;
            launch.cluster[1] = config->attrs[i].value.clusterDim.y;
            launch.cluster[2] = config->attrs[i].value.clusterDim.z;
        }
    LEAVE(sim_launch(STREAM(config->hStream), &launch));
}
TWIN(cuLaunchKernelEx, _ptsz);

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned n, unsigned flags)
{
    ENTER(cuLaunchCooperativeKernelMultiDevice);
    (void)flags;
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < n && !result; i++) {
        const CUDA_LAUNCH_PARAMS *p = &list[i];
        struct launch launch = {p->function,
                                {p->gridDimX, p->gridDimY, p->gridDimZ},
                                {p->blockDimX, p->blockDimY, p->blockDimZ},
                                {0, 0, 0},
                                p->sharedMemBytes,
                                p->kernelParams};
        result = sim_launch(sim_stream(p->hStream, false), &launch);
    }
    LEAVE(result);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *user)
{
    ENTER_Z(cuLaunchHostFunc);
    LEAVE(sim_host(STREAM(stream), function, user));
}
TWIN(cuLaunchHostFunc, _ptsz);

struct callback {
    CUstream stream;
    CUstreamCallback function;
    void *user;
};

static void call_back(void *given)
{
    struct callback *callback = given;
    callback->function(callback->stream, CUDA_SUCCESS, callback->user);
    free(callback);
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback function, void *user, unsigned flags)
{
    ENTER_Z(cuStreamAddCallback);
    (void)flags;
    struct callback *callback = malloc(sizeof *callback);
    if (!callback)
        LEAVE(CUDA_ERROR_OUT_OF_MEMORY);
    *callback = (struct callback){stream, function, user};
    CUresult result = sim_host(STREAM(stream), call_back, callback);
    if (result)
        free(callback);
    LEAVE(result);
}
TWIN(cuStreamAddCallback, _ptsz);
