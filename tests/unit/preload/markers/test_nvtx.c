/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/markers/nvtx.c and nvtx_names.c on real thread logs. The tests act as a client
 * library: all calls go through its tables. Includes nvtx.c with other names for some functions, so
 * that the tests can replace steps and life. */
#define cprof_life       nvtx_mock_life
#define steps_mark       nvtx_mock_steps_mark
#define config_get       nvtx_mock_config_get
#define config_step_name nvtx_mock_config_step_name
#define nvtx_attach      nvtx_mock_attach
#define nvtx_take_key    nvtx_mock_take_key
#include "preload/markers/nvtx.c"

#include <check.h>
#include <wchar.h>

#include "tests/support/records.h"
#include "writer/record/thread_names.h"

#define THREADS 64

_Atomic int nvtx_mock_life = LIFE_AWAKE;
static _Atomic int marks;
static struct config mock_config;
static uint64_t before[LOSS_COUNT];

void nvtx_mock_steps_mark(enum step_source source, uint64_t ticks)
{
    ck_assert_int_eq(source, STEP_NVTX);
    ck_assert_uint_eq(ticks, 0);
    atomic_fetch_add(&marks, 1);
    errno = EAGAIN;
}

const struct config *nvtx_mock_config_get(void)
{
    return &mock_config;
}

const char *nvtx_mock_config_step_name(enum config_step kind)
{
    (void)kind;
    return "step*";
}

/* ---- a client ---- */

#define SIZE 16

struct client {
    nvtx_function core[SIZE], core2[SIZE];
    nvtx_function *core_table[SIZE], *core2_table[SIZE];
};

static struct client client, *asked;
static unsigned table_size = SIZE;
static bool no_tables;

static int module_table(int module, nvtx_function ***table, unsigned *n)
{
    if (no_tables || (module != NVTX_CORE && module != NVTX_CORE2))
        return 0;
    *table = module == NVTX_CORE ? asked->core_table : asked->core2_table;
    *n = table_size;
    return 1;
}

static const void *export_table(uint32_t id)
{
    static const struct nvtx_callbacks callbacks = {sizeof callbacks, module_table};
    return id == NVTX_CALLBACKS ? &callbacks : NULL;
}

static void attach_client(struct client *c)
{
    for (int i = 1; i < SIZE; i++) {
        c->core_table[i] = &c->core[i];
        c->core2_table[i] = &c->core2[i];
    }
    asked = c;
    nvtx_mock_attach(export_table);
}

/* Calls as a program makes them, through the client's tables. */
#define CALL(type, table, number) ((type)client.table[number])
#define PUSH_A(text)              CALL(int (*)(const char *), core, 9)(text)
#define PUSH_W(text)              CALL(int (*)(const wchar_t *), core, 10)(text)
#define PUSH_EX(a)                CALL(int (*)(attributes), core, 8)(a)
#define POP()                     CALL(int (*)(void), core, 11)()
#define MARK_A(text)              CALL(void (*)(const char *), core, 2)(text)
#define MARK_EX(a)                CALL(void (*)(attributes), core, 1)(a)
#define START_A(text)             CALL(uint64_t (*)(const char *), core, 5)(text)
#define END(id)                   CALL(void (*)(uint64_t), core, 7)(id)
#define NAME_CATEGORY(n, text)    CALL(void (*)(uint32_t, const char *), core, 12)(n, text)
#define DOMAIN(name)              CALL(domain (*)(const char *), core2, 12)(name)
#define DOMAIN_PUSH(d, a)         CALL(int (*)(domain, attributes), core2, 4)(d, a)
#define DOMAIN_POP(d)             CALL(int (*)(domain), core2, 5)(d)
#define DOMAIN_START(d, a)        CALL(uint64_t (*)(domain, attributes), core2, 2)(d, a)
#define DOMAIN_MARK(d, a)         CALL(void (*)(domain, attributes), core2, 1)(d, a)

#define REGISTER(d, text) CALL(struct nvtx_string *(*)(domain, const char *), core2, 10)(d, text)

static struct nvtx_attributes ascii(const char *text)
{
    return (struct nvtx_attributes){.version = 3,
                                    .size = sizeof(struct nvtx_attributes),
                                    .message_type = NVTX_ASCII,
                                    .message.ascii = text};
}

