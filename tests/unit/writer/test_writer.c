/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/writer.h from the first edge to the exit line, with the real cprof thread and
 * real files: the contents of each file, and which records are kept, dropped or counted. */
#include "writer/writer.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/alloc.h"
#include "tests/support/capture.h"
#include "tests/support/session.h"
#include "writer/record/async.h"
#include "writer/record/thread_names.h"

/* ---- windows and files ----------------------------------------------------------------------- */

START_TEST(saves_one_window)
{
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE);
    for (unsigned i = 0; i < 1000; i++)
        session_span("span");
    session_instant("instant", 0);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("second");
    session_step(ACTION_SKIP);
    session_end();
    ck_assert_uint_eq(session_files(""), 1);
    struct trace t = session_trace(3);
    ck_assert_uint_eq(trace_named(&t, 'X', "span"), 1000);
    ck_assert_uint_eq(trace_named(&t, 'X', "second"), 1);
    ck_assert_uint_eq(trace_named(&t, 'i', "instant"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "ProfilerStep#1"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "ProfilerStep#2"), 1);
    ck_assert_uint_eq(trace_count(&t, 'X', NULL), 1003);
    ck_assert_int_eq((int)trace_number(t.text, "records"), 1002);
    ck_assert_int_eq((int)trace_number(t.text, "events"), 1004);
    ck_assert_ptr_nonnull(strstr(t.text, "\"complete\": true, \"partial\": false"));
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
    const char *said = capture_stderr();
    ck_assert_uint_eq(capture_lines(said, ""), 1);
    ck_assert_uint_eq(capture_lines(said, "cprof: rank 0: 1 trace, 1,004 events, 0 lost: /tmp/"),
                      1);
    ck_assert_str_eq(capture_stdout(), "");
    writer_finish(); /* a second call has no effect */
    ck_assert_uint_eq(capture_lines(capture_stderr(), ""), 1);
}
END_TEST

START_TEST(drops_records_outside_the_window_silently)
{
    session_start(ACTION_SKIP, false);
    session_span("before"); /* as from a thread that read the gate too late */
    session_open("across");
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("inside");
    session_close("across");
    session_step(ACTION_SKIP);
    session_span("after");
    session_instant("after", 0);
    session_end();
    session_span("much later");
    struct trace t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'X', "inside"), 1);
    ck_assert_uint_eq(trace_count(&t, 'X', NULL), 2);
    ck_assert_uint_eq(trace_count(&t, 'i', NULL), 0);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

/* Another thread, whose span begins and ends when the test reaches the barrier. */
static struct {
    pthread_t thread;
    pthread_barrier_t barrier;
} other;

static void *open_at_barrier(void *unused)
{
    pthread_barrier_wait(&other.barrier);
    session_open("across");
    pthread_barrier_wait(&other.barrier);
    pthread_barrier_wait(&other.barrier);
    session_close("across");
    pthread_barrier_wait(&other.barrier);
    return unused;
}

static void start_other(void)
{
    pthread_barrier_init(&other.barrier, NULL, 2);
    ck_assert_int_eq(pthread_create(&other.thread, NULL, open_at_barrier, NULL), 0);
}

START_TEST(span_belongs_to_the_window_where_it_starts)
{
    start_other();
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    pthread_barrier_wait(&other.barrier);
    pthread_barrier_wait(&other.barrier);
    session_step(ACTION_ACTIVE_AND_SAVE); /* the next window follows at once */
    session_span("second");
    session_sleep(100);
    pthread_barrier_wait(&other.barrier);
    pthread_barrier_wait(&other.barrier);
    pthread_join(other.thread, NULL);
    session_step(ACTION_SKIP);
    session_end();
    struct trace first = session_trace(2), second = session_trace(3);
    const char *event = trace_event(&first, 'X', "across");
    ck_assert_ptr_nonnull(event);
    ck_assert(trace_number(event, "dur") > 90000);
    ck_assert_ptr_null(strstr(event, "finished"));
    ck_assert_uint_eq(trace_named(&first, 'X', "across"), 1);
    ck_assert_uint_eq(trace_named(&first, 'X', "second"), 0);
    ck_assert_uint_eq(trace_named(&second, 'X', "across"), 0);
    ck_assert_uint_eq(trace_named(&second, 'X', "second"), 1);
    ck_assert_int_eq((int)trace_number(first.text, "unfinished"), 0);
    trace_free(&first);
    trace_free(&second);
}
END_TEST

