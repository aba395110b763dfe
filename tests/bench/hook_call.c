/* SPDX-License-Identifier: Apache-2.0 */
/* What a call of a CUDA runtime function costs: the best of many short loops over a stand-in whose
 * function does nothing. Bare, or under the preload with a schedule that records or not. Prints
 * `name value unit`. */
#include <stdio.h>

#include "preload/cprof.h"
#include "tests/bench/pair.h"

int cudaStreamSynchronize(void *stream);

#define ROUNDS 60 /* a ring takes them all */

static void call(void)
{
    cudaStreamSynchronize(NULL);
}

int main(void)
{
    call();
    cprof_step(); /* step 0 is kept for programs that never mark one */
    printf("call %.2f ns\n", measure(call, ROUNDS));
    return 0;
}
