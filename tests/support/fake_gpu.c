/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU side for tests of the writer. */
#include "tests/support/fake_gpu.h"

#include <check.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "writer/base/clock.h"
#include "writer/record/thread_log.h"
#include "writer/writer.h"

#define MOST 4096

struct fake_gpu fake_gpu;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpu_record queue[MOST];
static unsigned queued;
static struct gpu_faults to_report;

static int want(enum gpu_want what)
{
    atomic_fetch_add(&fake_gpu.wants[what], 1);
    return -1;
}

static uint64_t collect(enum gpu_flush flush, void (*each)(const struct gpu_record *, void *),
                        void *arg, struct gpu_faults *faults)
{
    static struct gpu_record taken[MOST];
    void (*meanwhile)(void) = atomic_exchange(&fake_gpu.meanwhile, NULL);
    if (meanwhile)
        meanwhile();
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
    uint64_t from = atomic_load(&fake_gpu.kept_from);
    return !atomic_load(&fake_gpu.kept_back) && (from == 0 || ticks < from);
}

static uint64_t calls_since(void)
{
    return atomic_load(&fake_gpu.since);
}

static bool recorded(uint64_t ticks)
{
    return ticks >= calls_since() || ticks < atomic_load(&fake_gpu.until);
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
                                           .recorded = recorded,
                                           .devices_json = devices_json,
                                           .versions_json = versions_json,
                                           .device_name = device_name};

/* Waits while the queue is full: on a busy machine the cprof thread may be late. */
void fake_gpu_deliver(const struct gpu_record *r)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    pthread_mutex_lock(&lock);
    for (int ms = 0; queued == MOST && ms < 10000; ms++) {
        pthread_mutex_unlock(&lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&lock);
    }
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

struct happened fake_gpu_work(void)
{
    struct happened h = {clock_ticks(), 0};
    for (volatile int i = 0; i < 500; i++)
        ;
    h.end = clock_ticks();
    return h;
}

struct happened fake_gpu_hooked(const char *name, enum category category)
{
    struct thread_log *log = thread_log_get();
    int key;
    span_open(log, &key, category, name, (uint32_t)strlen(name));
    struct happened h = fake_gpu_work();
    span_close(log, &key);
    return h;
}

struct gpu_record fake_gpu_call_record(const char *name, uint32_t correlation, struct happened h,
                                       uint8_t flags, enum gpu_effect effect)
{
    struct gpu_record r = {.kind = GPU_CALL,
                           .flags = flags,
                           .name = name,
                           .name_len = (uint16_t)strlen(name),
                           .correlation = correlation,
                           .start = h.start,
                           .end = h.end,
                           .device = GPU_NONE,
                           .stream = GPU_NONE,
                           .context = GPU_NONE};
    r.call.tid = (uint32_t)syscall(SYS_gettid);
    r.call.cbid = 211;
    r.call.effect = effect;
    return r;
}

struct gpu_record fake_gpu_kernel_record(const char *name, uint32_t correlation, uint64_t start)
{
    struct gpu_record r = {.kind = GPU_KERNEL,
                           .name = name,
                           .name_len = (uint16_t)strlen(name),
                           .correlation = correlation,
                           .start = start,
                           .end = start + 20000,
                           .device = 0,
                           .context = 1,
                           .stream = 7};
    r.kernel.grid[0] = r.kernel.block[0] = 1;
    return r;
}

void fake_gpu_kernel(const char *name, uint32_t correlation)
{
    struct gpu_record work = fake_gpu_kernel_record(name, correlation, clock_ticks());
    fake_gpu_deliver(&work);
}

void fake_gpu_launch(const char *kernel, uint32_t correlation)
{
    struct happened h = fake_gpu_hooked("cudaLaunchKernel", CAT_CUDA_RUNTIME);
    struct gpu_record call =
        fake_gpu_call_record("cudaLaunchKernel", correlation, h, 0, EFFECT_KERNEL);
    struct gpu_record work = fake_gpu_kernel_record(kernel, correlation, h.end + 1000);
    fake_gpu_deliver(&call);
    fake_gpu_deliver(&work);
}
