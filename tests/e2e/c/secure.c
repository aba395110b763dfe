/* SPDX-License-Identifier: Apache-2.0 */
/* Marks steps. Prints whether it runs with more rights than its user, and one of cprof's
 * variables. The test links it to the library by an absolute path and makes it set-user-ID,
 * because LD_PRELOAD does not reach such a program. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include "preload/cprof.h"

int main(void)
{
    for (int step = 0; step < 4; step++) {
        cprof_mark("mark");
        cprof_step();
    }
    printf("secure %d, CUDA_INJECTION64_PATH %s\n", getauxval(AT_SECURE) != 0,
           getenv("CUDA_INJECTION64_PATH") ? "set" : "not set");
    return 0;
}