/* ---- helpers ---- */

static void record(bool on)
{
    atomic_store(&writer_gate, on ? GATE_SPANS | GATE_MARKERS : 0);
}

static uint64_t lost(enum loss cause)
{
    uint64_t n = atomic_load(&process_losses[cause]);
    for (struct thread_log *log = thread_log_first(); log; log = log->next)
        n += atomic_load(&log->losses[cause]);
    return n - before[cause];
}

static const struct record *take(void)
{
    static __thread struct {
        struct record r;
        char rest[8000];
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

static const struct record *expect(enum record_kind kind, const char *name)
{
    const struct record *r = take();
    ck_assert_msg(r != NULL, "no record for %s", name);
    assert_named(r, name);
    ck_assert_int_eq(r->kind, kind);
    ck_assert_int_eq(r->category, CAT_USER_ANNOTATION);
    ck_assert(r->flags & REC_MARKER);
    ck_assert(kind == REC_INSTANT ? r->end == r->start : r->end >= r->start && r->id != 0);
    return r;
}

static void expect_nothing(void)
{
    ck_assert_ptr_null(take());
    ck_assert_uint_eq(span_top(thread_log_get()), 0);
    ck_assert_uint_eq(thread_log_get()->text_used, 0);
    ck_assert_uint_eq(thread_log_get()->data_used, 0);
    for (int i = 0; i < LOSS_COUNT; i++)
        ck_assert_uint_eq(lost((enum loss)i), 0);
}

/* The value, as text, of the item with this key in the record's args. */
static const char *arg(const struct record *r, const char *key)
{
    static __thread char text[1024];
    const uint8_t *p = record_data(r), *last = p + r->data_len;
    while (r->data_kind == DATA_ARGS && p < last) {
        uint8_t type = *p;
        uint16_t key_len;
        uint32_t len = 8;
        memcpy(&key_len, p + 1, sizeof key_len);
        const char *its = (const char *)p + 3;
        p += 3 + key_len;
        if (type == ARG_TEXT) {
            memcpy(&len, p, sizeof len);
            p += sizeof len;
        }
        int64_t whole;
        double real;
        memcpy(&whole, p, 8);
        memcpy(&real, p, 8);
        if (key_len == strlen(key) && memcmp(its, key, key_len) == 0) {
            if (type == ARG_TEXT)
                snprintf(text, sizeof text, "'%.*s'", (int)len, (const char *)p);
            else if (type == ARG_INT)
                snprintf(text, sizeof text, "%lld", (long long)whole);
            else
                snprintf(text, sizeof text, "%g", real);
            return text;
        }
        p += len;
    }
    ck_assert_ptr_eq(p, last);
    return "";
}

static void setup(void)
{
    static bool started;
    if (!started)
        ck_assert(thread_log_start(1u << 20));
    started = true;
    mock_config.step = CONFIG_STEP_AUTO;
    attach_client(&client);
    record(true);
    atomic_store(&marks, 0);
    memset(before, 0, sizeof before);
    for (int i = 0; i < LOSS_COUNT; i++)
        before[i] = lost((enum loss)i);
}

/* ---- tests ---- */

START_TEST(sets_only_functions_that_the_client_has)
{
    static struct client other;
    table_size = 10; /* an older client has fewer functions */
    attach_client(&other);
    table_size = SIZE;
    ck_assert(other.core[9] && other.core2[9] && !other.core[10] && !other.core2[10]);
    for (int i = 1; i < SIZE; i++)
        ck_assert(client.core[i] != NULL);
    ck_assert(!client.core[0] && !client.core2[0] && !client.core2[15] && !client.core2[14]);
    no_tables = true;
    attach_client(&other);
    no_tables = false;
    nvtx_mock_attach(NULL);
}
END_TEST

START_TEST(push_and_pop_return_levels)
{
    domain a = DOMAIN("a");
    struct nvtx_attributes e = ascii("x");
    for (int on = 0; on < 2; on++) {
        record(on);
        ck_assert_int_eq(PUSH_A("0"), 0);
        ck_assert_int_eq(PUSH_W(L"1"), 1);
        ck_assert_int_eq(DOMAIN_PUSH(a, &e), 0); /* each domain counts its own levels */
        ck_assert_int_eq(PUSH_EX(&e), 2);
        ck_assert_int_eq(POP(), 2);
        ck_assert_int_eq(DOMAIN_POP(a), 0);
        ck_assert_int_eq(POP(), 1);
        ck_assert_int_eq(POP(), 0);
    }
    expect(REC_SPAN, "x");
    const struct record *r = expect(REC_SPAN, "x");
    ck_assert_str_eq(arg(r, "domain"), "'a'");
    expect(REC_SPAN, "1");
    r = expect(REC_SPAN, "0");
    ck_assert_uint_eq(r->data_len, 0);
    expect_nothing();
    record(false);
    ck_assert_int_lt(POP(), 0);
    expect_nothing(); /* misuse does not count while nothing is recorded */
    record(true);
    ck_assert_int_lt(POP(), 0);
    ck_assert_int_lt(DOMAIN_POP(a), 0);
    ck_assert_uint_eq(lost(LOSS_MARKER), 2);
}
END_TEST

START_TEST(pop_ends_the_range_of_its_push)
{
    record(false);
    PUSH_A("not recorded");
    record(true);
    PUSH_A("recorded");
    record(false);
    PUSH_A("not this one");
    POP();
    record(true);
    POP();
    POP();
    expect(REC_SPAN, "recorded");
    expect_nothing();
}
END_TEST

START_TEST(records_crossing_domains_as_async_ranges)
{
    domain a = DOMAIN("a"), b = DOMAIN("b");
    struct nvtx_attributes in_a = ascii("a range"), in_b = ascii("range in b");
    /* overlapping pairs: the stack is never empty and must not grow */
    for (int i = 0; i < 1000; i++) {
        DOMAIN_PUSH(i & 1 ? b : a, i & 1 ? &in_b : &in_a);
        if (i == 0)
            continue;
        DOMAIN_POP(i & 1 ? a : b);
        const struct record *r = expect(REC_ASYNC, i & 1 ? "a range" : "range in b");
        ck_assert_str_eq(arg(r, "domain"), i & 1 ? "'a'" : "'b'");
        ck_assert_uint_eq(r->async.tid, 0);
        ck_assert_uint_eq(atomic_load(&thread_log_get()->depth), 1);
    }
    DOMAIN_POP(b);
    const struct record *r = expect(REC_SPAN, "range in b");
    ck_assert_str_eq(arg(r, "domain"), "'b'");
    expect_nothing();
}
END_TEST

START_TEST(records_ranges_across_operators_as_async)
{
    struct thread_log *log = thread_log_get();
    PUSH_A("outer");
    PUSH_A("range");
    span_open(log, &mock_config, CAT_USER_ANNOTATION, "operator", 8);
    POP(); /* inside the operator */
    span_add_flags(&log->spans[1], REC_MARKER);
    span_close(log, &mock_config);
    POP();
    expect(REC_ASYNC, "range");
    expect(REC_SPAN, "operator");
    expect(REC_SPAN, "outer");
    span_open(log, &mock_config, CAT_USER_ANNOTATION, "operator", 8);
    span_add_flags(&log->spans[0], REC_MARKER);
    PUSH_A("begun inside");
    span_close(log, &mock_config);
    POP();
    expect(REC_SPAN, "operator");
    expect(REC_ASYNC, "begun inside");
    expect_nothing();
}
END_TEST

/* Takes a record, which must be the span of an operator. */
static void expect_operator(const char *name)
{
    const struct record *r = take();
    ck_assert(r && r->kind == REC_SPAN && r->category == CAT_CPU_OP && !(r->flags & REC_MARKER));
    assert_named(r, name);
}

/* Ranges of emit_nvtx. Its callback runs after cprof's, at an operator's beginning and end, so its
 * range begins inside the operator and ends after it. That range and all ranges inside it stay on
 * the thread's row. */
START_TEST(keeps_emit_nvtx_ranges_on_the_row)
{
    struct thread_log *log = thread_log_get();
    static const int outer, inner;
    span_open(log, &outer, CAT_CPU_OP, "aten::linear", 12);
    PUSH_A("aten::linear, seq = 7, op_id = 1");
    span_open(log, &inner, CAT_CPU_OP, "aten::addmm", 11);
    PUSH_A("aten::addmm");
    PUSH_A("aten::addmm, too"); /* an ordinary range: it begins inside the other range */
    POP();
    span_close(log, &inner);
    ck_assert_int_eq(POP(), 1);
    span_close(log, &outer);
    ck_assert_int_eq(POP(), 0);
    expect(REC_SPAN, "aten::addmm, too");
    expect(REC_SPAN, "aten::addmm");
    expect_operator("aten::addmm");
    expect(REC_SPAN, "aten::linear, seq = 7, op_id = 1");
    expect_operator("aten::linear");
    expect_nothing();
    /* A range with another name, even with the same beginning, is the program's own. */
    span_open(log, &outer, CAT_CPU_OP, "aten::mm", 8);
    PUSH_A("aten::mm_out");
    span_close(log, &outer);
    POP();
    expect_operator("aten::mm");
    expect(REC_ASYNC, "aten::mm_out");
    expect_nothing();
}
END_TEST

START_TEST(reads_every_kind_of_message)
{
    struct nvtx_attributes e = ascii("plain");
    MARK_EX(&e);
    expect(REC_INSTANT, "plain");
    e.message_type = NVTX_UNICODE;
    e.message.unicode = L"w\u00e9\u20ac\U0001f600";
    MARK_EX(&e);
    expect(REC_INSTANT, "w\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    static const wchar_t wrong[] = {0xd800, (wchar_t)0x110000, 'x', 0};
    e.message.unicode = wrong;
    MARK_EX(&e);
    expect(REC_INSTANT, "\xef\xbf\xbd\xef\xbf\xbdx");
    e.message_type = NVTX_REGISTERED;
    e.message.registered = REGISTER(NULL, "registered");
    ck_assert_ptr_eq(e.message.registered, REGISTER(DOMAIN("a"), "registered"));
    MARK_EX(&e);
    expect(REC_INSTANT, "registered");
    e.message.registered = NULL;
    MARK_EX(&e);
    e.message_type = 99;
    MARK_EX(&e);
    MARK_EX(NULL);
    MARK_A(NULL);
    MARK_A("");
    for (int i = 0; i < 5; i++)
        expect(REC_INSTANT, "(unnamed)");
    CALL(void (*)(const wchar_t *), core, 3)(L"wide");
    expect(REC_INSTANT, "wide");
    static wchar_t long_one[10000];
    wmemset(long_one, 0x20ac, 9999);
    PUSH_W(long_one);
    POP();
    ck_assert_uint_eq(record_name(take()).len, NVTX_WIDE_MOST / 3 * 3);
    expect_nothing();
}
END_TEST

START_TEST(reads_every_kind_of_payload)
{
    struct nvtx_attributes e = ascii("p");
    const struct {
        int type;
        uint64_t bits;
        const char *text;
    } rows[] = {
        {NVTX_NO_PAYLOAD, 5, ""},
        {NVTX_UINT64, 7, "7"},
        {NVTX_UINT64, UINT64_MAX, "'18446744073709551615'"},
        {NVTX_INT64, (uint64_t)-3, "-3"},
        {NVTX_UINT32, 0xffffffffffffffffu, "4294967295"},
        {NVTX_INT32, 0xfffffffeu, "-2"},
        {(int)0xdfbd0009, 5, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        e.payload_type = rows[i].type;
        e.payload.u64 = rows[i].bits;
        MARK_EX(&e);
        ck_assert_str_eq(arg(expect(REC_INSTANT, "p"), "payload"), rows[i].text);
    }
    e.payload_type = NVTX_DOUBLE;
    e.payload.f64 = 0.5;
    PUSH_EX(&e);
    e.payload_type = NVTX_FLOAT;
    e.payload.f32 = -1.25f;
    PUSH_EX(&e);
    POP();
    POP();
    ck_assert_str_eq(arg(expect(REC_SPAN, "p"), "payload"), "-1.25");
    ck_assert_str_eq(arg(expect(REC_SPAN, "p"), "payload"), "0.5");
    e.size = 24; /* a version with fewer members */
    MARK_EX(&e);
    ck_assert_uint_eq(expect(REC_INSTANT, "(unnamed)")->data_len, 0);
    expect_nothing();
}
END_TEST

START_TEST(names_categories_and_domains)
{
    domain a = DOMAIN("a domain"), b = DOMAIN("another");
    ck_assert_ptr_eq(a, DOMAIN("a domain")); /* the same in every client */
    ck_assert_ptr_ne(a, b);
    NAME_CATEGORY(3, "three");
    CALL(void (*)(domain, uint32_t, const wchar_t *), core2, 9)(a, 3, L"three of a");
    struct nvtx_attributes e = ascii("x");
    e.category = 3;
    static const char *const names[] = {"'three'", "'three of a'", "3"};
    domain const in[] = {NULL, a, b};
    for (int i = 0; i < 3; i++) {
        DOMAIN_MARK(in[i], &e);
        ck_assert_str_eq(arg(expect(REC_INSTANT, "x"), "category"), names[i]);
    }
    NAME_CATEGORY(3, "renamed");
    MARK_EX(&e);
    ck_assert_str_eq(arg(expect(REC_INSTANT, "x"), "category"), "'renamed'");
    char name[2000] = "";
    memset(name, 'n', sizeof name - 1);
    DOMAIN_MARK(DOMAIN(name), &e);
    const struct record *r = expect(REC_INSTANT, "x");
    ck_assert_uint_eq(strlen(arg(r, "domain")), 2 + NVTX_ITEM_MOST - 13);
    for (int i = 0; i < 2000; i++) { /* more than there is room for */
        snprintf(name, sizeof name, "domain %d", i);
        domain d = DOMAIN(name);
        ck_assert_int_eq(DOMAIN_PUSH(d, &e), 0);
        ck_assert_int_eq(DOMAIN_POP(d), 0);
        expect(REC_SPAN, "x");
    }
    expect_nothing();
}
END_TEST

static void *end_on_another_thread(void *id)
{
    END(*(uint64_t *)id);
    const struct record *r = expect(REC_ASYNC, "across");
    ck_assert_str_eq(arg(r, "domain"), "'a'");
    ck_assert_uint_ne(r->async.tid, 0);
    ck_assert_uint_ne(r->async.tid, (uint64_t)syscall(SYS_gettid));
    return NULL;
}

START_TEST(records_start_end_ranges_across_threads)
{
    struct nvtx_attributes e = ascii("across");
    uint64_t id = DOMAIN_START(DOMAIN("a"), &e), first = START_A("first"),
             second = START_A("second");
    ck_assert(id && first && second && id != first && first != second && id != second);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, end_on_another_thread, &id), 0);
    pthread_join(thread, NULL);
    END(first);
    END(second);
    expect(REC_ASYNC, "first");
    expect(REC_ASYNC, "second");
    record(false);
    uint64_t unseen = START_A("not recorded"), unseen_too = START_A("not recorded");
    ck_assert(unseen && unseen != unseen_too);
    record(true);
    END(unseen);
    expect_nothing();
    END(first); /* ended twice */
    END(0);
    END(UINT64_MAX >> 2);
    ck_assert_uint_eq(lost(LOSS_MARKER), 3);
    ck_assert_ptr_null(take());
}
END_TEST

START_TEST(counts_open_ranges_beyond_the_limit)
{
    static uint64_t ids[5000];
    for (int i = 0; i < 5000; i++)
        ids[i] = START_A("open");
    ck_assert_uint_eq(lost(LOSS_ASYNC), 5000 - 4096);
    int n = 0;
    for (int i = 0; i < 5000; i++) {
        END(ids[i]);
        n += take() != NULL;
    }
    ck_assert_int_eq(n, 4096);
    ck_assert_uint_eq(lost(LOSS_MARKER), 0);
}
END_TEST

static void *many_pairs(void *unused)
{
    struct nvtx_attributes e = ascii("pair");
    e.category = 7;
    char name[16];
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "thread %d", i % 50);
        domain d = DOMAIN(name);
        nvtx_name_category(d->number, 7, name, strlen(name));
        ck_assert_int_eq(DOMAIN_PUSH(d, &e), 0);
        uint64_t id = DOMAIN_START(d, &e);
        ck_assert_int_eq(DOMAIN_POP(d), 0);
        END(id);
        char expected[32];
        snprintf(expected, sizeof expected, "'%s'", name);
        ck_assert_str_eq(arg(expect(REC_SPAN, "pair"), "domain"), expected);
        ck_assert_str_eq(arg(expect(REC_ASYNC, "pair"), "category"), expected);
    }
    return unused;
}

