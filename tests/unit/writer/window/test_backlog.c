/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/window/backlog.h: data that waits to be written is limited, and each step is in a
 * trace or counted as lost. */
#include "writer/writer.h"

#include <check.h>
#include <glob.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/alloc.h"
#include "tests/support/capture.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/session.h"

/* ---- a slow disk ----
 * Only at full speed does the program outrun the slow disk. These tests, which use one thread, are
 * skipped with a sanitizer or valgrind. */

#define WRITE_US    10000
#define WRITE_STEPS 8 /* on a slow machine a write lasts this many steps of the test */

static _Atomic bool slow;
static _Atomic unsigned made; /* steps of the test; 0: not counted */
static _Atomic long most_kb;
static _Atomic bool is_full; /* the test waits until the cprof thread has read records */

/* Anonymous resident memory of this process in KB. */
static long own_kb(void)
{
    char line[256];
    long kb = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "RssAnon: %ld", &kb) != 1)
        ;
    if (f)
        fclose(f);
    return kb;
}

/* Called by the cprof thread in each flush. */
static void write_slowly(struct trace_identity *out)
{
    *out = (struct trace_identity){.world_size = 1};
    if (!atomic_load(&slow))
        return;
    long kb = own_kb();
    if (kb > atomic_load(&most_kb))
        atomic_store(&most_kb, kb);
    unsigned before = atomic_load(&made);
    usleep(WRITE_US);
    for (int ms = 0; ms < 5000 && before && atomic_load(&slow) && !atomic_load(&is_full) &&
                     atomic_load(&made) < before + WRITE_STEPS;
         ms++)
        usleep(1000);
}

static void setup(void)
{
    session_setup();
    session_options.identity = write_slowly;
    atomic_store(&slow, true);
}

/* On a busy machine the cprof thread may not run before the ring is full. Then the windows would
 * have no records, and take no memory. */
static void wait_for_room(void)
{
    struct ring *ring = &thread_log_get()->ring;
    while (atomic_load(&ring->head) - atomic_load(&ring->tail) > ring->slots / 2) {
        atomic_store(&is_full, true);
        usleep(1000);
    }
    atomic_store(&is_full, false);
}

static void spans(unsigned n)
{
    for (unsigned k = 0; k < n; k++)
        session_span("span");
}

/* Makes an edge of any kind. Each edge has its own batch, so each trace its own name. */
static void edge(enum edge_kind kind, enum action ended, enum action begun, bool kept, bool keep)
{
    static int64_t step, batch;
    bool records = kind != EDGE_LAST && kind != EDGE_STOP && (begun >= ACTION_ACTIVE || keep);
    struct step_edge e = {.kind = kind, .ended = ended, .begun = begun, .kept = kept, .keep = keep};
    writer_edge_begin();
    e.step = step += kind == EDGE_STEP;
    e.ticks = clock_ticks();
    e.time.batch = ++batch;
    writer_set_gate(records ? SESSION_GATE : 0);
    writer_edge(&e);
    atomic_fetch_add(&made, 1);
}

/* Counts the traces in the folder. *behind receives the sum of their dropped steps. */
static unsigned traces(unsigned *behind)
{
    char pattern[160];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*.json", session_folder);
    ck_assert_int_eq(glob(pattern, 0, NULL, &found), 0);
    unsigned n = (unsigned)found.gl_pathc;
    for (unsigned i = *behind = 0; i < n; i++) {
        struct trace t = trace_read(found.gl_pathv[i]);
        *behind += (unsigned)trace_number(strstr(t.text, "\"steps_behind\""), "steps_behind");
        trace_free(&t);
    }
    globfree(&found);
    return n;
}

static void check_limit(long before_kb, long most)
{
    ck_assert_uint_eq(capture_lines(capture_stderr(), "wait to be written"), 1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), " events, at least "), 1);
    ck_assert_int_lt(atomic_load(&most_kb) - before_kb, most);
}