/* Adds one input, True, to an open span. */
static void add_input(struct open_span *span)
{
    struct thread_log *log = thread_log_get();
    *span_data_room(log, span, 1) = SHAPE_TRUE;
    span_data_done(log, span, DATA_SHAPES, 1);
}

START_TEST(open_span_ends_unfinished_with_its_window)
{
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    add_input(session_open("forever"));
    session_span("inside");
    session_sleep(20);
    session_step(ACTION_SKIP);
    for (unsigned i = 0; i < 100 && session_files("t2.json") != session_files(""); i++)
        session_sleep(50);
    session_sleep(700);
    session_close("forever"); /* long after the window's file was written */
    session_end();
    struct trace t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'X', "forever"), 1);
    const char *event = trace_event(&t, 'X', "forever");
    ck_assert_ptr_nonnull(strstr(event, "\"finished\": \"false\""));
    ck_assert_ptr_nonnull(strstr(event, "\"Concrete Inputs\": [\"True\"]"));
    double dur = trace_number(event, "dur");
    ck_assert(dur > 15000 && dur < 500000); /* up to the end of the window, not to the flush */
    ck_assert_int_eq((int)trace_number(t.text, "unfinished"), 1);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
    ck_assert_uint_eq(capture_lines(capture_stderr(), " 0 lost"), 1);
}
END_TEST

