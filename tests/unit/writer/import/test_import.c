/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer_import(): foreign traces are imported while the real cprof thread records. Tests
 * which trace gets them, and which files are refused with which message. A large file must not take
 * much memory or overflow the rings. */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/support/alloc.h"
#include "tests/support/capture.h"
#include "tests/support/session.h"
#include "writer/import/foreign.h"

/* A span of 2 us; ts is text. All times are in 2033, after the base of any trace written before. */
#define EVENT(name, ts)                                                                            \
    "{\"ph\": \"X\", \"name\": \"" name "\", \"pid\": 5, \"tid\": 6, \"ts\": " ts ", \"dur\": 2}"
#define BASE "\"baseTimeNanoseconds\": 2000000000000000000"

/* The path of a file that the session does not count among its own traces. */
static const char *path_of(const char *name)
{
    static char path[4][160];
    static unsigned n;
    n = (n + 1) % 4;
    snprintf(path[n], sizeof path[n], "%s/%s", session_folder, name);
    return path[n];
}

static const char *make(const char *name, const char *text)
{
    const char *path = path_of(name);
    FILE *file = fopen(path, "wbe");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, strlen(text), file), strlen(text));
    fclose(file);
    return path;
}

static const char *make_gzip(const char *name, const char *text, const char *more)
{
    const char *path = path_of(name);
    for (int i = 0; i < 2; i++) {
        gzFile file = gzopen(path, i ? "ab" : "wb");
        ck_assert_int_gt(gzputs(file, i ? more : text), 0);
        gzclose(file);
    }
    return path;
}

/* Waits until cprof has written a message that contains this text. */
static void wait_for(const char *said)
{
    for (int i = 0; i < 1000 && !strstr(capture_stderr(), said); i++)
        session_sleep(10);
    ck_assert_msg(strstr(capture_stderr(), said) != NULL, "no message %s in: %s", said,
                  capture_stderr());
}

static void check_merged(const struct trace *t, unsigned files, unsigned events, unsigned left_out)
{
    char expected[128];
    snprintf(expected, sizeof expected,
             "\"merged\": {\"files\": %u, \"events\": %u, \"left_out\": %u}", files, events,
             left_out);
    const char *merged = strstr(t->text, "\"merged\"");
    ck_assert_msg(merged && strncmp(merged, expected, strlen(expected)) == 0, "%.80s", merged);
}

static int64_t base_of(const struct trace *t)
{
    return strtoll(strstr(t->text, "\"baseTimeNanoseconds\": ") + 23, NULL, 10);
}

/* The start in wall-clock ns of the trace's event with this name. */
static int64_t wall_of(const struct trace *t, const char *name)
{
    char part[64];
    snprintf(part, sizeof part, "\"name\": \"%s\"", name);
    const char *event = trace_event(t, 'X', part);
    ck_assert_msg(event != NULL, "no %s", name);
    int64_t ns;
    const char *ts = strstr(event, "\"ts\": ") + 6;
    ck_assert(foreign_us(ts, strcspn(ts, ","), &ns));
    return base_of(t) + ns;
}

/* ---- which trace ----------------------------------------------------------------------------- */

START_TEST(merges_into_the_open_trace)
{
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    session_span("ours");
    const char *path =
        make("f", "{\"traceEvents\": [" EVENT("one", "5.5") ", " EVENT("two", "7") "], " BASE "}");
    ck_assert(writer_import(path));
    ck_assert_int_eq(unlink(path), 0); /* the cprof thread has opened it */
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("later");
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(1);
    ck_assert_uint_eq(trace_named(&t, 'X', "ours"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "one"), 1);
    ck_assert_int_eq(wall_of(&t, "one"), 2000000000000005500);
    ck_assert_int_eq(wall_of(&t, "two"), 2000000000000007000);
    ck_assert_ptr_nonnull(strstr(trace_event(&t, 'X', "\"two\""), "\"pid\": 10000005, \"tid\": 6"));
    check_merged(&t, 1, 2, 0);
    trace_check_lost(&t, "total", 0);
    ck_assert_int_eq((int)trace_number(t.text, "events"), 4);
    trace_free(&t);
    t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'X', "one"), 0);
    ck_assert_ptr_null(strstr(t.text, "\"merged\""));
    trace_free(&t);
    ck_assert_uint_eq(capture_lines(capture_stderr(), ""), 1);
}
END_TEST