START_TEST(records_ranges_of_many_threads)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, many_pairs, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < LOSS_COUNT; i++)
        ck_assert_uint_eq(lost((enum loss)i), 0);
}
END_TEST

START_TEST(marks_steps_by_range_name)
{
    mock_config.step = CONFIG_STEP_NVTX;
    start_once();
    domain d = DOMAIN("train");
    struct nvtx_attributes e = ascii("step 5");
    for (int on = 0; on < 2; on++) {
        record(on);
        atomic_store(&marks, 0);
        errno = 0;
        PUSH_A("step 1");
        PUSH_A("other");
        DOMAIN_PUSH(d, &e);
        POP();
        ck_assert_int_eq(marks, 0);
        POP();
        ck_assert_int_eq(marks, 1);
        DOMAIN_POP(d);
        ck_assert_int_eq(marks, 2);
        uint64_t id = START_A("step 2"), no = START_A("a step");
        END(no);
        ck_assert_int_eq(marks, 2);
        END(id);
        ck_assert_int_eq(marks, 3);
        MARK_A("step 3");
        MARK_A("no step");
        ck_assert_int_eq(marks, 4);
        ck_assert_int_eq(errno, 0);
    }
    atomic_store(&step_pattern, "train/s*");
    DOMAIN_PUSH(d, &e);
    DOMAIN_POP(d);
    PUSH_EX(&e);
    POP();
    ck_assert_int_eq(marks, 5);
}
END_TEST

