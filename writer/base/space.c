/* SPDX-License-Identifier: Apache-2.0 */
/* Limits the rings' share of a limited address space. */
#include "writer/base/space.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "writer/writer.h"

/* all rings get 1 / SHARE of what is left; each ring at most 1 / SHARE of the rest */
#define SHARE      8
#define LEAST_RING (UINT64_C(256) << 10)

static _Atomic uint64_t allowance = UINT64_MAX; /* bytes; UINT64_MAX: not known yet */
static _Atomic bool used_up;                    /* until bytes are given back */

static bool get_limits(struct rlimit *space, struct rlimit *data)
{
    return getrlimit(RLIMIT_AS, space) == 0 && getrlimit(RLIMIT_DATA, data) == 0 &&
           (space->rlim_cur != RLIM_INFINITY || data->rlim_cur != RLIM_INFINITY);
}

/* All mapped pages, and those of them that are private and writable; 0: unknown. */
static void get_pages(unsigned long long *all, unsigned long long *data)
{
    char text[256];
    read_file("/proc/self/statm", text, sizeof text);
    if (sscanf(text, "%llu %*u %*u %*u %*u %llu", all, data) != 2)
        *all = *data = 0;
}

static uint64_t left_of(rlim_t limit, unsigned long long pages)
{
    uint64_t used = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    if (limit == RLIM_INFINITY)
        return UINT64_MAX;
    return limit > used ? limit - used : 0;
}

uint64_t writer_space_left(void)
{
    struct rlimit space, data;
    unsigned long long all_pages, data_pages;
    if (!get_limits(&space, &data))
        return UINT64_MAX;
    int saved = errno, cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    get_pages(&all_pages, &data_pages);
    pthread_setcancelstate(cancel, NULL);
    errno = saved;
    uint64_t a = left_of(space.rlim_cur, all_pages), b = left_of(data.rlim_cur, data_pages);
    return a < b ? a : b;
}

bool space_limited(void)
{
    struct rlimit space, data;
    return get_limits(&space, &data);
}

bool space_take(uint64_t *ring, uint64_t besides)
{
    if (atomic_load_explicit(&used_up, memory_order_relaxed))
        return false;
    uint64_t have = atomic_load(&allowance), bytes;
    if (have == UINT64_MAX) {
        uint64_t share = writer_space_left() / SHARE;
        if (atomic_compare_exchange_strong(&allowance, &have, share))
            have = share;
    }
    do {
        for (bytes = *ring; bytes > LEAST_RING && bytes > have / SHARE;)
            bytes /= 2;
        if (bytes + besides > have) {
            atomic_store(&used_up, true);
            if (once_here())
                log_warn("the address space is limited (ulimit -v, -d) and cprof's share of it is "
                         "used up: further threads are not recorded");
            return false;
        }
    } while (!atomic_compare_exchange_weak(&allowance, &have, have - bytes - besides));
    *ring = bytes;
    return true;
}

void space_give_back(uint64_t bytes)
{
    uint64_t have = atomic_load(&allowance);
    while (have != UINT64_MAX && !atomic_compare_exchange_weak(&allowance, &have, have + bytes))
        ;
    atomic_store(&used_up, false);
}
