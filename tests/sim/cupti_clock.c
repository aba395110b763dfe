/* SPDX-License-Identifier: Apache-2.0 */
/* Time as the client sees it: the system's clock, or the client's timestamp callback.
 *
 * If system_clock.c is loaded, it gives the system's time for every device time.
 *
 * Otherwise device times are mapped to the client's clock as the real CUPTI maps GPU stamps.
 * Pairs of both clocks are sampled every millisecond in which something is called or done. A
 * time is interpolated linearly between the pairs around it. */
#include "tests/sim/cupti_sim.h"
#include <time.h>

#define SAMPLES   512
#define FRESH_NS  1000000u /* age of the newest pair at which a new one is sampled */
#define SETTLE_NS 200000u  /* distance of the first two pairs, large enough for a good slope */

struct sample {
    uint64_t mono, tap;
};

static _Atomic(CUpti_TimestampCallbackFunc) client_clock;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sample samples[SAMPLES];
static unsigned sample_n;
static _Atomic uint64_t newest; /* device time of the newest pair */
static _Atomic uint64_t generation = 1;

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t sim_device_now(void)
{
    return clock_ns(CLOCK_MONOTONIC_RAW);
}

uint64_t sim_monotonic(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

extern uint64_t sim_system_at(uint64_t raw) __attribute__((weak));

/* Nanoseconds since 1970. */
static uint64_t system_now(void)
{
    if (sim_system_at)
        return sim_system_at(sim_device_now());
    return clock_ns(CLOCK_REALTIME);
}

uint64_t sim_now(void)
{
    CUpti_TimestampCallbackFunc function =
        atomic_load_explicit(&client_clock, memory_order_acquire);
    if (function) {
        struct thread *self = sim_self();
        enum inside before = self->inside;
        self->inside = IN_TIMESTAMP;
        uint64_t now = function();
        self->inside = before;
        return now;
    }
    return system_now();
}

uint64_t sim_on_system_clock(uint64_t device_ns)
{
    uint64_t width = UINT64_MAX, result = 0;
    for (int i = 0; i < 5; i++) { /* the narrowest pair, as in take_sample() */
        uint64_t before = sim_device_now(), system = system_now(), after = sim_device_now();
        if (after - before >= width)
            continue;
        width = after - before;
        result = system - (before + width / 2 - device_ns);
    }
    return result;
}

bool sim_clock_is_clients(void)
{
    return atomic_load_explicit(&client_clock, memory_order_relaxed) != NULL;
}

/* Two readings of one clock differ by less, readings of different clocks by much more. */
#define SAME_NS 1000000000u

/* Device times stay on the system's clock, whatever the callback returns. Guarded by the lock. */
static bool latched;

/* From 13.1 on, cuptiSubscribe() fixes the clock of device times if a context exists. Device
 * times then stay on that clock when the callback changes. From 13.3 Update 3 on they follow the
 * callback (pytorch#190354). */
void sim_clock_subscribed(void)
{
    if (sim_version() < 130100 || sim_version() >= 130303 || !sim_any_context())
        return;
    uint64_t system = system_now(), clock = sim_now();
    pthread_mutex_lock(&lock);
    latched = clock - system + SAME_NS < 2 * SAME_NS;
    sample_n = 0;
    atomic_fetch_add(&generation, 1);
    pthread_mutex_unlock(&lock);
}

/* Takes the narrowest of many pairs. A preempted thread gives a wide one, and with close pairs a
 * small error in the slope becomes a large one later. */
static struct sample take_sample(void)
{
    struct sample best = {0, 0};
    uint64_t width = UINT64_MAX;
    for (int i = 0; i < 25; i++) {
        uint64_t before = sim_device_now(), tap = latched ? system_now() : sim_now();
        uint64_t after = sim_device_now();
        if (after - before < width) {
            width = after - before;
            best = (struct sample){before + width / 2, tap};
        }
    }
    return best;
}

static void append(struct sample s)
{
    if (sample_n && s.mono <= samples[(sample_n - 1) % SAMPLES].mono)
        return;
    samples[sample_n++ % SAMPLES] = s;
    atomic_store_explicit(&newest, s.mono, memory_order_relaxed);
}

static void settle(void)
{
    append(take_sample());
    uint64_t until = sim_device_now() + SETTLE_NS;
    while (sim_device_now() < until)
        ;
    append(take_sample());
}

void sim_clock_set(CUpti_TimestampCallbackFunc function)
{
    pthread_mutex_lock(&lock);
    atomic_store_explicit(&client_clock, function, memory_order_release);
    sample_n = 0;
    atomic_fetch_add(&generation, 1);
    settle();
    pthread_mutex_unlock(&lock);
}

void sim_clock_keep_fresh(void)
{
    if (sim_device_now() - atomic_load_explicit(&newest, memory_order_relaxed) <= FRESH_NS)
        return;
    pthread_mutex_lock(&lock);
    if (sample_n &&
        sim_device_now() - atomic_load_explicit(&newest, memory_order_relaxed) > FRESH_NS)
        append(take_sample());
    pthread_mutex_unlock(&lock);
}

/* The caller holds the lock. The segment is cached in the thread, so that most times need no
 * lock. */
static void find_segment(struct thread *self, uint64_t mono)
{
    if (sample_n < 2)
        settle();
    struct sample last = samples[(sample_n - 1) % SAMPLES];
    if (mono > last.mono || sim_device_now() - last.mono > FRESH_NS)
        if (sim_device_now() - last.mono > FRESH_NS)
            append(take_sample());
    unsigned oldest = sample_n > SAMPLES ? sample_n - SAMPLES : 0, i = sample_n - 1;
    while (i > oldest + 1 && samples[(i - 1) % SAMPLES].mono > mono)
        i--;
    struct sample a = samples[(i - 1) % SAMPLES], b = samples[i % SAMPLES];
    self->clock_generation = atomic_load(&generation);
    self->clock_mono[0] = a.mono;
    /* beyond the newest pair, the last slope is used for a while */
    self->clock_mono[1] = i == sample_n - 1 ? b.mono + FRESH_NS : b.mono;
    self->clock_tap = a.tap;
    self->clock_slope = (double)(b.tap - a.tap) / (double)(b.mono - a.mono);
}

uint64_t sim_on_clock(uint64_t mono)
{
    if (!mono)
        return 0;
    if (sim_system_at && (latched || !sim_clock_is_clients()))
        return sim_system_at(mono);
    struct thread *self = sim_self();
    if (self->clock_generation != atomic_load_explicit(&generation, memory_order_relaxed) ||
        mono < self->clock_mono[0] || mono > self->clock_mono[1]) {
        pthread_mutex_lock(&lock);
        find_segment(self, mono);
        pthread_mutex_unlock(&lock);
    }
    double distance = ((double)mono - (double)self->clock_mono[0]) * self->clock_slope;
    return (uint64_t)((int64_t)self->clock_tap + (int64_t)distance);
}
