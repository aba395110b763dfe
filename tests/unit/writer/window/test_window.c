/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/window/window.h: which records a window takes, its head and names, and spans that
 * are open on running threads. The test plays the cprof thread. */
#include "writer/window/window.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/alloc.h"
#include "tests/support/capture.h"
#include "tests/support/records.h"
#include "tests/support/session.h"

#define HEAD_BYTES 16384

static struct window_shared shared;
static struct window *window;
static char file_name[64] = "t";

static bool path_of(const struct train_time *time, char *path, unsigned long size)
{
    (void)time;
    return snprintf(path, size, "%s/%s", session_folder, file_name) > 0;
}

static void setup(void)
{
    session_setup();
    session_options.trace_path = path_of;
    shared = (struct window_shared){.options = &session_options,
                                    .pid = window_pid((uint32_t)getpid()),
                                    .user_json = "",
                                    .notes_json = ""};
    clock_start();
    usleep(2000);
    clock_knot();
    ck_assert(thread_log_start(1u << 20));
    ck_assert_ptr_nonnull(thread_log_get());
    struct losses none = {{0}};
    window = window_open(1, clock_ticks(), clock_ticks(), 5, &none);
    ck_assert_ptr_nonnull(window);
}

static void teardown(void)
{
    window_free(window);
    session_teardown();
}

static struct trace flushed(void)
{
    ck_assert_int_eq(window_flush(window, &shared), 0);
    return trace_read(window->part_path);
}

static void add(const char *name, uint64_t start, uint64_t end)
{
    struct record *r = record_new(REC_SPAN, CAT_CPU_OP, name, DATA_NONE, NULL, 0);
    r->start = start;
    r->end = end;
    r->id = 77;
    struct record_owner owner = thread_log_owner(thread_log_self);
    window_add(window, &shared, &owner, r);
    free(r);
}

START_TEST(takes_records_by_start_time)
{
    window->from = 50;
    window->warm_from = 100;
    window->start = 200;
    ck_assert(!window_takes(window, 49, REC_MARKER | REC_SKIPPED));
    ck_assert(window_takes(window, 50, REC_MARKER | REC_SKIPPED));
    ck_assert(!window_takes(window, 99, REC_MARKER));
    ck_assert(window_takes(window, 100, REC_MARKER));
    ck_assert(!window_takes(window, 199, 0));
    ck_assert(window_takes(window, 200, 0));
    ck_assert(window_takes(window, UINT64_MAX - 1, 0)); /* the window has no end yet */
    window->end = 300;
    ck_assert(window_takes(window, 299, 0));
    ck_assert(!window_takes(window, 300, REC_MARKER));
}
END_TEST

START_TEST(shifts_small_pids_of_containers)
{
    ck_assert_uint_eq(window_pid(1), 1000001);
    ck_assert_uint_eq(window_pid(4095), 1004095);
    ck_assert_uint_eq(window_pid(4096), 4096);
    ck_assert_uint_eq(window_pid(4194304), 4194304);
}
END_TEST

START_TEST(head_has_a_fixed_size)
{
    struct trace t = flushed();
    const char *events = strstr(t.text, "\"traceEvents\": [\n");
    ck_assert_ptr_nonnull(events);
    ck_assert_int_eq((int)(events - t.text) + 17, HEAD_BYTES);
    trace_free(&t);
    add("span", clock_ticks(), clock_ticks());
    t = flushed();
    ck_assert_int_eq((int)(strstr(t.text, "{\"ph\"") - t.text), HEAD_BYTES);
    trace_free(&t);
}
END_TEST