/* Large windows, and small windows, of which each has a fixed cost; plain and gzip. */
START_TEST(limits_waiting_windows)
{
    if (!alloc_is_ours)
        return;
    static const struct {
        unsigned steps, spans, pace_us;
        bool gzip;
    } cases[] = {{600, 1000, 5000, false}, {1200, 20, 2000, false}, {1200, 20, 2000, true}};
    session_options.gzip = cases[_i].gzip;
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    long before_kb = own_kb();
    for (unsigned i = 0; i < cases[_i].steps; i++) {
        wait_for_room();
        spans(cases[_i].spans);
        usleep(cases[_i].pace_us);
        session_step(i < cases[_i].steps - 1 ? ACTION_ACTIVE_AND_SAVE : ACTION_SKIP);
        atomic_fetch_add(&made, 1);
    }
    atomic_store(&slow, false);
    session_end();
    if (!cases[_i].gzip) {
        unsigned behind, n = traces(&behind);
        ck_assert_uint_gt(behind, 0);
        ck_assert_uint_eq(n + behind, cases[_i].steps); /* no step is missing */
    }
    check_limit(before_kb, 56 << 10);
}
END_TEST

/* Each epoch has one step and is a window. After a dropped epoch the next window begins with the
 * next epoch. */
START_TEST(saves_later_epochs_after_dropped_ones)
{
    if (!alloc_is_ours)
        return;
    enum { EPOCHS = 400, AFTER = 20 };
    session_prepare();
    long before_kb = own_kb();
    edge(EDGE_FIRST, ACTION_SKIP, ACTION_ACTIVE, false, false);
    unsigned written = 0, behind;
    for (unsigned i = 0; i < EPOCHS + AFTER; i++) {
        if (i == EPOCHS) {
            ck_assert_uint_eq(capture_lines(capture_stderr(), "wait to be written"), 1);
            atomic_store(&slow, false);
            for (uint64_t mark = writer_mark(); !writer_saved(mark);)
                session_sleep(10);
            written = traces(&behind);
        }
        wait_for_room();
        spans(1000);
        usleep(5000);
        edge(EDGE_STEP, ACTION_ACTIVE, ACTION_ACTIVE, false, false);
        edge(EDGE_EPOCH, ACTION_ACTIVE, ACTION_ACTIVE, false, false);
    }
    edge(EDGE_LAST, ACTION_ACTIVE, ACTION_SKIP, false, false);
    writer_finish();
    unsigned n = traces(&behind), lost = 0;
    ck_assert_uint_ge(n, written + AFTER - 1);
    /* Only the exit line counts steps that were dropped while no window was open. */
    ck_assert_int_eq(sscanf(strstr(capture_stderr(), "at least "), "at least %u lost", &lost), 1);
    ck_assert_uint_ge(lost, behind);
    ck_assert_uint_eq(n + lost, EPOCHS + AFTER);
    check_limit(before_kb, 56 << 10);
}
END_TEST

/* Regions of a program without steps. */
START_TEST(counts_dropped_regions)
{
    if (!alloc_is_ours)
        return;
    enum { REGIONS = 1000 };
    session_prepare();
    long before_kb = own_kb();
    edge(EDGE_FIRST, ACTION_SKIP, ACTION_SKIP, false, false);
    for (unsigned i = 0; i < REGIONS; i++) {
        edge(EDGE_START, ACTION_SKIP, ACTION_SKIP, false, true);
        spans(40);
        usleep(2000);
        edge(EDGE_STOP, ACTION_SKIP, ACTION_SKIP, true, true);
    }
    atomic_store(&slow, false);
    edge(EDGE_LAST, ACTION_SKIP, ACTION_SKIP, false, false);
    writer_finish();
    unsigned behind, n = traces(&behind);
    ck_assert_uint_eq(n + behind, REGIONS);
    check_limit(before_kb, 56 << 10);
}
END_TEST

/* A kernel that runs for seconds holds CUPTI's buffer back. Windows that wait for the buffer are
 * written except for their ends, so they are no backlog. */
START_TEST(windows_waiting_for_a_kernel_are_not_dropped)
{
    enum { STEPS = 12, SPANS = 25000 };
    atomic_store(&slow, false);
    session_options.gpu = &fake_gpu_source;
    session_options.ring_bytes = 16u << 20;
    atomic_store(&fake_gpu.since, 0);
    atomic_store(&fake_gpu.kept_back, true);
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    for (unsigned i = 0; i < STEPS; i++) {
        spans(SPANS);
        session_sleep(300);
        session_step(i < STEPS - 1 ? ACTION_ACTIVE_AND_SAVE : ACTION_SKIP);
    }
    atomic_store(&fake_gpu.kept_back, false);
    session_end();
    ck_assert_uint_eq(session_files(".json"), STEPS);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "wait to be written"), 0);
}
END_TEST

