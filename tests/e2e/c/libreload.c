/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin with a BLAS of its own, which it calls like another library's. It reports which
 * version of the plugin the call reached, and the number of calls since the plugin was loaded.
 * Its thread makes the last call while the plugin is being closed, which waits for it. */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "preload/cprof.h"

#ifndef WHICH
#define WHICH 1
#endif

void sgemm_(const char *, const char *, const int *, const int *, const int *, const float *,
            const void *, const int *, const void *, const int *, const float *, void *,
            const int *, size_t, size_t);
int plugin(void);

void sgemm_(const char *trans_a, const char *trans_b, const int *m, const int *n, const int *k,
            const float *alpha, const void *a, const int *lda, const void *b, const int *ldb,
            const float *beta, void *c, const int *ldc, size_t len_a, size_t len_b)
{
    static int calls;
    (void)trans_a, (void)trans_b, (void)m, (void)n, (void)k, (void)alpha, (void)a, (void)lda;
    (void)b, (void)ldb, (void)beta, (void)ldc, (void)len_a, (void)len_b;
    *(float *)c = (float)(100 * WHICH + ++calls);
}

static float call(void)
{
    const int one = 1;
    const float a = 0;
    float c = 0;
    sgemm_("N", "N", &one, &one, &one, &a, &a, &one, &a, &one, &a, &c, &one, 1, 1);
    return c;
}

static pthread_mutex_t open_still = PTHREAD_MUTEX_INITIALIZER;
static pthread_t worker;
static bool has_worker;

static void *work(void *unused)
{
    cprof_mark("a worker");
    pthread_mutex_lock(&open_still);
    call();
    return unused;
}

__attribute__((destructor)) static void closed(void)
{
    pthread_mutex_unlock(&open_still);
    if (has_worker)
        pthread_join(worker, NULL);
}

int plugin(void)
{
    float last = 0;
    pthread_mutex_lock(&open_still);
    has_worker = pthread_create(&worker, NULL, work, NULL) == 0;
    for (int i = 0; i < 3; i++)
        last = call();
    return (int)last;
}
