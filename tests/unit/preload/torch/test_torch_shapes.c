/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/torch/torch_shapes.c on objects laid out by hand as in torch 2.13. The output is
 * what torch.profiler writes, according to torch_layout.h. */
#include "preload/torch/torch.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "preload/core/torch_values.h"
#include "tests/support/torch_objects.h"
#include "writer/writer.h"

/* ---- expected output ---- */

static uint8_t expected[8192];
static size_t n_expected;

static void expect(uint8_t byte)
{
    expected[n_expected++] = byte;
}

static void expect_number(const void *number, size_t size)
{
    memcpy(expected + n_expected, number, size);
    n_expected += size;
}

static void expect_sizes(uint8_t dtype, unsigned dims, unsigned flag, const int64_t *sizes)
{
    expect(dtype);
    expect((uint8_t)(dims | flag));
    if (dims)
        expect_number(sizes, dims * sizeof *sizes);
}

static void expect_body(uint8_t dtype, unsigned dims, const int64_t *sizes)
{
    expect_sizes(dtype, dims, SHAPE_STRIDES, sizes);
    for (unsigned i = 0; i < dims; i++)
        expect_number(&(int64_t){stride_of(i)}, sizeof(int64_t));
}

static void expect_int(int64_t value)
{
    expect(SHAPE_INT);
    expect_number(&value, sizeof value);
}

static void expect_real(double value)
{
    expect(SHAPE_REAL);
    expect_number(&value, sizeof value);
}

/* A double as the payload of a c10::IValue. */
static void *payload_of(double value)
{
    void *payload;
    memcpy(&payload, &value, sizeof payload);
    return payload;
}

/* c10::ivalue::ComplexHolder: its value is aligned to 16 bytes. */
static void *complex_holder(double real, double imaginary)
{
    uint16_t at = (uint16_t)((l->list_begin + 15u) & ~15u);
    void *holder = make(at + 2 * sizeof(double));
    SET(holder, at, double, real);
    SET(holder, (uint16_t)(at + sizeof(double)), double, imaginary);
    return holder;
}

