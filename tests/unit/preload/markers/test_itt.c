/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/markers/itt.c through a client's table of functions with the layout of ITT's
 * static part: the records in the ring, and the counts. Includes the source file, so that the
 * tests can replace steps and waking up. */
#define cprof_life       itt_mock_life
#define cprof_wake       itt_mock_wake
#define steps_mark       itt_mock_steps_mark
#define config_step_name itt_mock_step_name
#define __itt_api_init   itt_mock_api_init
#include "preload/markers/itt.c"

#include <check.h>

#include "preload/core/glob.h"
#include "tests/support/capture.h"
#include "tests/support/records.h"
#include "writer/record/thread_names.h"

#define THREADS 64

_Atomic int itt_mock_life;
static int wakes;
static _Atomic int steps_marked;
static const char *mock_pattern;
static uint64_t before[LOSS_COUNT];

void itt_mock_wake(enum wake_reason reason)
{
    ck_assert_int_eq(reason, WAKE_INJECTION);
    wakes++;
    atomic_store(&itt_mock_life, LIFE_AWAKE);
}

void itt_mock_steps_mark(enum step_source source, uint64_t ticks)
{
    (void)ticks;
    ck_assert_int_eq(source, STEP_ITT);
    atomic_fetch_add(&steps_marked, 1);
    errno = EAGAIN;
}

const char *itt_mock_step_name(enum config_step kind)
{
    return kind == CONFIG_STEP_ITT ? mock_pattern : "";
}

/* ---- a client ---- */

/* clang-format off */
#define CALL(name, type, args) type (*name) args;
static struct client {
#include "tests/support/itt_calls.def"
} client;
#undef CALL

#define CALL(name, type, args) {"__itt_" #name, (void **)(void *)&client.name, &wakes, NULL, 0},
static struct itt_function functions[] = {
#include "tests/support/itt_calls.def"
    {NULL, NULL, NULL, NULL, 0}};
#undef CALL
/* clang-format on */

static struct itt_global global;
static const struct itt_id none;
/* made by a client's static part before its first call */
static struct itt_domain their_domain = {.flags = 1, .name = "theirs"};
static struct itt_string their_string = {.text = "their first"};

static void init(void)
{
    memset(&client, 0x55, sizeof client);
    memcpy(global.magic, ITT_MAGIC, sizeof global.magic);
    global.functions = functions;
    itt_mock_api_init(&global, 0);
}

/* ---- helpers ---- */

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
    memcpy((void *)&copy, r, sizeof *r + name_bytes(r->name) + r->data_len);
    ring_take(ring, r);
    return &copy.r;
}

static const struct record *expect(enum record_kind kind, const char *name)
{
    const struct record *r = take();
    ck_assert_msg(r != NULL, "no record for %s", name);
    assert_named(r, name);
    ck_assert_int_eq(r->kind, kind);
    ck_assert(r->flags & REC_MARKER);
    ck_assert_int_eq(r->category, CAT_USER_ANNOTATION);
    return r;
}

/* The value of the record's item of this type and key, with a NUL if it is text. Fails if there
 * is none. */
static const void *item(const struct record *r, enum arg_type type, const char *key)
{
    static char value[8192];
    ck_assert_int_eq(r->data_kind, DATA_ARGS);
    const uint8_t *p = record_data(r), *end = p + r->data_len;
    while (p < end) {
        uint16_t key_len;
        uint32_t len = 8;
        memcpy(&key_len, p + 1, 2);
        const uint8_t *at = p + 3 + key_len;
        if (*p == ARG_TEXT) {
            memcpy(&len, at, 4);
            at += 4;
        }
        ck_assert(at + len <= end);
        if (*p == type && key_len == strlen(key) && memcmp(p + 3, key, key_len) == 0) {
            memcpy(value, at, len);
            value[len] = '\0';
            return value;
        }
        p = at + len;
    }
    ck_abort_msg("no item %s", key);
}

