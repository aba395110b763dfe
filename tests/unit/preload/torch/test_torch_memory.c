/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/torch/torch_memory.c through the functions that it interposes. Without torch,
 * these allocate by themselves. A release is recorded if and only if its allocation was, on any
 * thread. */
#include "preload/torch/torch.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/records.h"
#include "writer/writer.h"

struct c10_device {
    int8_t type, index;
};

void *_ZN3c109alloc_cpuEm(size_t bytes);
void _ZN3c108free_cpuEPv(void *address);
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *address, int64_t bytes,
                                                           uint64_t total_allocated,
                                                           uint64_t total_reserved,
                                                           struct c10_device device);
void _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE(void *address, int64_t bytes,
                                                           int64_t total_allocated,
                                                           int64_t total_reserved,
                                                           struct c10_device device);

void _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(int64_t bytes, uint64_t total_allocated,
                                                         uint64_t total_reserved,
                                                         struct c10_device device);
void _ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE(int64_t bytes, int64_t total_allocated,
                                                         int64_t total_reserved,
                                                         struct c10_device device);
void _ZN3c1025ProfiledCPUMemoryReporter11OutOfMemoryEm(void *self, size_t bytes);

#define allocate _ZN3c109alloc_cpuEm
#define release  _ZN3c108free_cpuEPv

static void setup(void)
{
    clock_start();
    ck_assert(thread_log_start(64u << 20));
    torch_memory_restart();
    writer_set_gate(GATE_MEMORY | GATE_WINDOW);
}

/* The next record of a log; NULL at the end. */
static const struct record *next(struct thread_log *log)
{
    static const struct record *taken;
    static struct thread_log *of;
    if (taken && of == log)
        ring_take(&log->ring, taken);
    of = log;
    return taken = ring_peek(&log->ring, ring_head(&log->ring));
}

/* Fails unless this thread's next record has these values. */
static void check_record(const void *address, int64_t bytes, int64_t total)
{
    const struct record *r = next(thread_log_self);
    ck_assert_ptr_nonnull(r);
    ck_assert_uint_eq(r->kind, REC_MEMORY);
    ck_assert_uint_eq(r->memory.address, (uint64_t)(uintptr_t)address);
    ck_assert_int_eq(r->memory.bytes, bytes);
    struct record_memory extra;
    ck_assert_uint_eq(r->data_len, sizeof extra);
    memcpy(&extra, record_data(r), sizeof extra);
    ck_assert_int_eq(extra.total_allocated, total);
    ck_assert_int_eq(extra.total_reserved, 0);
    ck_assert_int_eq(extra.device_type, 0);
    ck_assert_int_eq(extra.device_index, -1);
}

static void check_no_record(void)
{
    ck_assert(!thread_log_self || !next(thread_log_self));
}

START_TEST(records_allocations_and_releases)
{
    char *a = allocate(1000), *b = allocate(24);
    ck_assert(a && b);
    ck_assert_uint_eq((uintptr_t)a % 64, 0);
    memset(a, 1, 1000);
    check_record(a, 1000, 1000);
    check_record(b, 24, 1024);
    release(a);
    check_record(a, -1000, 24);
    release(b);
    check_record(b, -24, 0);
    release(NULL);
    check_no_record();
}
END_TEST

START_TEST(records_nothing_while_the_gate_is_closed)
{
    char *seen = allocate(10);
    check_record(seen, 10, 10);
    writer_set_gate(GATE_SPANS | GATE_MARKERS);
    char *unseen = allocate(20);
    release(seen);
    writer_set_gate(GATE_MEMORY | GATE_WINDOW);
    release(unseen);
    check_no_record();
}
END_TEST

START_TEST(leaves_small_pieces_out_between_windows)
{
    writer_set_gate(GATE_MEMORY); /* of the flight recorder */
    char *small = allocate(FLIGHT_LEAST - 1), *large = allocate(FLIGHT_LEAST);
    check_record(large, FLIGHT_LEAST, FLIGHT_LEAST);
    release(small);
    release(large);
    check_record(large, -FLIGHT_LEAST, 0);
    check_no_record();
}
END_TEST

