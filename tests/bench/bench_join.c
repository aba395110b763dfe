/* SPDX-License-Identifier: Apache-2.0 */
/* How many GPU records a second go all the way from CUPTI's layout to the file, on one thread:
 * translate, join with the hooked call and its operator, JSON, write. A launch is one hooked span,
 * one call record and one kernel record; only the latter two are counted. Prints `name value unit`
 * lines for scripts/bench. Usage: bench_join [launches] [folder] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cupti/records.h"
#include "cupti/translate.h"
#include "writer/join/join.h"

static struct window *window;
static const char *folder;

static struct window *window_at(uint64_t ticks)
{
    return ticks >= window->start && ticks < window->end ? window : NULL;
}

static struct window *window_numbered(uint64_t serial)
{
    return serial == window->serial ? window : NULL;
}

static void nothing(void)
{
}

static bool path_of(const struct train_time *time, char *path, unsigned long size)
{
    (void)time;
    return snprintf(path, size, "%s/bench_join.json", folder) > 0;
}

static uint64_t same(uint64_t time)
{
    return time;
}

static int call_name(int domain, uint32_t cbid, const char **name)
{
    (void)domain, (void)cbid;
    *name = "cudaLaunchKernel_v7000";
    return 0;
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const char *const kernels[] = {
    ("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3E"
     "EEEviT0_T1_"),
    "ampere_sgemm_128x64_nn",
    "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_7MeanOpsIfffEEjfLi4EEEEEvT1_",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
};

static void hook(const struct join_windows *in, struct record *r, uint32_t i, uint64_t now)
{
    static const char name[] = "cudaLaunchKernel";
    struct record_owner owner = thread_log_owner(thread_log_self);
    r->kind = REC_SPAN;
    r->category = CAT_CUDA_RUNTIME;
    r->name = sizeof name - 1;
    memcpy(r + 1, name, sizeof name - 1);
    r->id = 2 * i + 2;
    r->parent = 2 * i + 1;
    r->start = now;
    r->end = now + 3000;
    join_span(in, window, &owner, r, true);
}

static void device(const struct translate *t, const struct join_windows *in, uint32_t i,
                   uint64_t now, uint32_t tid)
{
    struct cupti_call call = {.kind = CUPTI_KIND_RUNTIME,
                              .cbid = 211,
                              .start = now + 200,
                              .end = now + 2800,
                              .tid = tid,
                              .correlation = i + 1};
    struct cupti_kernel kernel = {.kind = CUPTI_KIND_CONCURRENT_KERNEL,
                                  .registers = 32,
                                  .start = now + 5000,
                                  .end = now + 5000 + 4000,
                                  .context = 1,
                                  .stream = 7 + i % 4,
                                  .grid = {128, 1, 1},
                                  .block = {256, 1, 1},
                                  .correlation = i + 1,
                                  .name = kernels[i % 4]};
    struct gpu_record r;
    if (translate(t, &call, &r) == TRANSLATE_RECORD)
        join_take(in, &r);
    if (translate(t, &kernel, &r) == TRANSLATE_RECORD)
        join_take(in, &r);
}

int main(int argc, char **argv)
{
    uint32_t launches = argc > 1 ? (uint32_t)atoi(argv[1]) : 500000;
    folder = argc > 2 ? argv[2] : "/tmp";
    static struct writer_options options = {.max_trace_bytes = 1ull << 40, .trace_path = path_of};
    struct window_shared shared = {
        .options = &options, .pid = 31337, .user_json = "", .notes_json = ""};
    struct join_windows in = {window_at, window_numbered, nothing, &shared};
    struct translate t = {.version = CUPTI_12_8, .ticks = same, .callback_name = call_name};
    struct losses none = {{0}};
    clock_start();
    usleep(2000);
    clock_knot();
    if (!thread_log_start(1u << 20) || !thread_log_get())
        return 1;
    uint32_t tid = thread_log_self->tid;
    uint64_t now = clock_ticks();
    window = window_open(1, now, now, 0, &none);
    struct {
        struct record r;
        char text[RECORD_SLOT];
    } room = {.r = {.slots = 2}};
    double begin = cpu_seconds();
    for (uint32_t i = 0; i < launches; i++) {
        now += 4000;
        hook(&in, &room.r, i, now);
        device(&t, &in, i, now, tid);
        if (i % 64 == 63)
            join_pass(&in, true);
        if (window->body.len > 4u << 20)
            window_flush(window, &shared);
    }
    join_pass(&in, true);
    window_flush(window, &shared);
    double spent = cpu_seconds() - begin;
    printf("gpu_records_per_s %.0f records/s\n", 2.0 * launches / spent);
    printf("gpu_kernels %llu kernels\n", (unsigned long long)window->gpu.kernels);
    printf("gpu_missing %llu records\n", (unsigned long long)join_missing(window));
    unlink(window->part_path);
    window_free(window);
    return 0;
}
