/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/json/json_inputs.h: strides and values of an operator's inputs, also
 * truncated. */
#include "writer/json/json_inputs.h"

#include <check.h>
#include <math.h>
#include <string.h>

#include "writer/record/record_types.h"

/* The JSON of the first n bytes of d. */
static const char *inputs(const struct buf *d, size_t n)
{
    static char text[4096];
    static const char *const names[] = {NULL, NULL, NULL, NULL, NULL, NULL, "float"};
    struct buf out = {0};
    bool first = json_inputs(&out, (const uint8_t *)d->data, n, names, 7, true);
    ck_assert_int_eq(first, out.len == 0);
    ck_assert(!out.failed && out.len < sizeof text);
    memcpy(text, out.data ? out.data : "", out.len);
    text[out.len] = '\0';
    buf_free(&out);
    return text;
}

static void add_tag(struct buf *b, uint8_t tag)
{
    buf_put(b, &tag, 1);
}

static void add_strided(struct buf *b, uint8_t ndim, const int64_t *sizes, const int64_t *strides)
{
    add_tag(b, 6);
    add_tag(b, ndim | SHAPE_STRIDES);
    buf_put(b, sizes, 8u * ndim);
    buf_put(b, strides, 8u * ndim);
}

START_TEST(writes_strides)
{
    struct buf d = {0};
    static const int64_t sizes[] = {2, 3}, strides[] = {1, 2};
    add_tag(&d, SHAPE_TENSOR);
    add_strided(&d, 2, sizes, strides);
    add_tag(&d, SHAPE_LIST);
    add_tag(&d, 3);
    add_strided(&d, 1, sizes + 1, strides);
    add_tag(&d, 6); /* a sparse tensor has no strides */
    add_tag(&d, 2);
    buf_put(&d, sizes, sizeof sizes);
    add_strided(&d, 0, NULL, NULL);
    const char *wanted = "\"Input Dims\": [[2, 3], [[3], [2, 3], []]], "
                         "\"Input Strides\": [[1, 2], [[1], [], []]], "
                         "\"Concrete Inputs\": [\"\", \"\"]";
    const char *text = inputs(&d, d.len);
    ck_assert_msg(strstr(text, wanted) != NULL, "%s", text);
    buf_free(&d);
}
END_TEST

static void add_real(struct buf *b, double value)
{
    add_tag(b, SHAPE_REAL);
    buf_put(b, &value, sizeof value);
}

static void add_complex(struct buf *b, double real, double imaginary)
{
    add_tag(b, SHAPE_COMPLEX);
    buf_put(b, &real, sizeof real);
    buf_put(b, &imaginary, sizeof imaginary);
}

/* Numbers as torch 2.13 prints them. */
START_TEST(writes_values_as_torch_does)
{
    static const double reals[] = {1,    -0.0,     0.1,       1e18, 0x1p63,
                                   -2.5, INFINITY, -INFINITY, NAN,  1e-320};
    struct buf d = {0};
    enum { LIST = 2 + 9 + 1 + 1 + 17 }; /* bytes of the last input */
    int64_t least = INT64_MIN;
    add_tag(&d, SHAPE_INT);
    buf_put(&d, &least, sizeof least);
    add_tag(&d, SHAPE_TRUE);
    add_tag(&d, SHAPE_SCALAR);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        add_real(&d, reals[i]);
    add_complex(&d, 0.1, -1e20);
    add_tag(&d, SHAPE_SCALAR_LIST);
    add_tag(&d, 4);
    add_real(&d, 2);
    add_tag(&d, SHAPE_FALSE);
    add_tag(&d, SHAPE_OTHER);
    add_complex(&d, 0, 0);
    const char *wanted =
        "\"Concrete Inputs\": [\"-9223372036854775808\", \"True\", \"\", \"1.\", \"0.\", "
        "\"0.10000000000000001\", \"1000000000000000000.\", \"9.2233720368547758e+18\", \"-2.5\", "
        "\"inf\", \"-inf\", "
        "\"nan\", \"9.9998886718268301e-321\", \"0.10000000000000001-1e+20j\", "
        "\"[2., False, None, 0.+0.j]\"]";
    const char *text = inputs(&d, d.len);
    ck_assert_msg(strstr(text, wanted) != NULL, "%s", text);
    for (size_t n = 0; n < d.len; n++) { /* truncated data gives its complete inputs */
        text = inputs(&d, n);
        ck_assert_ptr_null(strstr(text, "2., "));
        ck_assert_int_eq(strstr(text, "-1e+20j") != NULL, n >= d.len - LIST);
        ck_assert_int_eq(text[0] != '\0', n >= 9);
    }
    buf_free(&d);
}
END_TEST

Suite *suite_json_inputs(void)
{
    Suite *suite = suite_create("json_inputs");
    TCase *all = tcase_create("all");
    tcase_add_test(all, writes_strides);
    tcase_add_test(all, writes_values_as_torch_does);
    suite_add_tcase(suite, all);
    return suite;
}
