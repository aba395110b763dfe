/* SPDX-License-Identifier: Apache-2.0 */
/* What a call of a matrix library costs: the best of many short loops over a stand-in whose function does nothing. Bare, or under the
 * preload with a schedule that records or not. Prints `name value unit`. */
#include "preload/cprof.h"

#include <stddef.h>
#include <stdio.h>
#include <time.h>

void sgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k,
            const float *alpha, const void *a, const int *lda, const void *b, const int *ldb,
            const float *beta, void *c, const int *ldc, size_t ta_len, size_t tb_len);

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void call(void)
{
    static const int n = 32;
    static const float one = 1;
    sgemm_("N", "T", &n, &n, &n, &one, NULL, &n, NULL, &n, &one, NULL, &n, 1, 1);
}

int main(void)
{
    enum { LOOPS = 2000, CALLS = 500 };
    double least = 1e9;
    cprof_range_push("wake");
    cprof_range_pop();
    call();
    cprof_step(); /* step 0 is kept for programs that never mark one */
    for (int i = 0; i < LOOPS; i++) {
        double before = now_ns();
        for (int k = 0; k < CALLS; k++)
            call();
        double took = (now_ns() - before) / CALLS;
        least = took < least ? took : least;
    }
    printf("call %.2f ns\n", least);
    return 0;
}