START_TEST(exit_marks_open_spans_unfinished)
{
    char name[3000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    session_start(ACTION_ACTIVE, false);
    session_open("outer");
    session_open(name);
    session_end();
    struct trace t = session_trace(0);
    ck_assert_uint_eq(trace_count(&t, 'X', "\"finished\": \"false\""), 2);
    ck_assert_uint_eq(trace_named(&t, 'X', "outer"), 1);
    ck_assert_uint_eq(trace_count(&t, 'X', "\"nnnnnnnnnnnnnnnnnnnnnnnnnn"), 1); /* shortened */
    ck_assert_ptr_nonnull(strstr(t.text, "\"partial\": true"));
    trace_free(&t);
}
END_TEST

START_TEST(empty_window_leaves_no_file)
{
    session_start(ACTION_ACTIVE, false);
    session_end();
    ck_assert_uint_eq(session_files(""), 0);
    ck_assert_str_eq(capture_stderr(), "");
}
END_TEST

/* ---- before the first window ----------------------------------------------------------------- */

START_TEST(warmup_markers_enter_the_next_window)
{
    bool twice = _i == 1;
    session_start(ACTION_SKIP, false);
    session_instant("skipped", REC_MARKER);
    session_step(ACTION_WARMUP);
    session_instant("first", REC_MARKER);
    session_span("operator"); /* not a marker */
    span_add_flags(session_open("marker"), REC_MARKER);
    session_close("marker");
    if (twice) {
        session_step(ACTION_WARMUP);
        session_instant("second", REC_MARKER);
    }
    span_add_flags(session_open("open marker"), REC_MARKER);
    session_open("open operator");
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_instant("inside", 0);
    session_step(ACTION_WARMUP);
    session_instant("of the next", REC_MARKER);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(twice ? 4 : 3);
    ck_assert_uint_eq(trace_named(&t, 'i', "skipped"), 0);
    ck_assert_uint_eq(trace_named(&t, 'i', "first"), 1);
    ck_assert_uint_eq(trace_named(&t, 'i', "second"), twice);
    ck_assert_uint_eq(trace_named(&t, 'X', "marker"), 1);
    ck_assert_uint_eq(trace_named(&t, 'i', "inside"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "operator"), 0);
    ck_assert_uint_eq(trace_named(&t, 'X', "open operator"), 0); /* nor an unfinished span */
    ck_assert_uint_eq(trace_named(&t, 'X', "open marker"), 1);
    ck_assert_uint_eq(trace_named(&t, 'i', "of the next"), 0);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
    t = session_trace(twice ? 6 : 5);
    ck_assert_uint_eq(trace_named(&t, 'i', "of the next"), 1);
    ck_assert_uint_eq(trace_named(&t, 'i', "inside"), 0);
    trace_free(&t);
}
END_TEST

/* In the loop's second run the warmup step is step 0, which is kept until the first step mark: in a
 * program without marks it becomes the trace. */
START_TEST(drops_tasks_of_warmup_steps)
{
    bool first = _i == 1;
    session_start(first ? ACTION_WARMUP : ACTION_SKIP, first);
    if (!first)
        session_step(ACTION_WARMUP);
    session_instant("mark", REC_MARKER);
    span_add_flags(session_open("early task"), REC_MARKER | REC_TASK);
    session_close("early task");
    uint64_t ended = async_open(thread_log_get(), CAT_USER_ANNOTATION, REC_MARKER | REC_TASK,
                                "early overlapped", 16, NULL, 0);
    ck_assert(async_close(thread_log_get(), ended));
    span_add_flags(session_open("open task"), REC_MARKER | REC_TASK);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_close("open task");
    span_add_flags(session_open("task"), REC_MARKER | REC_TASK);
    session_close("task");
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(first ? 2 : 3);
    ck_assert_uint_eq(trace_named(&t, 'i', "mark"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "early task"), 0);
    ck_assert_uint_eq(trace_named(&t, 'b', "early overlapped"), 0);
    ck_assert_uint_eq(trace_named(&t, 'X', "open task"), 0); /* began in the warmup step */
    ck_assert_uint_eq(trace_named(&t, 'X', "task"), 1);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

START_TEST(program_without_marks_saves_step_0)
{
    session_start(_i == 0 ? ACTION_SKIP : ACTION_WARMUP, true);
    for (unsigned i = 0; i < 500; i++)
        session_span("kept");
    session_instant("marker", REC_MARKER);
    span_add_flags(session_open("task"), REC_MARKER | REC_TASK);
    session_close("task");
    session_open("open");
    session_sleep(50); /* the cprof thread takes some records before the end */
    session_span("kept");
    session_end();
    struct trace t = session_trace(0);
    ck_assert_uint_eq(trace_named(&t, 'X', "kept"), 501);
    ck_assert_uint_eq(trace_named(&t, 'i', "marker"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "task"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "open"), 1);
    ck_assert_ptr_nonnull(strstr(t.text, "\"marked\": false"));
    ck_assert_ptr_nonnull(strstr(t.text, "\"partial\": false"));
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "no step was marked"), 1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "503 events, 0 lost"), 1);
}
END_TEST

static struct saved_trace saved;
static char saved_path[PATH_MAX];
static bool saved_whole;

static void keep_saved(const struct saved_trace *trace)
{
    saved = *trace;
    strcpy(saved_path, trace->path);
    saved_whole = access(trace->path, R_OK) == 0;
}

START_TEST(reports_a_saved_trace)
{
    session_options.trace_ready = keep_saved;
    session_start(ACTION_ACTIVE, false);
    session_span("first");
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_step(ACTION_SKIP);
    session_end();
    ck_assert(saved_whole);
    ck_assert(strncmp(saved_path, session_folder, strlen(session_folder)) == 0);
    ck_assert_ptr_nonnull(strstr(saved_path, "/t2.json"));
    ck_assert_int_eq(saved.first_step, 0);
    ck_assert_int_eq(saved.last_step, 1);
    ck_assert_uint_gt(saved.events, 0);
    ck_assert_uint_eq(saved.lost, 0);
    ck_assert(!saved.partial && !saved.markless);
}
END_TEST