static void expect_nothing(void)
{
    ck_assert_ptr_null(take());
    ck_assert_uint_eq(span_top(thread_log_get()), 0);
}

static uint64_t lost(enum loss cause)
{
    uint64_t n = atomic_load(&process_losses[cause]);
    for (struct thread_log *log = thread_log_first(); log; log = log->next)
        n += atomic_load(&log->losses[cause]);
    return n - before[cause];
}

static void record_all(void)
{
    atomic_store(&writer_gate, GATE_SPANS | GATE_MARKERS);
}

static void setup(void)
{
    ck_assert(thread_log_start(1u << 20));
    mock_pattern = "";
    init();
    record_all();
    for (int i = 0; i < LOSS_COUNT; i++)
        before[i] = lost((enum loss)i);
}

static void begin_task(const struct itt_domain *domain, const char *name)
{
    client.task_begin(domain, none, none, client.string_handle_create(name));
}

/* ---- loading ---- */

START_TEST(init_replaces_the_functions_it_knows)
{
    ck_assert_int_eq(wakes, 1);
    ck_assert_ptr_nonnull(client.task_begin);
    ck_assert_msg(!client.id_create && !client.model_site_beginA,
                  "init must clear functions that cprof lacks");
    init();
    ck_assert_int_eq(wakes, 1);
    itt_mock_api_init(NULL, 0);
    global.magic[0] = 0;
    memset(&client, 0x55, sizeof client);
    itt_mock_api_init(&global, 0);
    ck_assert_msg(client.id_create != NULL, "init must not touch a table without the magic");
}
END_TEST

START_TEST(init_replaces_no_function_after_the_end)
{
    atomic_store(&itt_mock_life, LIFE_OVER);
    init();
    ck_assert(!client.task_begin && !client.id_create);
}
END_TEST

START_TEST(finds_the_function_of_every_name)
{
    for (unsigned i = 0; i < ITT_COUNT; i++)
        ck_assert_msg(function_of(names[i]) != NULL, "%s", names[i]);
    ck_assert(!function_of("task_beg") && !function_of("task_begin_ex"));
}
END_TEST

/* ---- names ---- */

START_TEST(returns_one_handle_per_name)
{
    struct itt_domain *domain = client.domain_create("PyTorch");
    ck_assert_ptr_eq(domain, client.domain_create("PyTorch"));
    ck_assert_int_eq(domain->flags, 1);
    ck_assert_str_eq(domain->name, "PyTorch");
    char text[2000];
    for (int i = 0; i < 20000; i++) {
        snprintf(text, sizeof text, "name %d", i);
        struct itt_string *s = client.string_handle_create(text);
        ck_assert_str_eq(s->text, text);
        ck_assert_ptr_eq(s, client.string_handle_create(text));
    }
    ck_assert((void *)client.string_handle_create("PyTorch") != (void *)domain);
    ck_assert_str_eq(client.string_handle_create("")->text, "");
    ck_assert(!client.string_handle_create(NULL) && !client.domain_create(NULL));
}
END_TEST

START_TEST(keeps_all_bytes_of_names)
{
    static const char awkward[] = "quote \" back\\slash \x01\n bad \xff\xfe utf8";
    begin_task(&their_domain, awkward);
    client.task_end(&their_domain);
    expect(REC_SPAN, awkward);
    expect_nothing();
}
END_TEST

/* ---- tasks ---- */

START_TEST(records_tasks_as_spans)
{
    struct itt_domain *torch = client.domain_create("PyTorch");
    struct itt_domain *mine = client.domain_create("mine");
    begin_task(torch, "outer");
    begin_task(mine, "inner");
    client.task_end(mine);
    client.task_end(torch);
    const struct record *r = expect(REC_SPAN, "inner");
    ck_assert_str_eq(item(r, ARG_TEXT, "domain"), "mine");
    r = expect(REC_SPAN, "outer");
    ck_assert_int_eq(r->data_kind, DATA_NONE);
    ck_assert_int_eq(r->flags & REC_UNFINISHED, 0);
    expect_nothing();
    ck_assert_uint_eq(lost(LOSS_MARKER) + lost(LOSS_UNMATCHED), 0);
}
END_TEST

