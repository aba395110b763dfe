/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/markers/markers.c and preload/steps/training.c on real thread logs: the records
 * in the ring, and the counts. Includes the source files with other names for their functions, so
 * that the tests can replace steps and waking up. */
#define cprof_version            mock_version
#define cprof_step               mock_step
#define cprof_step_marker        mock_step_marker
#define cprof_action             mock_action
#define cprof_step_number        mock_step_number
#define cprof_is_recording       mock_is_recording
#define cprof_marker             mock_marker
#define cprof_marker_start       mock_marker_start
#define cprof_marker_finish      mock_marker_finish
#define cprof_marker_instant     mock_marker_instant
#define cprof_marker_counter     mock_marker_counter
#define cprof_marker_counter_int mock_marker_counter_int
#define cprof_range_push         mock_range_push
#define cprof_range_pop          mock_range_pop
#define cprof_mark               mock_mark
#define cprof_life               mock_life
#define cprof_wake               mock_wake
#define cprof_awake              mock_awake
#define steps_action             mock_steps_action
#define steps_current            mock_steps_current
#define cprof_step_samples       mock_step_samples
#define cprof_epoch              mock_epoch
#define cprof_start              mock_start
#define cprof_stop               mock_stop
#define cprof_set_schedule       mock_set_schedule
#define steps_mark_batch         mock_steps_mark_batch
#define steps_end_epoch          mock_steps_end_epoch
#define steps_region             mock_steps_region
#define steps_choose_by          mock_steps_choose_by
#include "preload/markers/markers.c"
#include "preload/steps/training.c"

#include <check.h>
#include <pthread.h>
#include <stdio.h>

#include "tests/support/records.h"

#define THREADS 16

_Atomic int mock_life;
static enum action current_action;
static int wakes, marks;
static uint64_t before[LOSS_COUNT];

void mock_wake(enum wake_reason reason)
{
    ck_assert_int_eq(reason, WAKE_MARKER);
    wakes++;
    atomic_store(&mock_life, LIFE_AWAKE);
}

bool mock_awake(void)
{
    cprof_wake_once(WAKE_MARKER);
    return atomic_load(&mock_life) == LIFE_AWAKE;
}

enum action mock_steps_action(void)
{
    return current_action;
}

int64_t mock_steps_current(void)
{
    return 5;
}

static int64_t marked_samples, marked_tokens;
/* "e": an epoch ended; "(" and ")": a region began and ended. */
static char calls_seen[32];
static steps_chooser *chooser;
static void *chooser_arg;

void mock_steps_mark_batch(enum step_source source, uint64_t ticks, int64_t samples, int64_t tokens)
{
    ck_assert_int_eq(source, STEP_CALL);
    ck_assert_uint_eq(ticks, 0);
    marked_samples = samples;
    marked_tokens = tokens;
    marks++;
    errno = EAGAIN;
}

void mock_steps_end_epoch(bool by_call)
{
    strcat(calls_seen, by_call ? "e" : "?");
    errno = EAGAIN;
}

void mock_steps_region(bool begins)
{
    strcat(calls_seen, begins ? "(" : ")");
    errno = EAGAIN;
}

void mock_steps_choose_by(steps_chooser *given, void *arg)
{
    chooser = given;
    chooser_arg = arg;
    errno = EAGAIN;
}

/* ---- helpers ---- */

static void set_action(enum action action, uint32_t gate)
{
    current_action = action;
    bool kept = gate & GATE_SPANS && action < ACTION_ACTIVE;
    atomic_store(&writer_gate,
                 gate | (gate & GATE_MARKERS ? GATE_WINDOW : 0) | (kept ? GATE_KEPT : 0));
}

static void record_all(void)
{
    set_action(ACTION_ACTIVE, GATE_SPANS | GATE_MARKERS);
}

static uint64_t lost(enum loss cause)
{
    uint64_t n = atomic_load(&process_losses[cause]);
    for (struct thread_log *log = thread_log_first(); log; log = log->next)
        n += atomic_load(&log->losses[cause]);
    return n - before[cause];
}

