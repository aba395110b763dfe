/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels, copies and fills: their effect on memory, their duration, and how they enter a stream
 * or a graph that is being captured. */
#include "tests/sim/core.h"

#include <cupti_activity.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- executed by the stream's thread ---- */

static void run_kernel(struct action *action)
{
    void *args[SIM_MAX_ARGS] = {0};
    size_t at = 0;
    for (int i = 0; i < SIM_MAX_ARGS && action->kernel->sizes[i]; i++) {
        at = (at + 7) & ~(size_t)7;
        args[i] = action->args + at;
        at += action->kernel->sizes[i];
    }
    action->kernel->run(args);
}

static void run_copy(struct action *a)
{
    const char *from = a->staged ? a->staged : a->from;
    size_t from_pitch = a->staged ? a->width : a->from_pitch;
    size_t from_slice = a->staged ? a->width * a->height : a->from_slice;
    for (size_t z = 0; z < a->depth; z++)
        for (size_t y = 0; y < a->height; y++)
            memmove((char *)a->to + z * a->to_slice + y * a->to_pitch,
                    from + z * from_slice + y * from_pitch, a->width);
    free(a->staged);
    a->staged = NULL;
}

static void run_fill(struct action *a)
{
    for (size_t y = 0; y < a->height; y++) {
        char *row = (char *)a->to + y * a->to_pitch;
        if (a->element == 1)
            memset(row, (int)a->value, a->width);
        else
            for (size_t x = 0; x < a->width; x++)
                memcpy(row + x * a->element, &a->value, a->element);
    }
}

/* ---- making them ---- */

static void clear(struct op *op, enum sim_work_kind kind)
{
    memset(&op->action, 0, offsetof(struct action, args));
    memset(&op->work, 0, offsetof(struct sim_work, name));
    op->work.name[0] = '\0';
    size_t after = offsetof(struct sim_work, grid);
    memset((char *)&op->work + after, 0, sizeof op->work - after);
    op->work.kind = kind;
}

static bool copy_args(struct action *action, const struct sim_kernel *kernel, void **args)
{
    size_t at = 0;
    for (int i = 0; i < SIM_MAX_ARGS && kernel->sizes[i]; i++) {
        at = (at + 7) & ~(size_t)7;
        if (!args || !args[i] || at + kernel->sizes[i] > SIM_ARGS_BYTES)
            return false;
        memcpy(action->args + at, args[i], kernel->sizes[i]);
        at += kernel->sizes[i];
    }
    return true;
}

