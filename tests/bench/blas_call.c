/* SPDX-License-Identifier: Apache-2.0 */
/* What a call of a matrix library costs: the best of many short loops over a stand-in whose
 * function does nothing. Bare, or under the preload with a schedule that records or not. Prints
 * `name value unit`. */
#include <stddef.h>
#include <stdio.h>

#include "preload/cprof.h"
#include "tests/bench/pair.h"

void sgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k,
            const float *alpha, const void *a, const int *lda, const void *b, const int *ldb,
            const float *beta, void *c, const int *ldc, size_t ta_len, size_t tb_len);

#define ROUNDS 60 /* a ring takes them all */

static void call(void)
{
    static const int n = 32;
    static const float one = 1;
    sgemm_("N", "T", &n, &n, &n, &one, NULL, &n, NULL, &n, &one, NULL, &n, 1, 1);
}

int main(void)
{
    cprof_range_push("wake");
    cprof_range_pop();
    call();
    cprof_step(); /* step 0 is kept for programs that never mark one */
    printf("call %.2f ns\n", measure(call, ROUNDS));
    return 0;
}