/* ---- lost records and edges ---- */

/* All records of a region were lost, so it has no file. A message reports the region, and the exit
 * line counts the records. */
START_TEST(counts_losses_of_a_window_without_file)
{
    atomic_store(&slow, false);
    session_options.ring_bytes = 4096;
    session_prepare();
    edge(EDGE_FIRST, ACTION_SKIP, ACTION_SKIP, false, false);
    edge(EDGE_START, ACTION_SKIP, ACTION_SKIP, false, true);
    spans(3);
    edge(EDGE_STOP, ACTION_SKIP, ACTION_SKIP, true, true);
    session_await(".json", 1);
    session_await(".part", 0);
    edge(EDGE_START, ACTION_SKIP, ACTION_SKIP, false, true);
    static const char data[2000];
    for (int i = 0; i < 5; i++)
        emit_instant(thread_log_get(), CAT_USER_ANNOTATION, REC_MARKER, "x", 1, DATA_ARGS, data,
                     sizeof data, NULL);
    edge(EDGE_STOP, ACTION_SKIP, ACTION_SKIP, true, true);
    edge(EDGE_LAST, ACTION_SKIP, ACTION_SKIP, false, false);
    writer_finish();
    ck_assert_uint_eq(session_files(""), 1);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "leaves no trace: all 5 records"), 1);
    ck_assert_msg(capture_lines(capture_stderr(), "1 trace, 3 events, 5 lost") == 1, "%s",
                  capture_stderr());
}
END_TEST

/* The numbers after "at least" (or before "lost") and after "(thread N lost". */
static void exit_line_lost(uint64_t *total, uint64_t *of_thread)
{
    const char *keys[] = {" events, ", " lost "};
    uint64_t n[2] = {0};
    for (int i = 0; i < 2; i++) {
        const char *at = strstr(capture_stderr(), keys[i]);
        ck_assert_msg(at != NULL, "%s", capture_stderr());
        at += strlen(keys[i]);
        at += strncmp(at, "at least ", 9) == 0 ? 9 : 0;
        for (; (*at >= '0' && *at <= '9') || (*at == ',' && at[1] != ' '); at++)
            n[i] = *at == ',' ? n[i] : 10 * n[i] + (uint64_t)(*at - '0');
    }
    *total = n[0];
    *of_thread = n[1];
}

/* The sum at exit includes the records that a thread lost in dropped steps. */
START_TEST(counts_losses_of_dropped_steps)
{
    if (!alloc_is_ours)
        return;
    session_options.ring_bytes = 512 << 10;
    session_start(ACTION_ACTIVE_AND_SAVE, false);
    enum { STEPS = 300, LOSING = 10 };
    for (unsigned i = 0; i < STEPS + LOSING; i++) {
        wait_for_room();
        spans(i < STEPS ? 1000 : 8000);
        usleep(5000);
        session_step(i < STEPS + LOSING - 1 ? ACTION_ACTIVE_AND_SAVE : ACTION_SKIP);
        atomic_fetch_add(&made, 1);
    }
    atomic_store(&slow, false);
    session_end();
    ck_assert_uint_eq(capture_lines(capture_stderr(), "wait to be written"), 1);
    uint64_t total, of_thread;
    exit_line_lost(&total, &of_thread);
    ck_assert_uint_gt(of_thread, 0);
    ck_assert_uint_gt(total, of_thread); /* includes the steps themselves */
}
END_TEST

/* No sum includes the losses of a step 0 that is discarded. */
START_TEST(ignores_losses_of_a_discarded_step_0)
{
    enum { BEFORE = 5000, AFTER = 3 };
    atomic_store(&slow, false);
    session_start(ACTION_SKIP, true);
    session_sleep(100); /* the cprof thread has read the edge */
    thread_log_lost(thread_log_get(), LOSS_DEPTH, BEFORE);
    session_step(ACTION_ACTIVE_AND_SAVE);
    session_sleep(100);
    spans(1);
    thread_log_lost(thread_log_get(), LOSS_DEPTH, AFTER);
    session_step(ACTION_SKIP);
    session_end();
    uint64_t total, of_thread;
    exit_line_lost(&total, &of_thread);
    ck_assert_uint_eq(total, AFTER);
    ck_assert_uint_eq(of_thread, AFTER);
}
END_TEST

