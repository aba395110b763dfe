/* SPDX-License-Identifier: Apache-2.0 */
/* Starts, wakes and ends the telemetry thread, and takes over what it reads. */
#define _GNU_SOURCE
#include "cupti/telemetry.h"

#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>

#include "cupti/device_values.h"
#include "cupti/devices.h"
#include "cupti/gpu_trace.h"
#include "cupti/nvml.h"

#define PERIOD_NS   100000000u
#define PCIE_NS     1000000000u
#define LATE_NS     250000000u /* longest wait for a reading; one call takes at most 200 ms */
#define FINISH_MS   250
#define RING        1024u /* states; the cprof thread takes them each 10 ms */
#define STACK_BYTES (512u << 10)

enum { THREAD_NONE, THREAD_RUNS, THREAD_GONE };

static _Atomic uint32_t thread; /* futex: THREAD_…; cprof thread and telemetry thread */
static _Atomic bool dead;       /* in a forked child */

/* The GPUs, in the order of their first use. The cprof thread appends. */
static struct {
    uint32_t number;
    uint8_t uuid[16];
    bool is_mig;
} listed[GPU_STATES];
static _Atomic uint32_t n_listed;
static uint32_t is_listed; /* bits 1 << number; cprof thread */

/* The cprof thread writes, the telemetry thread reads. */
static _Atomic uint32_t bell; /* futex: counts the changes of the following */
static _Atomic bool on;
static _Atomic uint64_t asked; /* ticks: all GPUs are to be read after that */
static _Atomic bool leaving;   /* any thread */

/* The telemetry thread writes, the cprof thread reads. */
static _Atomic uint64_t read_since; /* ticks: all GPUs were read after that; 0: none yet */
static struct gpu_state ring[RING];
static _Atomic uint32_t head, tail; /* head: telemetry thread; tail: cprof thread */
static _Atomic uint64_t refused;    /* states without room in the ring, since the start */

/* Telemetry thread. */
static struct device_values devices[GPU_STATES]; /* in the order of `listed` */
static unsigned opened;

static uint64_t asked_ns; /* clock_monotonic_ns() of the last `asked`; cprof thread */

static void ring_bell(void)
{
    atomic_fetch_add(&bell, 1);
    futex_wake(&bell);
}

/* ---- the telemetry thread ---- */

static void put(uint32_t device, struct gpu_state s)
{
    s.device = device;
    if (!s.known)
        return;
    uint32_t at = atomic_load_explicit(&head, memory_order_relaxed);
    if (at - atomic_load_explicit(&tail, memory_order_acquire) == RING) {
        atomic_fetch_add(&refused, 1);
        return;
    }
    ring[at % RING] = s;
    atomic_store_explicit(&head, at + 1, memory_order_release);
}

static void open_device(struct device_values *d, const struct nvml *api, unsigned i)
{
    device_values_open(d, api, listed[i].uuid, listed[i].is_mig);
    if (!d->device || !listed[i].is_mig || !once_here())
        return;
    writer_note("a GPU is divided (MIG): clocks, power, temperature and throttling are those of "
                "the whole of it; energy, memory, links and activity are not recorded");
}

/* Opens the GPUs that were listed meanwhile. Returns whether there were any. */
static bool open_new(const struct nvml *api)
{
    uint32_t n = atomic_load_explicit(&n_listed, memory_order_acquire);
    bool any = opened < n;
    nvml_limit_calls(false);
    for (; opened < n; opened++)
        open_device(&devices[opened], api, opened);
    nvml_limit_calls(true);
    return any;
}

/* rates: as for device_values_read(). */
static void read_all(const struct nvml *api, bool rates)
{
    uint64_t since = clock_ticks();
    for (unsigned i = 0; i < opened; i++)
        if (devices[i].device)
            put(listed[i].number, device_values_read(&devices[i], api, rates));
    atomic_store(&read_since, since);
}

static void read_pcie(const struct nvml *api)
{
    for (unsigned i = 0; i < opened && atomic_load(&on); i++)
        if (devices[i].device)
            put(listed[i].number, device_values_read_pcie(&devices[i], api));
}

/* When the next reading is due, after one that was begun at `began`. On a machine with many GPUs a
 * reading may take longer than the period. */
static uint64_t next_due(uint64_t began)
{
    uint64_t due = began + PERIOD_NS, least = clock_monotonic_ns() + PERIOD_NS / 2;
    return due > least ? due : least;
}

/* ms until the next reading; 0: now; -1: when the bell rings. */
static int64_t pause_ms(uint64_t due_ns)
{
    uint64_t now = clock_monotonic_ns();
    if (atomic_load(&asked) > atomic_load(&read_since))
        return 0;
    if (!atomic_load(&on))
        return -1;
    return due_ns > now ? (int64_t)((due_ns - now) / 1000000) + 1 : 0;
}

