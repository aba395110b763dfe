/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/window/window_memory.h with whole files: tensor memory of two devices and the
 * caching allocator's totals, driver memory of several windows, and a failed allocation, which must
 * be on disk when writer_flush_now() returns. */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/fake_gpu.h"
#include "tests/support/session.h"
#include "writer/sums/gpu_memory.h"

static void allocate(uint64_t address, int64_t bytes, int64_t allocated, int64_t reserved,
                     int index)
{
    struct record_memory state = {allocated, reserved, 1, index};
    emit_memory(thread_log_get(), address, bytes, &state, NULL);
}

START_TEST(counts_memory_of_two_devices)
{
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    allocate(1 << 12, 100, 1100, 4096, 0);
    allocate(2 << 12, 50, 50, 2048, 1);
    allocate(3 << 12, 200, 1300, 4096, 0);
    allocate(1 << 12, -100, 1200, 4096, 0);
    allocate(4 << 12, 50, 1250, 8192, 0);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'i', "[memory]"), 5);
    ck_assert_uint_eq(trace_named(&t, 'C', "Memory CUDA:0"), 4);
    ck_assert_uint_eq(trace_named(&t, 'C', "Memory CUDA:1"), 1);
    ck_assert_uint_eq(trace_named(&t, 'C', "Memory CUDA:0 reserved"), 2); /* only when it changes */
    ck_assert_uint_eq(trace_named(&t, 'C', "Memory CUDA:1 reserved"), 1);
    const char *memory = strstr(t.text, "\"memory\": [");
    ck_assert_ptr_nonnull(memory);
    ck_assert_ptr_nonnull(strstr(memory, "\"device\": \"CUDA:0\", \"peak_bytes\": 1300,"));
    ck_assert_int_eq((int)trace_number(memory, "begin_bytes"), 1000);
    ck_assert_int_eq((int)trace_number(memory, "end_bytes"), 1250);
    ck_assert_int_eq((int)trace_number(memory, "peak_unknown_bytes"), 1000);
    ck_assert_int_eq((int)trace_number(memory, "peak_reserved_bytes"), 4096);
    ck_assert_ptr_nonnull(strstr(memory, "\"device\": \"CUDA:1\", \"peak_bytes\": 50,"));
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

/* Whether the part file contains the text. */
static bool open_file_holds(const char *text)
{
    static char all[1 << 20], path[512];
    DIR *folder = opendir(session_folder);
    size_t n = 0;
    for (struct dirent *e; folder && (e = readdir(folder));) {
        if (!strstr(e->d_name, ".part"))
            continue;
        snprintf(path, sizeof path, "%s/%s", session_folder, e->d_name);
        FILE *file = fopen(path, "r");
        n = file ? fread(all, 1, sizeof all - 1, file) : 0;
        if (file)
            fclose(file);
    }
    if (folder)
        closedir(folder);
    all[n] = '\0';
    return strstr(all, text) != NULL;
}

START_TEST(flush_writes_a_failed_allocation)
{
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE);
    session_open("aten::empty");
    allocate(1 << 12, 100, 100, 4096, 0);
    for (int i = 1; i <= 3; i++) {
        char wanted[64];
        struct record_memory state = {100, 4096, 1, 0};
        emit_out_of_memory(thread_log_get(), 1000000 + i, &state, NULL);
        writer_flush_now(5000);
        snprintf(wanted, sizeof wanted, "\"name\": \"[OutOfMemory]\"");
        ck_assert(open_file_holds(wanted));
        snprintf(wanted, sizeof wanted, "\"Bytes\": %d", 1000000 + i);
        ck_assert(open_file_holds(wanted));
    }
    session_close("aten::empty");
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'i', "[OutOfMemory]"), 3);
    const char *event = trace_event(&t, 'i', "[OutOfMemory]");
    ck_assert_ptr_nonnull(strstr(event, "\"Largest Holders\": [{\"operator\": \""));
    ck_assert_int_eq((int)trace_number(event, "Total Allocated"), 100);
    ck_assert_int_eq((int)trace_number(event, "Total Reserved"), 4096);
    trace_free(&t);
    writer_flush_now(1000); /* the cprof thread has ended: must not wait */
}
END_TEST

/* ---- driver memory --------------------------------------------------------------------------- */

static void driver(uint8_t flags, uint64_t address, uint64_t bytes)
{
    struct gpu_record r = {.kind = GPU_MEMORY, .flags = flags, .context = 1, .stream = GPU_NONE};
    r.start = r.end = clock_ticks();
    r.memory.tid = (uint32_t)getpid(); /* the main thread */
    r.memory.address = address;
    r.memory.bytes = bytes;
    r.memory.kind = GPU_MEMORY_DEVICE;
    fake_gpu_deliver(&r);
}