CUresult sim_make_launch(struct op *op, const struct launch *launch)
{
    if (!launch->function)
        return CUDA_ERROR_INVALID_HANDLE;
    const struct sim_kernel *kernel = &launch->function->kernel;
    clear(op, SIM_KERNEL);
    for (int i = 0; i < 3; i++) {
        if (!launch->grid[i] || !launch->block[i])
            return CUDA_ERROR_INVALID_VALUE;
        op->work.grid[i] = (int)launch->grid[i];
        op->work.block[i] = (int)launch->block[i];
        op->work.cluster[i] = (int)launch->cluster[i];
    }
    if ((uint64_t)launch->block[0] * launch->block[1] * launch->block[2] > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    if (!copy_args(&op->action, kernel, launch->args))
        return CUDA_ERROR_INVALID_VALUE;
    op->action.kernel = kernel;
    op->action.run = kernel->run ? run_kernel : NULL;
    op->work.duration_ns = kernel->ns ? kernel->ns : SIM_KERNEL_NS;
    if (kernel->duration_arg >= 0 && launch->args && launch->args[kernel->duration_arg])
        memcpy(&op->work.duration_ns, launch->args[kernel->duration_arg], sizeof(uint64_t));
    op->work.registers = kernel->registers ? kernel->registers : 32;
    op->work.static_shared = kernel->static_shared;
    op->work.dynamic_shared = launch->shared;
    size_t length = strlen(kernel->name);
    if (length >= sizeof op->work.name)
        length = sizeof op->work.name - 1;
    memcpy(op->work.name, kernel->name, length);
    op->work.name[length] = '\0';
    op->work.async = true;
    return CUDA_SUCCESS;
}

static int copy_kind(int from, int to, bool same_device)
{
    bool from_host =
        from == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE || from == CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
    bool to_host =
        to == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE || to == CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
    bool from_array = from == CUPTI_ACTIVITY_MEMORY_KIND_ARRAY,
         to_array = to == CUPTI_ACTIVITY_MEMORY_KIND_ARRAY;
    if (from_host)
        return to_host    ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOH
               : to_array ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOA
                          : CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
    if (to_host)
        return from_array ? CUPTI_ACTIVITY_MEMCPY_KIND_ATOH : CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
    if (from_array)
        return to_array ? CUPTI_ACTIVITY_MEMCPY_KIND_ATOA : CUPTI_ACTIVITY_MEMCPY_KIND_ATOD;
    if (to_array)
        return CUPTI_ACTIVITY_MEMCPY_KIND_DTOA;
    return same_device ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOD : CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
}

/* Bytes per us of an H100's memory, NVLink, and PCIe with pinned and pageable memory. Each copy
 * also takes 1.5 us to start. */
static uint64_t copy_ns(const struct sim_work *work)
{
    uint64_t rate = 1500000;
    if (work->copy_kind == CUPTI_ACTIVITY_MEMCPY_KIND_PTOP)
        rate = 200000;
    else if (work->from_kind == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE ||
             work->to_kind == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE)
        rate = 10000;
    else if (work->from_kind == CUPTI_ACTIVITY_MEMORY_KIND_PINNED ||
             work->to_kind == CUPTI_ACTIVITY_MEMORY_KIND_PINNED)
        rate = 50000;
    return 1500 + (uint64_t)((double)work->bytes * 1000.0 / (double)rate);
}

void sim_make_copy(struct op *op, const struct copy *copy)
{
    int from_device, to_device;
    clear(op, copy->peer ? SIM_COPY_PEER : SIM_COPY);
    int from = sim_memory_kind(copy->from, &from_device),
        to = sim_memory_kind(copy->to, &to_device);
    op->work.from_kind = copy->from_kind ? copy->from_kind : from;
    op->work.to_kind = copy->to_kind ? copy->to_kind : to;
    bool same = from_device == to_device || from_device < 0 || to_device < 0;
    op->work.copy_kind = copy->peer   ? CUPTI_ACTIVITY_MEMCPY_KIND_PTOP
                         : copy->kind ? copy->kind
                                      : copy_kind(op->work.from_kind, op->work.to_kind, same);
    if (copy->peer && copy->from_context && copy->to_context) {
        op->work.from_device = (uint32_t)copy->from_context->device;
        op->work.to_device = (uint32_t)copy->to_context->device;
        op->work.from_context = copy->from_context->id;
        op->work.to_context = copy->to_context->id;
    }
    op->action.run = run_copy;
    op->action.to = copy->to;
    op->action.from = copy->from;
    op->action.width = copy->width;
    op->action.height = copy->height;
    op->action.depth = copy->depth;
    op->action.to_pitch = copy->to_pitch;
    op->action.from_pitch = copy->from_pitch;
    op->action.to_slice = copy->to_slice;
    op->action.from_slice = copy->from_slice;
    op->work.bytes = copy->width * copy->height * copy->depth;
    op->work.duration_ns = copy_ns(&op->work);
}

void sim_make_fill(struct op *op, const struct fill *fill)
{
    int device;
    clear(op, SIM_FILL);
    op->action.run = run_fill;
    op->action.to = fill->to;
    op->action.width = fill->width;
    op->action.height = fill->height;
    op->action.to_pitch = fill->pitch;
    op->action.value = fill->value;
    op->action.element = fill->element;
    op->work.value = fill->value;
    op->work.bytes = fill->width * fill->element * fill->height;
    op->work.to_kind = sim_memory_kind(fill->to, &device);
    op->work.from_kind = op->work.to_kind;
    op->work.duration_ns = 1000 + op->work.bytes / 2000;
}

/* ---- queueing or capturing ---- */

static void count_launched(const struct sim_work *work)
{
    switch (work->kind) {
    case SIM_KERNEL:
        sim_add(FIGURE_KERNELS, 1);
        return;
    case SIM_COPY:
        sim_add(FIGURE_COPIES, 1);
        break;
    case SIM_COPY_PEER:
        sim_add(FIGURE_PEER_COPIES, 1);
        break;
    case SIM_FILL:
        sim_add(FIGURE_FILLS, 1);
        break;
    case SIM_GRAPH_WHOLE:
        return;
    }
    sim_add(FIGURE_BYTES, work->bytes);
    if (work->kind != SIM_FILL)
        sim_add(FIGURE_KIND + (unsigned)work->copy_kind, 1);
}

static void submit(CUstream stream, struct item *item)
{
    struct sim_work *work = &item->op.work;
    work->correlation = sim_correlation();
    work->device = (uint32_t)stream->context->device;
    work->context = stream->context->id;
    work->stream = stream->id;
    count_launched(work);
    sim_tap()->queued(work);
    sim_queue(stream, item);
}

/* Captured: the op became a node, and the item is returned. */
static bool give_to_graph(CUstream stream, enum node_kind kind, struct item *item, CUresult *result)
{
    if (!stream->capture || !sim_captured(stream, kind, &item->op, result))
        return false;
    free(item);
    return true;
}

CUresult sim_launch(CUstream stream, const struct launch *launch)
{
    if (!stream)
        return CUDA_ERROR_INVALID_CONTEXT;
    struct item *item = sim_item(stream, ITEM_WORK);
    CUresult result = sim_make_launch(&item->op, launch);
    if (result) {
        free(item);
        return result;
    }
    if (!give_to_graph(stream, NODE_KERNEL, item, &result))
        submit(stream, item);
    long hold_ms = atomic_load_explicit(&sim_hold_launch_ms, memory_order_relaxed);
    if (hold_ms)
        nanosleep(&(struct timespec){0, hold_ms * 1000000}, NULL);
    return result;
}

/* Pageable memory is read before an asynchronous copy returns, as the real driver stages it. */
static void stage(struct action *a)
{
    char *staged = malloc(a->width * a->height * a->depth + 1);
    if (!staged)
        return;
    for (size_t z = 0; z < a->depth; z++)
        for (size_t y = 0; y < a->height; y++)
            memcpy(staged + (z * a->height + y) * a->width,
                   (const char *)a->from + z * a->from_slice + y * a->from_pitch, a->width);
    a->staged = staged;
}

CUresult sim_copy(CUstream stream, const struct copy *copy, bool async)
{
    CUresult result = CUDA_SUCCESS;
    if (!stream)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (copy->width * copy->height * copy->depth == 0)
        return CUDA_SUCCESS;
    if (!copy->to || !copy->from)
        return CUDA_ERROR_INVALID_VALUE;
    if (!async && (result = sim_capture_forbids(stream)))
        return result;
    struct item *item = sim_item(stream, ITEM_WORK);
    sim_make_copy(&item->op, copy);
    item->op.work.async = async;
    if (give_to_graph(stream, NODE_COPY, item, &result))
        return result;
    bool wait = !async || item->op.work.to_kind == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
    if (!wait && item->op.work.from_kind == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE)
        stage(&item->op.action);
    submit(stream, item);
    if (wait)
        sim_wait_stream(stream);
    return CUDA_SUCCESS;
}

CUresult sim_fill(CUstream stream, const struct fill *fill, bool async)
{
    CUresult result = CUDA_SUCCESS;
    if (!stream)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (fill->width * fill->height == 0)
        return CUDA_SUCCESS;
    if (!fill->to)
        return CUDA_ERROR_INVALID_VALUE;
    struct item *item = sim_item(stream, ITEM_WORK);
    sim_make_fill(&item->op, fill);
    item->op.work.async = async;
    if (!give_to_graph(stream, NODE_FILL, item, &result))
        submit(stream, item);
    return result;
}

CUresult sim_host(CUstream stream, CUhostFn function, void *user)
{
    CUresult result = CUDA_SUCCESS;
    if (!stream)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    struct item *item = sim_item(stream, ITEM_HOST);
    clear(&item->op, SIM_KERNEL);
    item->op.action.host = function;
    item->op.action.user = user;
    if (give_to_graph(stream, NODE_HOST, item, &result))
        return result;
    sim_add(FIGURE_HOSTFUNCS, 1);
    sim_queue(stream, item);
    return CUDA_SUCCESS;
}
