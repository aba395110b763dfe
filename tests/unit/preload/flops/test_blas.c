/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/flops/blas.h: counts of matrix library calls against numbers worked out by
 * hand. tests/e2e/test_blas.py makes the calls. */
#include "preload/flops/blas.h"

#include <check.h>
#include <limits.h>

static struct blas_work w;

static void setup(void)
{
    w = (struct blas_work){.type = BLAS_UNKNOWN};
}

static void expect(uint64_t flops, uint64_t bytes, enum blas_type type)
{
    ck_assert_uint_eq(w.flops, flops);
    ck_assert_uint_eq(w.bytes, bytes);
    ck_assert_uint_eq(w.type, type);
    setup();
}

START_TEST(counts_matrix_products)
{
    blas_gemm(&w, 3, 4, 5, 1, BLAS_FLOAT);
    expect(120, 4 * (15 + 20 + 12), BLAS_FLOAT);
    blas_gemm(&w, 3, 4, 5, 7, BLAS_BFLOAT16);
    expect(840, 2 * 7 * 47, BLAS_BFLOAT16);
    blas_gemm(&w, 3, 4, 5, 1, BLAS_COMPLEX_DOUBLE);
    expect(480, 16 * 47, BLAS_COMPLEX_DOUBLE);
    blas_gemm(&w, 3, 3, 3, 1, BLAS_FLOAT4);
    expect(54, 14, BLAS_FLOAT4); /* two numbers in a byte */
    blas_gemm(&w, 3, 4, 0, 1, BLAS_DOUBLE);
    expect(0, 8 * 12, BLAS_DOUBLE);
    blas_gemm(&w, INT_MAX, INT_MAX, 0, 0, BLAS_DOUBLE);
    expect(0, 0, BLAS_DOUBLE);
}
END_TEST

START_TEST(counts_grouped_products)
{
    int m[] = {2, 3}, n[] = {4, 5}, k[] = {6, 7}, size[] = {10, 11};
    blas_groups(&w, m, n, k, 2, size, sizeof(int), BLAS_FLOAT);
    expect(2 * (10 * 48 + 11 * 105), 4 * (10 * (12 + 24 + 8) + 11 * (21 + 35 + 15)), BLAS_FLOAT);
    int64_t m64[] = {2, 3}, n64[] = {4, 5}, k64[] = {6, 7}, size64[] = {10, 11};
    blas_groups(&w, m64, n64, k64, 2, size64, sizeof(int64_t), BLAS_FLOAT);
    expect(2 * (10 * 48 + 11 * 105), 4 * (10 * (12 + 24 + 8) + 11 * (21 + 35 + 15)), BLAS_FLOAT);
    blas_groups(&w, m, n, k, 0, size, sizeof(int), BLAS_FLOAT);
    expect(0, 0, BLAS_FLOAT);
    blas_groups(&w, m, NULL, k, 2, size, sizeof(int), BLAS_FLOAT);
    expect(0, 0, BLAS_UNKNOWN);
}
END_TEST

START_TEST(counts_syrk_and_trsm)
{
    blas_syrk(&w, 4, 3, BLAS_FLOAT);
    expect(4 * 5 * 3, 4 * (12 + 10), BLAS_FLOAT);
    blas_trsm(&w, true, 3, 5, 2, BLAS_DOUBLE);
    expect(2 * 5 * 9, 8 * 2 * (6 + 30), BLAS_DOUBLE);
    blas_trsm(&w, false, 3, 5, 1, BLAS_DOUBLE);
    expect(3 * 25, 8 * (15 + 30), BLAS_DOUBLE);
    blas_syrk(&w, 4, 3, BLAS_COMPLEX_FLOAT);
    expect(4 * 4 * 5 * 3, 8 * (12 + 10), BLAS_COMPLEX_FLOAT);
    blas_trsm(&w, true, 3, 5, 2, BLAS_COMPLEX_DOUBLE);
    expect(4 * 2 * 5 * 9, 16 * 2 * (6 + 30), BLAS_COMPLEX_DOUBLE);
}
END_TEST

START_TEST(leaves_invalid_sizes_unknown)
{
    blas_gemm(&w, -1, 4, 5, 1, BLAS_FLOAT);
    expect(0, 0, BLAS_UNKNOWN);
    blas_gemm(&w, INT_MAX, INT_MAX, INT_MAX, INT_MAX, BLAS_FLOAT);
    expect(0, 0, BLAS_UNKNOWN);
    blas_syrk(&w, -4, 3, BLAS_FLOAT);
    expect(0, 0, BLAS_UNKNOWN);
    blas_trsm(&w, true, INT_MAX, INT_MAX, 1, BLAS_FLOAT);
    expect(0, 0, BLAS_UNKNOWN);
    blas_gemm(&w, 3, 4, 5, 1, BLAS_UNKNOWN);
    expect(0, 0, BLAS_UNKNOWN);
}
END_TEST

START_TEST(finds_types_by_cuda_constants)
{
    ck_assert_int_eq(blas_dtype(0, 68), BLAS_FLOAT);
    ck_assert_int_eq(blas_dtype(0, 77), BLAS_TF32);
    ck_assert_int_eq(blas_dtype(0, 74), BLAS_HALF);
    ck_assert_int_eq(blas_dtype(0, 75), BLAS_BFLOAT16);
    ck_assert_int_eq(blas_dtype(2, 68), BLAS_HALF);
    ck_assert_int_eq(blas_dtype(14, 68), BLAS_BFLOAT16);
    ck_assert_int_eq(blas_dtype(28, 68), BLAS_FLOAT8_E4M3);
    ck_assert_int_eq(blas_dtype(1, 70), BLAS_DOUBLE);
    ck_assert_int_eq(blas_dtype(1000, 68), BLAS_UNKNOWN);
}
END_TEST

Suite *suite_blas(void)
{
    Suite *suite = suite_create("blas");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, NULL);
    tcase_add_test(all, counts_matrix_products);
    tcase_add_test(all, counts_grouped_products);
    tcase_add_test(all, counts_syrk_and_trsm);
    tcase_add_test(all, leaves_invalid_sizes_unknown);
    tcase_add_test(all, finds_types_by_cuda_constants);
    suite_add_tcase(suite, all);
    return suite;
}
