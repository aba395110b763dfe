/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/json/json.h: numbers, strings, the exact text of each event, truncated and
 * hostile data. */
#include "writer/json/json.h"

#include <check.h>
#include <stdlib.h>
#include <math.h>
#include <stdio.h>

#include "tests/fuzz/json_valid.h"
#include "tests/support/comma.h"

static const char *const dtypes[] = {
    [0] = "unsigned char", [4] = "long int", [6] = "float", [9] = "c10::complex<float>"};
#define N_DTYPES 10u

static const struct json_place place = {77, 78, 1234, 1801};

static struct buf out;

/* Empties the buffer. Returns its text, terminated, valid until the next call. */
static const char *take_text(void)
{
    static char *text;
    free(text);
    ck_assert(!out.failed);
    text = calloc(1, out.len + 1);
    ck_assert_ptr_nonnull(text);
    if (out.len != 0)
        memcpy(text, out.data, out.len);
    buf_reset(&out);
    return text;
}

static uint64_t next_random(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Allocates exactly the record's size, so that ASan sees an overread. */
static struct record *make(uint8_t kind, uint8_t category, const char *name, uint8_t data_kind,
                           const void *data, size_t n)
{
    size_t name_len = strlen(name);
    struct record *r = calloc(1, sizeof(*r) + name_len + n);
    ck_assert_ptr_nonnull(r);
    r->kind = kind;
    r->category = category;
    r->data_kind = data_kind;
    r->op.sequence = kind == REC_SPAN ? -1 : 0;
    r->name = (uint32_t)name_len;
    r->data_len = (uint32_t)n;
    memcpy(r + 1, name, name_len);
    if (n != 0)
        memcpy((char *)(r + 1) + name_len, data, n);
    return r;
}

/* Returns the record's text and frees the record. */
static const char *text_of(struct record *r)
{
    json_record(&out, r, record_name(r), &place, dtypes, N_DTYPES);
    free(r);
    return take_text();
}

/* ---- DATA_* ---------------------------------------------------------------------------------- */

static void add_arg(struct buf *b, uint8_t type, const char *key, const void *value, uint32_t n)
{
    uint16_t key_len = (uint16_t)strlen(key);
    buf_put(b, &type, 1);
    buf_put(b, &key_len, 2);
    buf_put(b, key, key_len);
    if (type >= ARG_TEXT)
        buf_put(b, &n, 4);
    buf_put(b, value, n);
}

static void add_text(struct buf *b, const char *key, const char *value)
{
    add_arg(b, ARG_TEXT, key, value, (uint32_t)strlen(value));
}

static void add_int(struct buf *b, const char *key, int64_t value)
{
    add_arg(b, ARG_INT, key, &value, 8);
}

static void add_real(struct buf *b, const char *key, double value)
{
    add_arg(b, ARG_REAL, key, &value, 8);
}

static void add_body(struct buf *b, uint8_t dtype, uint8_t ndim, const int64_t *sizes)
{
    buf_put(b, &dtype, 1);
    buf_put(b, &ndim, 1);
    buf_put(b, sizes, 8u * ndim);
}

static void add_tag(struct buf *b, uint8_t tag)
{
    buf_put(b, &tag, 1);
}

/* ---- numbers --------------------------------------------------------------------------------- */

START_TEST(writes_integers)
{
    static const int64_t some[] = {0, 1, -1, 9, 10, 99, 100, 101, -100, INT64_MAX, INT64_MIN};
    char expected[32];
    for (size_t i = 0; i < sizeof(some) / sizeof(*some); i++) {
        json_int(&out, some[i]);
        snprintf(expected, sizeof(expected), "%lld", (long long)some[i]);
        ck_assert_str_eq(take_text(), expected);
    }
    for (uint64_t power = 1; power < 10000000000000000000u; power *= 10) {
        for (int64_t step = -1; step <= 1; step++) {
            uint64_t v = power + (uint64_t)step;
            json_uint(&out, v);
            snprintf(expected, sizeof(expected), "%llu", (unsigned long long)v);
            ck_assert_str_eq(take_text(), expected);
        }
    }
    for (int i = 0; i < 100000; i++) {
        int64_t v = (int64_t)(next_random() >> (i % 64));
        json_int(&out, i & 1 ? v : -(v >> 1));
        snprintf(expected, sizeof(expected), "%lld", (long long)(i & 1 ? v : -(v >> 1)));
        ck_assert_str_eq(take_text(), expected);
    }
}
END_TEST

START_TEST(writes_unsigned_beyond_int64_as_string)
{
    json_uint(&out, INT64_MAX);
    ck_assert_str_eq(take_text(), "9223372036854775807");
    json_uint(&out, (uint64_t)INT64_MAX + 1);
    ck_assert_str_eq(take_text(), "\"9223372036854775808\"");
    json_uint(&out, UINT64_MAX);
    ck_assert_str_eq(take_text(), "\"18446744073709551615\"");
}
END_TEST

START_TEST(writes_nanoseconds_as_microseconds)
{
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {
        {0, "0.000"},
        {1, "0.001"},
        {10, "0.010"},
        {999, "0.999"},
        {1000, "1.000"},
        {1234567, "1234.567"},
        {2591999999999999, "2591999999999.999"},
        {-1, "0.000"},
        {INT64_MIN, "0.000"},
        {INT64_MAX, "9223372036854775.807"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        json_us(&out, cases[i].ns);
        ck_assert_str_eq(take_text(), cases[i].text);
    }
}
END_TEST

static void check_real(double v)
{
    json_real(&out, v);
    const char *text = take_text();
    ck_assert_msg(json_valid(text, strlen(text)), "%s", text);
    char *end;
    double back = strtod(text, &end);
    ck_assert_msg(*end == '\0' && memcmp(&back, &v, sizeof(v)) == 0, "%a became %s", v, text);
}

/* Doubles of every class, read back in the C locale. */
static void check_reals(void)
{
    static const double some[] = {0.0,
                                  -0.0,
                                  1.0,
                                  -2.5,
                                  0.1,
                                  1e-9,
                                  1e22,
                                  1e23,
                                  5e-324,
                                  0.3,
                                  1.0 / 3,
                                  2.0 / 3,
                                  1e300,
                                  1e15,
                                  1e16,
                                  1e-300,
                                  0.45,
                                  123456.789,
                                  1e-310,
                                  9007199254740991.0,
                                  9007199254740993.0,
                                  2.2250738585072014e-308,
                                  1.7976931348623157e308};
    for (size_t i = 0; i < sizeof(some) / sizeof(*some); i++)
        check_real(some[i]);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = next_random();
        double v;
        memcpy(&v, &bits, sizeof(v));
        if (isfinite(v))
            check_real(v);
        check_real((double)(int64_t)(bits >> 40) / 1000.0);
        check_real((double)(float)(bits >> 32) * 1e-9);
    }
}

START_TEST(reals_read_back_exactly)
{
    check_reals();
    json_real(&out, 0.25);
    ck_assert_str_eq(take_text(), "0.250");
    json_real(&out, -3);
    ck_assert_str_eq(take_text(), "-3.0");
    json_real(&out, 1e100);
    ck_assert_str_eq(take_text(), "1.0e+100");
}
END_TEST

START_TEST(reals_ignore_the_locale)
{
    char folder[] = "/tmp/cprof-locale-XXXXXX", command[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    bool comma = comma_locale(folder);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
    if (!comma)
        return;
    json_real(&out, 1.0 / 3);
    ck_assert_str_eq(take_text(), "3.333333333333333e-01");
    json_real(&out, 6.25);
    ck_assert_str_eq(take_text(), "6.250");
}
END_TEST

START_TEST(quotes_nan_and_infinity)
{
    json_real(&out, NAN);
    ck_assert_str_eq(take_text(), "\"NaN\"");
    json_real(&out, -(double)NAN);
    ck_assert_str_eq(take_text(), "\"NaN\"");
    json_real(&out, INFINITY);
    ck_assert_str_eq(take_text(), "\"Infinity\"");
    json_real(&out, -INFINITY);
    ck_assert_str_eq(take_text(), "\"-Infinity\"");
}
END_TEST

/* ---- strings --------------------------------------------------------------------------------- */

#define FFFD "\xef\xbf\xbd"

START_TEST(escapes_and_repairs_strings)
{
    static const struct {
        const char *in, *text;
    } cases[] = {
        {"", "\"\""},
        {"a", "\"a\""},
        {"exactly8", "\"exactly8\""},
        {"nine char", "\"nine char\""},
        {"exactly 16 bytes", "\"exactly 16 bytes\""},
        {"a \"quote\" and \\ in it", "\"a \\\"quote\\\" and \\\\ in it\""},
        {"\b\t\n\f\r\v\x1f\x7f/", "\"\\b\\t\\n\\f\\r\\u000b\\u001f\x7f/\""},
        {"caf\xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x98\x80",
         "\"caf\xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x98\x80\""},
        {"\xf4\x8f\xbf\xbf\xef\xbf\xbf\xed\x9f\xbf",
         "\"\xf4\x8f\xbf\xbf\xef\xbf\xbf\xed\x9f\xbf\""},
        /* Unicode 15, tables 3-8 to 3-11 */
        {"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41",
         "\"" FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A\""},
        {"\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41",
         "\"" FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A\""},
        {"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", "\"" FFFD FFFD FFFD FFFD FFFD "A" FFFD FFFD "B\""},
        {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", "\"" FFFD FFFD FFFD FFFD "A\""},
        /* truncated characters */
        {"x\xc3", "\"x" FFFD "\""},
        {"x\xe6\x97", "\"x" FFFD "\""},
        {"x\xf0\x9f\x98", "\"x" FFFD "\""},
        {"x\xf0\"", "\"x" FFFD "\\\"\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        json_string(&out, cases[i].in, strlen(cases[i].in));
        ck_assert_str_eq(take_text(), cases[i].text);
    }
    json_string(&out, "a\0b", 3);
    ck_assert_str_eq(take_text(), "\"a\\u0000b\"");
}
END_TEST

/* An independent implementation of Unicode's rule: one U+FFFD for the longest start of a legal
 * character, otherwise one for each byte. */
static void slow_string(struct buf *b, const uint8_t *in, size_t n)
{
    const uint8_t *end = in + n;
    buf_put(b, "\"", 1);
    while (in < end) {
        const uint8_t *next = utf8_end(in, end);
        if (next) {
            buf_put(b, in, (size_t)(next - in));
            in = next;
            continue;
        }
        size_t best = 1;
        for (size_t part = 2; part <= 3 && part <= (size_t)(end - in); part++) {
            /* in[0..part) starts a legal character if the lowest or highest continuations
             * complete it. */
            uint8_t whole[7] = {0};
            memcpy(whole, in, part);
            memset(whole + part, 0x80, 4);
            bool low = utf8_end(whole, whole + 7) > whole + part;
            best = low ? part : best;
        }
        buf_puts(b, FFFD);
        in += best;
    }
    buf_put(b, "\"", 1);
}

START_TEST(utf8_repair_follows_unicode)
{
    static const uint8_t edges[] = {0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0,
                                    0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef,
                                    0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xf8, 0xff};
    struct buf slow = {0};
    for (unsigned round = 0; round < 30000; round++) {
        size_t n = round % 50 == 0 ? 400 + next_random() % 1500 : next_random() % 12;
        uint8_t *in = malloc(n + 1);
        ck_assert_ptr_nonnull(in);
        for (size_t i = 0; i < n; i++)
            in[i] = edges[next_random() % sizeof(edges)];
        buf_reset(&slow);
        slow_string(&slow, in, n);
        json_string(&out, (const char *)in, n);
        ck_assert_uint_eq(out.len, slow.len);
        ck_assert(memcmp(out.data, slow.data, out.len) == 0);
        ck_assert(json_valid(out.data, out.len));
        buf_reset(&out);
        free(in);
    }
    buf_free(&slow);
}
END_TEST

START_TEST(keeps_long_utf8_strings)
{
    char text[1100];
    for (size_t lead = 0; lead < 9; lead++) {
        memset(text, 'a', lead);
        size_t n = lead;
        while (n + 4 < sizeof(text)) {
            memcpy(text + n, "\xf0\x9f\x98\x80", 4);
            n += 4;
        }
        json_string(&out, text, n);
        ck_assert_uint_eq(out.len, n + 2);
        ck_assert(memcmp(out.data + 1, text, n) == 0);
        buf_reset(&out);
    }
}
END_TEST

/* ---- spans ----------------------------------------------------------------------------------- */

START_TEST(writes_an_operator)
{
    struct record *r = make(REC_SPAN, CAT_CPU_OP, "aten::mm", DATA_NONE, NULL, 0);
    r->id = 17;
    ck_assert_str_eq(text_of(r), "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", "
                                 "\"pid\": 77, \"tid\": 78, \"ts\": 1.234, \"dur\": 0.567, "
                                 "\"args\": {\"External id\": 17, \"Record function id\": 0}},\n");
}
END_TEST

START_TEST(writes_the_sequence_number)
{
    struct record *r = make(REC_SPAN, CAT_CPU_OP, "TBackward0", DATA_NONE, NULL, 0);
    r->id = 18;
    r->op.sequence = 0;
    r->op.forward_thread = 1;
    r->flags = REC_UNFINISHED;
    ck_assert_ptr_nonnull(strstr(
        text_of(r), "\"args\": {\"External id\": 18, \"Sequence number\": 0, \"Fwd thread id\": 1, "
                    "\"Record function id\": 0, \"finished\": \"false\"}},\n"));
}
END_TEST

START_TEST(writes_input_shapes)
{
    struct buf d = {0};
    static const int64_t sizes[] = {2, 3, -1};
    add_tag(&d, SHAPE_TENSOR);
    add_body(&d, 6, 2, sizes);
    add_tag(&d, SHAPE_SCALAR);
    add_tag(&d, SHAPE_LIST);
    add_tag(&d, 2);
    add_body(&d, 4, 3, sizes);
    add_body(&d, 4, 0, sizes);
    add_tag(&d, SHAPE_SCALAR_LIST);
    add_tag(&d, 0);
    add_tag(&d, SHAPE_OTHER);
    add_tag(&d, SHAPE_TENSOR);
    add_body(&d, 1, 1, sizes); /* a dtype without a name */
    add_tag(&d, SHAPE_TENSOR);
    add_body(&d, 200, 0, sizes); /* a dtype beyond the table */
    add_tag(&d, SHAPE_LIST);
    add_tag(&d, 0);
    struct record *r = make(REC_SPAN, CAT_CPU_OP, "aten::cat", DATA_SHAPES, d.data, d.len);
    ck_assert_ptr_nonnull(strstr(
        text_of(r),
        "\"args\": {\"Record function id\": 0, "
        "\"Input type\": [\"float\", \"Scalar\", \"TensorList\", \"ScalarList\", \"\", \"\", \"\", "
        "\"TensorList\"], "
        "\"Input Dims\": [[2, 3], [], [[2, 3, -1], []], [], [], [2], [], []], "
        "\"Input Strides\": [[], [], [[], []], [], [], [], [], []], "
        "\"Concrete Inputs\": [\"\", \"\", \"\", \"[]\", \"\", \"\", \"\", \"\"]}},\n"));
    buf_free(&d);
}
END_TEST

START_TEST(truncated_shapes_give_complete_inputs)
{
    struct buf d = {0};
    static const int64_t sizes[] = {INT64_MIN, 3};
    add_tag(&d, SHAPE_TENSOR);
    add_body(&d, 6, 2, sizes);
    add_tag(&d, SHAPE_LIST);
    add_tag(&d, 2);
    add_body(&d, 4, 1, sizes);
    add_body(&d, 4, 2, sizes);
    for (size_t n = 0; n < d.len; n++) {
        const char *text = text_of(make(REC_SPAN, CAT_CPU_OP, "op", DATA_SHAPES, d.data, n));
        ck_assert(json_lines_valid(text, strlen(text)));
        const char *one =
            "\"Input type\": [\"float\"], \"Input Dims\": [[-9223372036854775808, 3]], "
            "\"Input Strides\": [[]], \"Concrete Inputs\": [\"\"]}},\n";
        ck_assert_int_eq(strstr(text, one) != NULL, n >= 19);
        ck_assert_int_eq(strstr(text, "Input") != NULL, n >= 19);
    }
    d.data[0] = 99; /* an unknown tag */
    ck_assert_ptr_null(
        strstr(text_of(make(REC_SPAN, CAT_CPU_OP, "op", DATA_SHAPES, d.data, d.len)), "Input"));
    buf_free(&d);
}
END_TEST

START_TEST(cuda_call_names_its_operator)
{
    struct record *r = make(REC_SPAN, CAT_CUDA_RUNTIME, "cudaLaunchKernel", DATA_NONE, NULL, 0);
    r->id = 5;
    r->parent = 4;
    r->op.sequence = 9;
    ck_assert_ptr_nonnull(strstr(text_of(r), "\"args\": {\"External id\": 4}},\n"));
    r = make(REC_SPAN, CAT_CUDA_DRIVER, "cuLaunchKernel", DATA_NONE, NULL, 0);
    ck_assert_ptr_nonnull(strstr(text_of(r), "\"cat\": \"cuda_driver\""));
    struct buf d = {0};
    add_int(&d, "correlation", 12);
    r = make(REC_SPAN, CAT_CUDA_DRIVER, "cuLaunchKernel", DATA_ARGS, d.data, d.len);
    r->flags = REC_UNFINISHED;
    ck_assert_ptr_nonnull(
        strstr(text_of(r), "\"args\": {\"finished\": \"false\", \"correlation\": 12}},\n"));
    r = make(REC_SPAN, CAT_CUDA_DRIVER, "cuLaunchKernel", DATA_ARGS, d.data, d.len);
    ck_assert_ptr_nonnull(strstr(text_of(r), "\"args\": {\"correlation\": 12}},\n"));
    buf_free(&d);
}
END_TEST

START_TEST(writes_flops_and_bytes)
{
    static const uint64_t extras[] = {1000, 24};
    struct record *r = make(REC_SPAN, CAT_CPU_OP, "aten::mm", DATA_NONE, extras, sizeof extras);
    r->data_len = 0;
    r->extras = 1u << EXTRA_FLOPS | 1u << EXTRA_BYTES;
    ck_assert_str_eq(text_of(r),
                     "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 77, "
                     "\"tid\": 78, \"ts\": 1.234, \"dur\": 0.567, \"args\": {"
                     "\"Record function id\": 0, \"flops\": 1000, \"bytes\": 24, "
                     "\"flops per byte\": 41.667}},\n");
    r = make(REC_INSTANT, CAT_CPU_OP, "m", DATA_NONE, extras, sizeof extras);
    r->data_len = 0;
    r->extras = 1u << EXTRA_FLOPS;
    ck_assert_ptr_nonnull(strstr(text_of(r), "\"args\": {\"flops\": 1000}},\n"));
}
END_TEST

START_TEST(writes_annotation_arguments)
{
    struct buf d = {0};
    add_text(&d, "k\"1", "v\n1");
    add_text(&d, "", "train,io");
    add_int(&d, "n", -5);
    add_real(&d, "x", 0.5);
    add_real(&d, "bad", NAN);
    struct record *r = make(REC_SPAN, CAT_USER_ANNOTATION, "step", DATA_ARGS, d.data, d.len);
    r->id = UINT64_MAX;
    ck_assert_str_eq(text_of(r), "{\"ph\": \"X\", \"cat\": \"train,io\", \"name\": \"step\", "
                                 "\"pid\": 77, \"tid\": 78, \"ts\": 1.234, \"dur\": 0.567, "
                                 "\"args\": {\"External id\": \"18446744073709551615\", "
                                 "\"Record function id\": 0, \"k\\\"1\": \"v\\n1\", \"n\": -5, "
                                 "\"x\": 0.5, \"bad\": \"NaN\"}},\n");
    for (size_t n = 0; n < d.len; n++) {
        const char *text = text_of(make(REC_SPAN, CAT_USER_ANNOTATION, "s", DATA_ARGS, d.data, n));
        ck_assert(json_lines_valid(text, strlen(text)));
    }
    buf_free(&d);
}
END_TEST

START_TEST(writes_no_negative_time)
{
    struct json_place at = {1, 2, 500, 400};
    struct record *r = make(REC_SPAN, CAT_CPU_OP, "a", DATA_NONE, NULL, 0);
    json_record(&out, r, record_name(r), &at, NULL, 0);
    ck_assert_ptr_nonnull(strstr(take_text(), "\"ts\": 0.500, \"dur\": 0.000,"));
    at.start_ns = -300;
    json_record(&out, r, record_name(r), &at, NULL, 0);
    ck_assert_ptr_nonnull(strstr(take_text(), "\"ts\": 0.000, \"dur\": 0.400,"));
    free(r);
}
END_TEST

START_TEST(hostile_names_give_valid_json)
{
    char name[2000];
    for (size_t n = 500; n < sizeof(name); n += 7) {
        memset(name, n % 2 ? '\x01' : 'n', n);
        name[n] = '\0';
        name[0] = '"';
        const char *text = text_of(make(REC_SPAN, CAT_CPU_OP, name, DATA_NONE, NULL, 0));
        ck_assert(json_lines_valid(text, strlen(text)));
    }
}
END_TEST

/* ---- other events ---------------------------------------------------------------------------- */

START_TEST(writes_an_instant)
{
    struct buf d = {0};
    const char *text = text_of(make(REC_INSTANT, CAT_USER_ANNOTATION, "now", DATA_NONE, NULL, 0));
    ck_assert_str_eq(text, "{\"ph\": \"i\", \"cat\": \"user_annotation\", \"s\": \"t\", \"name\": "
                           "\"now\", \"pid\": 77, \"tid\": 78, \"ts\": 1.234, \"args\": {}},\n");
    add_int(&d, "n", 3);
    add_text(&d, "", "io");
    text = text_of(make(REC_INSTANT, CAT_USER_ANNOTATION, "now", DATA_ARGS, d.data, d.len));
    ck_assert_str_eq(text, "{\"ph\": \"i\", \"cat\": \"io\", \"s\": \"t\", \"name\": \"now\", "
                           "\"pid\": 77, \"tid\": 78, \"ts\": 1.234, \"args\": {\"n\": 3}},\n");
    buf_free(&d);
}
END_TEST

#define C_BEGIN                                                                                    \
    "{\"ph\": \"C\", \"name\": \"loss\", \"pid\": 77, \"tid\": 78, \"ts\": 1.234, \"args\": {"

START_TEST(counter_has_one_series_per_event)
{
    struct buf d = {0};
    add_real(&d, "train", 0.5);
    add_real(&d, "broken", INFINITY);
    add_text(&d, "text", "7");
    add_int(&d, "loss", 9);
    ck_assert_str_eq(
        text_of(make(REC_COUNTER, CAT_USER_ANNOTATION, "loss", DATA_ARGS, d.data, d.len)),
        C_BEGIN "\"train\": 0.5}},\n" C_BEGIN "\"loss\": 9}},\n");
    buf_reset(&d);
    add_int(&d, "loss", 9);
    ck_assert_str_eq(
        text_of(make(REC_COUNTER, CAT_USER_ANNOTATION, "loss", DATA_ARGS, d.data, d.len)),
        C_BEGIN "\"value\": 9}},\n");
    buf_reset(&d);
    add_int(&d, "", 9);
    ck_assert_str_eq(
        text_of(make(REC_COUNTER, CAT_USER_ANNOTATION, "loss", DATA_ARGS, d.data, d.len)),
        C_BEGIN "\"value\": 9}},\n");
    buf_reset(&d);
    add_real(&d, "loss", NAN);
    ck_assert_str_eq(
        text_of(make(REC_COUNTER, CAT_USER_ANNOTATION, "loss", DATA_ARGS, d.data, d.len)), "");
    ck_assert_str_eq(text_of(make(REC_COUNTER, CAT_USER_ANNOTATION, "loss", DATA_NONE, NULL, 0)),
                     "");
    buf_free(&d);
}
END_TEST

static struct record *make_memory(int32_t type, int32_t index)
{
    struct record_memory m = {.total_allocated = 4096,
                              .total_reserved = 8192,
                              .device_type = type,
                              .device_index = index};
    struct record *r = make(REC_MEMORY, CAT_MEMORY, "", DATA_MEMORY, &m, sizeof(m));
    r->memory.address = 0xffff800000000000u;
    r->memory.bytes = -512;
    return r;
}

START_TEST(writes_memory_events)
{
    struct record *r = make_memory(1, 0);
    r->parent = 12;
    ck_assert_str_eq(
        text_of(r),
        "{\"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\", "
        "\"pid\": 77, \"tid\": 78, \"ts\": 1.234, \"args\": {\"Total Reserved\": 8192, "
        "\"Total Allocated\": 4096, \"Bytes\": -512, \"Device Id\": 0, \"Device Type\": 1, "
        "\"Addr\": \"18446603336221196288\", \"External id\": 12}},\n"
        "{\"ph\": \"C\", \"name\": \"Memory CUDA:0\", \"pid\": 77, \"tid\": 78, \"ts\": 1.234, "
        "\"args\": {\"allocated bytes\": 4096}},\n");
    ck_assert_ptr_nonnull(strstr(text_of(make_memory(0, -1)), "\"Memory CPU\""));
    ck_assert_ptr_null(strstr(text_of(make_memory(0, -1)), "External id"));
    ck_assert_ptr_nonnull(strstr(text_of(make_memory(2, 1)), "\"Memory device type 2:1\""));
    ck_assert_ptr_nonnull(strstr(text_of(make_memory(-9, INT32_MIN)), "\"Memory device type -9\""));
    r = make_memory(0, -1);
    r->data_len--;
    ck_assert_str_eq(text_of(r), "");
}
END_TEST

START_TEST(writes_flow_arrows)
{
    struct json_place to = {77, 79, 5000, 5000};
    json_flow(&out, "fwdbwd", 6, &place, &to);
    ck_assert_str_eq(take_text(),
                     "{\"ph\": \"s\", \"id\": 6, \"pid\": 77, \"tid\": 78, \"ts\": 1.234, "
                     "\"cat\": \"fwdbwd\", \"name\": \"fwdbwd\"},\n"
                     "{\"ph\": \"f\", \"id\": 6, \"pid\": 77, \"tid\": 79, \"ts\": 5.000, "
                     "\"cat\": \"fwdbwd\", \"name\": \"fwdbwd\", \"bp\": \"e\"},\n");
    /* readers would parse a string as hexadecimal */
    json_flow(&out, "fwdbwd", UINT64_MAX, &place, &to);
    ck_assert_ptr_nonnull(strstr(take_text(), "\"id\": 9223372036854775807,"));
}
END_TEST

START_TEST(writes_metadata)
{
    json_meta_text(&out, "thread_name", 77, 78, "name", "main \xff", 6);
    ck_assert_str_eq(take_text(),
                     "{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 77, \"tid\": 78, "
                     "\"ts\": 0.000, \"args\": {\"name\": \"main " FFFD "\"}},\n");
    json_meta_text(&out, "thread_name", 77, 78, "name", "",
                   0); /* Perfetto counts an empty name as an error */
    ck_assert_uint_eq(out.len, 0);
    json_meta_number(&out, "process_sort_index", 77, 0, -5);
    ck_assert_str_eq(take_text(), "{\"ph\": \"M\", \"name\": \"process_sort_index\", \"pid\": 77, "
                                  "\"tid\": 0, \"ts\": 0.000, \"args\": {\"sort_index\": -5}},\n");
}
END_TEST

START_TEST(writes_a_span)
{
    json_span(&out, CAT_USER_ANNOTATION, "ProfilerStep#3", &place, "\"n\": 1");
    ck_assert_str_eq(take_text(), "{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": "
                                  "\"ProfilerStep#3\", \"pid\": 77, \"tid\": 78, \"ts\": 1.234, "
                                  "\"dur\": 0.567, \"args\": {\"n\": 1}},\n");
    json_span(&out, CAT_CPU_OP, "a", &place, "");
    ck_assert_ptr_nonnull(strstr(take_text(), "\"args\": {}},\n"));
}
END_TEST

START_TEST(writes_shapes_among_arguments)
{
    static const int64_t sizes[] = {2, 3};
    struct buf shapes = {0}, args = {0};
    add_tag(&shapes, SHAPE_TENSOR);
    add_body(&shapes, 6, 2, sizes);
    add_int(&args, "a", 1);
    add_arg(&args, ARG_SHAPES, "", shapes.data, (uint32_t)shapes.len);
    add_int(&args, "b", 2);
    const char *dims = "\"a\": 1, \"b\": 2, \"Input type\": [\"float\"], \"Input Dims\": [[2, 3]], "
                       "\"Input Strides\": [[]], \"Concrete Inputs\": [\"\"]}},\n";
    for (int kind = REC_SPAN; kind == REC_SPAN || kind == REC_ASYNC; kind += REC_ASYNC - REC_SPAN) {
        const char *text = text_of(
            make((uint8_t)kind, CAT_USER_ANNOTATION, "gloo:send", DATA_ARGS, args.data, args.len));
        ck_assert_msg(strstr(text, dims) != NULL, "%s", text);
    }
    buf_free(&shapes);
    buf_free(&args);
}
END_TEST

START_TEST(unknown_kinds_and_padding_write_nothing)
{
    ck_assert_str_eq(text_of(make(REC_PAD, 0, "x", DATA_NONE, NULL, 0)), "");
    ck_assert_str_eq(text_of(make(200, 0, "x", DATA_NONE, NULL, 0)), "");
    ck_assert_ptr_nonnull(strstr(text_of(make(REC_SPAN, 250, "x", DATA_NONE, NULL, 0)),
                                 "\"cat\": \"user_annotation\""));
}
END_TEST

/* ---- full buffers ---------------------------------------------------------------------------- */

START_TEST(full_buffer_holds_only_whole_events)
{
    struct buf d = {0};
    add_text(&d, "", "own");
    add_text(&d, "key", "a value that is a little longer than the others");
    struct record *records[] = {
        make(REC_SPAN, CAT_CPU_OP, "aten::mm", DATA_NONE, NULL, 0),
        make(REC_SPAN, CAT_USER_ANNOTATION, "own", DATA_ARGS, d.data, d.len),
        make_memory(0, -1),
    };
    for (size_t limit = 1; limit < 6000; limit += limit % 7 + 1) {
        struct buf b = {.limit = limit};
        for (int i = 0; i < 60 && !b.failed; i++) {
            size_t before = b.len;
            if (i % 4 == 3) {
                json_flow(&b, "fwdbwd", 1, &place, &place);
                json_meta_text(&b, "thread_name", 1, 2, "name", "n", 1);
                json_meta_number(&b, "thread_sort_index", 1, 2, 3);
                json_span(&b, CAT_CPU_OP, "x", &place, "");
            } else {
                json_record(&b, records[i % 4], record_name(records[i % 4]), &place, dtypes,
                            N_DTYPES);
            }
            ck_assert_uint_ge(b.len, before);
        }
        ck_assert(b.failed);
        ck_assert_uint_le(b.len, limit);
        ck_assert(json_lines_valid(b.data, b.len));
        buf_free(&b);
    }
    for (size_t i = 0; i < 3; i++)
        free(records[i]);
    buf_free(&d);
}
END_TEST

Suite *suite_json(void)
{
    Suite *suite = suite_create("json");
    TCase *numbers = tcase_create("numbers");
    tcase_add_test(numbers, writes_integers);
    tcase_add_test(numbers, writes_unsigned_beyond_int64_as_string);
    tcase_add_test(numbers, writes_nanoseconds_as_microseconds);
    tcase_add_test(numbers, reals_read_back_exactly);
    tcase_add_test(numbers, reals_ignore_the_locale);
    tcase_add_test(numbers, quotes_nan_and_infinity);
    suite_add_tcase(suite, numbers);
    TCase *text = tcase_create("strings");
    tcase_add_test(text, escapes_and_repairs_strings);
    tcase_add_test(text, utf8_repair_follows_unicode);
    tcase_add_test(text, keeps_long_utf8_strings);
    suite_add_tcase(suite, text);
    TCase *events = tcase_create("events");
    tcase_add_test(events, writes_an_operator);
    tcase_add_test(events, writes_the_sequence_number);
    tcase_add_test(events, writes_input_shapes);
    tcase_add_test(events, truncated_shapes_give_complete_inputs);
    tcase_add_test(events, cuda_call_names_its_operator);
    tcase_add_test(events, writes_flops_and_bytes);
    tcase_add_test(events, writes_annotation_arguments);
    tcase_add_test(events, writes_no_negative_time);
    tcase_add_test(events, hostile_names_give_valid_json);
    tcase_add_test(events, writes_an_instant);
    tcase_add_test(events, counter_has_one_series_per_event);
    tcase_add_test(events, writes_memory_events);
    tcase_add_test(events, writes_flow_arrows);
    tcase_add_test(events, writes_metadata);
    tcase_add_test(events, writes_a_span);
    tcase_add_test(events, writes_shapes_among_arguments);
    tcase_add_test(events, unknown_kinds_and_padding_write_nothing);
    tcase_add_test(events, full_buffer_holds_only_whole_events);
    suite_add_tcase(suite, events);
    return suite;
}