START_TEST(forgets_allocations_of_earlier_windows)
{
    char *old = allocate(100), *other = allocate(200);
    check_record(old, 100, 100);
    check_record(other, 200, 300);
    torch_memory_restart();
    char *fresh = allocate(8);
    check_record(fresh, 8, 8);
    release(old); /* not allocated in this window */
    check_no_record();
    release(fresh);
    check_record(fresh, -8, 0);
    for (unsigned i = 0; i < 200000; i++) /* the window's number wraps around */
        torch_memory_restart();
    fresh = allocate(5);
    check_record(fresh, 5, 5);
    release(fresh);
    check_record(fresh, -5, 0);
    release(other);
}
END_TEST

/* An entry of the table has room for the low bits of the window's number only. */
START_TEST(tells_windows_apart_when_their_number_wraps)
{
    char *old[3];
    for (unsigned i = 0; i < 3; i++)
        check_record(old[i] = allocate(100), 100, 100 * (i + 1));
    for (unsigned i = 1; i <= 65536; i++) {
        torch_memory_restart();
        if (i >= 65535)
            release(old[i - 65535]);
        check_no_record();
    }
    for (unsigned i = 65537; i <= 1u << 20; i++)
        torch_memory_restart();
    release(old[2]);
    check_no_record();
}
END_TEST

START_TEST(records_reused_addresses)
{
    for (unsigned i = 1; i < 200000; i++) {
        void *a = allocate(i);
        release(a);
        if (i % 1000 == 0) {
            const struct record *r;
            int64_t sum = 0;
            unsigned n = 0;
            while ((r = next(thread_log_self))) {
                sum += r->memory.bytes;
                n++;
            }
            if (sum != 0 || n != 2000)
                ck_abort_msg("%u records, %ld bytes left", n, (long)sum);
        }
    }
    ck_assert_uint_eq(atomic_load(&process_losses[LOSS_MEMORY_TABLE]), 0);
}
END_TEST

START_TEST(counts_allocations_beyond_the_table)
{
    enum { N = 160000 };
    static void *blocks[N];
    uint64_t records = 0, releases = 0;
    for (unsigned i = 0; i < N; i++)
        blocks[i] = allocate(1);
    while (next(thread_log_self))
        records++;
    uint64_t lost = atomic_load(&process_losses[LOSS_MEMORY_TABLE]);
    ck_assert_uint_gt(lost, N - (1u << 17) - 1);
    ck_assert_uint_gt(records, 100000);
    ck_assert_uint_eq(records + lost, N);
    for (unsigned i = 0; i < N; i++)
        release(blocks[i]);
    while (next(thread_log_self))
        releases++;
    ck_assert_uint_eq(releases, records);
    void *again = allocate(3);
    check_record(again, 3, 3);
    release(again);
}
END_TEST

/* Neighbours in memory have neighbouring entries, and addresses of large tensors are multiples of
 * powers of two. Neither may fill up a part of the table. */
START_TEST(holds_dense_and_aligned_addresses)
{
    enum { SMALL = 30000, LARGE = 2000, LARGE_BYTES = 2 << 20 };
    static void *blocks[SMALL + LARGE];
    for (unsigned i = 0; i < SMALL + LARGE; i++)
        blocks[i] = allocate(i < SMALL ? 64 : LARGE_BYTES);
    for (unsigned i = 0; i < SMALL + LARGE; i++)
        ck_assert_ptr_nonnull(next(thread_log_self));
    ck_assert_uint_eq(atomic_load(&process_losses[LOSS_MEMORY_TABLE]), 0);
    for (unsigned i = 0; i < SMALL + LARGE; i++)
        release(blocks[i]);
    for (unsigned i = 0; i < SMALL + LARGE; i++)
        ck_assert_ptr_nonnull(next(thread_log_self));
    check_no_record();
}
END_TEST

/* ---- many threads ---- */

#define THREADS 4u
#define ROUNDS  60000u
#define SLOTS   512u

static _Atomic(void *) shared_slots[SLOTS]; /* blocks that any thread may release */
static _Atomic int64_t made, released;

static void *exchange_blocks(void *number)
{
    uint32_t random = (uint32_t)(uintptr_t)number;
    for (unsigned i = 0; i < ROUNDS; i++) {
        random = random * 1664525 + 1013904223;
        size_t bytes = 1 + (random >> 10) % 1000;
        void *block = allocate(bytes);
        memset(block, 0, bytes);
        void *old = atomic_exchange(&shared_slots[random >> 20 & (SLOTS - 1)], block);
        atomic_fetch_add(&made, 1);
        if (old) {
            atomic_fetch_add(&released, 1);
            release(old);
        }
    }
    return NULL;
}

