/* SPDX-License-Identifier: Apache-2.0 */
/* How many GPU events a second the writer turns into JSON and gzip, and how long the choice of a
 * row takes: per launch one call, one kernel on its row and the two ends of an arrow. Runs on the
 * main thread; prints `name value unit` lines for scripts/bench. Usage: bench_json_gpu [seconds per
 * case] */
#include "writer/json/json_gpu.h"
#include "writer/sums/lanes.h"
#include "writer/file/sink_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LAUNCHES 10000u /* in one buffer */
#define STREAMS  4u

static const char *const names[] = {
    "ampere_sgemm_128x64_nn",
    "triton_poi_fused_add_cos_sin_0",
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x128_32x4_nn_align8>"
    "(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x128_32x4_nn_align8::Params)",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t>, "
    "false, true, false, false, true, true, false>(Flash_fwd_params)",
};

/* One launch and what came of it. */
struct launch {
    struct gpu_record call, kernel;
    struct json_place call_at, kernel_at;
    struct json_link link;
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A small generator, so that each run sees the same numbers. */
static uint32_t next_random(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

static void fill(struct launch *launches)
{
    int64_t now = 1728000000000000;
    int64_t free_from[STREAMS] = {0};
    for (unsigned i = 0; i < LAUNCHES; i++) {
        struct launch *l = &launches[i];
        unsigned stream = next_random() % STREAMS;
        const char *name = names[next_random() % (sizeof(names) / sizeof(*names))];
        now += 1500 + next_random() % 4000;
        l->call.kind = GPU_CALL;
        l->call.name = "cudaLaunchKernel";
        l->call.name_len = 16;
        l->call.correlation = l->kernel.correlation = 100000 + i;
        l->call.call.cbid = 211;
        l->call_at = (struct json_place){31337, 31337, now, now + 1200 + next_random() % 800};
        l->kernel.kind = GPU_KERNEL;
        l->kernel.name = name;
        l->kernel.name_len = (uint16_t)strlen(name);
        l->kernel.context = 1;
        l->kernel.stream = 7 + stream;
        l->kernel.kernel.grid[0] = 1 + (int32_t)(next_random() % 4096);
        l->kernel.kernel.grid[1] = l->kernel.kernel.grid[2] = 1;
        l->kernel.kernel.block[0] = 128;
        l->kernel.kernel.block[1] = l->kernel.kernel.block[2] = 1;
        l->kernel.kernel.registers = 32 + next_random() % 128;
        l->kernel.kernel.shared_memory = (int32_t)(next_random() % 49152);
        l->kernel.kernel.blocks_per_sm = (float)l->kernel.kernel.grid[0] / 132;
        l->kernel.kernel.warps_per_sm = 4 * l->kernel.kernel.blocks_per_sm;
        l->kernel.kernel.occupancy = (int16_t)(next_random() % 100);
        l->kernel.kernel.has_channel = l->kernel.kernel.has_priority = true;
        l->kernel.kernel.channel = 8;
        int64_t start = now + 3000 > free_from[stream] ? now + 3000 : free_from[stream];
        free_from[stream] = start + 800 + next_random() % 6000;
        l->kernel_at = (struct json_place){0, 7 + stream, start, free_from[stream]};
        l->link.external_id = 1000 + i;
    }
}

/* kernels: only those; else the mix. rows: the row of each kernel is looked up too. */
static void to_json(struct buf *b, const struct launch *launches, bool kernels, struct lanes *rows)
{
    buf_reset(b);
    for (unsigned i = 0; i < LAUNCHES; i++) {
        const struct launch *l = &launches[i];
        struct json_place at = l->kernel_at;
        if (rows)
            lanes_place(rows, LANE_WORK, 0, l->kernel.stream, at.start_ns, at.end_ns, false,
                        "python3", b, &at.pid, &at.tid);
        json_gpu_work(b, &l->kernel, &at, &l->link);
        if (!kernels) {
            json_gpu_call(b, &l->call, &l->call_at, l->link.external_id, 0);
            json_gpu_arrow_start(b, l->call.correlation, &l->call_at);
            json_gpu_arrow_end(b, l->call.correlation, &at);
        }
    }
}

/* Runs json (and gzip, level > 0) until the time is over, in CPU time of this thread. */
static void run(const char *name, const struct launch *launches, bool kernels, int level,
                double limit)
{
    struct buf text = {0};
    struct buf packed = {0};
    struct gzip *gzip = level > 0 ? gzip_new(level) : NULL;
    double events = kernels ? LAUNCHES : 4.0 * LAUNCHES;
    unsigned rounds = 0;
    double begin = seconds();
    double spent;
    do {
        struct lanes *rows = kernels ? NULL : lanes_make();
        to_json(&text, launches, kernels, rows);
        lanes_free(rows);
        if (gzip) {
            buf_reset(&packed);
            gzip_member(gzip, &packed, text.data, text.len);
        }
        rounds++;
        spent = seconds() - begin;
    } while (spent < limit);
    double bytes = (double)(gzip ? packed.len : text.len);
    printf("%s_events_per_s %.0f events/s\n", name, rounds * events / spent);
    printf("%s_bytes_per_event %.1f B\n", name, bytes / events);
    gzip_free(gzip);
    buf_free(&text);
    buf_free(&packed);
}

/* Time per choice of a row: in the order of time, or each thread's launches after the other's. */
static void run_rows(const char *name, bool in_order, double limit)
{
    const int64_t n = 60000;
    struct buf text = {0};
    double begin = seconds();
    double spent;
    unsigned rounds = 0;
    do {
        struct lanes *rows = lanes_make();
        for (int64_t i = 0; rows && i < 2 * n; i++) {
            int64_t at = in_order ? 10 * i : i < n ? 20 * i : 20 * (i - n) + 10;
            uint32_t pid, tid;
            lanes_place(rows, LANE_WORK, 0, 7, at, at + 8, false, "python3", &text, &pid, &tid);
        }
        lanes_free(rows);
        buf_reset(&text);
        rounds++;
        spent = seconds() - begin;
    } while (spent < limit);
    printf("%s_ns %.1f ns\n", name, 1e9 * spent / rounds / (double)(2 * n));
    buf_free(&text);
}

int main(int argc, char **argv)
{
    double limit = argc > 1 ? strtod(argv[1], NULL) : 1.0;
    struct launch *launches = calloc(LAUNCHES, sizeof(*launches));
    if (!launches)
        return 1;
    fill(launches);
    run("json_kernel", launches, true, 0, limit);
    run("json_gpu", launches, false, 0, limit);
    run("gzip1_gpu", launches, false, 1, limit);
    run_rows("row_in_order", true, limit);
    run_rows("row_interleaved", false, limit);
    free(launches);
    return 0;
}