START_TEST(names_each_thread_once_per_window)
{
    prctl(PR_SET_NAME, "unit"); /* valgrind uses another name */
    for (unsigned i = 0; i < 3; i++)
        add("span", clock_ticks(), clock_ticks());
    struct trace t = flushed();
    ck_assert_uint_eq(trace_named(&t, 'M', "thread_name"), 1);
    char name[64];
    snprintf(name, sizeof name, "thread %ld (unit)", syscall(SYS_gettid));
    ck_assert_ptr_nonnull(strstr(trace_event(&t, 'M', "thread_name"), name));
    ck_assert_uint_eq(trace_named(&t, 'M', "process_name"), 1);
    trace_free(&t);
}
END_TEST

START_TEST(steps_have_a_row_of_their_own)
{
    uint64_t a = clock_ticks();
    usleep(1000);
    uint64_t b = clock_ticks();
    window_add_step(window, &shared, 5, a, b, 4711);
    window_add_step(window, &shared, 6, b, clock_ticks(), 0);
    struct trace t = flushed();
    const char *event = trace_event(&t, 'X', "ProfilerStep#5");
    ck_assert(trace_number(event, "tid") > 4194304);
    ck_assert(trace_number(event, "dur") > 900);
    ck_assert_uint_eq((unsigned)trace_number(event, "thread"), 4711);
    ck_assert_uint_eq(trace_named(&t, 'M', "thread_name"), 1);
    ck_assert_int_eq((int)trace_number(t.text, "last_step"), 6);
    trace_free(&t);
}
END_TEST

static const char *shown_as(const char *name)
{
    static char text[RANGE_NAME_ROOM + 1];
    char room[RANGE_NAME_ROOM];
    struct text shown = json_range_name((struct text){name, (uint32_t)strlen(name)}, room);
    memcpy(text, shown.at, shown.len);
    text[shown.len] = 0;
    return text;
}

START_TEST(renames_ranges_that_look_like_steps)
{
    ck_assert_str_eq(shown_as("ProfilerStep#31"), "torch.profiler step 31");
    ck_assert_str_eq(shown_as("ProfilerStep#"), "torch.profiler step ");
    ck_assert_str_eq(shown_as("ProfilerStep"), "ProfilerStep");
    ck_assert_str_eq(shown_as("a ProfilerStep#31"), "a ProfilerStep#31");
    ck_assert_str_eq(shown_as(""), "");
    char longest[300] = "ProfilerStep#";
    memset(longest + strlen(longest), 'x', sizeof longest - 1 - strlen(longest));
    ck_assert_uint_eq(strlen(shown_as(longest)), RANGE_NAME_ROOM);
}
END_TEST

START_TEST(step_like_ranges_are_steps_only_without_marks)
{
    window->markless = _i; /* without marks, torch's ranges are the only steps */
    add("ProfilerStep#7", clock_ticks(), clock_ticks());
    struct trace t = flushed();
    ck_assert_uint_eq(trace_named(&t, 'X', "ProfilerStep#7"), _i);
    ck_assert_uint_eq(trace_named(&t, 'X', "torch.profiler step 7"), !_i);
    trace_free(&t);
}
END_TEST

START_TEST(finish_names_the_file)
{
    static const struct {
        const char *name, *taken, *saved;
    } cases[] = {
        {"rank0.7.pt.trace.json", NULL, "rank0.7.pt.trace.json"},
        {"rank0.7.pt.trace.json", "rank0.7.pt.trace.json", "rank0.7-2.pt.trace.json"},
        {"a.b/trace", "trace", "trace-2"},
        {"x.json", "x.json", "x-2.json"},
    };
    char path[PATH_MAX], taken[256];
    snprintf(file_name, sizeof file_name, "%s", cases[_i].name);
    if (cases[_i].taken) {
        char made[200], command[512];
        path_of(NULL, made, sizeof made);
        snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s')\" && : >'%s'", made, made);
        ck_assert_int_eq(system(command), 0);
    }
    add("span", clock_ticks(), clock_ticks());
    window->end = clock_ticks();
    window_settle(window, &shared);
    ck_assert_int_eq(window_finish(window, &shared, path), 0);
    snprintf(taken, sizeof taken, "/%s", cases[_i].saved);
    ck_assert_ptr_nonnull(strstr(path, taken));
    ck_assert_int_eq((int)strlen(strstr(path, taken)), (int)strlen(taken));
    struct trace t = trace_read(path);
    ck_assert_uint_eq(trace_named(&t, 'X', "span"), 1);
    ck_assert_ptr_nonnull(strstr(t.text, "\"complete\": true"));
    trace_free(&t);
    ck_assert_int_ne(access(window->part_path, F_OK), 0);
}
END_TEST