static void read_until_told(const struct nvml *api)
{
    uint64_t due_ns = 0, pcie_ns = 0; /* clock_monotonic_ns() */
    while (!atomic_load(&leaving) && !nvml_is_over()) {
        uint32_t rung = atomic_load(&bell);
        int64_t ms = pause_ms(due_ns);
        if (ms != 0) {
            futex_wait(&bell, rung, ms);
            continue;
        }
        uint64_t now = clock_monotonic_ns();
        bool is_due = now >= due_ns && atomic_load(&on);
        if (open_new(api))
            pcie_ns = 0;
        read_all(api, is_due);
        if (is_due)
            due_ns = next_due(now);
        if (is_due && now >= pcie_ns) {
            pcie_ns = now + PCIE_NS;
            read_pcie(api);
        }
    }
}

/* Does not call nvmlShutdown(): it may wait, and the process ends or keeps the library. */
static void *read_gpus(void *unused)
{
    prctl(PR_SET_NAME, "cprof-gpu", 0, 0, 0);
    const struct nvml *api = nvml_open();
    if (api)
        read_until_told(api);
    atomic_store(&thread, THREAD_GONE);
    futex_wake(&thread);
    run_state_thread(-1);
    return unused;
}

/* ---- the cprof thread ---- */

/* The new thread inherits the cprof thread's affinity and blocked signals. */
static void start_thread(void)
{
    pthread_attr_t attr;
    pthread_t made;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, run_state_stack_size(STACK_BYTES));
    atomic_store(&thread, THREAD_RUNS);
    run_state_thread(1);
    int error = pthread_create(&made, &attr, read_gpus, NULL);
    pthread_attr_destroy(&attr);
    if (!error)
        return;
    run_state_thread(-1);
    atomic_store(&thread, THREAD_GONE);
    log_warn("cannot start a thread: %s; the GPUs' clocks and power are not recorded",
             strerror(error));
}

static void list_used(void)
{
    for (uint32_t number = 0; number < GPU_STATES; number++) {
        const struct gpu_identity *used = gpu_device_used(number);
        uint32_t n = atomic_load_explicit(&n_listed, memory_order_relaxed);
        if (!used || is_listed >> number & 1)
            continue;
        is_listed |= UINT32_C(1) << number;
        listed[n].number = number;
        listed[n].is_mig = used->is_mig;
        memcpy(listed[n].uuid, used->uuid, sizeof listed[n].uuid);
        atomic_store_explicit(&n_listed, n + 1, memory_order_release);
    }
}

static bool states_want(bool wanted)
{
    if (atomic_load(&dead))
        return true;
    if (wanted)
        list_used();
    if (wanted && is_listed && atomic_load(&thread) == THREAD_NONE &&
        run_state_now() == WRITER_RUNS)
        start_thread();
    if (atomic_exchange(&on, wanted) != wanted)
        ring_bell();
    nvml_look();
    return is_listed != 0;
}

static uint64_t states_collect(void (*each)(const struct gpu_state *s, void *arg), void *arg)
{
    static uint64_t told;
    uint32_t at = atomic_load_explicit(&tail, memory_order_relaxed);
    for (; at != atomic_load_explicit(&head, memory_order_acquire); at++) {
        each(&ring[at % RING], arg);
        atomic_store_explicit(&tail, at + 1, memory_order_release);
    }
    uint64_t lost = atomic_load(&refused) - told;
    told += lost;
    return lost;
}

static bool states_returned(uint64_t ticks)
{
    uint64_t since = atomic_load(&read_since);
    if (atomic_load(&thread) != THREAD_RUNS || !since || since >= ticks || nvml_is_over())
        return true;
    if (atomic_load(&asked) < ticks) {
        atomic_store(&asked, ticks);
        asked_ns = clock_monotonic_ns();
        ring_bell();
    }
    return clock_monotonic_ns() - asked_ns > LATE_NS;
}

static void states_finish(void)
{
    nvml_end();
    atomic_store(&leaving, true);
    ring_bell();
    for (int ms = 0; ms < FINISH_MS && atomic_load(&thread) == THREAD_RUNS; ms += 10)
        futex_wait(&thread, THREAD_RUNS, 10);
}

const struct gpu_states *gpu_states(void)
{
    static const struct gpu_states states = {.want = states_want,
                                             .collect = states_collect,
                                             .returned = states_returned,
                                             .finish = states_finish};
    return &states;
}

void telemetry_abandon(void)
{
    atomic_store(&dead, true);
    nvml_end();
}