/* This thread's oldest record, or NULL. Valid until the next call. */
static const struct record *take(void)
{
    static struct {
        struct record r;
        char rest[200000];
    } copy;
    struct ring *ring = &thread_log_get()->ring;
    const struct record *r = ring_peek(ring, ring_head(ring));
    if (!r)
        return NULL;
    size_t size = sizeof *r + name_bytes(r->name) + r->data_len;
    ck_assert_uint_le(size, sizeof copy);
    memcpy((void *)&copy, r, size);
    ring_take(ring, r);
    return &copy.r;
}

/* Takes a record, which must have this kind and name. */
static const struct record *expect(enum record_kind kind, const char *name, int flags)
{
    const struct record *r = take();
    ck_assert_msg(r != NULL, "no record for %s", name);
    assert_named(r, name);
    ck_assert_int_eq(r->kind, kind);
    ck_assert_int_eq(r->flags, flags);
    ck_assert_int_eq(r->category, CAT_USER_ANNOTATION);
    ck_assert(kind == REC_SPAN ? r->end >= r->start && r->id != 0 : r->end == r->start);
    return r;
}

static void expect_nothing(void)
{
    ck_assert_ptr_null(take());
    ck_assert_uint_eq(span_top(thread_log_get()), 0);
}

static void setup(void)
{
    static bool started;
    if (!started)
        ck_assert(thread_log_start(1u << 20));
    started = true;
    set_action(ACTION_SKIP, 0);
    spans_abandon(thread_log_get());
    while (take())
        ;
    memset(&per_thread, 0, sizeof per_thread);
    wakes = marks = 0;
    atomic_store(&mock_life, LIFE_AWAKE);
    memset(before, 0, sizeof before);
    for (int i = 0; i < LOSS_COUNT; i++)
        before[i] = lost((enum loss)i);
}

static void pair(struct cprof_marker *m)
{
    mock_marker_start(m);
    mock_marker_finish(m);
}

static void *in_thread(void (*body)(void *), void *arg)
{
    union {
        void (*body)(void *);
        void *(*run)(void *);
    } cast = {body};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, cast.run, arg), 0);
    pthread_join(thread, NULL);
    return arg;
}

/* ---- making markers ---- */

START_TEST(returns_one_marker_per_name)
{
    char name[] = "one";
    struct cprof_marker_options options = CPROF_MARKER_DEFAULTS;
    struct cprof_marker *m = mock_marker(name, NULL);
    ck_assert_ptr_nonnull(m);
    options.record_instant_on_start = 1;
    ck_assert_ptr_eq(m, mock_marker("one", &options));
    ck_assert_ptr_ne(m, mock_marker("one ", NULL));
    name[0] = 'x';
    record_all();
    pair(m); /* the first call's options count, its name is copied */
    expect(REC_SPAN, "one", REC_MARKER);
    expect_nothing();
    ck_assert_ptr_null(mock_marker(NULL, NULL));
}
END_TEST

static void *make_names(void *barrier)
{
    static struct cprof_marker *made[THREADS][200];
    static _Atomic int next;
    struct cprof_marker **mine = made[atomic_fetch_add(&next, 1)];
    pthread_barrier_wait(barrier);
    for (int i = 0; i < 200; i++) {
        char name[32];
        snprintf(name, sizeof name, "raced %d", i);
        mine[i] = mock_marker(name, NULL);
    }
    return mine;
}

START_TEST(racing_threads_get_one_marker)
{
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, make_names, &barrier);
    void *first = NULL;
    for (int i = 0; i < THREADS; i++) {
        void *mine;
        pthread_join(threads[i], &mine);
        first = first ? first : mine;
        ck_assert_mem_eq(mine, first, 200 * sizeof(void *));
    }
}
END_TEST