START_TEST(reads_objects_of_the_clients_static_part)
{
    client.task_begin(&their_domain, none, none, &their_string);
    client.task_end(&their_domain);
    ck_assert_str_eq(item(expect(REC_SPAN, "their first"), ARG_TEXT, "domain"), "theirs");
    client.task_begin(NULL, none, none, NULL);
    client.task_end(NULL);
    ck_assert_int_eq(expect(REC_SPAN, "")->data_kind, DATA_NONE);
    struct itt_counter theirs = {.name = "c", .domain = "d", .type = ITT_S32};
    int32_t value = -7;
    client.counter_set_value(&theirs, &value);
    ck_assert_int_eq(*(const int64_t *)item(expect(REC_COUNTER, "d: c"), ARG_INT, ""), -7);
    ck_assert_msg(theirs.extra1 == 0 && !theirs.extra2 && !their_domain.extra2,
                  "cprof must not write into objects of the client");
}
END_TEST

START_TEST(matches_ends_with_recorded_begins)
{
    client.task_end(&their_domain);
    ck_assert_uint_eq(lost(LOSS_MARKER), 1);
    atomic_store(&writer_gate, 0);
    begin_task(&their_domain, "not recorded");
    record_all();
    begin_task(&their_domain, "recorded");
    client.task_end(&their_domain);
    client.task_end(&their_domain);
    expect(REC_SPAN, "recorded");
    expect_nothing();
    begin_task(&their_domain, "outer");
    atomic_store(&writer_gate, 0);
    begin_task(&their_domain, "not recorded");
    record_all();
    client.task_end(&their_domain);
    ck_assert_msg(!take(), "the inner task's end must not end the outer task");
    atomic_store(&writer_gate, 0);
    client.task_end(&their_domain);
    expect(REC_SPAN, "outer");
    expect_nothing();
    ck_assert_uint_eq(lost(LOSS_MARKER), 1);
}
END_TEST

START_TEST(ends_the_innermost_task_of_any_domain)
{
    struct itt_domain *a = client.domain_create("a"), *b = client.domain_create("b");
    begin_task(a, "in a");
    begin_task(b, "in b");
    client.task_end(a);
    client.task_end(b);
    expect(REC_SPAN, "in b");
    expect(REC_SPAN, "in a");
    expect_nothing();
    begin_task(a, "again");
    client.task_end(a);
    expect(REC_SPAN, "again");
    ck_assert_uint_eq(lost(LOSS_MARKER) + lost(LOSS_UNMATCHED), 0);
}
END_TEST

START_TEST(keeps_tasks_of_operators_that_end_first)
{
    /* With emit_itt, the operator's span opens before its task and ends before it. */
    struct thread_log *log = thread_log_get();
    struct itt_domain *torch = client.domain_create("PyTorch");
    uint64_t outer, inner;
    span_open(log, &outer, CAT_CPU_OP, "op", 2);
    begin_task(torch, "op");
    span_open(log, &inner, CAT_CPU_OP, "in", 2);
    begin_task(torch, "in");
    span_close(log, &inner);
    client.task_end(torch);
    span_close(log, &outer);
    client.task_end(torch);
    static const char *const wanted[] = {"in", "in", "op", "op"};
    for (int i = 0; i < 4; i++) {
        const struct record *r = take();
        ck_assert(r && memcmp(record_name(r).at, wanted[i], 2) == 0);
        ck_assert_int_eq(r->category, i % 2 ? CAT_CPU_OP : CAT_USER_ANNOTATION);
        ck_assert_int_eq(r->flags & REC_UNFINISHED, 0);
    }
    expect_nothing();
    ck_assert_uint_eq(lost(LOSS_MARKER) + lost(LOSS_UNMATCHED), 0);
}
END_TEST