START_TEST(first_mark_discards_step_0)
{
    bool warm = _i == 1; /* the schedule warms up in step 0, so its markers stay */
    session_start(warm ? ACTION_WARMUP : ACTION_SKIP, true);
    session_span("operator");
    session_instant("marker", REC_MARKER);
    session_open("range");
    session_sleep(_i == 1 ? 50 : 0);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("inside");
    session_close("range");
    session_step(ACTION_SKIP);
    session_end();
    ck_assert_uint_eq(session_files(""), 1);
    struct trace t = session_trace(2);
    ck_assert_uint_eq(trace_named(&t, 'X', "inside"), 1);
    ck_assert_uint_eq(trace_named(&t, 'X', "operator"), 0);
    ck_assert_uint_eq(trace_named(&t, 'X', "range"), 0);
    ck_assert_uint_eq(trace_named(&t, 'i', "marker"), warm);
    ck_assert_ptr_nonnull(strstr(t.text, "\"marked\": true"));
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

/* Records before the first mark go to disk after a second, into a file with a separate name. */
START_TEST(writes_step_0_to_disk_after_a_second)
{
    char path[PATH_MAX];
    session_start(ACTION_SKIP, true);
    session_span("early");
    session_sleep(50);
    ck_assert_uint_eq(session_files(""), 0);
    session_await(".part", 1);
    snprintf(path, sizeof path, "%s/prestep.%d.part", session_folder, (int)getpid());
    struct trace t = trace_read_open(path);
    /* on a busy machine the file may be written before the span comes */
    for (int ms = 0; ms < 10000 && trace_named(&t, 'X', "early") == 0; ms += 10) {
        trace_free(&t);
        usleep(10000);
        t = trace_read_open(path);
    }
    ck_assert_uint_eq(trace_named(&t, 'X', "early"), 1);
    ck_assert_ptr_nonnull(strstr(t.text, "\"marked\": false"));
    ck_assert_ptr_nonnull(strstr(t.text, "\"complete\": false"));
    trace_free(&t);
    if (_i == 0) {
        session_step(ACTION_SKIP);
        session_await(".part", 0); /* the first mark removes it */
        session_end();
        ck_assert_uint_eq(session_files(""), 0);
        return;
    }
    session_span("late");
    session_end();
    ck_assert_uint_eq(session_files(""), 1);
    t = session_trace(0);
    ck_assert_uint_eq(trace_named(&t, 'X', "early") + trace_named(&t, 'X', "late"), 2);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

/* Rows keep their names when the oldest half of the file is dropped. */
START_TEST(step_0_drops_its_oldest_half_when_full)
{
    enum { MOST = 400000, MADE = 20000 };
    char path[PATH_MAX];
    struct stat st;
    session_options.held_bytes = MOST;
    session_start(ACTION_SKIP, true);
    snprintf(path, sizeof path, "%s/prestep.%d.part", session_folder, (int)getpid());
    off_t largest = 0;
    for (unsigned made = 0; made < MADE; made++) {
        session_span(made == 0 ? "first" : made == MADE - 1 ? "last" : "kept");
        if (made % 100 == 0) {
            session_sleep(1);
            largest = stat(path, &st) == 0 && st.st_size > largest ? st.st_size : largest;
        }
    }
    session_end();
    ck_assert_int_gt(largest, MOST / 2);
    ck_assert_int_le(largest, MOST + 10000); /* room for the trailer */
    struct trace t = session_trace(0);
    unsigned kept = trace_named(&t, 'X', "kept") + 1;
    ck_assert_uint_gt(kept, 500);
    ck_assert_uint_eq(trace_named(&t, 'X', "first"), 0);
    ck_assert_uint_eq(trace_named(&t, 'X', "last"), 1);
    ck_assert_uint_ge(trace_named(&t, 'M', "thread_name"), 1);
    trace_check_lost(&t, "before_first_step_full", MADE - kept);
    trace_check_lost(&t, "total", MADE - kept);
    ck_assert_ptr_nonnull(strstr(t.text, "more came before the first step mark than is kept"));
    ck_assert_uint_eq(capture_lines(capture_stderr(), "the trace holds only the end of the run"),
                      1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "holds the whole run"), 0);
    trace_free(&t);
}
END_TEST

static void *span_in_short_thread(void *name)
{
    session_span(name);
    return NULL;
}

START_TEST(records_of_step_0_keep_their_thread)
{
    session_start(ACTION_SKIP, true);
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    for (unsigned i = 0; i < 6; i++) { /* each thread reuses the log of the previous thread */
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, span_in_short_thread, (void *)names[i]), 0);
        pthread_join(thread, NULL);
        session_sleep(60);
    }
    session_end();
    struct trace t = session_trace(0);
    double tids[6];
    for (unsigned i = 0; i < 6; i++) {
        char part[32];
        snprintf(part, sizeof part, "\"name\": \"%s\"", names[i]);
        tids[i] = trace_number(trace_event(&t, 'X', part), "tid");
        ck_assert(tids[i] > 0);
        for (unsigned k = 0; k < i; k++)
            ck_assert(tids[k] != tids[i]);
    }
    trace_free(&t);
}
END_TEST

