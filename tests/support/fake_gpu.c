/* SPDX-License-Identifier: Apache-2.0 */
/* See fake_gpu.h. */
#include "tests/support/fake_gpu.h"

#include <check.h>
#include <pthread.h>
#include <string.h>

#define MOST 4096

struct fake_gpu fake_gpu;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpu_record queue[MOST];
static unsigned queued;
static struct gpu_faults to_report;

static void want(enum gpu_want what)
{
    atomic_fetch_add(&fake_gpu.wants[what], 1);
}

static uint64_t collect(enum gpu_flush flush, void (*each)(const struct gpu_record *, void *),
                        void *arg, struct gpu_faults *faults)
{
    static struct gpu_record taken[MOST];
    pthread_mutex_lock(&lock);
    unsigned n = queued;
    memcpy(taken, queue, n * sizeof *queue);
    queued = 0;
    *faults = to_report;
    to_report = (struct gpu_faults){0};
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&fake_gpu.forced, flush == GPU_FLUSH_FORCED);
    for (unsigned i = 0; i < n; i++)
        each(&taken[i], arg);
    return n;
}

static bool returned(uint64_t ticks)
{
    (void)ticks;
    return !atomic_load(&fake_gpu.kept_back);
}

static uint64_t calls_since(void)
{
    return atomic_load(&fake_gpu.since);
}

static const char *devices_json(void)
{
    return "[{\"id\": 0, \"name\": \"Simulated\"}]";
}

static const char *versions_json(void)
{
    return "\"cupti_version\": 130000,\n";
}

static const char *device_name(uint32_t device)
{
    (void)device;
    return "Simulated";
}

const struct gpu_source fake_gpu_source = {.want = want,
                                           .collect = collect,
                                           .returned = returned,
                                           .calls_since = calls_since,
                                           .devices_json = devices_json,
                                           .versions_json = versions_json,
                                           .device_name = device_name};

void fake_gpu_deliver(const struct gpu_record *r)
{
    pthread_mutex_lock(&lock);
    ck_assert_uint_lt(queued, MOST);
    queue[queued++] = *r;
    pthread_mutex_unlock(&lock);
}

void fake_gpu_report(struct gpu_faults faults)
{
    pthread_mutex_lock(&lock);
    to_report = faults;
    pthread_mutex_unlock(&lock);
}
