/* SPDX-License-Identifier: Apache-2.0 */
/* Spans that are never closed. `stay N`: N threads hold three open spans each while main() ends
 * the process. `end N`: the N threads end with theirs open, and the program marks steps before
 * and after. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/cprof.h"

static pthread_barrier_t opened;
static int stay;

static void *hold_spans(void *unused)
{
    cprof_range_push("outer");
    cprof_range_push("middle");
    cprof_range_push("inner");
    pthread_barrier_wait(&opened);
    while (stay)
        pause();
    return unused;
}

int main(int argc, char **argv)
{
    stay = argc > 1 && strcmp(argv[1], "stay") == 0;
    int n = argc > 2 ? atoi(argv[2]) : 4;
    pthread_t threads[256];
    if (n > 256 || pthread_barrier_init(&opened, NULL, (unsigned)n + 1))
        return 2;
    cprof_step();
    for (int i = 0; i < n; i++)
        if (pthread_create(&threads[i], NULL, hold_spans, NULL))
            return 2;
    pthread_barrier_wait(&opened);
    for (int i = 0; i < n && !stay; i++)
        pthread_join(threads[i], NULL);
    cprof_mark("all open");
    cprof_step();
    cprof_mark("one step later");
    return 0;
}