START_TEST(merges_into_the_next_trace)
{
    session_start(ACTION_SKIP, false);
    ck_assert(writer_import(make("f", "[" EVENT("one", "2000000000000000"))));
    session_sleep(100); /* the file has been read and waits */
    session_step(ACTION_SKIP);
    ck_assert(writer_import(make("g", "[" EVENT("two", "2000000000000000.25") "]")));
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("ours");
    session_step(ACTION_SKIP);
    ck_assert(writer_import(make("h", "[" EVENT("never", "2000000000000000") "]")));
    session_end();
    struct trace t = session_trace(3);
    ck_assert_uint_eq(session_files(".json"), 1);
    ck_assert_int_eq(wall_of(&t, "one"), 2000000000000000000);
    ck_assert_int_eq(wall_of(&t, "two"), 2000000000000000250);
    ck_assert_uint_eq(trace_named(&t, 'X', "never"), 0);
    ck_assert_ptr_nonnull(strstr(trace_event(&t, 'X', "\"two\""), "\"pid\": 20000005"));
    check_merged(&t, 2, 2, 0);
    trace_free(&t);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "/h: the program ends; it is not merged"), 1);
}
END_TEST

START_TEST(merges_in_a_program_without_steps)
{
    session_start(ACTION_SKIP, true);
    ck_assert(writer_import(make("f", "[" EVENT("one", "2000000000000000") "]")));
    session_end();
    struct trace t = session_trace(0);
    ck_assert_uint_eq(trace_named(&t, 'X', "one"), 1);
    check_merged(&t, 1, 1, 0);
    trace_free(&t);
}
END_TEST

START_TEST(reads_gzip_of_two_members)
{
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    ck_assert(writer_import(make_gzip("f", "{\"traceEvents\": [" EVENT("one", "2000000000000000"),
                                      ", " EVENT("two", "2000000000000000") "]}")));
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(1);
    check_merged(&t, 1, 2, 0);
    trace_free(&t);
}
END_TEST

/* ---- time ------------------------------------------------------------------------------------ */

START_TEST(maps_foreign_clocks)
{
    char text[512];
    int64_t wall = clock_wall_now(), steady = (int64_t)clock_monotonic_ns();
    session_options.run_started_ns = wall - 5000000000;
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    snprintf(text, sizeof text, "[" EVENT("steady", "%lld.%03lld") "]", (long long)steady / 1000,
             (long long)steady % 1000);
    ck_assert(writer_import(make("f", text)));
    snprintf(text, sizeof text, "[" EVENT("epoch", "%lld") "]", (long long)wall / 1000);
    ck_assert(writer_import(make("g", text)));
    ck_assert(writer_import(make("h", "[" EVENT("first", "0") "," EVENT("last", "999998") "]")));
    int64_t handed_in = clock_wall_now();
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(1);
    ck_assert_int_le(llabs(wall_of(&t, "steady") - wall), 1000000);
    ck_assert_int_eq(wall_of(&t, "epoch"), wall / 1000 * 1000);
    ck_assert_int_le(llabs(wall_of(&t, "last") + 2000 - handed_in), 50000000);
    ck_assert_int_eq(wall_of(&t, "last") - wall_of(&t, "first"), 999998000);
    trace_free(&t);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "its times match no clock of this machine"),
                      1);
}
END_TEST

START_TEST(counts_events_before_the_base_time)
{
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    ck_assert(
        writer_import(make("f", "{\"traceEvents\": [" EVENT("old", "1") ", " EVENT(
                                    "new", "2000000000000000") "],"
                                                               "\"baseTimeNanoseconds\": 0}")));
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(1);
    check_merged(&t, 1, 1, 1);
    trace_check_lost(&t, "foreign", 1);
    trace_free(&t);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "1 of its 2 events are not merged"), 1);
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------- */

START_TEST(refuses_unusable_paths_at_once)
{
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    ck_assert(!writer_import(path_of("missing")));
    ck_assert(!writer_import(session_folder));
    ck_assert_int_eq(mkfifo(path_of("fifo"), 0600), 0);
    ck_assert(!writer_import(path_of("fifo")));
    ck_assert(!writer_import("/dev/zero"));
    ck_assert(!writer_import(""));
    /* An unterminated string: the cprof thread would read for an hour. */
    const char *huge = make("huge", "[{\"ph\": \"i\", \"name\": \"");
    ck_assert_int_eq(truncate(huge, INT64_C(1) << 40), 0);
    ck_assert(!writer_import(huge));
    session_step(ACTION_SKIP);
    session_end();
    const char *said = capture_stderr();
    ck_assert_uint_eq(capture_lines(said, "/missing: No such file or directory; it is not merged"),
                      1);
    ck_assert_uint_eq(capture_lines(said, ": it is not a regular file; it is not merged"), 3);
    ck_assert_uint_eq(capture_lines(said, "/huge: it has more than 16 GiB; it is not merged"), 1);
}
END_TEST

