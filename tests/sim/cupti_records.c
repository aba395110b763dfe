/* SPDX-License-Identifier: Apache-2.0 */
/* Record layouts of each version, and iteration over records.
 *
 * These structs only grow at the end (checked below where it matters). So the tap fills the
 * newest struct, and a version delivers its front. A version newer than the headers delivers 32
 * more bytes of 0xAB: a client that uses a stride of its own, or reads a tail that it does not
 * know, fails at once. */
#include "tests/sim/cupti_sim.h"
#include <stdlib.h>
#include <string.h>

#define UNKNOWN_TAIL  32
#define NEWEST_HEADER 130001u /* version of the newest structs in the headers */

_Static_assert(offsetof(CUpti_ActivityKernel8, name) == offsetof(CUpti_ActivityKernel10, name) &&
                   offsetof(CUpti_ActivityKernel8, clusterX) ==
                       offsetof(CUpti_ActivityKernel10, clusterX),
               "kernels only grow");
_Static_assert(offsetof(CUpti_ActivityMemory3, isAsync) == offsetof(CUpti_ActivityMemory4, isAsync),
               "memory records only grow");
_Static_assert(offsetof(CUpti_ActivityDevice4, name) == offsetof(CUpti_ActivityDevice5, name),
               "device records only grow");
_Static_assert(offsetof(CUpti_ActivityOverhead, start) == offsetof(CUpti_ActivityOverhead3, start),
               "overhead records only grow");

/* The size of a kind's record from version `since` on; rows of a kind in rising order. Source:
 * the newest struct of each kind in the headers of 11.8.87, 12.0.146, 12.1.105, 12.2.142,
 * 12.3.101, 12.4.127, 12.5.82, 12.6.80, 12.8.90 and 13.0.48. Both 12.0 and 12.1 have number 18;
 * the larger kernel struct of 12.1 has 19 here. */
static const struct {
    uint32_t kind, since;
    size_t size;
} layouts[] = {
    {CUPTI_ACTIVITY_KIND_MEMCPY, 0, sizeof(CUpti_ActivityMemcpy5)},
    {CUPTI_ACTIVITY_KIND_MEMCPY, 26, sizeof(CUpti_ActivityMemcpy6)},
    {CUPTI_ACTIVITY_KIND_MEMSET, 0, sizeof(CUpti_ActivityMemset4)},
    {CUPTI_ACTIVITY_KIND_KERNEL, 0, sizeof(CUpti_ActivityKernel8)},
    {CUPTI_ACTIVITY_KIND_KERNEL, 19, sizeof(CUpti_ActivityKernel9)},
    {CUPTI_ACTIVITY_KIND_KERNEL, 130000, sizeof(CUpti_ActivityKernel10)},
    {CUPTI_ACTIVITY_KIND_DRIVER, 0, sizeof(CUpti_ActivityAPI)},
    {CUPTI_ACTIVITY_KIND_RUNTIME, 0, sizeof(CUpti_ActivityAPI)},
    {CUPTI_ACTIVITY_KIND_DEVICE, 0, sizeof(CUpti_ActivityDevice4)},
    {CUPTI_ACTIVITY_KIND_DEVICE, 20, sizeof(CUpti_ActivityDevice5)},
    {CUPTI_ACTIVITY_KIND_CONTEXT, 0, sizeof(CUpti_ActivityContext)},
    {CUPTI_ACTIVITY_KIND_CONTEXT, 22, sizeof(CUpti_ActivityContext2)},
    {CUPTI_ACTIVITY_KIND_CONTEXT, 23, sizeof(CUpti_ActivityContext3)},
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 0, sizeof(CUpti_ActivityKernel8)},
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 19, sizeof(CUpti_ActivityKernel9)},
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 130000, sizeof(CUpti_ActivityKernel10)},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, 0, sizeof(CUpti_ActivityOverhead)},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, 21, sizeof(CUpti_ActivityOverhead2)},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, 22, sizeof(CUpti_ActivityOverhead3)},
    {CUPTI_ACTIVITY_KIND_MEMCPY2, 0, sizeof(CUpti_ActivityMemcpyPtoP4)},
    {CUPTI_ACTIVITY_KIND_CUDA_EVENT, 0, sizeof(CUpti_ActivityCudaEvent)},
    {CUPTI_ACTIVITY_KIND_CUDA_EVENT, 26, sizeof(CUpti_ActivityCudaEvent2)},
    {CUPTI_ACTIVITY_KIND_STREAM, 0, sizeof(CUpti_ActivityStream)},
    {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, 0, sizeof(CUpti_ActivitySynchronization)},
    {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, 26, sizeof(CUpti_ActivitySynchronization2)},
    {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, 0, sizeof(CUpti_ActivityExternalCorrelation)},
    {CUPTI_ACTIVITY_KIND_MEMORY2, 0, sizeof(CUpti_ActivityMemory3)},
    {CUPTI_ACTIVITY_KIND_MEMORY2, 24, sizeof(CUpti_ActivityMemory4)},
    {CUPTI_ACTIVITY_KIND_MEMORY_POOL, 0, sizeof(CUpti_ActivityMemoryPool2)},
    {CUPTI_ACTIVITY_KIND_MEMORY_POOL, 130000, sizeof(CUpti_ActivityMemoryPool3)},
    {CUPTI_ACTIVITY_KIND_GRAPH_TRACE, 0, sizeof(CUpti_ActivityGraphTrace)},
    {CUPTI_ACTIVITY_KIND_GRAPH_TRACE, 21, sizeof(CUpti_ActivityGraphTrace2)},
};

