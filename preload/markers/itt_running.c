/* SPDX-License-Identifier: Apache-2.0 */
/* Table of overlapped ITT tasks that run, by domain and id. A fixed hash table without locks; a
 * task lies in one of LOOKED places behind its hash. Only the hash is compared: two tasks share one
 * once in 10^16. A thread claims a place through its key, to fill or to free it. Application
 * threads. */
#include "preload/markers/itt.h"

#define PLACES 8192u       /* a power of two */
#define LOOKED 64u         /* places that are searched */
#define BUSY   UINT64_C(1) /* the key while a thread fills or frees the place; task keys are even */

struct itt_running {
    /* 0: free; any thread claims by compare and swap, releases by a store (release) */
    _Atomic uint64_t key;
    /* range << 1 | marks; the beginning thread writes, the ending thread reads, ordered by `key` or
     * by the program */
    _Atomic uint64_t range;
};

static struct itt_running places[PLACES];

static uint64_t mix(uint64_t h)
{
    h = (h ^ h >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ h >> 27) * UINT64_C(0x94d049bb133111eb);
    return h ^ h >> 31;
}

static uint64_t key_of(const struct itt_domain *domain, struct itt_id id)
{
    uint64_t h = mix((uint64_t)(uintptr_t)domain + UINT64_C(0x9e3779b97f4a7c15));
    h = mix(mix(mix(h ^ id.d1) ^ id.d2) ^ id.d3);
    return h << 1 ? h << 1 : 2;
}

static struct itt_running *running_place(uint64_t key, unsigned i)
{
    return &places[((key >> 20) + i) & (PLACES - 1)];
}

struct itt_running *itt_running_add(const struct itt_domain *domain, struct itt_id id, bool marks)
{
    uint64_t key = key_of(domain, id);
    for (unsigned i = 0; i < LOOKED; i++) {
        struct itt_running *task = running_place(key, i);
        uint64_t free_key = 0;
        if (atomic_load_explicit(&task->key, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&task->key, &free_key, BUSY,
                                                    memory_order_acquire, memory_order_relaxed)) {
            atomic_store_explicit(&task->range, marks, memory_order_relaxed);
            atomic_store_explicit(&task->key, key, memory_order_release);
            return task;
        }
    }
    return NULL;
}

void itt_running_set_range(struct itt_running *task, uint64_t range)
{
    atomic_fetch_or_explicit(&task->range, range << 1, memory_order_release);
}

bool itt_running_take(const struct itt_domain *domain, struct itt_id id, uint64_t *range,
                      bool *marks)
{
    uint64_t key = key_of(domain, id);
    for (unsigned i = 0; i < LOOKED; i++) {
        struct itt_running *task = running_place(key, i);
        uint64_t seen = key;
        if (atomic_load_explicit(&task->key, memory_order_relaxed) != key ||
            !atomic_compare_exchange_strong_explicit(&task->key, &seen, BUSY, memory_order_acquire,
                                                     memory_order_relaxed))
            continue;
        uint64_t value = atomic_load_explicit(&task->range, memory_order_acquire);
        *range = value >> 1;
        *marks = value & 1;
        atomic_store_explicit(&task->key, 0, memory_order_release);
        return true;
    }
    return false;
}
