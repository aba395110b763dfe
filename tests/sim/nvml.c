/* SPDX-License-Identifier: Apache-2.0 */
/* libnvidia-ml.so.1 for the simulated GPU. Its prototypes are cprof's, which
 * tests/e2e/test_nvml_header.py compares with the real nvml.h.
 *
 * SIM_NVML="name[=value],…" in the environment:
 *
 *   refuse=FUNCTION:N   the function returns error N (repeatable)
 *   slow=FUNCTION:MS    each call of the function takes MS ms
 *   throttle=BITS       the GPUs are throttled; their SM clock is 1410 instead of 1980 MHz
 *   throttle_ms=MS      … in every other MS ms only
 *   devices=N           it has N GPUs instead of 2, for cprof doctor
 *   no_gpm              the GPUs have no GPM
 *   nan                 GPM's values are no numbers
 *   mig                 what a divided GPU refuses
 *
 * The UUID's last byte is the CUDA ordinal N; the GPU takes 500 + 100 N W. At its end the process
 * adds the number of calls of each function to SIM_REPORT, and of calls that were wrong: before
 * nvmlInit_v2(), at the same time as another, or in a forked child. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cupti/nvml.h"

#define GPUS       16u
#define POWER_W(n) (500u + 100u * (n))
#define PCIE_MS    20

static const char *const names[] = {
#define NVML(field, function, parameters) #function,
#include "cupti/nvml.def"
#undef NVML
};

enum { CALLS = sizeof names / sizeof *names };

static _Atomic unsigned calls[CALLS], wrong, running;
static _Atomic bool started;
static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* NVML has some; a fork must not copy it */
static pid_t owner;
static struct gpu {
    unsigned number;
} gpus[GPUS];
static struct sample {
    uint64_t ns;
} samples[2 * GPUS];
static _Atomic unsigned n_samples;

/* ---- what is asked of it ---- */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* The value of "name=value", or of "name=of:value"; -1: there is none. Without a value: 1. */
static long setting(const char *name, const char *of)
{
    const char *at = getenv("SIM_NVML");
    size_t n = strlen(name);
    while (at && *at) {
        const char *value = at + n;
        if (strncmp(at, name, n) == 0 && (!*value || *value == ',' || *value == '=')) {
            if (*value != '=')
                return 1;
            if (!of)
                return strtol(value + 1, NULL, 0);
            if (strncmp(value + 1, of, strlen(of)) == 0 && value[1 + strlen(of)] == ':')
                return strtol(value + 2 + strlen(of), NULL, 0);
        }
        at = strchr(at, ',');
        at += at != NULL;
    }
    return -1;
}

static bool is_throttled(void)
{
    long ms = setting("throttle_ms", NULL);
    return setting("throttle", NULL) > 0 && (ms <= 0 || now_ns() / 1000000 / (uint64_t)ms % 2);
}

/* Opens a call. Returns the error that it must return. */
static int begin(enum nvml_call call)
{
    atomic_fetch_add(&calls[call], 1);
    if ((call != NVML_CALL_init && !atomic_load(&started)) || atomic_fetch_add(&running, 1) != 0 ||
        getpid() != owner)
        atomic_fetch_add(&wrong, 1);
    pthread_mutex_lock(&lock);
    sleep_ms(setting("slow", names[call]) > 0 ? setting("slow", names[call]) : 0);
    pthread_mutex_unlock(&lock);
    long refused = setting("refuse", names[call]);
    atomic_fetch_sub(&running, 1);
    return refused > 0 ? (int)refused : NVML_OK;
}

#define BEGIN(call)                                                                                \
    int refused_ = begin(NVML_CALL_##call);                                                        \
    if (refused_)                                                                                  \
    return refused_

static unsigned number_of(void *device)
{
    return ((struct gpu *)device)->number;
}

/* ---- NVML ---- */

#define NVML(field, function, parameters) int function parameters;
#include "cupti/nvml.def"
#undef NVML

int nvmlInit_v2(void)
{
    owner = owner ? owner : getpid();
    BEGIN(init);
    atomic_store(&started, true);
    return NVML_OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
    unsigned n;
    BEGIN(by_uuid);
    if (sscanf(uuid, "GPU-5349%*2x%*2x-%*4x-%*4x-%*4x-%*10x%2x", &n) != 1 || n >= GPUS)
        return NVML_INVALID_ARGUMENT;
    gpus[n].number = n;
    *device = &gpus[n];
    return NVML_OK;
}

/* cprof doctor asks these two. */
int nvmlDeviceGetCount_v2(unsigned *number);
int nvmlDeviceGetCount_v2(unsigned *number)
{
    long devices = setting("devices", NULL);
    *number = devices >= 0 ? (unsigned)devices : 2;
    return NVML_OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    *device = &gpus[index % GPUS];
    return NVML_OK;
}

int nvmlDeviceGetClockInfo(void *device, int domain, unsigned *mhz)
{
    BEGIN(clock);
    (void)device;
    *mhz = domain == NVML_CLOCK_OF_MEMORY ? 2619 : is_throttled() ? 1410 : 1980;
    return NVML_OK;
}

int nvmlDeviceGetMaxClockInfo(void *device, int domain, unsigned *mhz)
{
    BEGIN(clock_most);
    (void)device;
    *mhz = domain == NVML_CLOCK_OF_MEMORY ? 2619 : 1980;
    return NVML_OK;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *mw)
{
    BEGIN(power);
    *mw = POWER_W(number_of(device)) * 1000;
    return NVML_OK;
}

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *mw)
{
    BEGIN(power_limit);
    (void)device;
    *mw = 700000;
    return NVML_OK;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
    BEGIN(temperature);
    (void)sensor;
    *celsius = 40 + number_of(device);
    return NVML_OK;
}