static void *marker_of_a_named_thread(void *log)
{
    *(struct thread_log **)log = thread_log_get();
    writer_name_thread(atomic_load(&thread_log_self->tid), "worker", 6);
    session_instant("mark", REC_MARKER);
    return NULL;
}

/* The name is kept until the window that gets the thread's markers, and no longer: another thread
 * may get the same thread id. */
START_TEST(thread_that_ended_in_warmup_keeps_its_name)
{
    struct thread_log *log = NULL;
    struct thread_name found;
    pthread_t thread;
    session_start(ACTION_SKIP, false);
    session_step(ACTION_WARMUP);
    ck_assert_int_eq(pthread_create(&thread, NULL, marker_of_a_named_thread, &log), 0);
    pthread_join(thread, NULL);
    uint32_t tid = atomic_load(&log->tid);
    for (unsigned i = 0; i < 1000 && atomic_load(&log->state) != THREAD_FREE; i++)
        session_sleep(10);
    ck_assert_int_eq(atomic_load(&log->state), THREAD_FREE);
    ck_assert(thread_names_find(tid, &found));
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_step(ACTION_SKIP);
    session_end();
    ck_assert(!thread_names_find(tid, &found));
    struct trace t = session_trace(3);
    ck_assert_uint_eq(trace_named(&t, 'i', "mark"), 1);
    ck_assert_ptr_nonnull(strstr(t.text, "{\"name\": \"worker\"}"));
    trace_free(&t);
}
END_TEST

/* ---- texts ----------------------------------------------------------------------------------- */

START_TEST(writes_metadata_and_notes)
{
    session_start(ACTION_ACTIVE, false);
    ck_assert(writer_metadata("model", "\"first\""));
    ck_assert(writer_metadata("model", "\"re\\\"snet\""));
    ck_assert(writer_metadata("a \"key\"\n", "{\"x\": [1, 2]}"));
    writer_note("operators are \"off\"");
    for (unsigned i = 0; i < 30; i++)
        writer_note("again");
    session_span("span");
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_span("span");
    session_step(ACTION_SKIP);
    session_end();
    for (int64_t batch = 2; batch <= 3; batch++) {
        struct trace t = session_trace(batch);
        ck_assert_ptr_nonnull(strstr(t.text, "\"model\": \"re\\\"snet\",\n"));
        ck_assert_ptr_null(strstr(t.text, "first\""));
        ck_assert_ptr_nonnull(strstr(t.text, "\"a \\\"key\\\"\\n\": {\"x\": [1, 2]},\n"));
        ck_assert_ptr_nonnull(
            strstr(t.text, "\"notes\": [\"operators are \\\"off\\\"\", \"again\""));
        trace_free(&t);
    }
    char key[32];
    unsigned taken = 2;
    for (unsigned i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "key %u", i);
        taken += writer_metadata(key, "1");
    }
    ck_assert_uint_eq(taken, 64);
    ck_assert(writer_metadata("model", "2"));
}
END_TEST

static void identify(struct trace_identity *out)
{
    *out = (struct trace_identity){.rank = 3,
                                   .local_rank = 1,
                                   .world_size = 16,
                                   .local_world_size = 2,
                                   .node_rank = 1,
                                   .backend = "nccl",
                                   .source = "torchrun"};
}

