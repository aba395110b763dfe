/* SPDX-License-Identifier: Apache-2.0 */
/* CLOCK_MONOTONIC, which cannot be set, for waits and measurements. */
#pragma once

#include <stdint.h>
#include <time.h>

/* Nanoseconds of CLOCK_MONOTONIC. Any thread; async-signal-safe. */
static inline uint64_t clock_monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
