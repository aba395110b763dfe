/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/window_memory.h through whole files: tensor memory of two devices, what the caching allocator holds, and a failed allocation
 * that is on disk when writer_flush_now() returns. */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/session.h"

static void allocate(uint64_t address, int64_t bytes, int64_t allocated, int64_t reserved,
                     int index)
{
    struct record_memory state = {allocated, reserved, 1, index};
    emit_memory(thread_log_get(), address, bytes, &state, NULL);
}

START_TEST(two_devices)
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

/* The bytes of the file that is being written. */
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

START_TEST(a_failed_allocation_is_on_disk)
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
    writer_flush_now(1000); /* nobody is there any more: no waiting */
}
END_TEST

Suite *suite_window_memory(void)
{
    Suite *s = suite_create("window_memory");
    TCase *c = tcase_create("window_memory");
    tcase_add_checked_fixture(c, session_setup, session_teardown);
    tcase_add_test(c, two_devices);
    tcase_add_test(c, a_failed_allocation_is_on_disk);
    suite_add_tcase(s, c);
    return s;
}