START_TEST(names_tasks_after_functions)
{
    client.task_begin_fn(&their_domain, none, none, (void *)(uintptr_t)0x1234);
    client.task_end(&their_domain);
    expect(REC_SPAN, "0x1234");
    client.task_begin_fn(&their_domain, none, none, dlsym(RTLD_DEFAULT, "strtod"));
    client.task_end(&their_domain);
    ck_assert_uint_ge(record_name(take()).len, 6);
}
END_TEST

START_TEST(records_nested_tasks_up_to_the_limit)
{
    for (unsigned i = 0; i < DEPTH_MOST + 10; i++)
        begin_task(&their_domain, "d");
    for (unsigned i = 0; i < DEPTH_MOST + 10; i++)
        client.task_end(&their_domain);
    for (unsigned i = 0; i < SPAN_DEPTH; i++)
        expect(REC_SPAN, "d");
    expect_nothing();
    ck_assert_uint_eq(lost(LOSS_MARKER), 0);
}
END_TEST

/* ---- metadata ---- */

START_TEST(adds_metadata_to_its_task)
{
    struct itt_id id = {7, 0, 0}, other = {8, 0, 0};
    struct itt_string *key = client.string_handle_create("key");
    struct itt_string *list = client.string_handle_create("list");
    uint64_t large = UINT64_MAX;
    float reals[] = {0.5f, NAN, -2};
    client.task_begin(&their_domain, id, none, &their_string);
    client.metadata_str_add(&their_domain, none, key, "val\"ue", 0);
    client.metadata_str_add(&their_domain, other, key, "not mine", 0);
    client.metadata_add(&their_domain, id, client.string_handle_create("large"), ITT_U64, 1,
                        &large);
    client.metadata_add(&their_domain, id, list, ITT_FLOAT, 3, reals);
    client.task_end(&their_domain);
    client.metadata_str_add(&their_domain, none, key, "no task", 0);
    const struct record *r = expect(REC_SPAN, "their first");
    ck_assert_str_eq(item(r, ARG_TEXT, "domain"), "theirs");
    ck_assert_str_eq(item(r, ARG_TEXT, "key"), "val\"ue");
    ck_assert(*(const double *)item(r, ARG_REAL, "large") == 18446744073709551615.0);
    ck_assert(*(const double *)item(r, ARG_REAL, "list[0]") == 0.5);
    ck_assert(*(const double *)item(r, ARG_REAL, "list[2]") == -2);
    ck_assert_uint_eq(lost(LOSS_TEXT), 1);
    ck_assert_uint_eq(lost(LOSS_MARKER), 1);
    expect_nothing();
    ck_assert_uint_eq(thread_log_get()->data_used, 0);
}
END_TEST

/* ---- instants, events, frames, counters ---- */

START_TEST(records_marks_as_instants)
{
    client.marker(&their_domain, none, &their_string, 3);
    ck_assert_str_eq(item(expect(REC_INSTANT, "their first"), ARG_TEXT, "domain"), "theirs");
    int type = client.mark_create("legacy");
    client.mark(type, "said");
    ck_assert_str_eq(item(expect(REC_INSTANT, "legacy"), ARG_TEXT, "parameter"), "said");
    client.mark(type, NULL);
    expect(REC_INSTANT, "legacy");
    client.mark(0, "x");
    client.mark(9999, "x");
    expect_nothing();
}
END_TEST

START_TEST(records_events_as_spans_or_instants)
{
    int event = client.event_create("event and more", 5);
    ck_assert_int_eq(event, client.event_create("event", 5));
    client.event_start(event);
    client.event_end(event);
    ck_assert_uint_eq(expect(REC_SPAN, "event")->flags & REC_TASK, 0);
    int moment = client.event_create("moment", 6);
    for (int i = 0; i < 3; i++)
        client.event_start(moment);
    expect(REC_SPAN, "moment"); /* of the first start */
    expect(REC_INSTANT, "moment");
    expect(REC_INSTANT, "moment");
    client.event_end(moment);
    client.event_start(0);
    client.event_end(4097);
    expect_nothing();
}
END_TEST

