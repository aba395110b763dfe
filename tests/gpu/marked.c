/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels inside NVTX ranges and ITT tasks, for the rows that show ranges on the GPU. Needs no
 * headers of NVTX or ITT: does what their code does to find and call a tool. */
#include "preload/markers/itt.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/nvtx_client.h"
#include "tests/gpu/program.h"

static void (*itt_begin)(const struct itt_domain *, struct itt_id, struct itt_id,
                         const struct itt_string *);
static void (*itt_end)(const struct itt_domain *);

/* Finds the tool for ITT. False without one. */
static int find_tool(void)
{
    static struct itt_function functions[] = {
        {"__itt_task_begin", (void **)(void *)&itt_begin, NULL, NULL, 0},
        {"__itt_task_end", (void **)(void *)&itt_end, NULL, NULL, 0},
        {0},
    };
    static struct itt_global global = {
        .magic = {'\xED', '\xAB', '\xAB', '\xEC', '\x0D', '\xEE', '\xDA', '\x30'},
        .functions = functions};
    void (*init)(void *, int);
    *(void **)&init = dlsym(RTLD_DEFAULT, "__itt_api_init");
    if (!init)
        return 0;
    init(&global, 0);
    return itt_begin && itt_end;
}

static void kernel(cudaStream_t stream, int which)
{
    CHECK(gpu_named(stream, which, 200000));
    tally.kernels++;
}

int main(void)
{
    static const struct itt_domain domain = {.flags = 1, .name = "played"};
    static const struct itt_string inner = {.text = "itt inner"};
    const struct itt_id none = {0, 0, 0};
    cudaStream_t a, b;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    int has_itt = find_tool();
    nvtx_attach();
    kernel(a, GPU_ADAM); /* outside of all ranges */
    nvtx_push("nvtx outer");
    kernel(a, GPU_GEMM);
    if (has_itt)
        itt_begin(&domain, none, none, &inner);
    kernel(b, GPU_SOFTMAX);
    kernel(b, GPU_SOFTMAX);
    if (has_itt)
        itt_end(&domain);
    kernel(a, GPU_GEMM);
    nvtx_pop();
    kernel(b, GPU_ADAM);
    CHECK(cudaDeviceSynchronize());
    tally.device_syncs++;
    return report();
}