START_TEST(reads_options_of_other_versions)
{
    struct {
        struct cprof_marker_options known;
        uint64_t later[4];
    } newer = {CPROF_MARKER_DEFAULTS, {1, 2, 3, 4}};
    newer.known.size = sizeof newer;
    newer.known.record_instant_on_start = 1;
    ck_assert(mock_marker("newer", &newer.known)->instant_on_start);
    struct cprof_marker_options older = CPROF_MARKER_DEFAULTS;
    older.size = offsetof(struct cprof_marker_options, record_instant_on_start);
    older.actions = CPROF_ACTION_BIT(CPROF_ACTIVE);
    /* an older struct does not have these members */
    older.record_instant_on_start = older.record_instant_on_finish = 1;
    struct cprof_marker *m = mock_marker("older", &older);
    ck_assert_uint_eq(m->actions, CPROF_ACTION_BIT(CPROF_ACTIVE));
    ck_assert(!m->instant_on_start && !m->instant_on_finish);
    struct cprof_marker_options zero = {0};
    log_set_level(LOG_OFF);
    ck_assert_uint_eq(mock_marker("zero", &zero)->actions, USUAL_ACTIONS);
}
END_TEST

START_TEST(refuses_markers_beyond_the_limit)
{
    struct cprof_marker *m = mock_marker("early", NULL);
    log_set_level(LOG_OFF);
    int refused = 0;
    for (unsigned i = 0; i < MARKERS_MOST + 10; i++) {
        char name[32];
        snprintf(name, sizeof name, "step %u", i);
        refused += !mock_marker(name, NULL);
    }
    ck_assert_int_ge(refused, 10);
    ck_assert_uint_eq(lost(LOSS_NO_MEMORY), (uint64_t)refused);
    ck_assert_ptr_eq(mock_marker("early", NULL), m);
}
END_TEST

START_TEST(does_nothing_after_the_end)
{
    struct cprof_marker *m = mock_marker("over", NULL);
    record_all();
    ck_assert_int_eq(mock_action(), ACTION_ACTIVE);
    ck_assert_int_eq(mock_step_number(), 5);
    ck_assert_int_eq(mock_is_recording(), 1);
    atomic_store(&mock_life, LIFE_OVER);
    set_action(ACTION_ACTIVE, 0);
    ck_assert_ptr_null(mock_marker("over", NULL));
    ck_assert_int_eq(mock_action(), CPROF_SKIP);
    ck_assert_int_eq(mock_step_number(), 0);
    ck_assert_int_eq(mock_is_recording(), 0);
    mock_step();
    ck_assert_int_eq(marks, 0);
    pair(m);
    ck_assert_int_eq(mock_range_push("r"), 0);
    ck_assert_int_eq(mock_range_pop(), 0);
    ck_assert_int_eq(mock_range_pop(), -1);
    expect_nothing();
}
END_TEST

START_TEST(calls_wake_cprof)
{
    atomic_store(&mock_life, LIFE_ASLEEP);
    errno = ENOENT;
    mock_step();
    ck_assert_int_eq(wakes, 1);
    mock_step_marker();
    ck_assert_int_eq(marks, 2);
    ck_assert_int_eq(errno, ENOENT);
    atomic_store(&mock_life, LIFE_ASLEEP);
    mock_range_pop();
    atomic_store(&mock_life, LIFE_ASLEEP);
    mock_mark("m");
    atomic_store(&mock_life, LIFE_ASLEEP);
    mock_marker("m", NULL);
    ck_assert_int_eq(wakes, 4);
    ck_assert_str_eq(mock_version(), CPROF_VERSION);
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", CPROF_VERSION_MAJOR, CPROF_VERSION_MINOR,
             CPROF_VERSION_PATCH);
    ck_assert_str_eq(text, CPROF_VERSION);
}
END_TEST

static struct cprof_time seen_time;

static int choose(const struct cprof_time *time, void *answer)
{
    seen_time = *time;
    return *(int *)answer;
}