START_TEST(counts_events_beyond_the_limit)
{
    char name[32];
    int last = 1;
    capture_start();
    for (int i = 0; i < 5000 && last; i++)
        last = client.event_create(name, snprintf(name, sizeof name, "event %d", i));
    ck_assert_int_eq(last, 0);
    uint64_t so_far = lost(LOSS_MARKER);
    client.event_start(last); /* counted; does not end another event */
    client.event_end(last);
    ck_assert_int_eq(client.event_create("one more", 8), 0);
    client.event_start(0);
    ck_assert_uint_eq(lost(LOSS_MARKER) - so_far, 2);
    ck_assert_uint_eq(capture_lines(capture_stderr(), "ITT events: new ones are not in the trace"),
                      1);
    client.event_start(client.event_create("event 7", 7));
    client.event_end(client.event_create("event 7", 7));
    expect(REC_SPAN, "event 7");
    expect_nothing();
}
END_TEST

START_TEST(records_nested_frames_as_spans)
{
    client.frame_begin_v3(&their_domain, NULL);
    client.frame_begin_v3(&their_domain, NULL);
    client.frame_end_v3(&their_domain, NULL);
    client.frame_end_v3(&their_domain, NULL);
    ck_assert_uint_eq(expect(REC_SPAN, "theirs")->flags & REC_TASK, 0);
    expect(REC_SPAN, "theirs");
    expect_nothing();
}
END_TEST

START_TEST(records_values_of_counters)
{
    struct itt_counter *c = client.counter_create("n", "d");
    client.counter_inc_delta(c, 5);
    atomic_store(&writer_gate, 0);
    client.counter_dec(c);
    record_all();
    client.counter_dec(c);
    ck_assert_int_eq(*(const int64_t *)item(expect(REC_COUNTER, "d: n"), ARG_INT, ""), 5);
    ck_assert_int_eq(*(const int64_t *)item(expect(REC_COUNTER, "d: n"), ARG_INT, ""), 3);
    struct itt_counter *real = client.counter_create_typed("r", NULL, ITT_DOUBLE);
    double value = 2.5;
    client.counter_set_value(real, &value);
    ck_assert(*(const double *)item(expect(REC_COUNTER, "r"), ARG_REAL, "") == 2.5);
    value = INFINITY;
    client.counter_set_value(real, &value);
    client.counter_inc_delta(real, 1);
    client.counter_set_value(real, NULL);
    client.counter_set_value(NULL, &value);
    ck_assert_uint_eq(lost(LOSS_MARKER), 1);
    client.counter_inc_v3(&their_domain, &their_string);
    client.counter_inc_v3(&their_domain, &their_string);
    expect(REC_COUNTER, "theirs: their first");
    ck_assert_int_eq(
        *(const int64_t *)item(expect(REC_COUNTER, "theirs: their first"), ARG_INT, ""), 2);
    expect_nothing();
}
END_TEST

/* ---- settings ---- */

START_TEST(obeys_pause_and_thread_ignore)
{
    client.pause();
    begin_task(&their_domain, "paused");
    client.marker(&their_domain, none, &their_string, 0);
    client.resume();
    client.task_end(&their_domain);
    expect_nothing();
    begin_task(&their_domain, "on");
    client.pause();
    client.task_end(&their_domain);
    client.resume();
    expect(REC_SPAN, "on");
    client.thread_ignore();
    begin_task(&their_domain, "ignored");
    client.task_end(&their_domain);
    expect_nothing();
    ck_assert_uint_eq(lost(LOSS_MARKER), 0);
}
END_TEST