#define EXPECT_BODY(dtype, ...)                                                                    \
    expect_body(dtype, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

/* Writes the shapes of an operator with the inputs added so far. */
static uint32_t run(uint8_t *out, uint32_t size)
{
    return torch_shapes(make_function(), out, size);
}

static void check(void)
{
    uint8_t out[4096];
    uint32_t used = run(out, sizeof out);
    ck_assert_uint_eq(used, n_expected);
    ck_assert(memcmp(out, expected, used) == 0);
    n_inputs = 0;
    n_expected = 0;
}

START_TEST(writes_types_sizes_and_strides)
{
    add(l->tag_tensor, TENSOR(FLOAT, 3, 4));
    expect(SHAPE_TENSOR);
    EXPECT_BODY(FLOAT, 3, 4);
    add(l->tag_tensor, tensor(LONG, 0, NULL));
    expect(SHAPE_TENSOR);
    expect_body(LONG, 0, NULL);
    add(l->tag_tensor, TENSOR(FLOAT, 1, 2, 3, 4, 5));
    expect(SHAPE_TENSOR);
    EXPECT_BODY(FLOAT, 1, 2, 3, 4, 5);
    add(l->tag_tensor, TENSOR(45, 1, 2, 3, 4, 5, 6, 7)); /* more than five sizes are on the heap */
    expect(SHAPE_TENSOR);
    EXPECT_BODY(45, 1, 2, 3, 4, 5, 6, 7);
    add(l->tag_tensor, TENSOR(FLOAT, 0, INT64_C(1) << 40, 0));
    expect(SHAPE_TENSOR);
    EXPECT_BODY(FLOAT, 0, INT64_C(1) << 40, 0);
    check();
}
END_TEST

START_TEST(marks_tensors_without_sizes)
{
    void *nested = TENSOR(FLOAT, 2), *symbolic = TENSOR(FLOAT, 2);
    void *untyped = TENSOR(l->dtype_undefined, 2);
    static const int64_t sizes[65];
    void *subclass = TENSOR(FLOAT, 7);
    SET(nested, l->ti_key_set, uint64_t, UINT64_C(1) << l->key_nested);
    SET(symbolic, l->ti_flags, uint8_t, (uint8_t)l->mask_symbolic);
    SET(subclass, l->ti_flags, uint8_t, (uint8_t)(l->mask_policy & ~l->mask_symbolic));
    SET(subclass, l->ti_key_set, uint64_t,
        ~(UINT64_C(1) << l->key_nested | value_strideless_keys(l)));
    add(l->tag_tensor, undefined);
    add(l->tag_tensor, NULL);
    add(l->tag_tensor, nested);
    add(l->tag_tensor, symbolic);
    add(l->tag_tensor, untyped);
    add(l->tag_tensor, tensor(FLOAT, 65, sizes)); /* torch allows 64 dimensions */
    for (unsigned i = 0; i < 6; i++)
        expect(SHAPE_OTHER);
    add(l->tag_tensor, subclass); /* has the sizes that the wrapper was made with */
    expect(SHAPE_TENSOR);
    EXPECT_BODY(FLOAT, 7);
    add(l->tag_tensor, tensor(FLOAT, 64, sizes));
    expect(SHAPE_TENSOR);
    expect_body(FLOAT, 64, sizes);
    check();
}
END_TEST

START_TEST(writes_sparse_tensors_without_strides)
{
    for (unsigned key = l->key_sparse - 1u; key < l->key_nested; key++) { /* mkldnn, COO, CSR */
        void *sparse = TENSOR(FLOAT, 7, 8);
        SET(sparse, l->ti_key_set, uint64_t, UINT64_C(1) << key);
        add(l->tag_tensor, sparse);
        expect(SHAPE_TENSOR);
        expect_sizes(FLOAT, 2, 0, (int64_t[]){7, 8});
    }
    check();
}
END_TEST

START_TEST(writes_values_of_scalars)
{
    add(l->tag_int, (void *)(uintptr_t)INT64_MIN);
    expect_int(INT64_MIN);
    add(l->tag_double, payload_of(-0.1));
    expect_real(-0.1);
    add(l->tag_bool, (void *)(uintptr_t)1);
    expect(SHAPE_TRUE);
    add(l->tag_bool, (void *)(uintptr_t)0x7f00); /* only the first byte is the bool's */
    expect(SHAPE_FALSE);
    add(l->tag_complex_double, complex_holder(1.5, -2));
    expect(SHAPE_COMPLEX);
    expect_number((double[]){1.5, -2}, 2 * sizeof(double));
    add(l->tag_complex_double, NULL);
    expect(SHAPE_SCALAR);
    check();
}
END_TEST

START_TEST(never_follows_pointers_of_other_values)
{
    const uint16_t scalars[] = {l->tag_sym_int, l->tag_sym_float, l->tag_sym_bool};
    const uint16_t others[] = {l->tag_none,   l->tag_storage,      l->tag_uint,   l->tag_tuple,
                               l->tag_string, l->tag_generic_dict, l->tag_device, l->tag_stream,
                               l->tag_object, l->tag_generator};
    for (unsigned i = 0; i < sizeof scalars / sizeof *scalars; i++) {
        add(scalars[i], (void *)(uintptr_t)0x1);
        expect(SHAPE_SCALAR);
    }
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
        add(others[i], (void *)(uintptr_t)0x1);
        expect(SHAPE_OTHER);
    }
    check();
    check(); /* no inputs at all */
}
END_TEST

START_TEST(writes_lists_of_tensors)
{
    void *three[] = {TENSOR(FLOAT, 2, 3), tensor(LONG, 0, NULL), TENSOR(FLOAT, 1, 1, 1, 1, 1, 9)};
    add(l->tag_generic_list, list(l->kind_tensor, l->tag_tensor, 3, three));
    expect(SHAPE_LIST);
    expect(3);
    EXPECT_BODY(FLOAT, 2, 3);
    expect_body(LONG, 0, NULL);
    EXPECT_BODY(FLOAT, 1, 1, 1, 1, 1, 9);
    add(l->tag_generic_list, list(l->kind_tensor, l->tag_tensor, 0, NULL));
    expect(SHAPE_LIST);
    expect(0);
    void *many[31];
    for (unsigned i = 0; i < 31; i++)
        many[i] = three[1];
    add(l->tag_generic_list, list(l->kind_tensor, l->tag_tensor, 30, many));
    expect(SHAPE_LIST);
    expect(30);
    for (unsigned i = 0; i < 30; i++)
        expect_body(LONG, 0, NULL);
    add(l->tag_generic_list, list(l->kind_tensor, l->tag_tensor, 31, many));
    expect(SHAPE_LIST);
    expect(0);
    many[29] = undefined; /* a tensor without sizes makes the list unknown */
    add(l->tag_generic_list, list(l->kind_tensor, l->tag_tensor, 30, many));
    expect(SHAPE_OTHER);
    check();
}
END_TEST