struct sizes {
    uint32_t version;
    size_t here[KINDS], newest[KINDS];
};
static struct sizes sizes;
static pthread_once_t sizes_once = PTHREAD_ONCE_INIT;

static void fill_sizes(void)
{
    sizes.version = sim_version();
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        uint32_t kind = layouts[i].kind;
        sizes.newest[kind] = layouts[i].size;
        if (sizes.version >= layouts[i].since)
            sizes.here[kind] = layouts[i].size;
        if (sizes.version > NEWEST_HEADER)
            sizes.here[kind] = layouts[i].size + UNKNOWN_TAIL;
    }
}

size_t sim_record_size(uint32_t kind)
{
    pthread_once(&sizes_once, fill_sizes);
    return kind < KINDS ? sizes.here[kind] : 0;
}

void sim_copy_record(uint8_t *to, const void *newest, uint32_t kind, size_t size)
{
    size_t known = sizes.newest[kind];
    if (size <= known) {
        memcpy(to, newest, size);
        return;
    }
    memcpy(to, newest, known);
    memset(to + known, 0xAB, size - known);
}

size_t sim_start_offset(uint32_t kind)
{
    switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        return offsetof(CUpti_ActivityKernel10, start);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
        return offsetof(CUpti_ActivityMemcpy6, start);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
        return offsetof(CUpti_ActivityMemcpyPtoP4, start);
    case CUPTI_ACTIVITY_KIND_MEMSET:
        return offsetof(CUpti_ActivityMemset4, start);
    default:
        return offsetof(CUpti_ActivityGraphTrace2, start);
    }
}

EXPORTED CUptiResult CUPTIAPI cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid,
                                                         CUpti_Activity **record)
{
    CALL(cuptiActivityGetNextRecord);
    if (!buffer || !record)
        return sim_result(INVALID);
    uint8_t *at = buffer;
    if (*record) {
        uint32_t kind;
        memcpy(&kind, *record, sizeof kind);
        size_t size = sim_record_size(kind);
        if (!size)
            return sim_result(CUPTI_ERROR_INVALID_KIND);
        at = (uint8_t *)*record + size;
    }
    if (at < buffer || at > buffer + valid)
        return sim_result(INVALID);
    if (at == buffer + valid)
        return sim_result(CUPTI_ERROR_MAX_LIMIT_REACHED);
    uint32_t kind;
    memcpy(&kind, at, sizeof kind);
    size_t size = sim_record_size(kind);
    if (!size)
        return sim_result(CUPTI_ERROR_INVALID_KIND);
    if (at + size > buffer + valid)
        return sim_result(CUPTI_ERROR_MAX_LIMIT_REACHED);
    *record = (CUpti_Activity *)at;
    COUNT(read);
    return CUPTI_SUCCESS;
}

/* Puts the records of a full buffer into random order. The seed is fixed, so that failures
 * repeat. */
void sim_shuffle(uint8_t *memory, size_t used)
{
    static _Atomic uint64_t seed = 88172645463325252u;
    size_t n = 0, at = 0, *offsets = malloc((used / 16 + 1) * sizeof *offsets);
    uint8_t *copy = malloc(used + 1);
    for (; offsets && copy && at < used; n++) {
        uint32_t kind;
        memcpy(&kind, memory + at, sizeof kind);
        size_t size = sim_record_size(kind);
        if (!size)
            break; /* a slot that was never filled ends the shuffle */
        offsets[n] = at;
        at += size;
    }
    uint64_t x = atomic_load(&seed);
    for (size_t i = n; i > 1; i--) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        size_t j = x % i, swap = offsets[j];
        offsets[j] = offsets[i - 1];
        offsets[i - 1] = swap;
    }
    atomic_store(&seed, x);
    if (n)
        memcpy(copy, memory, at);
    for (size_t i = 0, to = 0; i < n; i++) {
        uint32_t kind;
        memcpy(&kind, copy + offsets[i], sizeof kind);
        size_t size = sim_record_size(kind);
        memcpy(memory + to, copy + offsets[i], size);
        to += size;
    }
    free(offsets);
    free(copy);
}

/* Kernel names: shared, owned by CUPTI, never freed. Looked up without a lock, added under a
 * lock. */
#define NAMES 65536u
static _Atomic(const char *) names[NAMES];
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned name_n;

const char *sim_intern(const char *name, bool *is_new)
{
    uint32_t hash = 2166136261u;
    for (const char *c = name; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 16777619u;
    *is_new = false;
    for (int locked = 0; locked < 2; locked++) {
        if (locked)
            pthread_mutex_lock(&names_lock);
        const char *found = NULL;
        uint32_t i = hash % NAMES;
        while ((found = atomic_load_explicit(&names[i], memory_order_acquire)) &&
               strcmp(found, name) != 0)
            i = (i + 1) % NAMES;
        if (!found && locked) {
            *is_new = true;
            found = strdup(name);
            if (name_n < NAMES / 2) {
                name_n++;
                atomic_store_explicit(&names[i], found, memory_order_release);
            } /* the table is full: the name leaks, which tests can bear */
        }
        if (locked)
            pthread_mutex_unlock(&names_lock);
        if (found)
            return found;
    }
    return NULL;
}
