/* SPDX-License-Identifier: Apache-2.0 */
/* Devices like an H100, contexts, and each thread's current context. */
#include "tests/sim/core.h"

#include <stdlib.h>
#include <string.h>

static struct sim_device devices[MAX_DEVICES];
static int n_devices;
static pthread_once_t devices_made = PTHREAD_ONCE_INIT;

static pthread_mutex_t context_lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primaries[MAX_DEVICES];
static CUcontext dead_contexts; /* kept, because other threads may have them as current */
static uint32_t last_context;

static __thread CUcontext current;

static void make_devices(void)
{
    const char *text = getenv("SIM_DEVICES");
    int n = text ? atoi(text) : 2;
    n_devices = n < 0 ? 0 : n > MAX_DEVICES ? MAX_DEVICES : n;
    for (int i = 0; i < n_devices; i++)
        devices[i] = (struct sim_device){
            .name = "NVIDIA H100 80GB HBM3",
            .memory_bytes = 85024112640u,
            .major = 9,
            .minor = 0,
            .sms = 132,
            .threads_per_sm = 2048,
            .threads_per_block = 1024,
            .registers_per_sm = 65536,
            .registers_per_block = 65536,
            .warp_size = 32,
            .shared_per_block = 49152,
            .shared_per_sm = 233472,
            .shared_per_block_optin = 232448,
            .max_blocks_per_sm = 32,
            .clock_khz = 1980000,
        };
}

int sim_device_count(void)
{
    pthread_once(&devices_made, make_devices);
    return sim_fault("no_device", NULL) || sim_fault("no_driver", NULL) ? 0 : n_devices;
}

const struct sim_device *sim_device(int ordinal)
{
    pthread_once(&devices_made, make_devices);
    return ordinal >= 0 && ordinal < n_devices ? &devices[ordinal] : NULL;
}

CUcontext sim_context(void)
{
    return current && !current->destroyed ? current : NULL;
}

void sim_set_context(CUcontext context)
{
    current = context;
}

CUcontext sim_new_context(int device, bool primary)
{
    CUcontext context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    pthread_mutex_init(&context->lock, NULL);
    pthread_mutex_lock(&context_lock);
    context->id = ++last_context;
    pthread_mutex_unlock(&context_lock);
    context->device = device;
    context->primary = primary;
    /* In CUPTI's records, the default stream is 7 and the first created stream 13. */
    context->last_stream = 6;
    context->legacy = sim_new_stream(context, 0, 0);
    context->legacy->legacy = true;
    context->last_stream = 12;
    sim_add(FIGURE_CONTEXTS, 1);
    struct sim_resource_info info = {
        .device = (uint32_t)device, .context = context->id, .stream = context->legacy->id};
    sim_tap()->resource(SIM_CONTEXT_CREATED, &info);
    return context;
}

void sim_end_context(CUcontext context)
{
    if (!context || context->destroyed)
        return;
    sim_wait_context(context);
    context->destroyed = true;
    for (;;) {
        pthread_mutex_lock(&context->lock);
        CUstream stream = context->streams;
        pthread_mutex_unlock(&context->lock);
        if (!stream)
            break;
        sim_end_stream(stream);
    }
    sim_free_context(context->id);
    pthread_mutex_lock(&context_lock);
    if (primaries[context->device] == context)
        primaries[context->device] = NULL;
    context->next_dead = dead_contexts;
    dead_contexts = context;
    pthread_mutex_unlock(&context_lock);
}

CUcontext sim_primary(int device)
{
    pthread_mutex_lock(&context_lock);
    CUcontext context = primaries[device];
    pthread_mutex_unlock(&context_lock);
    if (context)
        return context;
    /* Created without the lock, because the tap is called. One thread at a time. */
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    static __thread bool mine;
    if (mine)
        return NULL;
    pthread_mutex_lock(&making);
    mine = true;
    pthread_mutex_lock(&context_lock);
    context = primaries[device];
    pthread_mutex_unlock(&context_lock);
    if (!context) {
        context = sim_new_context(device, true);
        pthread_mutex_lock(&context_lock);
        primaries[device] = context;
        pthread_mutex_unlock(&context_lock);
    }
    mine = false;
    pthread_mutex_unlock(&making);
    return context;
}

CUresult sim_use_device(int device)
{
    if (sim_forked)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (sim_context() && current->device == device)
        return CUDA_SUCCESS;
    if (device < 0 || device >= sim_device_count())
        return CUDA_ERROR_INVALID_DEVICE;
    current = sim_primary(device);
    return current ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

int sim_current_device(void)
{
    return sim_context() ? current->device : -1;
}