/* The peak of driver memory in the account, in bytes. -1: the account has none. */
static int driver_peak(const struct trace *t)
{
    const char *found = strstr(t->text, "\"level\": \"driver\"");
    return found ? (int)trace_number(found, "peak_bytes") : -1;
}

static void check_driver(int64_t batch, unsigned counted, const char *total, int peak)
{
    struct trace t = session_trace(batch);
    char counter[64];
    snprintf(counter, sizeof counter, "\"allocated bytes\": %s}", total);
    ck_assert_uint_eq(trace_named(&t, 'C', "Driver memory CUDA:0"), counted);
    ck_assert_uint_eq(trace_count(&t, 'C', counter), 1);
    ck_assert_int_eq(driver_peak(&t), peak);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}

static void start_with_gpu(void)
{
    session_options.gpu = &fake_gpu_source;
    atomic_store(&fake_gpu.since, 0);
    session_start(ACTION_SKIP, false);
}

/* CUPTI does not report releases while nothing is recorded. Memory of an earlier window must not
 * seem to be held in the next window. */
START_TEST(window_forgets_earlier_driver_memory)
{
    start_with_gpu();
    session_step(ACTION_ACTIVE_AND_SAVE);
    driver(0, 0x1000, 100);
    session_step(ACTION_SKIP);
    session_step(ACTION_ACTIVE_AND_SAVE);
    driver(0, 0x2000, 30);
    session_step(ACTION_SKIP);
    session_end();
    check_driver(2, 1, "100", 100);
    check_driver(4, 1, "30", 30);
}
END_TEST

/* The second window follows at once and releases the memory of the first window. */
START_TEST(contiguous_window_ignores_earlier_blocks)
{
    start_with_gpu();
    session_step(ACTION_ACTIVE_AND_SAVE);
    driver(0, 0x1000, 100);
    session_step(ACTION_ACTIVE_AND_SAVE);
    driver(0, 0x2000, 30);
    driver(GPU_RELEASE, 0x1000, 100);
    driver(GPU_RELEASE, 0x2000, 30);
    session_step(ACTION_SKIP);
    session_end();
    check_driver(2, 1, "100", 100);
    check_driver(3, 3, "0", 30);
}
END_TEST

static _Atomic bool stepped;

static void step_and_allocate(void)
{
    session_step(ACTION_ACTIVE_AND_SAVE);
    driver(0, 0x2000, 30);
    atomic_store(&stepped, true);
}

/* The step ends after the cprof thread has looked for edges. The same pass then gets a CUPTI buffer
 * with records of the next step. */
START_TEST(keeps_records_of_a_window_announced_late)
{
    start_with_gpu();
    session_step(ACTION_ACTIVE_AND_SAVE);
    driver(0, 0x1000, 100);
    session_sleep(50);
    atomic_store(&fake_gpu.meanwhile, step_and_allocate);
    while (!atomic_load(&stepped))
        session_sleep(1);
    session_sleep(50);
    session_step(ACTION_SKIP);
    session_end();
    check_driver(2, 1, "100", 100);
    check_driver(3, 1, "30", 30);
}
END_TEST

START_TEST(ignores_releases_of_unknown_memory)
{
    start_with_gpu();
    session_step(ACTION_ACTIVE_AND_SAVE);
    driver(GPU_RELEASE, 0x1000, 1 << 20);
    session_step(ACTION_SKIP);
    session_step(ACTION_ACTIVE_AND_SAVE);
    driver(GPU_RELEASE, 0x2000, 1 << 20);
    driver(0, 0x3000, 30);
    session_step(ACTION_SKIP);
    session_end();
    check_driver(2, 1, "0", -1);
    check_driver(4, 2, "30", 30);
}
END_TEST

Suite *suite_window_memory(void)
{
    Suite *s = suite_create("window_memory");
    TCase *c = tcase_create("window_memory");
    tcase_add_checked_fixture(c, session_setup, session_teardown);
    tcase_add_test(c, counts_memory_of_two_devices);
    tcase_add_test(c, flush_writes_a_failed_allocation);
    tcase_add_test(c, window_forgets_earlier_driver_memory);
    tcase_add_test(c, contiguous_window_ignores_earlier_blocks);
    tcase_add_test(c, keeps_records_of_a_window_announced_late);
    tcase_add_test(c, ignores_releases_of_unknown_memory);
    suite_add_tcase(s, c);
    return s;
}