/* ---- open spans ---- */

START_TEST(writes_and_settles_open_spans)
{
    struct thread_log *log = thread_log_self;
    span_open(log, &log, CAT_CPU_OP, "outer", 5);
    struct open_span *inner = span_open(log, log, CAT_CPU_OP, "inner", 5);
    span_set_node(inner, 9, 4);
    uint64_t id = atomic_load(&inner->id);
    ck_assert(window_has_open_spans(window));
    struct trace t = flushed();
    ck_assert_uint_eq(trace_count(&t, 'X', "\"finished\": \"false\""), 2);
    const char *event = trace_event(&t, 'X', "\"inner\"");
    ck_assert_int_eq((int)trace_number(event, "Sequence number"), 9);
    ck_assert_int_eq((int)trace_number(event, "Fwd thread id"), 4);
    trace_free(&t);

    span_close(log, log);
    t = flushed();
    ck_assert_uint_eq(trace_named(&t, 'X', "outer"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "inner"), 0); /* its record was not added yet */
    trace_free(&t);

    window_settle(window, &shared);
    span_close(log, &log);
    ck_assert(!window_has_open_spans(window));
    for (const struct record *r; (r = ring_peek(&log->ring, ring_head(&log->ring)));) {
        struct record_owner owner = thread_log_owner(log);
        window_add(window, &shared, &owner,
                   r); /* the settled window ignores the late record of the outer span */
        ring_take(&log->ring, r);
    }
    t = flushed();
    ck_assert_uint_eq(trace_named(&t, 'X', "inner"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "outer"), 1);
    ck_assert_uint_eq(trace_count(&t, 'X', "\"finished\": \"false\""), 1);
    ck_assert_int_eq((int)trace_number(t.text, "unfinished"), 1);
    trace_free(&t);
    ck_assert(!window_left_open(&window->open_ids, id));
}
END_TEST

START_TEST(drained_span_is_not_open)
{
    struct thread_log *log = thread_log_self;
    struct open_span *span = span_open(log, &log, CAT_CPU_OP, "outer", 5);
    ck_assert(window_has_open_spans(window));
    log->last_span = atomic_load(&span->id); /* committed and drained, but not popped */
    ck_assert(!window_has_open_spans(window));
}
END_TEST

START_TEST(ignores_open_spans_of_other_windows)
{
    struct thread_log *log = thread_log_self;
    window->end = clock_ticks();
    span_open(log, &log, CAT_CPU_OP, "later", 5);
    ck_assert(!window_has_open_spans(window));
    window->end = UINT64_MAX;
    window->from = window->start = clock_ticks();
    ck_assert(!window_has_open_spans(window));
    span_open(log, log, CAT_CPU_OP, "now", 3);
    ck_assert(window_has_open_spans(window));
}
END_TEST

static _Atomic bool over;

/* Spans nest up to ten deep. The name of a span at depth d is 1 to 90 letters 'a' + d. */
static void *open_and_close(void *number)
{
    struct thread_log *log = thread_log_get();
    char name[90];
    uint32_t random = (uint32_t)(uintptr_t)number, depth = 0;
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        random = random * 1664525 + 1013904223;
        if (depth < 10 && (random >> 16 & 1 || depth == 0)) {
            uint32_t len = 1 + (random >> 20) % 90;
            memset(name, 'a' + (int)depth, len);
            span_open(log, name + depth, CAT_CPU_OP, name, len);
            depth++;
        } else {
            span_close(log, name + --depth);
        }
        atomic_store_explicit(&log->ring.tail, ring_head(&log->ring), memory_order_release);
        if ((random >> 8) % 50 == 0)
            sched_yield();
    }
    return NULL;
}