START_TEST(reports_unreadable_traces)
{
    static const struct {
        const char *name, *text, *said;
    } bad[] = {
        {"a", "", "/a: byte 0 of its text: it is empty; it is not merged"},
        {"b", "no trace",
         "/b: byte 0 of its text: it is not a trace: it begins with neither { nor [; it is not "
         "merged"},
        {"c", "{\"traceEvents\": [{}",
         "/c: byte 19 of its text: it ends too early; it is not merged"},
        {"d", "[{\"ph\": \"i\", \"ts\": 1}, {\"ph\": tru}]", "/d: byte 30 of its text: "},
        {"e", "{\"traceEvents\": [], \"baseTimeNanoseconds\": \"x\"}",
         "/e: byte 43 of its text: baseTimeNanoseconds is not an integer; it is not merged"},
        {"f", "{\"traceEvents\": [], \"a\": [1 2]}", "/f: byte "},
        {"g", "\x1f\x8b\x08nonsense",
         "/g: byte 0 of its text: its gzip data is damaged; it is not merged"},
    };
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    session_span("ours");
    unsigned n = sizeof bad / sizeof bad[0];
    for (unsigned i = 0; i < n; i++)
        ck_assert(writer_import(make(bad[i].name, bad[i].text)));
    /* A gzip file that ends inside a member. */
    const char *whole = make_gzip("whole", "[" EVENT("one", "2000000000000000"), "]");
    ck_assert_int_eq(truncate(whole, 40), 0);
    ck_assert(writer_import(whole));
    session_step(ACTION_SKIP);
    session_end();
    const char *said = capture_stderr();
    for (unsigned i = 0; i < n; i++)
        ck_assert_msg(capture_lines(said, bad[i].said) == 1, "%s in %s", bad[i].said, said);
    ck_assert_uint_eq(capture_lines(said, "/whole: byte "), 1);
    ck_assert_uint_eq(capture_lines(said, "it is not merged"), n + 1);
    struct trace t = session_trace(1);
    ck_assert_uint_eq(trace_count(&t, 'X', NULL),
                      2); /* the trace is written without the foreign events */
    ck_assert_ptr_null(strstr(t.text, "\"merged\""));
    trace_free(&t);
}
END_TEST

START_TEST(limits_waiting_files)
{
    session_start(ACTION_SKIP, false);
    const char *path = make("f", "[" EVENT("one", "2000000000000000") "]");
    unsigned taken = 0;
    for (unsigned i = 0; i < 100; i++)
        taken += writer_import(path);
    ck_assert_uint_eq(taken, 64);
    session_step(ACTION_ACTIVE_AND_SAVE);
    for (int i = 0; i < 500 && !writer_import(path); i++)
        session_sleep(10);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(2);
    check_merged(&t, 65, 65, 0);
    trace_free(&t);
}
END_TEST

/* The file changes between the first reading and the merging. Events that were not merged are
 * counted. */
START_TEST(reports_a_file_changed_meanwhile)
{
    session_start(ACTION_SKIP, false);
    const char *path = make("f", "[" EVENT("one", "2000000000000000") "]");
    ck_assert(writer_import(path));
    session_sleep(100);
    make("f", "[{\"ph\": \"i\", \"ts\": 1}]");
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("ours");
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(2);
    check_merged(&t, 1, 0, 1);
    trace_check_lost(&t, "foreign", 1);
    trace_free(&t);
    ck_assert_uint_eq(
        capture_lines(
            capture_stderr(),
            "/f: it was changed or cannot be read any more: 1 of its 1 events are not merged"),
        1);
}
END_TEST

/* The window's memory runs out while events are merged. One message says so; none blames the
 * file. */
