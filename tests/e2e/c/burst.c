/* SPDX-License-Identifier: Apache-2.0 */
/* `burst THREADS MARKS [PAUSE_MS]`: after one step, each thread makes MARKS marks as fast as it
 * can, twice, with a pause between. Then comes one more step. Prints the total number of marks. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "preload/cprof.h"

static int marks, pause_ms;

static void *make(void *unused)
{
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < marks; i++)
            cprof_mark("burst");
        usleep((useconds_t)pause_ms * 1000);
    }
    return unused;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1;
    marks = argc > 2 ? atoi(argv[2]) : 100000;
    pause_ms = argc > 3 ? atoi(argv[3]) : 0;
    pthread_t threads[64];
    if (n > 64)
        return 2;
    cprof_step();
    for (int i = 0; i < n; i++)
        if (pthread_create(&threads[i], NULL, make, NULL))
            return 2;
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    cprof_step();
    printf("made %d\n", n * 2 * marks);
    return 0;
}
