/* SPDX-License-Identifier: Apache-2.0 */
/* Makes five steps in a program whose thread-local storage takes nearly 1 MB of each thread's
 * stack, like threadprivate variables of Fortran. */
#include <stdio.h>

#include "preload/cprof.h"

enum { STORAGE = 1030000 };

static __thread char storage[STORAGE] = {1};

int main(void)
{
    for (int i = 0; i < 5; i++) {
        cprof_range_push("work");
        storage[i * 1000] = 1;
        cprof_range_pop();
        cprof_step();
    }
    printf("done %d\n", storage[0]);
    return 0;
}
