/* SPDX-License-Identifier: Apache-2.0 */
/* The system's clock for a process of the simulated GPU. Preloaded (LD_PRELOAD), it gives
 * CLOCK_REALTIME to the program, cprof and the simulated CUPTI. It runs with
 * CLOCK_MONOTONIC_RAW, the devices' clock, so that NTP on the test machine cannot move kernels
 * before their calls. The faults slew_ppm and step_us (tests/sim/sim.h), read once, imitate NTP
 * and a set clock. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLEW_NS 20000000
#define STEP_NS 100000000 /* after the first reading */

static int (*real)(clockid_t, struct timespec *);
/* `first` is of CLOCK_MONOTONIC_RAW; the system's time is `ahead` of it */
static int64_t first, ahead, slew_ppm, step_ns;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int64_t read_real(clockid_t clock)
{
    struct timespec t;
    real(clock, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int64_t fault(const char *name)
{
    const char *all = getenv("SIM_FAULTS"), *at = all ? strstr(all, name) : NULL;
    return at ? atol(at + strlen(name)) : 0;
}

static void start(void)
{
    *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    first = read_real(CLOCK_MONOTONIC_RAW);
    ahead = read_real(CLOCK_REALTIME) - first;
    slew_ppm = fault("slew_ppm=");
    step_ns = fault("step_us=") * 1000;
}

/* The gain in ns at a time of CLOCK_MONOTONIC_RAW. A slewed clock gains for SLEW_NS and then
 * loses as much. */
static int64_t at_raw(int64_t raw)
{
    int64_t at = raw % (2 * SLEW_NS);
    int64_t gained = (at < SLEW_NS ? at : 2 * SLEW_NS - at) * slew_ppm / 1000000;
    return raw + ahead + gained + (raw - first >= STEP_NS ? step_ns : 0);
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *t)
{
    pthread_once(&once, start);
    if (clock != CLOCK_REALTIME)
        return real(clock, t);
    int64_t now = at_raw(read_real(CLOCK_MONOTONIC_RAW));
    t->tv_sec = now / 1000000000;
    t->tv_nsec = now % 1000000000;
    return 0;
}

/* For the simulated CUPTI: the system's time at a device time, in ns since 1970. */
__attribute__((visibility("default"))) uint64_t sim_system_at(uint64_t raw)
{
    pthread_once(&once, start);
    return (uint64_t)at_raw((int64_t)raw);
}