START_TEST(writes_the_head)
{
    session_options.identity = identify;
    session_options.record_shapes = true;
    session_options.profile_memory = true;
    session_start(ACTION_ACTIVE, false);
    session_span("span");
    session_end();
    struct trace t = session_trace(0);
    ck_assert_ptr_nonnull(strstr(t.text, "\n\"rank\": 3,\n\"world_size\": 16,\n"));
    ck_assert_ptr_nonnull(strstr(t.text, "\"backend\": \"nccl\""));
    ck_assert_ptr_nonnull(strstr(t.text, "\"rank_from\": \"torchrun\""));
    ck_assert_ptr_nonnull(strstr(t.text, "\"record_shapes\": 1"));
    ck_assert_ptr_nonnull(strstr(t.text, "\"profile_memory\": 1"));
    ck_assert_ptr_null(strstr(t.text, "with_stack"));
    ck_assert(trace_number(t.text, "baseTimeNanoseconds") > 1.6e18);
    trace_free(&t);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "rank 3: 1 trace"), 1);
}
END_TEST

/* ---- arrows ---------------------------------------------------------------------------------- */

static void operator(const char *name, int64_t sequence, uint64_t forward_thread, uint8_t flags)
{
    struct open_span *span =
        span_open(thread_log_get(), name, CAT_CPU_OP, name, (uint32_t)strlen(name));
    span_set_node(span, sequence, forward_thread);
    span_add_flags(span, flags);
    session_close(name);
}

START_TEST(draws_arrows_to_backward_operators)
{
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    atomic_store(&thread_log_get()->torch_thread, 1);
    operator("forward", 5, 0, 0);
    operator("no node", -1, 0, 0);
    operator("range", 5, 1, REC_BORROWED);
    operator("backward", 5, 1, 0);
    operator("of another thread", 5, 2, 0);
    operator("of another number", 6, 1, 0);
    session_step(ACTION_ACTIVE_AND_SAVE);
    operator("backward", 5, 1, 0); /* the forward operator is in the other file */
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(1);
    ck_assert_uint_eq(trace_count(&t, 's', NULL), 1);
    ck_assert_uint_eq(trace_count(&t, 'f', NULL), 1);
    double id = trace_number(trace_event(&t, 's', NULL), "id");
    ck_assert(id == trace_number(trace_event(&t, 'f', NULL), "id"));
    ck_assert(id == trace_number(trace_event(&t, 'X', "backward\""), "External id"));
    trace_free(&t);
    t = session_trace(2);
    ck_assert_uint_eq(trace_count(&t, 's', NULL) + trace_count(&t, 'f', NULL), 0);
    trace_free(&t);
}
END_TEST

Suite *suite_writer(void)
{
    Suite *suite = suite_create("writer");
    TCase *files = tcase_create("files");
    tcase_add_checked_fixture(files, session_setup, session_teardown);
    tcase_set_timeout(files, 60);
    tcase_add_test(files, saves_one_window);
    tcase_add_test(files, drops_records_outside_the_window_silently);
    tcase_add_test(files, span_belongs_to_the_window_where_it_starts);
    tcase_add_test(files, open_span_ends_unfinished_with_its_window);
    tcase_add_test(files, exit_marks_open_spans_unfinished);
    tcase_add_test(files, empty_window_leaves_no_file);
    tcase_add_loop_test(files, warmup_markers_enter_the_next_window, 0, 2);
    tcase_add_loop_test(files, drops_tasks_of_warmup_steps, 0, 2);
    tcase_add_test(files, reports_a_saved_trace);
    tcase_add_loop_test(files, program_without_marks_saves_step_0, 0, 2);
    tcase_add_loop_test(files, first_mark_discards_step_0, 0, 2);
    tcase_add_loop_test(files, writes_step_0_to_disk_after_a_second, 0, 2);
    tcase_add_test(files, step_0_drops_its_oldest_half_when_full);
    tcase_add_test(files, records_of_step_0_keep_their_thread);
    tcase_add_test(files, thread_that_ended_in_warmup_keeps_its_name);
    tcase_add_test(files, writes_metadata_and_notes);
    tcase_add_test(files, writes_the_head);
    tcase_add_test(files, draws_arrows_to_backward_operators);
    suite_add_tcase(suite, files);
    return suite;
}