START_TEST(out_of_memory_does_not_blame_the_file)
{
    if (!alloc_is_ours)
        return;
    session_start(ACTION_SKIP, false);
    const char *path = path_of("f");
    FILE *file = fopen(path, "wbe");
    ck_assert_ptr_nonnull(file);
    fprintf(file, "[");
    for (int i = 0; i < 8000; i++)
        fprintf(file, "%s", EVENT("a name of some length", "2000000000000000") ",");
    fprintf(file, EVENT("last", "2000000000000000") "]");
    fclose(file);
    ck_assert(writer_import(path));
    session_sleep(100); /* the first reading is done, with its memory */
    alloc_fail_from(200u << 10);
    session_step(ACTION_ACTIVE_AND_SAVE);
    wait_for("cannot write the trace: Cannot allocate memory");
    alloc_fail_from(0);
    session_end();
    ck_assert_uint_eq(capture_lines(capture_stderr(), "are not merged"), 0);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "recording is off"), 1);
}
END_TEST

/* The program closes the descriptor and reuses its number for another file. */
START_TEST(keeps_a_descriptor_the_program_reused)
{
    session_start(ACTION_SKIP, false);
    ck_assert(writer_import(make("f", "[" EVENT("one", "2000000000000000") "]")));
    session_sleep(100);
    char link[64], target[160];
    int fd = -1;
    for (int i = 3; i < 1024 && fd < 0; i++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", i);
        ssize_t n = readlink(link, target, sizeof target - 1);
        if (n > 2 && memcmp(target + n - 2, "/f", 2) == 0)
            fd = i;
    }
    ck_assert_int_ge(fd, 100);
    int own = open(path_of("own"), O_RDWR | O_CREAT, 0600);
    ck_assert_int_eq(dup2(own, fd), fd);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_step(ACTION_SKIP);
    session_end();
    ck_assert_int_eq(fcntl(fd, F_GETFD), 0); /* still open */
    ck_assert_uint_eq(capture_lines(capture_stderr(), "/f: it was changed or cannot be read"), 1);
}
END_TEST

START_TEST(counts_events_beyond_the_trace_limit)
{
    session_options.max_trace_bytes = 100000;
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    const char *path = path_of("f");
    FILE *file = fopen(path, "wbe");
    fputs("[", file);
    for (unsigned i = 0; i < 100000; i++)
        fprintf(file, EVENT("one", "2000000000000000") ",\n");
    fclose(file);
    ck_assert(writer_import(path));
    wait_for("the trace reached CPROF_MAX_TRACE_MB");
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(1);
    unsigned merged = trace_named(&t, 'X', "one");
    ck_assert_uint_lt(merged, 10000);
    check_merged(&t, 1, merged, 100000 - merged);
    trace_check_lost(&t, "file_limit", 100000 - merged);
    trace_free(&t);
}
END_TEST

/* ---- large files ----------------------------------------------------------------------------- */

/* events of 250 bytes; fewer under slow sanitizers */
#define LARGE (alloc_is_ours ? 400000u : 40000u)

static const char *make_large(void)
{
    const char *path = path_of("f");
    FILE *file = fopen(path, "wbe");
    fputs("{\"traceEvents\": [\n", file);
    for (unsigned i = 0; i < LARGE; i++)
        fprintf(file,
                "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"large\", \"pid\": 0, \"tid\": 7, "
                "\"ts\": %u.%03u, \"dur\": 1.500, "
                "\"args\": {\"External id\": %u, \"correlation\": %u, \"grid\": [1, 2, 3], "
                "\"block\": [128, 1, 1], "
                "\"text\": "
                "\"................................................................................"
                "\"}}%s\n",
                i * 2, i % 1000, i, i, i + 1 < LARGE ? "," : "");
    fputs("], " BASE "}\n", file);
    fclose(file);
    return path;
}

static long peak_kb(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_maxrss;
}

/* 100 MB are imported while this thread records without a pause. No record is lost, and memory does
 * not grow. */