START_TEST(writes_lists_of_scalars)
{
    void *numbers[] = {(void *)1, (void *)(intptr_t)-2, (void *)3};
    add(l->tag_generic_list, list(9, l->tag_int, 3, numbers));
    expect(SHAPE_SCALAR_LIST);
    expect(3);
    expect_int(1);
    expect_int(-2);
    expect_int(3);
    void *reals[] = {payload_of(0.5)};
    add(l->tag_generic_list, list(9, l->tag_double, 1, reals));
    expect(SHAPE_SCALAR_LIST);
    expect(1);
    expect_real(0.5);
    add(l->tag_generic_list, list(9, l->tag_int, 0, NULL));
    expect(SHAPE_SCALAR_LIST);
    expect(0);
    add(l->tag_generic_list, list(9, l->tag_bool, 30, NULL));
    expect(SHAPE_SCALAR_LIST);
    expect(30);
    for (unsigned i = 0; i < 30; i++)
        expect(SHAPE_FALSE);
    add(l->tag_generic_list, list(9, l->tag_bool, 31, NULL));
    expect(SHAPE_OTHER);
    add(l->tag_generic_list, list(9, l->tag_string, 2, NULL));
    expect(SHAPE_OTHER);
    void *one[] = {TENSOR(FLOAT, 2)};
    add(l->tag_generic_list, list(20, l->tag_tensor, 1, one)); /* Optional[Tensor][] */
    expect(SHAPE_OTHER);
    add(l->tag_generic_list, NULL);
    expect(SHAPE_OTHER);
    check();
}
END_TEST

START_TEST(cuts_at_a_whole_input)
{
    void *two[] = {TENSOR(FLOAT, 5, 6), TENSOR(LONG, 7)};
    void *numbers[] = {(void *)1, (void *)2};
    add(l->tag_tensor, TENSOR(FLOAT, 3, 4));                               /* 35 bytes */
    add(l->tag_int, NULL);                                                 /* 9 */
    add(l->tag_generic_list, list(l->kind_tensor, l->tag_tensor, 2, two)); /* 2 + 34 + 18 */
    add(l->tag_none, NULL);                                                /* 1 */
    add(l->tag_generic_list, list(9, l->tag_int, 2, numbers));             /* 2 + 9 + 9 */
    uint8_t whole[128];
    static const uint32_t ends[] = {0, 35, 44, 98, 99, 119};
    ck_assert_uint_eq(run(whole, sizeof whole), 119);
    for (uint32_t size = 0; size <= 119; size++) {
        uint8_t *out = make(size ? size : 1);
        uint32_t used = run(out, size), most = 0;
        for (unsigned i = 0; i < 6; i++)
            most = ends[i] <= size ? ends[i] : most;
        ck_assert_uint_eq(used, most);
        ck_assert(memcmp(out, whole, used) == 0);
    }
}
END_TEST

START_TEST(names_every_dtype)
{
    unsigned n = 0;
    const char *const *names = torch_dtype_names(&n);
    ck_assert_uint_ge(n, l->dtype_undefined);
    ck_assert_str_eq(names[FLOAT], "float");
    ck_assert_str_eq(names[LONG], "long int");
    ck_assert_str_eq(names[15], "c10::BFloat16");
    for (unsigned i = 0; i < n; i++)
        ck_assert_ptr_nonnull(names[i]);
}
END_TEST

Suite *suite_torch_shapes(void)
{
    Suite *suite = suite_create("torch_shapes");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, NULL);
    tcase_add_test(all, writes_types_sizes_and_strides);
    tcase_add_test(all, marks_tensors_without_sizes);
    tcase_add_test(all, writes_sparse_tensors_without_strides);
    tcase_add_test(all, writes_values_of_scalars);
    tcase_add_test(all, never_follows_pointers_of_other_values);
    tcase_add_test(all, writes_lists_of_tensors);
    tcase_add_test(all, writes_lists_of_scalars);
    tcase_add_test(all, cuts_at_a_whole_input);
    tcase_add_test(all, names_every_dtype);
    suite_add_tcase(suite, all);
    return suite;
}
