/* SPDX-License-Identifier: Apache-2.0 */
/* A range as LTTng-UST records it, an event at its begin with the name and one at its end:
 * nanoseconds of a pair, best of many rounds as bench_marker's. Only recorded while a session of
 * LTTng has the events enabled. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "tests/bench/lttng_events.h"

#include <stdio.h>

#include "tests/bench/pair.h"

static void pair(void)
{
    lttng_ust_tracepoint(cprof_bench, begin, "range");
    lttng_ust_tracepoint(cprof_bench, end);
}

int main(void)
{
    printf("pair %.1f ns\n", measure(pair, 100));
    return 0;
}