START_TEST(stores_names_of_threads)
{
    struct thread_name name;
    uint32_t tid = atomic_load(&thread_log_get()->tid);
    ck_assert(!thread_names_find(tid, &name));
    client.thread_set_name("loader");
    ck_assert(thread_names_find(tid, &name));
    ck_assert(name.len == 6 && memcmp(name.text, "loader", 6) == 0);
    char text[300];
    memset(text, 'x', sizeof text);
    text[299] = '\0';
    client.thread_set_name(text);
    ck_assert(thread_names_find(tid, &name));
    ck_assert_uint_eq(name.len, THREAD_NAME_MOST);
    client.thread_set_name(NULL);
}
END_TEST

START_TEST(marks_steps_by_task_name)
{
    mock_pattern = "step *";
    init();
    atomic_store(&writer_gate, 0); /* steps count also while nothing is recorded */
    errno = 0;
    for (int i = 0; i < 3; i++) {
        begin_task(&their_domain, "around");
        begin_task(&their_domain, "step 1");
        begin_task(&their_domain, "step inside");
        client.task_end(&their_domain);
        ck_assert_int_eq(steps_marked, i);
        client.task_end(&their_domain);
        ck_assert_int_eq(steps_marked, i + 1);
        client.task_end(&their_domain);
    }
    client.marker(&their_domain, none, client.string_handle_create("step mark"), 0);
    ck_assert_int_eq(steps_marked, 4);
    client.marker(&their_domain, none, client.string_handle_create("a step"), 0);
    ck_assert_int_eq(steps_marked, 4);
    ck_assert_int_eq(errno, 0);
}
END_TEST

static void *run_thread(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        char name[32];
        snprintf(name, sizeof name, "thread %d", i % 100);
        begin_task(&their_domain, name);
        client.counter_inc_delta(arg, 1);
        client.task_end(&their_domain);
    }
    struct thread_log *log = thread_log_self;
    return (void *)(uintptr_t)atomic_load(&log->records);
}

START_TEST(records_tasks_of_many_threads)
{
    pthread_t threads[THREADS];
    uint64_t records = 0;
    struct itt_counter *c = client.counter_create("shared", NULL);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_thread, c), 0);
    for (int i = 0; i < THREADS; i++) {
        void *n;
        pthread_join(threads[i], &n);
        records += (uintptr_t)n;
    }
    ck_assert_uint_eq(records, THREADS * 2000);
    ck_assert_uint_eq(atomic_load(&itt_cell_of(c)->value), THREADS * 1000);
    ck_assert_uint_eq(lost(LOSS_MARKER) + lost(LOSS_UNMATCHED), 0);
}
END_TEST

START_TEST(shares_counters_of_one_name)
{
    struct itt_counter *a = client.counter_create("same", "d");
    ck_assert_ptr_eq(client.counter_create("same", "d"), a);
    ck_assert_ptr_ne(client.counter_create("same", NULL), a);
    ck_assert_ptr_ne(client.counter_create_typed("same", "d", ITT_DOUBLE), a);
    client.counter_inc_delta(a, 2);
    client.counter_inc_delta(client.counter_create("same", "d"), 3);
    expect(REC_COUNTER, "d: same");
    int64_t value;
    memcpy(&value, item(expect(REC_COUNTER, "d: same"), ARG_INT, ""), 8);
    ck_assert_int_eq(value, 5);
    capture_start();
    char name[32];
    for (unsigned i = 0; i < 20000; i++) { /* limited, with a message */
        snprintf(name, sizeof name, "counter %u", i);
        client.counter_inc_delta(client.counter_create(name, NULL), 1);
        take();
    }
    ck_assert_uint_eq(
        capture_lines(capture_stderr(), "ITT counters: new ones are not in the trace"), 1);
}
END_TEST