START_TEST(stores_names_of_threads)
{
    struct thread_name name;
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    CALL(void (*)(uint32_t, const char *), core, 14)(tid, "loader");
    ck_assert(thread_names_find(tid, &name) && name.len == 6 && !memcmp(name.text, "loader", 6));
    CALL(void (*)(uint32_t, const wchar_t *), core, 15)(tid, L"l\u00f6");
    ck_assert(thread_names_find(tid, &name) && name.len == 3);
    struct nvtx_resource r = {.size = sizeof r,
                              .type = NVTX_THREAD_POSIX,
                              .identifier = (uint64_t)pthread_self(),
                              .message_type = NVTX_ASCII,
                              .message.ascii = "by handle"};
    ck_assert_ptr_nonnull(
        CALL(const void *(*)(domain, struct nvtx_resource *), core2, 6)(NULL, &r));
    ck_assert(thread_names_find(tid, &name) && name.len == 9);
    atomic_store(&nvtx_mock_life, LIFE_OVER);
    CALL(void (*)(uint32_t, const char *), core, 14)(tid, "too late");
    atomic_store(&nvtx_mock_life, LIFE_AWAKE);
    ck_assert(thread_names_find(tid, &name) && name.len == 9);
    thread_names_ended(tid);
    thread_names_forget();
    ck_assert(!thread_names_find(tid, &name));
}
END_TEST

Suite *suite_nvtx(void)
{
    Suite *suite = suite_create("nvtx");
    TCase *tc = tcase_create("nvtx");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, sets_only_functions_that_the_client_has);
    tcase_add_test(tc, push_and_pop_return_levels);
    tcase_add_test(tc, pop_ends_the_range_of_its_push);
    tcase_add_test(tc, records_crossing_domains_as_async_ranges);
    tcase_add_test(tc, records_ranges_across_operators_as_async);
    tcase_add_test(tc, keeps_emit_nvtx_ranges_on_the_row);
    tcase_add_test(tc, reads_every_kind_of_message);
    tcase_add_test(tc, reads_every_kind_of_payload);
    tcase_add_test(tc, names_categories_and_domains);
    tcase_add_test(tc, records_start_end_ranges_across_threads);
    tcase_add_test(tc, counts_open_ranges_beyond_the_limit);
    tcase_add_test(tc, records_ranges_of_many_threads);
    tcase_add_test(tc, marks_steps_by_range_name);
    tcase_add_test(tc, stores_names_of_threads);
    suite_add_tcase(suite, tc);
    return suite;
}