START_TEST(merges_a_large_file_in_little_memory)
{
    const char *path = make_large();
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_gt(st.st_size, 250 * (off_t)LARGE);
    /* room for 400 ms of records */
    session_options.ring_bytes = alloc_is_ours ? 4u << 20 : 32u << 20;
    session_options.exit_deadline_ms = 600000; /* emulated processors need minutes */
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    for (unsigned i = 0; i < 100; i++) {
        for (unsigned k = 0; k < 1000; k++)
            session_span("ours");
        session_sleep(5);
    }
    session_sleep(300);
    long before = peak_kb();
    struct timespec a, b;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    ck_assert(writer_import(path));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    int64_t took = (b.tv_sec - a.tv_sec) * INT64_C(1000000000) + b.tv_nsec - a.tv_nsec;
    ck_assert_int_lt(took,
                     alloc_is_ours ? 50000000 : 500000000); /* less than reading 100 MB takes */
    unsigned ours = 100000;
    for (unsigned i = 0; i < 100; i++) {
        for (unsigned k = 0; k < 1000; k++)
            session_span("ours");
        ours += 1000;
        session_sleep(10);
    }
    session_step(ACTION_SKIP);
    session_end();
    long grown = peak_kb() - before;
    ck_assert_msg(!alloc_is_ours || grown < 24 << 10, "%ld KB", grown);
    struct trace t = session_trace(1);
    check_merged(&t, 1, LARGE, 0);
    ck_assert_uint_eq(trace_named(&t, 'X', "large"), LARGE);
    ck_assert_uint_eq(trace_named(&t, 'X', "ours"), ours);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

/* Events that are not imported at the deadline are counted, and the program ends in time. */
START_TEST(exit_keeps_its_deadline_while_merging)
{
    const char *slower = getenv("CK_TIMEOUT_MULTIPLIER"); /* the multiplier of libcheck itself */
    unsigned slowness = slower ? (unsigned)atoi(slower) : 1;
    session_options.exit_deadline_ms = 500 * slowness;
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    ck_assert(writer_import(make_large()));
    session_span("ours");
    uint64_t start = clock_monotonic_ns();
    session_end();
    ck_assert_uint_lt(clock_monotonic_ns() - start, UINT64_C(2000000000) * slowness);
    struct trace t = session_trace(0);
    ck_assert_uint_eq(trace_named(&t, 'X', "ours"), 1);
    trace_free(&t);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "/f: the program ends"), 1);
}
END_TEST

/* ---- observers ------------------------------------------------------------------------------- */

static char reported[320];

static void on_file(const char *path)
{
    strncat(reported, path, sizeof reported - 1 - strlen(reported));
}

static void nothing(void)
{
}

static void no_mark(const struct mark *mark)
{
    (void)mark;
}

static void no_moment(const struct train_moment *at)
{
    (void)at;
}

/* Observers get the path of a valid foreign trace after cprof has read the file. */
START_TEST(reports_the_path_to_observers)
{
    static const struct listener listener = {nothing,   no_mark,   no_moment, no_moment,
                                             no_moment, no_moment, on_file,   nothing};
    writer_listen(&listener);
    make("f", "[]");
    ck_assert_int_eq(chdir(session_folder), 0);
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    ck_assert(writer_import("f"));
    ck_assert(writer_import(make("bad", "{\"no\": \"trace")));
    ck_assert_int_eq(chdir("/"), 0);
    session_step(ACTION_SKIP);
    session_end();
    ck_assert_str_eq(reported, path_of("f"));
}
END_TEST

Suite *suite_import(void)
{
    Suite *suite = suite_create("import");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, session_setup, session_teardown);
    suite_add_tcase(suite, all);
    tcase_add_test(all, merges_into_the_open_trace);
    tcase_add_test(all, merges_into_the_next_trace);
    tcase_add_test(all, merges_in_a_program_without_steps);
    tcase_add_test(all, reads_gzip_of_two_members);
    tcase_add_test(all, maps_foreign_clocks);
    tcase_add_test(all, counts_events_before_the_base_time);
    tcase_add_test(all, refuses_unusable_paths_at_once);
    tcase_add_test(all, reports_unreadable_traces);
    tcase_add_test(all, limits_waiting_files);
    tcase_add_test(all, reports_a_file_changed_meanwhile);
    tcase_add_test(all, out_of_memory_does_not_blame_the_file);
    tcase_add_test(all, keeps_a_descriptor_the_program_reused);
    tcase_add_test(all, counts_events_beyond_the_trace_limit);
    tcase_add_test(all, reports_the_path_to_observers);
    TCase *large = tcase_create("large");
    tcase_set_timeout(large, 120);
    tcase_add_checked_fixture(large, session_setup, session_teardown);
    tcase_add_test(large, merges_a_large_file_in_little_memory);
    if (alloc_is_ours) /* too slow under sanitizers */
        tcase_add_test(large, exit_keeps_its_deadline_while_merging);
    suite_add_tcase(suite, large);
    return suite;
}
