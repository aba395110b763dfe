/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin with a BLAS of its own, which it calls as another library's: it says which version of the plugin the call reached, and how often it
 * was called since the plugin was loaded. */
#include <stddef.h>

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

int plugin(void)
{
    const int one = 1;
    const float a = 0;
    float c = 0;
    for (int i = 0; i < 3; i++)
        sgemm_("N", "N", &one, &one, &one, &a, &a, &one, &a, &one, &a, &c, &one, 1, 1);
    return (int)c;
}
