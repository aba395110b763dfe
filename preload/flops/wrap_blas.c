/* SPDX-License-Identifier: Apache-2.0 */
/* Wrappers of cuBLAS, cuBLASLt, cuDNN and BLAS, one per row and version node of blas.def. They run
 * on application threads in place of the real function and always forward to it. As in wrap_cuda.c,
 * the slow path is a function of its own. */
#include "preload/flops/blas.h"
#include "preload/flops/cudnn.h"
#include "preload/flops/cudnn_plan.h"

#define EXPORT __attribute__((visibility("default")))

#define FORWARD_int(missing, params, args)                                                         \
    int(*real) params = call.real;                                                                 \
    if (!real)                                                                                     \
        return missing;                                                                            \
    int result = real args;                                                                        \
    blas_end(&call, result == 0);                                                                  \
    return result;
#define FORWARD_void(missing, params, args)                                                        \
    void(*real) params = call.real;                                                                \
    if (!real)                                                                                     \
        return;                                                                                    \
    real args;                                                                                     \
    blas_end(&call, true);
#define RETURN_int return
#define RETURN_void
#define AT_END_int
#define AT_END_void
/* Callers in C and C++ omit the lengths of Fortran's character arguments. If the wrapper jumped to
 * the real function, it would write those two words back, into the caller's own frame. The
 * statement after the call prevents the jump. */
typedef void fortran;
#define FORWARD_fortran FORWARD_void
#define RETURN_fortran
#define AT_END_fortran __asm__ volatile("");

#define UNPACK(...) __VA_ARGS__

/* The slow path gets the caller as a parameter: its own return address is the program's only if the
 * compiler makes the call a jump. It does not at -O0 and under sanitizers. */
#define BLAS(node, symbol, ret, missing, params, args, count)                                      \
    static __attribute__((noinline)) ret slow_##node##_##symbol(const void *caller, UNPACK params) \
    {                                                                                              \
        struct blas_call call;                                                                     \
        blas_begin(&call, BLAS_##node##_##symbol, caller);                                         \
        if (call.span) {                                                                           \
            struct blas_work work = {.type = BLAS_UNKNOWN}, *w = &work;                            \
            count;                                                                                 \
            blas_count(&call, w);                                                                  \
        }                                                                                          \
        FORWARD_##ret(missing, params, args)                                                       \
    }                                                                                              \
    __asm__(".symver blas_" #node "_" #symbol ", " #symbol BLAS_SUFFIX_##node);                    \
    EXPORT ret blas_##node##_##symbol params;                                                      \
    EXPORT ret blas_##node##_##symbol params                                                       \
    {                                                                                              \
        const void *caller = __builtin_return_address(0);                                          \
        ret(*real) params = blas_fast(BLAS_NODE_##node, BLAS_##node##_##symbol, caller);           \
        if (__builtin_expect(real != NULL, 1))                                                     \
            RETURN_##ret real args;                                                                \
        else                                                                                       \
            RETURN_##ret slow_##node##_##symbol(caller, UNPACK args);                              \
        AT_END_##ret                                                                               \
    }
#define BLAS_NOTED(node, symbol, params, args, before, after)                                      \
    __asm__(".symver blas_" #node "_" #symbol ", " #symbol BLAS_SUFFIX_##node);                    \
    EXPORT int blas_##node##_##symbol params;                                                      \
    EXPORT int blas_##node##_##symbol params                                                       \
    {                                                                                              \
        int(*real) params = blas_real(BLAS_##node##_##symbol, __builtin_return_address(0));        \
        if (!real)                                                                                 \
            return 1;                                                                              \
        before;                                                                                    \
        int result = real args;                                                                    \
        if (result == 0) {                                                                         \
            after;                                                                                 \
        }                                                                                          \
        return result;                                                                             \
    }
#include "preload/flops/blas.def"
