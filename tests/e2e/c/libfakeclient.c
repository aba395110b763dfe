/* SPDX-License-Identifier: Apache-2.0 */
/* A library that calls CUDA, like an extension module. It is linked to one copy of
 * libfakecudart.c, or (WEAK) to none, with weak references. Each function returns the result of
 * one call. client_errno() returns the errno that this call left. Any thread. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#ifdef WEAK
#define REFERENCE __attribute__((weak))
#else
#define REFERENCE
#endif

struct dim3 {
    unsigned x, y, z;
};

struct extent {
    size_t width, height, depth;
};

struct pitched {
    void *pointer;
    size_t pitch, width, height;
};

static int last_errno;

int client_errno(void);
int client_errno(void)
{
    return last_errno;
}

/* errno is 5 before the call, which shows calls that do not change it. */
#define CALL(expression)                                                                           \
    do {                                                                                           \
        errno = 5;                                                                                 \
        int result = expression;                                                                   \
        last_errno = errno;                                                                        \
        return result;                                                                             \
    } while (0)

#ifdef DRIVER
REFERENCE int cuMemAlloc_v2(uint64_t *address, size_t size);

int client_alloc(size_t size);
int client_alloc(size_t size)
{
    uint64_t address;
    CALL(cuMemAlloc_v2(&address, size));
}

#ifdef OWN
/* Defines the function itself, as libraries that load the driver by hand do. */
__attribute__((visibility("default"))) int cuMemAlloc_v2(uint64_t *address, size_t size)
{
    *address = 0;
    errno = 42;
    return 42000000 + (int)size;
}
#endif
#else
REFERENCE int cudaMalloc(void **pointer, size_t size);
REFERENCE int cudaFree(void *pointer);
REFERENCE int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream);
REFERENCE int cudaMemcpyAsync_ptsz(void *to, const void *from, size_t size, int kind, void *stream);
REFERENCE int cudaLaunchKernel(const void *function, struct dim3 grid, struct dim3 block,
                               void **args, size_t shared, void *stream);
REFERENCE int cudaMemset3D(struct pitched where, int value, struct extent extent);

/* Whether a weak reference to cudaMalloc was resolved. */
int client_has_malloc(void);
int client_has_malloc(void)
{
    int (*volatile probe)(void **, size_t) = cudaMalloc;
    return probe != NULL;
}

int client_malloc(size_t size);
int client_malloc(size_t size)
{
    void *pointer;
    CALL(cudaMalloc(&pointer, size));
}

int client_free(void);
int client_free(void)
{
    CALL(cudaFree(NULL));
}

int client_copy(void);
int client_copy(void)
{
    CALL(cudaMemcpyAsync((void *)1, (void *)2, 3, 4, (void *)5));
}

int client_copy_twin(void);
int client_copy_twin(void)
{
    CALL(cudaMemcpyAsync_ptsz((void *)1, (void *)2, 3, 4, (void *)5));
}

int client_launch(void);
int client_launch(void)
{
    CALL(cudaLaunchKernel((void *)1, (struct dim3){2, 3, 4}, (struct dim3){5, 6, 7}, (void **)8, 9,
                          (void *)10));
}

int client_fill(void);
int client_fill(void)
{
    CALL(cudaMemset3D((struct pitched){(void *)1, 2, 3, 4}, 5, (struct extent){6, 7, 8}));
}
#endif
