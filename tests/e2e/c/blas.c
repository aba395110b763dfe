/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a BLAS that records its arguments, from the program and from two copies of the BLAS.
 * Exits with the number of errors. Arguments: the folder of the two libraries; with a second
 * argument, makes calls without Fortran's lengths. */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/cprof.h"

struct blas_note {
    int which, m, n, k, lda, ldb, ldc, order;
    size_t first_length, second_length;
    const void *a, *b, *c;
    double alpha, beta;
};

void sgemm_(const char *, const char *, const int *, const int *, const int *, const float *,
            const void *, const int *, const void *, const int *, const float *, void *,
            const int *, size_t, size_t) __attribute__((weak));
void cblas_dgemm(int, int, int, int, int, int, double, const void *, int, const void *, int, double,
                 void *, int) __attribute__((weak));

void cblas_sgemm(int, int, int, int64_t, int64_t, int64_t, float, const void *, int64_t,
                 const void *, int64_t, float, void *, int64_t) __attribute__((weak));

static int wrong;
#define EXPECT(what)                                                                               \
    do {                                                                                           \
        if (!(what))                                                                               \
            wrong++, fprintf(stderr, "line %d: not true: %s\n", __LINE__, #what);                  \
    } while (0)

static void call(const struct blas_note *note)
{
    int m = 3, n = 4, k = 5, lda = 6, ldb = 7, ldc = 8;
    float alpha = 1.5f, beta = 2.5f;
    char a[4], b[4], c[4];
    errno = 0;
    sgemm_("N", "T", &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc, 1, 21);
    EXPECT(errno == 77);
    EXPECT(note->which == 1 && note->m == 3 && note->n == 4 && note->k == 5 &&
           note->order == 'N' * 256 + 'T');
    EXPECT(note->lda == 6 && note->ldb == 7 && note->ldc == 8 && note->alpha == 1.5 &&
           note->beta == 2.5);
    EXPECT(note->a == a && note->b == b && note->c == c && note->first_length == 1 &&
           note->second_length == 21);
    cblas_dgemm(101, 111, 112, 30, 40, 50, 0.25, a, 60, b, 70, -0.5, c, 80);
    EXPECT(errno == 78);
    EXPECT(note->m == 30 && note->n == 40 && note->k == 50 && note->lda == 60 && note->ldb == 70 &&
           note->ldc == 80);
    EXPECT(note->order == 101 + 111 + 112 && note->alpha == 0.25 && note->beta == -0.5);
    EXPECT(note->a == a && note->b == b && note->c == c);
}

/* Whatever is in the upper halves of the sizes must arrive. */
static void call_wide(const int64_t *wide)
{
    int64_t sizes[] = {3, 4, 5, INT64_C(6) << 32 | 1, INT64_C(7) << 32 | 2, INT64_C(8) << 32 | 3};
    cblas_sgemm(101, 111, 111, sizes[0], sizes[1], sizes[2], 1, NULL, sizes[3], NULL, sizes[4], 0,
                NULL, sizes[5]);
    EXPECT(memcmp(wide, sizes, sizeof sizes) == 0);
}

/* As C and C++ call Fortran: without the lengths. Where these would stand is the caller's: here one
 * word, for alignment, and a page that cannot be written. */
static void call_without_lengths(const struct blas_note *note)
{
#if defined(__x86_64__)
    size_t size = 1 << 20, page = 4096;
    char *stack =
        mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(stack != MAP_FAILED && mprotect(stack + size, page, PROT_READ) == 0);
    int one = 1;
    float scalar = 1;
    void **args = (void **)(stack + size) - 8;
    memcpy(args, (void *[]){stack, &one, stack, &one, &scalar, stack, &one}, 7 * sizeof *args);
    for (int m = 1; m < 4; m++) {
        const char *ta = "N", *tb = "N";
        int *rows = &m, *columns = &one;
        register int *k __asm__("r8") = &one;
        register float *alpha __asm__("r9") = &scalar;
        void *function;
        void (*sgemm)(void) = (void (*)(void))sgemm_;
        memcpy(&function, &sgemm, sizeof function);
        __asm__ volatile(
            "mov %%rsp, %%rbx\n\tmov %[args], %%rsp\n\tcall *%%rax\n\tmov %%rbx, %%rsp"
            : "+D"(ta), "+S"(tb), "+d"(rows), "+c"(columns), "+r"(k), "+r"(alpha), "+a"(function)
            : [args] "r"(args)
            : "rbx", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
              "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc", "memory");
        EXPECT(note->m == m && note->a == stack && note->c == stack);
    }
#else
    (void)note;
#endif
}

int main(int argc, char **argv)
{
    char path[2][4096];
    void *library[2];
    int (*inside[2])(int, int, int);
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/libfakeblas%s.so", argc > 1 ? argv[1] : ".",
                 i ? "2" : "");
        library[i] = dlopen(path[i], RTLD_NOW | (i ? RTLD_LOCAL : RTLD_GLOBAL));
        if (!library[i])
            return fprintf(stderr, "%s\n", dlerror()), 99;
        *(void **)&inside[i] = dlsym(library[i], "call_inside");
    }
    if (!sgemm_ || !cblas_dgemm)
        return 98; /* nothing is preloaded */
    if (argc > 2) {
        call_without_lengths(dlsym(library[0], "blas_note"));
        return wrong;
    }
    for (int step = 0; step < 4; step++) {
        cprof_range_push("train");
        call(dlsym(library[0], "blas_note"));
        call_wide(dlsym(library[0], "blas_wide"));
        EXPECT(inside[0](10, 20, 30) == 1);
        for (int i = 0; i < 2; i++)
            inside[i](1, 2, 3);
        cprof_range_pop();
        cprof_step();
    }
    return wrong;
}
