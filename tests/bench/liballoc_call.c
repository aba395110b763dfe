/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor memory asked for and given back as torch's tensors do, on torch's own allocator for the
 * CPU; called by allocation_cost.py. */
#include <stddef.h>
#include <time.h>

void *_ZN3c109alloc_cpuEm(size_t bytes);
void _ZN3c108free_cpuEPv(void *address);

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Nanoseconds of one pair, over so many. */
double allocation_pair(int pairs);

double allocation_pair(int pairs)
{
    double before = now_ns();
    for (int i = 0; i < pairs; i++)
        _ZN3c108free_cpuEPv(_ZN3c109alloc_cpuEm(256));
    return (now_ns() - before) / pairs;
}