START_TEST(keeps_the_outer_task_beyond_the_depth_limit)
{
    struct itt_domain *domain = client.domain_create("d");
    begin_task(domain, "task");
    atomic_store(&writer_gate, 0);
    for (unsigned i = 0; i <= DEPTH_MOST; i++)
        begin_task(domain, "not recorded");
    record_all();
    client.task_end(domain); /* does not end the outermost task */
    ck_assert_ptr_null(take());
    for (unsigned i = 0; i <= DEPTH_MOST; i++)
        client.task_end(domain);
    expect(REC_SPAN, "task");
    ck_assert_uint_eq(atomic_load(&thread_log_get()->depth), 0);
}
END_TEST

static void begin_overlapped(const struct itt_domain *domain, unsigned long long id,
                             const char *name)
{
    client.task_begin_overlapped(domain, (struct itt_id){id, 0, 0}, none,
                                 client.string_handle_create(name));
}

static void end_overlapped(const struct itt_domain *domain, unsigned long long id)
{
    client.task_end_overlapped(domain, (struct itt_id){id, 0, 0});
}

START_TEST(records_overlapped_tasks_that_cross)
{
    struct itt_domain *domain = client.domain_create("d"), *other = client.domain_create("o");
    begin_overlapped(domain, 1, "first");
    begin_overlapped(other, 1, "same id, another domain");
    begin_overlapped(domain, 2, "second");
    begin_task(domain, "plain");
    end_overlapped(domain, 1);
    const struct record *r = expect(REC_ASYNC, "first");
    ck_assert_str_eq(item(r, ARG_TEXT, "domain"), "d");
    ck_assert_uint_ne(r->async.tid, 0);
    ck_assert_uint_ne(r->flags & REC_TASK, 0);
    end_overlapped(domain, 1); /* no task is left */
    ck_assert_ptr_null(take());
    end_overlapped(domain, 2);
    expect(REC_ASYNC, "second");
    client.task_end(domain);
    ck_assert_uint_ne(expect(REC_SPAN, "plain")->flags & REC_TASK, 0);
    end_overlapped(other, 1);
    expect(REC_ASYNC, "same id, another domain");
    ck_assert_uint_eq(lost(LOSS_MARKER) + lost(LOSS_ASYNC), 0);
}
END_TEST

static void *end_some(void *domain)
{
    for (unsigned i = 0; i < 1000; i++)
        end_overlapped(domain, i);
    for (unsigned i = 0; i < 1000; i++)
        expect(REC_ASYNC, "across");
    return NULL;
}

START_TEST(overlapped_tasks_end_on_any_thread)
{
    struct itt_domain *domain = client.domain_create("d");
    uint32_t own = atomic_load(&thread_log_get()->tid);
    for (unsigned i = 0; i < 1000; i++)
        begin_overlapped(domain, i, "across");
    ck_assert_ptr_null(take());
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, end_some, domain), 0);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(lost(LOSS_ASYNC), 0);
    begin_overlapped(domain, 1, "own");
    end_overlapped(domain, 1);
    ck_assert_uint_eq(expect(REC_ASYNC, "own")->async.tid, own);
}
END_TEST

START_TEST(ignores_overlapped_tasks_begun_unrecorded)
{
    struct itt_domain *domain = client.domain_create("d");
    atomic_store(&writer_gate, 0);
    begin_overlapped(domain, 1, "before");
    record_all();
    end_overlapped(domain, 1);
    begin_overlapped(domain, 2, "inside");
    atomic_store(&writer_gate, 0);
    end_overlapped(domain, 2); /* belongs to the window that it began in */
    expect(REC_ASYNC, "inside");
    ck_assert_ptr_null(take());
    record_all();
    for (unsigned i = 0; i < 20000; i++)
        begin_overlapped(domain, 100 + i, "too many");
    ck_assert_uint_eq(lost(LOSS_ASYNC), 20000 - 4096); /* counted, without any other effect */
    for (unsigned i = 0; i < 20000; i++)
        end_overlapped(domain, 100 + i);
    ck_assert_uint_eq(lost(LOSS_MARKER), 0);
}
END_TEST