/* Fails unless all events of the text are spans of open_and_close(), and the spans of each thread
 * go from outer to inner. */
static unsigned check_open(const struct buf *open)
{
    unsigned n = 0, last_tid = 0;
    char last = 0;
    const char *end = open->data + open->len;
    for (const char *at = open->data; at < end; n++) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        const char *name = strstr(at, "\"name\": \"") + 9;
        size_t len = strcspn(name, "\"");
        unsigned tid = (unsigned)trace_number(at, "tid");
        bool alike = len >= 1 && len <= 90 && name[0] >= 'a' && name[0] <= 'j';
        for (size_t i = 1; i < len; i++)
            alike = alike && name[i] == name[0];
        if (!alike || (tid == last_tid && name[0] <= last))
            ck_abort_msg("a span that no thread opened: %.*s", (int)(line_end - at), at);
        last = name[0];
        last_tid = tid;
        at = line_end + 1;
    }
    return n;
}

START_TEST(reads_open_spans_of_running_threads)
{
    enum { THREADS = 3, LOOKS = 3000 };
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, open_and_close, (void *)(i + 1)), 0);
    unsigned seen = 0;
    for (unsigned i = 0; i < LOOKS || seen < 1000; i++) {
        window_settle(window, &shared);
        buf_put(&window->open, "", 1);
        window->open.len--;
        seen += check_open(&window->open);
        if (i % 10 == 0)
            sched_yield();
    }
    atomic_store(&over, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}
END_TEST

/* Every flush rewrites the trailer, so the open file has many frames in some flushes only, also
 * without new events. The finished file has all frames. */
START_TEST(bounds_frames_in_the_open_file)
{
    enum { FEW = 100, MANY = 6000, EACH = 256 << 10 };
    ck_assert(stack_table_start(MANY));
    unsigned shown = 0, flushes = 40;
    for (uint32_t i = 0; i < FEW; i++)
        stacks_use(&window->stacks, stack_table_python(0, "/few.py", 7, "f", 1, (int32_t)i));
    struct trace t = flushed();
    ck_assert_ptr_nonnull(strstr(t.text, "\"stackFrames\": {"));
    trace_free(&t);
    for (uint32_t i = 0; i < MANY; i++)
        stacks_use(&window->stacks, stack_table_python(0, "/many.py", 8, "f", 1, (int32_t)i));
    ck_assert_uint_gt(window->stacks.bytes, 300000);
    t = flushed();
    ck_assert_ptr_null(strstr(t.text, "stackFrames"));
    trace_free(&t);
    for (unsigned i = 0; i < flushes; i++) {
        t = flushed();
        shown += strstr(t.text, "stackFrames") != NULL;
        trace_free(&t);
    }
    ck_assert_uint_ge(shown, flushes * EACH / window->stacks.bytes / 2);
    ck_assert_uint_le(shown * window->stacks.bytes, (flushes + 1) * EACH);
    char path[PATH_MAX];
    ck_assert_int_eq(window_finish(window, &shared, path), 0);
    t = trace_read(path);
    ck_assert_ptr_nonnull(strstr(t.text, "\"name\": \"/many.py(5999): f\"}\n},\n"));
    trace_free(&t);
}
END_TEST