START_TEST(passes_training_calls_to_steps)
{
    int answer = 7;
    errno = ENOENT;
    mock_step_samples(8, -1);
    ck_assert_int_eq(marked_samples, 8);
    ck_assert_int_eq(marked_tokens, -1);
    mock_start();
    mock_epoch();
    mock_stop();
    mock_set_schedule(choose, &answer);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_str_eq(calls_seen, "(e)");
    struct train_time time = {1, 2, 3, 4, 5, 6, 7, 1500000000, 2500000000, 250000000};
    ck_assert_int_eq(chooser(&time, 9, chooser_arg), 7);
    ck_assert_uint_eq(seen_time.size, sizeof seen_time);
    ck_assert_int_eq(seen_time.step, 9);
    ck_assert_int_eq(seen_time.epoch, 1);
    ck_assert_int_eq(seen_time.batch, 2);
    ck_assert_int_eq(seen_time.batch_in_epoch, 3);
    ck_assert_int_eq(seen_time.sample, 4);
    ck_assert_int_eq(seen_time.sample_in_epoch, 5);
    ck_assert_int_eq(seen_time.token, 6);
    ck_assert_int_eq(seen_time.token_in_epoch, 7);
    ck_assert_double_eq_tol(seen_time.total_wct, 1.5, 1e-9);
    ck_assert_double_eq_tol(seen_time.epoch_wct, 2.5, 1e-9);
    ck_assert_double_eq_tol(seen_time.batch_wct, 0.25, 1e-9);
    for (int i = 0; i < 1000; i++) /* the same keys again need no memory */
        mock_set_schedule(choose, &answer);
    ck_assert(chooser && !atomic_load(&schedules)->before);
    mock_set_schedule(choose, &time);
    mock_set_schedule(choose, &answer);
    ck_assert_int_eq(chooser(&time, 9, chooser_arg), 7);
    ck_assert(!atomic_load(&schedules)->before->before);
    mock_set_schedule(NULL, &answer);
    ck_assert(chooser == NULL);
    atomic_store(&mock_life, LIFE_OVER);
    mock_set_schedule(choose, NULL);
    mock_start();
    mock_epoch();
    ck_assert(chooser == NULL);
    ck_assert_str_eq(calls_seen, "(e)");
}
END_TEST

/* ---- when something is recorded ---- */

