/* SPDX-License-Identifier: Apache-2.0 */
/* Imitates libcudart (FAKE=11, 12, 13) or libcuda (FAKE=1). Each function returns a number made
 * from the library's number and the arguments, and sets errno to the library's number.
 * tests/e2e/test_hooks.py compiles it with several sonames and version nodes. Any thread. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#ifndef FAKE
#define FAKE 0
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

static _Atomic int calls;

/* The number of calls of this library's functions. */
int fake_calls(void);
int fake_calls(void)
{
    return calls;
}

static int answer(int64_t arguments)
{
    calls++;
    errno = FAKE;
    return (int)(FAKE * 1000000 + arguments);
}

#if FAKE == 1
int cuMemAlloc_v2(uint64_t *address, size_t size);
int cuMemAlloc_v2(uint64_t *address, size_t size)
{
    *address = size + 1;
    return answer((int64_t)size);
}

int cuMemFree_v2(uint64_t address);
int cuMemFree_v2(uint64_t address)
{
    calls += address > 0;
    return 0;
}
#else
int cudaMalloc(void **pointer, size_t size);
int cudaMalloc(void **pointer, size_t size)
{
    *pointer = (void *)(uintptr_t)(size + 1);
    return answer((int64_t)size);
}

int cudaFree(void *pointer);
int cudaFree(void *pointer)
{
    calls += pointer != NULL;
    return 0;
}

static int copy(void *to, const void *from, size_t size, int kind, void *stream)
{
    return answer((int64_t)((uintptr_t)to + 2 * (uintptr_t)from + 4 * size + 8 * (unsigned)kind +
                            16 * (uintptr_t)stream));
}

int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream);
int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream)
{
    return copy(to, from, size, kind, stream);
}

int cudaMemcpyAsync_ptsz(void *to, const void *from, size_t size, int kind, void *stream);
int cudaMemcpyAsync_ptsz(void *to, const void *from, size_t size, int kind, void *stream)
{
    return 500000 + copy(to, from, size, kind, stream);
}

int cudaLaunchKernel(const void *function, struct dim3 grid, struct dim3 block, void **args,
                     size_t shared, void *stream);
int cudaLaunchKernel(const void *function, struct dim3 grid, struct dim3 block, void **args,
                     size_t shared, void *stream)
{
    return answer((int64_t)((uintptr_t)function + 2 * grid.x + 3 * grid.y + 5 * grid.z +
                            7 * block.x + 11 * block.y + 13 * block.z + 17 * (uintptr_t)args +
                            19 * shared + 23 * (uintptr_t)stream));
}

int cudaMemset3D(struct pitched where, int value, struct extent extent);
int cudaMemset3D(struct pitched where, int value, struct extent extent)
{
    return answer((int64_t)((uintptr_t)where.pointer + 2 * where.pitch + 3 * where.width +
                            5 * where.height + 7 * (unsigned)value + 11 * extent.width +
                            13 * extent.height + 17 * extent.depth));
}
#endif