/* While the cprof thread gets no processor, hundreds of windows may wait at once. */
START_TEST(small_window_takes_little_memory)
{
    enum { STEPS = 5, SPANS = 8, MOST = 96 << 10 };
    if (!alloc_is_ours)
        return;
    session_options.with_flops = true;
    session_options.summary_bytes = 64 << 20;
    struct losses none = {{0}};
    char path[PATH_MAX];
    struct record *r = record_new(REC_SPAN, CAT_CPU_OP, "aten::addmm", DATA_NONE, NULL, 0);
    struct record_owner owner = thread_log_owner(thread_log_self);
    add("first", clock_ticks(), clock_ticks()); /* allocates what all windows share */
    struct trace t = flushed();
    trace_free(&t);

    uint64_t before = alloc_bytes(); /* no ck_assert() while bytes are counted: it allocates */
    struct window *few = window_open(2, clock_ticks(), clock_ticks(), 5, &none);
    for (int step = 0; few && step < STEPS; step++) {
        uint64_t start = clock_ticks();
        for (int i = 0; i < SPANS; i++) {
            r->start = clock_ticks();
            r->end = clock_ticks();
            r->id++;
            window_add(few, &shared, &owner, r);
        }
        window_add_step(few, &shared, 5 + step, start, clock_ticks(), 0);
    }
    uint64_t waiting = alloc_bytes() - before;
    ck_assert_ptr_nonnull(few);
    window_close(few, &(struct step_edge){.ticks = clock_ticks()}, 1);
    window_settle(few, &shared);
    before = alloc_bytes();
    ck_assert_int_eq(window_finish(few, &shared, path), 0);
    uint64_t finishing = alloc_bytes() - before;
    window_free(few);
    free(r);
    ck_assert_uint_lt(waiting, MOST);
    ck_assert_uint_lt(finishing, MOST);
    t = trace_read(path);
    ck_assert_uint_eq(trace_named(&t, 'X', "aten::addmm"), STEPS * SPANS);
    trace_free(&t);
}
END_TEST

/* A part that a window could not allocate stays missing: a part created later would lack the
 * earlier records. */
START_TEST(part_without_memory_stays_missing)
{
    if (!alloc_is_ours)
        return;
    session_options.with_flops = true;
    session_options.summary_bytes = 1 << 20;
    capture_start();
    struct losses none = {{0}};
    alloc_fail_from(1); /* no ck_assert() while allocations fail: it allocates */
    const void *flops = window_flops(window, &shared), *summary = window_summary(window, &shared);
    const void *another = window_open(2, clock_ticks(), clock_ticks(), 7, &none);
    alloc_fail_from(0);
    ck_assert_ptr_null(another);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "the steps from 7 on are not recorded"), 1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "FLOPs of this trace are not counted"), 1);
    ck_assert_ptr_null(flops);
    ck_assert_ptr_null(summary);
    ck_assert_ptr_null(window_flops(window, &shared));
    ck_assert_ptr_null(window_summary(window, &shared));
    add("work", clock_ticks(), clock_ticks());
    struct trace t = flushed();
    ck_assert_ptr_nonnull(trace_event(&t, 'X', "work"));
    trace_free(&t);
}
END_TEST

Suite *suite_window(void)
{
    Suite *suite = suite_create("window");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_set_timeout(all, 60);
    tcase_add_test(all, takes_records_by_start_time);
    tcase_add_test(all, shifts_small_pids_of_containers);
    tcase_add_test(all, head_has_a_fixed_size);
    tcase_add_test(all, names_each_thread_once_per_window);
    tcase_add_test(all, steps_have_a_row_of_their_own);
    tcase_add_test(all, renames_ranges_that_look_like_steps);
    tcase_add_loop_test(all, step_like_ranges_are_steps_only_without_marks, 0, 2);
    tcase_add_loop_test(all, finish_names_the_file, 0, 4);
    tcase_add_test(all, writes_and_settles_open_spans);
    tcase_add_test(all, drained_span_is_not_open);
    tcase_add_test(all, ignores_open_spans_of_other_windows);
    tcase_add_test(all, reads_open_spans_of_running_threads);
    tcase_add_test(all, bounds_frames_in_the_open_file);
    tcase_add_test(all, small_window_takes_little_memory);
    tcase_add_test(all, part_without_memory_stays_missing);
    suite_add_tcase(suite, all);
    return suite;
}
