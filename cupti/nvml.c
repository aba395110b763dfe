/* SPDX-License-Identifier: Apache-2.0 */
/* Opens NVML, and lets its calls through one at a time. */
#include "cupti/nvml.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "writer/writer.h"

#define LIMIT_NS 200000000u /* NVML's calls take locks of the driver, which the program may want */
#define HOLD_MS  100

static _Atomic uint32_t held; /* futex: 1 during a fork; forking thread */
static _Atomic bool over;     /* any thread */
/* clock_monotonic_ns() at the start of the call in progress; 0: none. Telemetry thread */
static _Atomic uint64_t began;
static _Atomic int running;  /* enum nvml_call; telemetry thread */
static _Atomic uint32_t tid; /* of the telemetry thread */
static long preempted;       /* how often it was, at the start of the call; telemetry thread */
static _Atomic bool limited; /* telemetry thread */

static const char *const names[] = {
#define NVML(field, function, parameters) #function,
#include "cupti/nvml.def"
#undef NVML
};

/* ---- the gate ---- */

bool nvml_is_over(void)
{
    return atomic_load(&over);
}

void nvml_end(void)
{
    atomic_store(&over, true);
}

void nvml_limit_calls(bool limit)
{
    atomic_store(&limited, limit);
}

static void end_by(int call, uint64_t ns)
{
    char text[160];
    if (atomic_exchange(&over, true))
        return;
    snprintf(text, sizeof text,
             "a call of NVML (%s) took %llu ms: the GPUs' clocks and power are not recorded from "
             "then on",
             names[call], (unsigned long long)(ns / 1000000));
    log_warn("%s", text);
    writer_note(text);
}

/* How often another thread took the processor from this one. */
static long preemptions(void)
{
    struct rusage use = {.ru_nivcsw = 0};
    getrusage(RUSAGE_THREAD, &use);
    return use.ru_nivcsw;
}

/* A thread that could run waits for a processor, not for the driver. */
void nvml_look(void)
{
    uint64_t since = atomic_load(&began);
    int call = atomic_load(&running);
    uint64_t ns = since ? clock_monotonic_ns() - since : 0;
    /* the same call still: it ends no call that has just begun */
    if (atomic_load(&limited) && ns > LIMIT_NS && thread_state(atomic_load(&tid)) != 'R' &&
        atomic_load(&began) == since)
        end_by(call, ns);
}

/* Sequentially consistent: either nvml_hold() sees the call, or this sees that it must wait. */
bool nvml_enter(enum nvml_call call)
{
    atomic_store(&running, (int)call);
    preempted = preemptions();
    for (;;) {
        atomic_store(&began, clock_monotonic_ns());
        if (!atomic_load(&held) && !nvml_is_over())
            return true;
        atomic_store(&began, 0);
        if (nvml_is_over())
            return false;
        futex_wait(&held, 1, -1);
    }
}

int nvml_leave(int result)
{
    uint64_t ns = clock_monotonic_ns() - atomic_load(&began);
    atomic_store(&began, 0);
    if (atomic_load(&limited) && ns > LIMIT_NS && preemptions() == preempted)
        end_by(atomic_load(&running), ns);
    return result;
}

void nvml_hold(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    atomic_store(&held, 1);
    for (int ms = 0; ms < HOLD_MS && atomic_load(&began) && !nvml_is_over(); ms++)
        nanosleep(&pause, NULL);
}

void nvml_release(void)
{
    atomic_store(&held, 0);
    futex_wake(&held);
}

/* ---- opening ---- */

/* A fork waits: it would leave the child the loader's lock. RTLD_LOCAL: the program may bring
 * another NVML. */
static void *open_library(void)
{
    static const char name[] = "libnvidia-ml.so.1";
    loader_enter();
    void *handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    loader_leave();
    return handle;
}

const struct nvml *nvml_open(void)
{
    static struct nvml api;
    atomic_store(&tid, (uint32_t)syscall(SYS_gettid));
    void *handle = open_library();
    if (!handle) {
        log_debug("no libnvidia-ml.so.1: the GPUs' clocks and power are not recorded");
        return NULL;
    }
#define NVML(field, function, parameters)                                                          \
    api.field = (int(*) parameters)loader_symbol(handle, #function);
#include "cupti/nvml.def"
#undef NVML
    int result = api.by_uuid ? NVML_CALL(&api, init) : NVML_NO_FUNCTION;
    if (result == NVML_OK)
        return &api;
    log_debug("NVML cannot start (%d): the GPUs' clocks and power are not recorded", result);
    return NULL;
}