START_TEST(records_releases_on_other_threads)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, exchange_blocks, (void *)(i * 77 + 5)),
                         0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    uint64_t allocations = 0, releases = 0;
    int64_t sum = 0;
    for (struct thread_log *log = thread_log_first(); log; log = log->next) {
        for (const struct record *r; (r = next(log));) {
            allocations += r->memory.bytes > 0;
            releases += r->memory.bytes < 0;
            sum += r->memory.bytes;
        }
        for (int i = 0; i < LOSS_COUNT; i++)
            ck_assert_uint_eq(atomic_load(&log->losses[i]), 0);
    }
    ck_assert_uint_eq(allocations, (uint64_t)made);
    ck_assert_uint_eq(releases, (uint64_t)released);
    ck_assert_uint_eq(atomic_load(&process_losses[LOSS_MEMORY_TABLE]), 0);
    void *last = allocate(1); /* the total of all threads */
    check_record(last, 1, sum + 1);
    release(last);
    for (unsigned i = 0; i < SLOTS; i++)
        release(atomic_load(&shared_slots[i]));
    sum = 0;
    for (const struct record *r; (r = next(thread_log_self));)
        sum = r->memory.bytes < 0 ? sum + 1 : sum;
    ck_assert_int_eq(sum, made - released + 1); /* 1: the block `last` */
}
END_TEST

static _Atomic bool over;

static void *allocate_and_release(void *unused)
{
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        void *blocks[8];
        for (unsigned i = 0; i < 8; i++)
            blocks[i] = allocate(100);
        for (unsigned i = 0; i < 8; i++)
            release(blocks[i]);
        struct thread_log *log = thread_log_self;
        atomic_store(&log->ring.tail, ring_head(&log->ring));
    }
    return unused;
}

START_TEST(windows_begin_while_threads_allocate)
{
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, allocate_and_release, NULL), 0);
    for (unsigned i = 0; i < 20000; i++)
        torch_memory_restart();
    atomic_store(&over, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    torch_memory_restart();
    void *a = allocate(7); /* the table still works */
    check_record(a, 7, 7);
    release(a);
    check_record(a, -7, 0);
    ck_assert_uint_eq(atomic_load(&process_losses[LOSS_MEMORY_TABLE]), 0);
}
END_TEST

/* ---- reports of torch ---- */

START_TEST(records_reports_of_gpus_only)
{
    struct c10_device cpu = {0, -1}, gpu = {1, 3};
    int block;
    for (unsigned i = 0; i < 2; i++) {
        writer_set_gate(GATE_MEMORY | GATE_WINDOW);
        if (i == 0) {
            _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(&block, 5, 6, 7, cpu);
            _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(&block, -50, 60, 70, gpu);
        } else {
            _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE(&block, 5, 6, 7, cpu);
            _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE(&block, -50, 60, 70, gpu);
        }
        const struct record *r = next(thread_log_self);
        ck_assert_ptr_nonnull(r);
        struct record_memory extra;
        memcpy(&extra, record_data(r), sizeof extra);
        ck_assert_uint_eq(r->memory.address, (uint64_t)(uintptr_t)&block);
        ck_assert_int_eq(r->memory.bytes, -50);
        ck_assert_int_eq(extra.total_allocated, 60);
        ck_assert_int_eq(extra.total_reserved, 70);
        ck_assert_int_eq(extra.device_type, 1);
        ck_assert_int_eq(extra.device_index, 3);
        check_no_record(); /* the interposed CPU allocator records CPU memory */
        writer_set_gate(GATE_SPANS);
        _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(&block, 1, 2, 3, gpu);
        check_no_record();
    }
}
END_TEST

/* Fails unless the next record of this thread is a failed allocation of so many bytes. */
static void check_failed(int64_t bytes, int64_t allocated, int64_t reserved,
                         struct c10_device device)
{
    const struct record *r = next(thread_log_self);
    ck_assert_ptr_nonnull(r);
    struct record_memory extra;
    memcpy(&extra, record_data(r), sizeof extra);
    ck_assert_uint_eq(r->kind, REC_OUT_OF_MEMORY);
    ck_assert_int_eq(r->memory.bytes, bytes);
    ck_assert_int_eq(extra.total_allocated, allocated);
    ck_assert_int_eq(extra.total_reserved, reserved);
    ck_assert_int_eq(extra.device_type, device.type);
    ck_assert_int_eq(extra.device_index, device.index);
}