/* Step 0 holds more driver memory than may wait at once, and a ring fills up while step 0 becomes
 * the trace. If the cprof thread drained rings inside the last edge, it would take the edge
 * again. */
START_TEST(takes_an_edge_once)
{
    enum { MEMORIES = 24000, AT_ONCE = 4000, SPANS = 1500 };
    atomic_store(&slow, false);
    session_options.ring_bytes = 256 << 10;
    session_options.gpu = &fake_gpu_source;
    atomic_store(&fake_gpu.since, 0);
    session_start(ACTION_SKIP, true);
    for (unsigned i = 0; i < MEMORIES; i++) {
        struct gpu_record r = fake_gpu_kernel_record("m", 0, clock_ticks());
        r.kind = GPU_MEMORY;
        memset((char *)&r + offsetof(struct gpu_record, call), 0,
               sizeof r - offsetof(struct gpu_record, call));
        r.name = NULL;
        r.name_len = 0;
        r.end = r.start;
        r.memory.address = 4096 * (uint64_t)(i + 1);
        r.memory.bytes = 4096;
        fake_gpu_deliver(&r);
        if (i % AT_ONCE == AT_ONCE - 1)
            session_sleep(100);
    }
    spans(SPANS);
    session_end();
    ck_assert_uint_eq(session_files(".json"), 1);
    struct trace t = session_trace(0);
    ck_assert_uint_eq(trace_named(&t, 'X', "span"), SPANS);
    trace_free(&t);
}
END_TEST

static void nothing(void)
{
}

static void no_mark(const struct mark *m)
{
    (void)m;
}

static void no_moment(const struct train_moment *at)
{
    (void)at;
}

static void no_file(const char *path)
{
    (void)path;
}

/* Steps are shorter than a pass, so a step always waits to be reported. */
START_TEST(reported_steps_take_no_memory)
{
    enum { STEPS = 30000, WARM = 5000, PAUSE_US = 100, MOST_KB = 1024 };
    static const struct listener listener = {nothing,   no_mark,   no_moment, no_moment,
                                             no_moment, no_moment, no_file,   nothing};
    atomic_store(&slow, false);
    writer_listen(&listener);
    session_prepare();
    edge(EDGE_FIRST, ACTION_SKIP, ACTION_SKIP, false, false);
    long before_kb = 0;
    for (unsigned i = 0; i < STEPS; i++) {
        if (i == WARM)
            before_kb = own_kb();
        usleep(PAUSE_US);
        edge(EDGE_STEP, ACTION_SKIP, ACTION_SKIP, false, false);
    }
    long grew_kb = own_kb() - before_kb;
    edge(EDGE_LAST, ACTION_SKIP, ACTION_SKIP, false, false);
    writer_finish();
    if (alloc_is_ours)
        ck_assert_int_lt(grew_kb, MOST_KB);
}
END_TEST

Suite *suite_backlog(void)
{
    Suite *suite = suite_create("backlog");
    if (!alloc_is_ours)
        puts("backlog: 4 tests skipped: a sanitizer or valgrind is too slow to outrun a slow disk");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, session_teardown);
    tcase_set_timeout(all, 120);
    tcase_add_loop_test(all, limits_waiting_windows, 0, 3);
    tcase_add_test(all, saves_later_epochs_after_dropped_ones);
    tcase_add_test(all, counts_dropped_regions);
    tcase_add_test(all, windows_waiting_for_a_kernel_are_not_dropped);
    tcase_add_test(all, counts_losses_of_a_window_without_file);
    tcase_add_test(all, counts_losses_of_dropped_steps);
    tcase_add_test(all, ignores_losses_of_a_discarded_step_0);
    tcase_add_test(all, takes_an_edge_once);
    tcase_add_test(all, reported_steps_take_no_memory);
    suite_add_tcase(suite, all);
    return suite;
}
