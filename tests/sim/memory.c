/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations of all kinds, backed by the process's memory and found by address; memory pools. */
#include "tests/sim/core.h"

#include <cupti_activity.h>
#include <stdlib.h>
#include <string.h>

/* Sorted by address, to find pointers into the middle of an allocation. */
static struct allocation *table;
static size_t n_table, room;
static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
static atomic_ullong used[MAX_DEVICES];

static CUmemoryPool default_pools[MAX_DEVICES], current_pools[MAX_DEVICES];
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static CUmemoryPool all_pools;

/* Index of the first entry above the address. */
static size_t above(uintptr_t address)
{
    size_t low = 0, high = n_table;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool add(const struct allocation *entry)
{
    bool added = false;
    pthread_rwlock_wrlock(&table_lock);
    if (n_table == room) {
        size_t more = room ? room * 2 : 256;
        struct allocation *grown = realloc(table, more * sizeof *grown);
        if (grown) {
            table = grown;
            room = more;
        }
    }
    if (n_table < room) {
        size_t at = above(entry->address);
        memmove(&table[at + 1], &table[at], (n_table - at) * sizeof *table);
        table[at] = *entry;
        n_table++;
        added = true;
    }
    pthread_rwlock_unlock(&table_lock);
    return added;
}

static bool take(const void *pointer, struct allocation *taken)
{
    bool found = false;
    pthread_rwlock_wrlock(&table_lock);
    size_t at = above((uintptr_t)pointer);
    if (at > 0 && table[at - 1].address == (uintptr_t)pointer) {
        *taken = table[at - 1];
        memmove(&table[at - 1], &table[at], (n_table - at) * sizeof *table);
        n_table--;
        found = true;
    }
    pthread_rwlock_unlock(&table_lock);
    return found;
}

bool sim_find(const void *pointer, struct allocation *found)
{
    bool is = false;
    pthread_rwlock_rdlock(&table_lock);
    size_t at = above((uintptr_t)pointer);
    if (at > 0 && (uintptr_t)pointer - table[at - 1].address < table[at - 1].bytes) {
        *found = table[at - 1];
        is = true;
    }
    pthread_rwlock_unlock(&table_lock);
    return is;
}

int sim_memory_kind(const void *pointer, int *device)
{
    struct allocation found;
    *device = -1;
    if (!sim_find(pointer, &found))
        return CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
    if (found.kind != CUPTI_ACTIVITY_MEMORY_KIND_PINNED)
        *device = found.device;
    return found.kind;
}

uint64_t sim_memory_used(int device)
{
    return used[device];
}

static bool on_device(int kind)
{
    return kind == CUPTI_ACTIVITY_MEMORY_KIND_DEVICE || kind == CUPTI_ACTIVITY_MEMORY_KIND_ARRAY;
}

static void report(const struct allocation *entry, bool release, bool async, CUstream stream,
                   const char *name)
{
    CUcontext context = sim_context();
    struct sim_memory memory = {
        .release = release,
        .async = async,
        .kind = entry->kind,
        .address = entry->address,
        .bytes = entry->bytes,
        .correlation = sim_correlation(),
        .device = (uint32_t)entry->device,
        .context = context ? context->id : entry->context,
        .stream = stream ? stream->id : NOT_AN_ID,
        .time_ns = sim_now(),
        .name = name,
    };
    if (entry->pool) {
        memory.pool = entry->pool->id;
        memory.pool_used = entry->pool->used;
        memory.pool_size = entry->pool->reserved;
        memory.release_threshold = entry->pool->threshold;
    }
    sim_add(release ? FIGURE_FREES : FIGURE_ALLOCS, 1);
    sim_tap()->memory(&memory);
}

static CUresult make(struct allocation *entry, size_t bytes)
{
    const struct sim_device *device = sim_device(entry->device);
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (on_device(entry->kind) &&
        atomic_fetch_add(&used[entry->device], bytes) + bytes > device->memory_bytes) {
        atomic_fetch_sub(&used[entry->device], bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    /* Aligned like the real one. Pages of large blocks are committed by the first write. */
    void *memory = NULL;
    if (posix_memalign(&memory, 512, bytes) != 0)
        memory = NULL;
    entry->address = (uintptr_t)memory;
    entry->bytes = bytes;
    if (memory && add(entry))
        return CUDA_SUCCESS;
    free(memory);
    if (on_device(entry->kind))
        atomic_fetch_sub(&used[entry->device], bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_allocate(void **pointer, size_t bytes, int kind, unsigned flags, const char *name)
{
    CUcontext context = sim_context();
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult result = pointer ? sim_capture_forbids(NULL) : CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    struct allocation entry = {
        .kind = kind, .device = context->device, .context = context->id, .flags = flags};
    result = make(&entry, bytes);
    if (result)
        return result;
    *pointer = (void *)entry.address;
    report(&entry, false, false, NULL, name);
    return CUDA_SUCCESS;
}

static void raise_high(atomic_ullong *high, uint64_t value)
{
    if (value > *high)
        *high = value;
}

CUresult sim_allocate_async(void **pointer, size_t bytes, CUmemoryPool pool, CUstream stream,
                            const char *name)
{
    if (!stream)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!pointer)
        return CUDA_ERROR_INVALID_VALUE;
    struct allocation entry = {
        .kind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
        .device = stream->context->device,
        .context = stream->context->id,
        .stream = stream->id,
        .async = true,
        .pool = pool ? pool : sim_device_pool(stream->context->device),
    };
    CUresult result = make(&entry, bytes);
    if (result)
        return result;
    /* A pool grows in pieces of 32 MB. */
    pool = entry.pool;
    uint64_t in_use = atomic_fetch_add(&pool->used, bytes) + bytes;
    while (pool->reserved < in_use)
        pool->reserved += 32u << 20;
    raise_high(&pool->used_high, in_use);
    raise_high(&pool->reserved_high, pool->reserved);
    *pointer = (void *)entry.address;
    report(&entry, false, true, stream, name);
    return CUDA_SUCCESS;
}

static void leave_pool(struct allocation *entry)
{
    if (on_device(entry->kind))
        atomic_fetch_sub(&used[entry->device], entry->bytes);
    if (entry->pool)
        atomic_fetch_sub(&entry->pool->used, entry->bytes);
}

CUresult sim_free(void *pointer, const char *name)
{
    struct allocation entry;
    if (!pointer)
        return CUDA_SUCCESS;
    CUresult result = sim_capture_forbids(NULL);
    if (result)
        return result;
    if (!sim_find(pointer, &entry) || entry.foreign || entry.address != (uintptr_t)pointer)
        return CUDA_ERROR_INVALID_VALUE;
    /* Waits for running work first, as the real cuMemFree() does. */
    if (sim_context())
        sim_wait_context(sim_context());
    if (!take(pointer, &entry))
        return CUDA_ERROR_INVALID_VALUE;
    leave_pool(&entry);
    free(pointer);
    report(&entry, true, false, NULL, name);
    return CUDA_SUCCESS;
}

CUresult sim_free_async(void *pointer, CUstream stream, const char *name)
{
    struct allocation entry;
    if (!stream)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!pointer || !take(pointer, &entry))
        return CUDA_ERROR_INVALID_VALUE;
    leave_pool(&entry);
    report(&entry, true, true, stream, name);
    struct item *item = sim_item(stream, ITEM_RELEASE);
    item->memory = pointer;
    sim_queue(stream, item);
    return CUDA_SUCCESS;
}

CUresult sim_register(void *pointer, size_t bytes, unsigned flags)
{
    CUcontext context = sim_context();
    struct allocation entry = {
        .address = (uintptr_t)pointer,
        .bytes = bytes,
        .kind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED,
        .foreign = true,
        .flags = flags,
    };
    struct allocation found;
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!pointer || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_find(pointer, &found))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    entry.device = context->device;
    entry.context = context->id;
    return add(&entry) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_unregister(void *pointer)
{
    struct allocation entry;
    if (!sim_find(pointer, &entry) || !entry.foreign || !take(pointer, &entry))
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    return CUDA_SUCCESS;
}

void sim_free_context(uint32_t context)
{
    pthread_rwlock_wrlock(&table_lock);
    size_t kept = 0;
    for (size_t i = 0; i < n_table; i++) {
        if (table[i].context != context) {
            table[kept++] = table[i];
            continue;
        }
        leave_pool(&table[i]);
        if (!table[i].foreign)
            free((void *)table[i].address);
    }
    n_table = kept;
    pthread_rwlock_unlock(&table_lock);
}

CUmemoryPool sim_new_pool(int device, bool is_default)
{
    static atomic_ullong last_id;
    CUmemoryPool pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->id = ++last_id;
    pool->device = device;
    pool->is_default = is_default;
    pthread_mutex_lock(&pool_lock);
    pool->next = all_pools;
    all_pools = pool;
    pthread_mutex_unlock(&pool_lock);
    return pool;
}

CUmemoryPool sim_default_pool(int device)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&making);
    if (!default_pools[device])
        default_pools[device] = sim_new_pool(device, true);
    pthread_mutex_unlock(&making);
    return default_pools[device];
}

CUmemoryPool sim_device_pool(int device)
{
    CUmemoryPool pool = current_pools[device];
    return pool ? pool : sim_default_pool(device);
}

void sim_set_device_pool(int device, CUmemoryPool pool)
{
    current_pools[device] = pool;
}