START_TEST(records_failed_allocations_once)
{
    struct c10_device cpu = {0, -1}, gpu = {1, 2};
    void *a = allocate(100);
    check_record(a, 100, 100);
    _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(5, 6, 7, gpu);
    check_failed(5, 6, 7, gpu);
    _ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE(50, 60, 70, gpu);
    check_failed(50, 60, 70, gpu);
    _ZN3c1025ProfiledCPUMemoryReporter11OutOfMemoryEm(NULL, 1 << 20);
    check_failed(1 << 20, 100, 0, cpu);
    _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(1 << 20, 1, 2, cpu);
    check_no_record(); /* reported above */
    writer_set_gate(GATE_SPANS);
    _ZN3c1025ProfiledCPUMemoryReporter11OutOfMemoryEm(NULL, 1 << 20);
    check_no_record();
    release(a);
}
END_TEST

/* An allocation has the operator that the program called, not an operator inside that one. */
static void check_operator(struct thread_log *log, const char *operator)
{
    void *a = allocate(1);
    const struct record *r = next(log);
    assert_named(r, operator);
    release(a);
    r = next(log);
    ck_assert_uint_eq(record_name(r).len, 0);
}

static struct open_span *open_op(struct thread_log *log, enum category category, const char *name)
{
    return span_open(log, name, category, name, (uint32_t)strlen(name));
}

START_TEST(names_the_operator_that_the_program_called)
{
    struct thread_log *log = thread_log_get();
    check_operator(log, "");
    open_op(log, CAT_USER_ANNOTATION, "range");
    check_operator(log, "");
    open_op(log, CAT_CPU_OP, "aten::linear");
    open_op(log, CAT_CPU_OP, "aten::empty");
    check_operator(log, "aten::linear");
    open_op(log, CAT_CUDA_RUNTIME, "cudaMalloc");
    check_operator(log, "aten::linear");
    open_op(log, CAT_MODULE, "Net");
    check_operator(log, "");
    struct open_span *range = open_op(log, CAT_CPU_OP, "autograd::engine::evaluate_function: X");
    span_add_flags(range, REC_BORROWED);
    open_op(log, CAT_CPU_OP, "X");
    open_op(log, CAT_CPU_OP, "aten::mm");
    check_operator(log, "X");
}
END_TEST

START_TEST(names_the_module_of_an_allocation)
{
    struct thread_log *log = thread_log_get();
    struct open_span *module = open_op(log, CAT_MODULE, "Net.fc");
    span_set_extra(log, module, EXTRA_MODULE, 77);
    open_op(log, CAT_CPU_OP, "aten::linear"); /* inherits the module */
    ck_assert_uint_eq(span_module(log), 77);
    void *a = allocate(1);
    const struct record *r = next(log);
    ck_assert_uint_eq(record_extra(r, EXTRA_MODULE, 0), 77);
    struct extras stack = {.mask = 1u << EXTRA_STACK, .value = {[EXTRA_STACK] = 5}};
    struct record_memory state = {1, 2, 1, 0};
    emit_memory(log, 64, 10, &state, &stack);
    r = next(log);
    ck_assert_uint_eq(record_extra(r, EXTRA_STACK, 0), 5);
    ck_assert_uint_eq(record_extra(r, EXTRA_MODULE, 0), 77);
    span_close(log, "aten::linear");
    span_close(log, module->key);
    release(a);
}
END_TEST

Suite *suite_torch_memory(void)
{
    Suite *suite = suite_create("torch_memory");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, NULL);
    tcase_set_timeout(all, 60);
    tcase_add_test(all, records_allocations_and_releases);
    tcase_add_test(all, records_nothing_while_the_gate_is_closed);
    tcase_add_test(all, leaves_small_pieces_out_between_windows);
    tcase_add_test(all, forgets_allocations_of_earlier_windows);
    tcase_add_test(all, tells_windows_apart_when_their_number_wraps);
    tcase_add_test(all, records_reused_addresses);
    tcase_add_test(all, counts_allocations_beyond_the_table);
    tcase_add_test(all, holds_dense_and_aligned_addresses);
    tcase_add_test(all, records_releases_on_other_threads);
    tcase_add_test(all, windows_begin_while_threads_allocate);
    tcase_add_test(all, records_reports_of_gpus_only);
    tcase_add_test(all, records_failed_allocations_once);
    tcase_add_test(all, names_the_operator_that_the_program_called);
    tcase_add_test(all, names_the_module_of_an_allocation);
    suite_add_tcase(suite, all);
    return suite;
}