int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *bits)
{
    BEGIN(event_reasons);
    (void)device;
    *bits = is_throttled() ? (unsigned long long)setting("throttle", NULL) : 0;
    return NVML_OK;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits)
{
    BEGIN(throttle_reasons);
    return nvmlDeviceGetCurrentClocksEventReasons(device, bits);
}

int nvmlDeviceGetMemoryInfo_v2(void *device, struct nvml_memory *out)
{
    BEGIN(memory);
    if (out->version != NVML_MEMORY_VERSION)
        return NVML_VERSION_MISMATCH;
    out->total = 85024112640u;
    out->used = (number_of(device) + 1ull) << 30;
    return setting("mig", NULL) > 0 ? NVML_NO_PERMISSION : NVML_OK;
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mj)
{
    BEGIN(energy);
    *mj = now_ns() / 1000000 * POWER_W(number_of(device));
    return NVML_OK;
}

int nvmlDeviceGetPcieThroughput(void *device, int counter, unsigned *kb_per_s)
{
    BEGIN(pcie);
    (void)device;
    sleep_ms(PCIE_MS);
    *kb_per_s = counter == NVML_PCIE_SENT ? 1000000 : 2000000;
    return NVML_OK;
}

int nvmlDeviceGetFieldValues(void *device, int n, struct nvml_field *fields)
{
    BEGIN(fields);
    (void)device;
    for (int i = 0; i < n; i++) {
        bool sent = fields[i].field == NVML_NVLINK_SENT;
        fields[i].result = fields[i].scope == NVML_ALL_LINKS ? NVML_OK : NVML_INVALID_ARGUMENT;
        fields[i].value.whole = now_ns() / 1000 * (sent ? 100 : 200) / 1024; /* 100, 200 MB/s */
    }
    return NVML_OK;
}

int nvmlGpmQueryDeviceSupport(void *device, struct nvml_gpm_support *out)
{
    BEGIN(gpm_support);
    (void)device;
    out->is_supported = out->version == NVML_GPM_VERSION && setting("no_gpm", NULL) < 0;
    return NVML_OK;
}

int nvmlGpmSampleAlloc(void **sample)
{
    BEGIN(gpm_alloc);
    *sample = &samples[atomic_fetch_add(&n_samples, 1) % (2 * GPUS)];
    return NVML_OK;
}

int nvmlGpmSampleGet(void *device, void *sample)
{
    BEGIN(gpm_sample);
    (void)device;
    ((struct sample *)sample)->ns = now_ns();
    return NVML_OK;
}

int nvmlGpmMetricsGet(struct nvml_gpm *get)
{
    BEGIN(gpm_metrics);
    if (get->version != NVML_GPM_VERSION ||
        ((struct sample *)get->from)->ns >= ((struct sample *)get->to)->ns)
        return NVML_INVALID_ARGUMENT;
    for (unsigned i = 0; i < get->n; i++) {
        unsigned metric = get->metrics[i].metric;
        get->metrics[i].value = metric == NVML_GPM_SM ? 75 : metric == NVML_GPM_TENSOR ? 50 : 25;
        if (setting("nan", NULL) > 0)
            get->metrics[i].value = __builtin_nan("");
    }
    return NVML_OK;
}

/* ---- report ---- */

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("SIM_REPORT");
    FILE *f = path && *path ? fopen(path, "ae") : NULL;
    if (!f)
        return;
    const char *line = "{\"pid\":%d,\"of\":\"nvml\",\"name\":\"%s\",\"value\":%u}\n";
    for (int i = 0; i < CALLS; i++)
        fprintf(f, line, (int)getpid(), names[i], atomic_load(&calls[i]));
    fprintf(f, line, (int)getpid(), "wrong", atomic_load(&wrong));
    fprintf(f, line, (int)getpid(), "running", atomic_load(&running));
    fprintf(f, line, (int)getpid(), "locked", pthread_mutex_trylock(&lock) != 0);
    fclose(f);
}