START_TEST(overlapped_tasks_mark_steps)
{
    struct itt_domain *domain = client.domain_create("d");
    mock_pattern = "step *";
    init();
    atomic_store(&writer_gate, 0); /* steps count also while nothing is recorded */
    begin_overlapped(domain, 1, "step 1");
    begin_overlapped(domain, 2, "another");
    end_overlapped(domain, 2);
    ck_assert_int_eq(atomic_load(&steps_marked), 0);
    end_overlapped(domain, 1);
    ck_assert_int_eq(atomic_load(&steps_marked), 1);
}
END_TEST

START_TEST(matches_step_patterns)
{
    static const struct {
        const char *pattern, *text;
        bool matches;
    } cases[] = {
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"*", "any", true},
        {"step", "step", true},
        {"step", "steps", false},
        {"step*", "step 1", true},
        {"*step", "a step", true},
        {"*a*b*", "xxaxxbxx", true},
        {"*a*b*", "xxbxxaxx", false},
        {"a?c", "abc", true},
        {"a?c", "ac", false},
        {"[a-c]x", "bx", true},
        {"[!a-c]x", "bx", false},
        {"[]]", "]", true},
        {"[", "[", true},
        {"\\*", "*", true},
        {"\\*", "x", false},
        {"*aab", "aaaaaab", true},
        {"step", "ste", false},
        {"a[", "a[", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_msg(glob_match(cases[i].pattern, cases[i].text, strlen(cases[i].text)) ==
                          cases[i].matches,
                      "%s on %s", cases[i].pattern, cases[i].text);
}
END_TEST

Suite *suite_itt(void)
{
    Suite *suite = suite_create("itt");
    TCase *calls = tcase_create("calls");
    tcase_add_checked_fixture(calls, setup, NULL);
    tcase_add_test(calls, init_replaces_the_functions_it_knows);
    tcase_add_test(calls, init_replaces_no_function_after_the_end);
    tcase_add_test(calls, finds_the_function_of_every_name);
    tcase_add_test(calls, shares_counters_of_one_name);
    tcase_add_test(calls, keeps_the_outer_task_beyond_the_depth_limit);
    tcase_add_test(calls, records_overlapped_tasks_that_cross);
    tcase_add_test(calls, overlapped_tasks_end_on_any_thread);
    tcase_add_test(calls, ignores_overlapped_tasks_begun_unrecorded);
    tcase_add_test(calls, overlapped_tasks_mark_steps);
    tcase_add_test(calls, returns_one_handle_per_name);
    tcase_add_test(calls, keeps_all_bytes_of_names);
    tcase_add_test(calls, records_tasks_as_spans);
    tcase_add_test(calls, reads_objects_of_the_clients_static_part);
    tcase_add_test(calls, matches_ends_with_recorded_begins);
    tcase_add_test(calls, ends_the_innermost_task_of_any_domain);
    tcase_add_test(calls, keeps_tasks_of_operators_that_end_first);
    tcase_add_test(calls, names_tasks_after_functions);
    tcase_add_test(calls, records_nested_tasks_up_to_the_limit);
    tcase_add_test(calls, adds_metadata_to_its_task);
    tcase_add_test(calls, records_marks_as_instants);
    tcase_add_test(calls, records_events_as_spans_or_instants);
    tcase_add_test(calls, counts_events_beyond_the_limit);
    tcase_add_test(calls, records_nested_frames_as_spans);
    tcase_add_test(calls, records_values_of_counters);
    tcase_add_test(calls, obeys_pause_and_thread_ignore);
    tcase_add_test(calls, stores_names_of_threads);
    tcase_add_test(calls, marks_steps_by_task_name);
    tcase_add_test(calls, records_tasks_of_many_threads);
    tcase_add_test(calls, matches_step_patterns);
    suite_add_tcase(suite, calls);
    return suite;
}