START_TEST(records_only_in_the_chosen_actions)
{
    struct cprof_marker_options options = CPROF_MARKER_DEFAULTS;
    struct cprof_marker *usual = mock_marker("usual", NULL);
    options.actions = CPROF_ACTION_BIT(CPROF_WARMUP);
    struct cprof_marker *warmup = mock_marker("warmup", &options);
    options.actions = CPROF_ACTION_BIT(CPROF_ACTIVE_AND_SAVE);
    struct cprof_marker *save = mock_marker("save", &options);
    options.actions = 0;
    struct cprof_marker *never = mock_marker("never", &options);
    struct cprof_marker *all[] = {usual, warmup, save, never};
    static const char *const names[] = {"usual", "warmup", "save", "never"};
    static const struct {
        enum action action;
        uint32_t gate;
        int flags[4]; /* the record's flags; -1: no record */
    } cases[] = {
        {ACTION_SKIP, 0, {-1, -1, -1, -1}},
        {ACTION_WARMUP, GATE_MARKERS, {REC_MARKER, REC_MARKER, -1, -1}},
        {ACTION_ACTIVE, GATE_MARKERS | GATE_SPANS, {REC_MARKER, -1, -1, -1}},
        {ACTION_ACTIVE_AND_SAVE, GATE_MARKERS | GATE_SPANS, {REC_MARKER, -1, REC_MARKER, -1}},
        /* step 0, which is kept in case the program marks no steps */
        {ACTION_SKIP, GATE_MARKERS | GATE_SPANS, {REC_MARKER, -1, 0, -1}},
        {ACTION_WARMUP, GATE_MARKERS | GATE_SPANS, {REC_MARKER, REC_MARKER, 0, -1}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        set_action(cases[c].action, cases[c].gate);
        for (int i = 0; i < 4; i++) {
            double value = 1;
            pair(all[i]);
            mock_marker_instant(all[i]);
            mock_marker_counter(all[i], 1, NULL, &value);
            if (cases[c].flags[i] < 0)
                continue;
            expect(REC_SPAN, names[i], cases[c].flags[i]);
            expect(REC_INSTANT, names[i], cases[c].flags[i]);
            expect(REC_COUNTER, names[i], cases[c].flags[i]);
        }
        expect_nothing();
    }
    ck_assert_uint_eq(lost(LOSS_MARKER), 0);
}
END_TEST

START_TEST(records_instants_at_both_ends_with_categories)
{
    static const char *const categories[] = {"data", NULL, "", "io"};
    struct cprof_marker_options options = CPROF_MARKER_DEFAULTS;
    options.record_instant_on_start = options.record_instant_on_finish = 1;
    options.categories = categories;
    options.n_categories = 4;
    struct cprof_marker *m = mock_marker("full", &options);
    static const uint8_t item[] = {ARG_TEXT, 0, 0, 7, 0, 0, 0, 'd', 'a', 't', 'a', ',', 'i', 'o'};
    record_all();
    pair(m);
    for (int i = 0; i < 3; i++) {
        const struct record *r = expect(i < 2 ? REC_INSTANT : REC_SPAN, "full", REC_MARKER);
        ck_assert_int_eq(r->data_kind, DATA_ARGS);
        ck_assert_uint_eq(r->data_len, sizeof item);
        ck_assert_mem_eq(record_data(r), item, sizeof item);
    }
    /* A finish while nothing is recorded makes no instant. Its span belongs to the step that it
     * began in. */
    mock_marker_start(m);
    set_action(ACTION_SKIP, 0);
    mock_marker_finish(m);
    expect(REC_INSTANT, "full", REC_MARKER);
    expect(REC_SPAN, "full", REC_MARKER);
    expect_nothing();
}
END_TEST

START_TEST(ignores_ends_of_unrecorded_starts)
{
    struct cprof_marker *a = mock_marker("a", NULL), *b = mock_marker("b", NULL);
    mock_marker_start(a);
    mock_range_push("r");
    record_all();
    pair(b);
    ck_assert_int_eq(mock_range_pop(), 0);
    mock_marker_finish(a);
    expect(REC_SPAN, "b", REC_MARKER);
    expect_nothing();
    ck_assert_uint_eq(lost(LOSS_MARKER), 0);
    mock_marker_finish(a); /* an unmatched finish */
    ck_assert_uint_eq(lost(LOSS_MARKER), 1);
    mock_marker_start(a); /* later pairs are complete */
    mock_marker_finish(a);
    expect(REC_SPAN, "a", REC_MARKER);
    mock_marker_finish(a);
    ck_assert_uint_eq(lost(LOSS_MARKER), 2);
}
END_TEST

START_TEST(ignores_and_counts_misuse)
{
    struct cprof_marker *m = mock_marker("m", NULL);
    mock_marker_finish(m); /* while nothing is recorded, nothing is counted */
    ck_assert_int_eq(mock_range_pop(), -1);
    ck_assert_uint_eq(lost(LOSS_MARKER), 0);
    record_all();
    mock_marker_finish(m);
    ck_assert_uint_eq(lost(LOSS_MARKER), 1);
    ck_assert_int_eq(mock_range_pop(), -1);
    ck_assert_uint_eq(lost(LOSS_MARKER), 2);
    mock_marker_start(m);
    mock_marker_start(m);
    ck_assert_uint_eq(lost(LOSS_MARKER), 3);
    mock_marker_finish(m);
    mock_marker_finish(m); /* the end of the refused start */
    ck_assert_uint_eq(lost(LOSS_MARKER), 3);
    expect(REC_SPAN, "m", REC_MARKER);
    expect_nothing();
}
END_TEST

START_TEST(cuts_overlapping_markers)
{
    struct cprof_marker *a = mock_marker("a", NULL), *b = mock_marker("b", NULL);
    int foreign __attribute__((aligned(8))) = 0;
    record_all();
    mock_marker_start(a);
    mock_range_push("r");
    ck_assert_ptr_nonnull(span_open(thread_log_get(), &foreign, CAT_CPU_OP, "op", 2));
    mock_marker_start(b);
    mock_marker_finish(a);
    uint64_t b_end = expect(REC_SPAN, "b", REC_MARKER | REC_UNFINISHED)->end;
    uint64_t r_end = expect(REC_SPAN, "r", REC_MARKER | REC_UNFINISHED)->end;
    uint64_t a_end = expect(REC_SPAN, "a", REC_MARKER)->end;
    ck_assert(b_end <= r_end && r_end <= a_end);
    expect_nothing();
    ck_assert_uint_eq(lost(LOSS_MARKER), 2);
    ck_assert_uint_eq(lost(LOSS_UNMATCHED), 1);
    mock_marker_finish(b);
    ck_assert_int_eq(mock_range_pop(), 0);
    ck_assert_int_eq(mock_range_pop(), -1);
    ck_assert_uint_eq(lost(LOSS_MARKER), 3); /* the excess pop */
    /* The end of an operator ends the ranges inside it, and counts them as LOSS_UNMATCHED. */
    ck_assert_ptr_nonnull(span_open(thread_log_get(), &foreign, CAT_CPU_OP, "op", 2));
    mock_marker_start(b);
    span_close(thread_log_get(), &foreign);
    mock_marker_finish(b);
    ck_assert_uint_eq(lost(LOSS_MARKER), 3);
}
END_TEST

START_TEST(tracks_more_markers_than_bits)
{
    struct cprof_marker *m[130];
    char names[130][32];
    for (int i = 0; i < 130; i++) {
        snprintf(names[i], sizeof names[i], "many %d", i);
        m[i] = mock_marker(names[i], NULL);
    }
    record_all();
    for (int i = 0; i < 130; i++)
        mock_marker_start(m[i]);
    mock_marker_start(m[129]);
    ck_assert_uint_eq(lost(LOSS_MARKER), 1);
    for (int i = 129; i >= 0; i--) {
        mock_marker_finish(m[i]);
        expect(REC_SPAN, names[i], REC_MARKER);
    }
    mock_marker_finish(m[129]);
    expect_nothing();
    ck_assert_uint_eq(lost(LOSS_MARKER), 1);
    mock_marker_finish(m[128]);
    ck_assert_uint_eq(lost(LOSS_MARKER), 2);
    mock_marker_start(m[128]);
    mock_marker_start(m[129]);
    mock_marker_finish(m[128]); /* ends the other marker, which is counted once */
    mock_marker_finish(m[129]);
    ck_assert_uint_eq(lost(LOSS_MARKER), 3);
}
END_TEST

START_TEST(counts_ranges_deeper_than_the_stack)
{
    record_all();
    for (int i = 0; i < 600; i++)
        ck_assert_int_eq(mock_range_push("deep"), i);
    for (int i = 599; i >= 0; i--)
        ck_assert_int_eq(mock_range_pop(), i);
    for (int i = 0; i < (int)SPAN_DEPTH; i++)
        expect(REC_SPAN, "deep", REC_MARKER);
    expect_nothing();
    ck_assert_uint_eq(lost(LOSS_DEPTH), 600 - SPAN_DEPTH);
    ck_assert_uint_eq(lost(LOSS_MARKER), 0);
}
END_TEST

START_TEST(cuts_long_names_of_spans)
{
    static char name[100001];
    memset(name, 'n', sizeof name - 1);
    struct cprof_marker *m = mock_marker(name, NULL);
    record_all();
    pair(m);
    const struct record *r = take();
    ck_assert_ptr_nonnull(r);
    ck_assert_uint_eq(record_name(r).len, SPAN_TEXT);
    ck_assert_uint_eq(lost(LOSS_TEXT), 1);
    mock_marker_instant(m);
    r = take();
    ck_assert_uint_eq(record_name(r).len, sizeof name - 1);
    mock_range_push(NULL);
    mock_range_pop();
    mock_mark(NULL);
    expect(REC_SPAN, "", REC_MARKER);
    expect(REC_INSTANT, "", REC_MARKER);
    expect_nothing();
}
END_TEST

/* ---- counters ---- */

/* Reads the item at *at: its key into key, its 8 bytes of value into value. */
static enum arg_type next_item(const uint8_t **at, char *key, void *value)
{
    enum arg_type type = (enum arg_type) * *at;
    uint16_t len;
    memcpy(&len, *at + 1, sizeof len);
    memcpy(key, *at + 3, len);
    key[len] = '\0';
    memcpy(value, *at + 3 + len, 8);
    *at += 3 + len + 8;
    return type;
}

START_TEST(records_series_of_counters)
{
    struct cprof_marker *m = mock_marker("c", NULL);
    static const char *const series[] = {"up", NULL, "down", "no"};
    const double real[] = {0.1, 2, NAN, INFINITY};
    const int64_t whole[] = {INT64_MIN, INT64_MAX};
    char key[2000];
    double d;
    int64_t i;
    record_all();
    mock_marker_counter(m, 4, series, real);
    const struct record *r = expect(REC_COUNTER, "c", REC_MARKER);
    const uint8_t *at = record_data(r);
    ck_assert_int_eq(next_item(&at, key, &d), ARG_REAL);
    ck_assert(strcmp(key, "up") == 0 && memcmp(&d, &real[0], 8) == 0);
    next_item(&at, key, &d);
    ck_assert(key[0] == '\0' && memcmp(&d, &real[1], 8) == 0);
    ck_assert_ptr_eq(at, record_data(r) + r->data_len);
    ck_assert_uint_eq(lost(LOSS_MARKER), 2);
    mock_marker_counter_int(m, 2, series, whole);
    r = expect(REC_COUNTER, "c", REC_MARKER);
    at = record_data(r);
    ck_assert_int_eq(next_item(&at, key, &i), ARG_INT);
    ck_assert_int_eq(i, INT64_MIN);
    next_item(&at, key, &i);
    ck_assert_int_eq(i, INT64_MAX);
    mock_marker_counter_int(m, 2, NULL, whole); /* two values and no names */
    mock_marker_counter(m, 1, NULL, NULL);
    mock_marker_counter(m, 0, NULL, NULL); /* without values there is no record */
    mock_marker_counter(NULL, 1, NULL, real);
    ck_assert_uint_eq(lost(LOSS_MARKER), 4);
    expect_nothing();
}
END_TEST

START_TEST(splits_counters_with_many_series)
{
    struct cprof_marker *m = mock_marker("wide", NULL);
    static char names[500][32], longest[5000];
    const char *series[500];
    int64_t values[500], found = 0, value;
    char key[2000];
    for (int i = 0; i < 500; i++) {
        snprintf(names[i], sizeof names[i], "series number %d", i);
        series[i] = names[i];
        values[i] = i;
    }
    memset(longest, 'k', sizeof longest - 1);
    record_all();
    mock_marker_counter_int(m, 500, series, values);
    const struct record *r;
    while ((r = take())) {
        const uint8_t *at = record_data(r), *end = at + r->data_len;
        while (at < end) {
            next_item(&at, key, &value);
            ck_assert_int_eq(value, found);
            ck_assert_str_eq(key, names[found++]);
        }
        ck_assert_ptr_eq(at, end);
    }
    ck_assert_int_eq(found, 500);
    series[0] = longest;
    mock_marker_counter_int(m, 1, series, values);
    const uint8_t *at = record_data(expect(REC_COUNTER, "wide", REC_MARKER));
    next_item(&at, key, &value);
    ck_assert_uint_eq(strlen(key), SERIES_MOST);
    ck_assert_uint_eq(lost(LOSS_TEXT), 1);
}
END_TEST

/* ---- threads, signals ---- */

static void leave_open(void *log)
{
    mock_marker_start(mock_marker("left", NULL));
    mock_range_push("range left");
    *(struct thread_log **)log = thread_log_get();
}

START_TEST(ends_open_markers_with_their_thread)
{
    struct thread_log *log = NULL;
    record_all();
    in_thread(leave_open, &log);
    for (int i = 0; i < 2; i++) {
        const struct record *r = ring_peek(&log->ring, ring_head(&log->ring));
        ck_assert_ptr_nonnull(r);
        ck_assert_int_eq(r->flags, REC_MARKER | REC_UNFINISHED);
        ck_assert_mem_eq(record_name(r).at, i ? "left" : "range left", record_name(r).len);
        ring_take(&log->ring, r);
    }
    ck_assert_uint_eq(lost(LOSS_MARKER), 0);
}
END_TEST

static void finish_elsewhere(void *m)
{
    mock_marker_finish(m);
    pair(m);
}

START_TEST(counts_a_finish_on_another_thread)
{
    struct cprof_marker *m = mock_marker("here", NULL);
    record_all();
    mock_marker_start(m);
    in_thread(finish_elsewhere, m);
    ck_assert_uint_eq(lost(LOSS_MARKER), 1);
    mock_marker_finish(m);
    expect(REC_SPAN, "here", REC_MARKER);
    expect_nothing();
}
END_TEST

START_TEST(counts_calls_from_inside_cprof)
{
    struct cprof_marker *m = mock_marker("signal", NULL);
    double value = 1;
    record_all();
    ck_assert(guard_enter()); /* as for a signal handler that interrupts a hook */
    pair(m);
    mock_marker_instant(m);
    mock_marker_counter(m, 1, NULL, &value);
    mock_mark("signal");
    ck_assert_int_eq(mock_range_push("signal"), 0);
    ck_assert_int_eq(mock_range_pop(), 0);
    guard_leave();
    expect_nothing();
    ck_assert_uint_eq(lost(LOSS_HANDLER), 5);
    ck_assert_uint_eq(lost(LOSS_MARKER), 0);
    ck_assert_uint_le(sizeof per_thread, 16);
}
END_TEST

Suite *suite_markers(void)
{
    Suite *suite = suite_create("markers");
    TCase *tests = tcase_create("markers");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, returns_one_marker_per_name);
    tcase_add_test(tests, reads_options_of_other_versions);
    tcase_add_test(tests, does_nothing_after_the_end);
    tcase_add_test(tests, calls_wake_cprof);
    tcase_add_test(tests, passes_training_calls_to_steps);
    tcase_add_test(tests, records_only_in_the_chosen_actions);
    tcase_add_test(tests, records_instants_at_both_ends_with_categories);
    tcase_add_test(tests, ignores_ends_of_unrecorded_starts);
    tcase_add_test(tests, ignores_and_counts_misuse);
    tcase_add_test(tests, cuts_overlapping_markers);
    tcase_add_test(tests, counts_ranges_deeper_than_the_stack);
    tcase_add_test(tests, cuts_long_names_of_spans);
    tcase_add_test(tests, records_series_of_counters);
    tcase_add_test(tests, splits_counters_with_many_series);
    tcase_add_test(tests, ends_open_markers_with_their_thread);
    tcase_add_test(tests, counts_a_finish_on_another_thread);
    tcase_add_test(tests, counts_calls_from_inside_cprof);
    /* Last, for CK_FORK=no: these tests use up the 64 bits, and then all markers. */
    tcase_add_test(tests, tracks_more_markers_than_bits);
    tcase_add_test(tests, racing_threads_get_one_marker);
    tcase_add_test(tests, refuses_markers_beyond_the_limit);
    suite_add_tcase(suite, tests);
    return suite;
}
