/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded with cprof into programs that never call it: each process begins to record before
 * its main(). */
#include "preload/cprof.h"

static __attribute__((constructor)) void wake(void)
{
    cprof_range_push("the whole program");
    cprof_mark("begins");
}
