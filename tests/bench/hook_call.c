/* SPDX-License-Identifier: Apache-2.0 */
/* What a call of a CUDA runtime function costs: the best of many short loops over a stand-in whose function does nothing.
 * Bare, or under the preload with a schedule that records or not. Prints `name value unit`. */
#include "preload/cprof.h"

#include <stdio.h>
#include <time.h>

int cudaStreamSynchronize(void *stream);

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(void)
{
    enum { LOOPS = 2000, CALLS = 500 };
    double least = 1e9;
    cudaStreamSynchronize(NULL);
    cprof_step(); /* step 0 is kept for programs that never mark one */
    for (int i = 0; i < LOOPS; i++) {
        double before = now_ns();
        for (int n = 0; n < CALLS; n++)
            cudaStreamSynchronize(NULL);
        double took = (now_ns() - before) / CALLS;
        least = took < least ? took : least;
    }
    printf("call %.2f ns\n", least);
    return 0;
}
