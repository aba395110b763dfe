/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/flops/cudnn.h and preload/flops/cudnn_plan.h against numbers worked out by
 * hand. tests/e2e/test_blas.py makes the calls. */
#include "preload/flops/cudnn.h"
#include "preload/flops/cudnn_plan.h"

#include <check.h>
#include <pthread.h>

/* Addresses serve as descriptors. */
static char at[40000];

static const void *tensor(int i, int type, int dims, const int64_t *size)
{
    cudnn_plan_made(&at[i], CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    cudnn_plan_set(&at[i], CUDNN_ATTR_TENSOR_DATA_TYPE, 1, &type);
    cudnn_plan_set(&at[i], CUDNN_ATTR_TENSOR_DIMENSIONS, dims, size);
    return &at[i];
}

static void point(int i, int name, const void *to)
{
    cudnn_plan_set(&at[i], name, 1, &to);
}

/* Makes plan 60 with an engine for the `n` operations from 50 on. Returns the plan's work. */
static struct blas_work plan_of(int n)
{
    const void *operations[4] = {&at[50], &at[51], &at[52], &at[53]};
    struct blas_work w = {.type = BLAS_UNKNOWN};
    cudnn_plan_made(&at[56], CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    cudnn_plan_set(&at[56], CUDNN_ATTR_OPERATIONGRAPH_OPS, n, operations);
    cudnn_plan_whole(&at[56], NULL);
    cudnn_plan_made(&at[57], CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    point(57, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, &at[56]);
    cudnn_plan_made(&at[58], CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    point(58, CUDNN_ATTR_ENGINECFG_ENGINE, &at[57]);
    cudnn_plan_made(&at[60], CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    point(60, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &at[58]);
    cudnn_plan_whole(&at[60], NULL);
    cudnn_plan_work(&w, &at[60]);
    return w;
}

static void matmul(int i, int a, int b, int c)
{
    cudnn_plan_made(&at[i], CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    point(i, CUDNN_ATTR_OPERATION_MATMUL_ADESC, &at[a]);
    point(i, CUDNN_ATTR_OPERATION_MATMUL_BDESC, &at[b]);
    point(i, CUDNN_ATTR_OPERATION_MATMUL_CDESC, &at[c]);
    cudnn_plan_whole(&at[i], NULL);
}

static const int64_t left[] = {5, 2, 3}, right[] = {5, 3, 4}, result[] = {5, 2, 4};

static void three_tensors(void)
{
    tensor(1, CUDNN_DATA_HALF, 3, left);
    tensor(2, CUDNN_DATA_HALF, 3, right);
    tensor(3, CUDNN_DATA_FLOAT, 3, result);
}

START_TEST(counts_a_matrix_product)
{
    three_tensors();
    matmul(50, 1, 2, 3);
    struct blas_work w = plan_of(1);
    ck_assert_uint_eq(w.flops, 2 * 5 * 2 * 3 * 4);
    ck_assert_uint_eq(w.bytes, 2 * 30 + 2 * 60 + 4 * 40);
    ck_assert_uint_eq(w.type, BLAS_HALF);
    cudnn_plan_gone(&at[60]);
    w = (struct blas_work){.type = BLAS_UNKNOWN};
    cudnn_plan_work(&w, &at[60]);
    ck_assert_uint_eq(w.type, BLAS_UNKNOWN);
}
END_TEST

/* One right matrix serves several left ones. A virtual tensor needs no memory. */
START_TEST(counts_broadcast_and_virtual_tensors)
{
    const int64_t one[] = {1, 3, 4};
    bool yes = true;
    three_tensors();
    tensor(2, CUDNN_DATA_BFLOAT16, 3, one);
    cudnn_plan_set(&at[1], CUDNN_ATTR_TENSOR_IS_VIRTUAL, 1, &yes);
    matmul(50, 1, 2, 3);
    struct blas_work w = plan_of(1);
    ck_assert_uint_eq(w.flops, 2 * 5 * 2 * 3 * 4);
    ck_assert_uint_eq(w.bytes, 2 * 12 + 4 * 40);
    ck_assert_uint_eq(w.type, BLAS_BFLOAT16);
}
END_TEST

START_TEST(counts_a_grouped_convolution)
{
    const int64_t x[] = {2, 8, 10, 10}, f[] = {16, 4, 3, 3}, y[] = {2, 16, 8, 8};
    tensor(1, CUDNN_DATA_HALF, 4, x);
    tensor(2, CUDNN_DATA_HALF, 4, f);
    tensor(3, CUDNN_DATA_HALF, 4, y);
    cudnn_plan_made(&at[50], CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
    point(50, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, &at[1]);
    point(50, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, &at[2]);
    point(50, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, &at[3]);
    cudnn_plan_whole(&at[50], NULL);
    cudnn_plan_made(&at[51], 13); /* pointwise operations are not kept */
    struct blas_work w = plan_of(2);
    ck_assert_uint_eq(w.flops, UINT64_C(2) * 2 * 16 * 8 * 8 * 4 * 3 * 3);
    ck_assert_uint_eq(w.type, BLAS_HALF);
}
END_TEST

static const int64_t q[] = {2, 8, 10, 16}, k[] = {2, 2, 12, 16}, v[] = {2, 2, 12, 24},
                     o[] = {2, 8, 10, 24};

/* An attention operation at 50 with tensors 1 to 4 as the attributes from `first` on. more: another
 * attribute that it has, or 0. */
static struct blas_work attention(int type, int first, int more)
{
    cudnn_plan_made(&at[50], type);
    for (int i = 0; i < 4; i++)
        point(50, first + i, &at[1 + i]);
    if (more)
        point(50, more, &at[1]);
    cudnn_plan_whole(&at[50], NULL);
    return plan_of(1);
}

START_TEST(counts_attention_as_one_operation)
{
    /* eight heads of queries, two of keys and values */
    tensor(1, CUDNN_DATA_BFLOAT16, 4, q);
    tensor(2, CUDNN_DATA_BFLOAT16, 4, k);
    tensor(3, CUDNN_DATA_BFLOAT16, 4, v);
    tensor(4, CUDNN_DATA_BFLOAT16, 4, o);
    const int forward = CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR,
              back = CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR;
    const uint64_t scores = 2 * 8 * 10 * 12, elements = 2560 + 768 + 1152 + 3840;
    struct blas_work w = attention(forward, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, 0);
    ck_assert_uint_eq(w.flops, 2 * scores * (16 + 24));
    ck_assert_uint_eq(w.bytes, 2 * elements);
    ck_assert_uint_eq(w.type, BLAS_BFLOAT16);
    w = attention(back, CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC, 0);
    ck_assert_uint_eq(w.flops, 2 * scores * (3 * 16 + 2 * 24));
    ck_assert_uint_eq(w.bytes, 2 * 2 * elements);
    /* These attributes of cudnn_graph.h do not change the work: statistics, scale, sinks … */
    static const int same[] = {2804, 2805, 2811, 2814, 2818, 2819};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        ck_assert_uint_eq(attention(forward, 2800, same[i]).type, BLAS_BFLOAT16);
    static const int same_back[] = {2855, 2856, 2859, 2862, 2863, 2867, 2869};
    for (size_t i = 0; i < sizeof same_back / sizeof *same_back; i++)
        ck_assert_uint_eq(attention(back, 2851, same_back[i]).type, BLAS_BFLOAT16);
    /* Block masks, page tables, lengths and unknown attributes change the work. */
    static const int other[] = {2806, 2807, 2808, 2809, 2810, 2820, 2821, 2822};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        ck_assert_uint_eq(attention(forward, 2800, other[i]).type, BLAS_UNKNOWN);
    static const int other_back[] = {2857, 2858, 2865, 2866, 2870};
    for (size_t i = 0; i < sizeof other_back / sizeof *other_back; i++)
        ck_assert_uint_eq(attention(back, 2851, other_back[i]).type, BLAS_UNKNOWN);
    tensor(4, CUDNN_DATA_BFLOAT16, 3, o);
    ck_assert_uint_eq(attention(forward, 2800, 0).type, BLAS_UNKNOWN);
    cudnn_plan_gone(&at[4]);
    ck_assert_uint_eq(attention(forward, 2800, 0).type, BLAS_UNKNOWN);
}
END_TEST

START_TEST(leaves_incomplete_plans_unknown)
{
    const void *offsets = &at[9];
    const int64_t negative[] = {-1, 2, 4}, huge[] = {INT64_MAX, INT64_MAX, 4};
    bool yes = true;
    three_tensors();
    for (int name = CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC;
         name <= CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC; name++) {
        cudnn_plan_made(&at[50], CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
        point(50, name, offsets);
        point(50, CUDNN_ATTR_OPERATION_MATMUL_ADESC, &at[1]);
        point(50, CUDNN_ATTR_OPERATION_MATMUL_BDESC, &at[2]);
        point(50, CUDNN_ATTR_OPERATION_MATMUL_CDESC, &at[3]);
        cudnn_plan_whole(&at[50], NULL);
        ck_assert_uint_eq(plan_of(1).type, BLAS_UNKNOWN);
    }
    cudnn_plan_made(&at[50], CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
    cudnn_plan_whole(&at[50], NULL);
    ck_assert_uint_eq(plan_of(1).type, BLAS_UNKNOWN);
    cudnn_plan_made(&at[50], 1000); /* an attribute of a future version */
    cudnn_plan_whole(&at[50], NULL);
    ck_assert_uint_eq(plan_of(1).type, BLAS_UNKNOWN);
    matmul(50, 1, 2, 7); /* there is no such tensor */
    ck_assert_uint_eq(plan_of(1).type, BLAS_UNKNOWN);
    tensor(3, CUDNN_DATA_FLOAT, 3, negative);
    matmul(50, 1, 2, 3);
    ck_assert_uint_eq(plan_of(1).type, BLAS_UNKNOWN);
    tensor(3, CUDNN_DATA_FLOAT, 3, huge);
    matmul(50, 1, 2, 3);
    ck_assert_uint_eq(plan_of(1).type, BLAS_UNKNOWN);
    tensor(3, CUDNN_DATA_FLOAT, 9, huge);
    matmul(50, 1, 2, 3);
    ck_assert_uint_eq(plan_of(1).type, BLAS_UNKNOWN);
    three_tensors();
    cudnn_plan_set(&at[2], CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, 1, &offsets);
    matmul(50, 1, 2, 3);
    ck_assert_uint_eq(plan_of(1).type, BLAS_UNKNOWN);
    three_tensors();
    matmul(50, 1, 2, 3);
    ck_assert_uint_eq(plan_of(1).type, BLAS_HALF);
    cudnn_plan_set(&at[56], CUDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED, 1, &yes);
    point(57, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, &at[56]);
    point(58, CUDNN_ATTR_ENGINECFG_ENGINE, &at[57]);
    point(60, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &at[58]);
    struct blas_work w = {.type = BLAS_NONE};
    cudnn_plan_work(&w, &at[60]);
    ck_assert_uint_eq(w.type, BLAS_UNKNOWN);
    cudnn_plan_set(NULL, CUDNN_ATTR_TENSOR_DIMENSIONS, 1, negative);
    cudnn_plan_set(&at[1], CUDNN_ATTR_TENSOR_DIMENSIONS, 1, NULL);
    cudnn_plan_got(&at[1], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, NULL);
    cudnn_plan_made(NULL, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    cudnn_plan_gone(NULL);
}
END_TEST

/* Descriptors beyond the table's size stay unknown, and the others are complete. Freed places are
 * reused. */
START_TEST(survives_more_descriptors_than_places)
{
    int known = 0;
    for (int round = 0; round < 2; round++) {
        for (int i = 100; i < 40000; i++)
            cudnn_plan_made(&at[i], CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        for (int i = 100; i < 40000; i++)
            cudnn_plan_gone(&at[i]);
    }
    three_tensors();
    matmul(50, 1, 2, 3);
    known += plan_of(1).type == BLAS_HALF;
    ck_assert_int_eq(known, 1);
}
END_TEST

static void *make_and_destroy(void *arg)
{
    char *mine = arg;
    for (int round = 0; round < 300; round++)
        for (int i = 0; i < 100; i++) {
            cudnn_plan_made(mine + i, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
            cudnn_plan_set(mine + i, CUDNN_ATTR_TENSOR_DIMENSIONS, 3, left);
            cudnn_plan_gone(mine + i);
        }
    return NULL;
}

START_TEST(keeps_plans_while_other_threads_make_descriptors)
{
    pthread_t threads[3];
    three_tensors();
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, make_and_destroy, at + 1000 * (i + 1)),
                         0);
    for (int i = 0; i < 1000; i++) {
        matmul(50, 1, 2, 3);
        ck_assert_uint_eq(plan_of(1).type, BLAS_HALF);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}
END_TEST

START_TEST(counts_weights_of_recurrent_layers)
{
    /* torch.nn.LSTM(16, 24): 4 x 24 x 16 + 4 x 24 x 24 */
    struct cudnn_rnn rnn = {CUDNN_LSTM, 0, 0, 16, 24, 24, 1};
    ck_assert_uint_eq(cudnn_weights(&rnn), 4 * 24 * 16 + 4 * 24 * 24);
    /* GRU(16, 24, 3, bidirectional) */
    rnn = (struct cudnn_rnn){CUDNN_GRU, CUDNN_BIDIRECTIONAL, 0, 16, 24, 24, 3};
    ck_assert_uint_eq(cudnn_weights(&rnn), 2 * 3 * 24 * (16 + 24 + 2 * (48 + 24)));
    /* LSTM(16, 24, 2, proj_size=5): weight_hh is 96 x 5, weight_hr 5 x 24. The second layer's input
     * is 5. */
    rnn = (struct cudnn_rnn){CUDNN_LSTM, 0, 0, 16, 24, 5, 2};
    ck_assert_uint_eq(cudnn_weights(&rnn), 96 * 16 + 96 * 5 + 5 * 24 + 96 * 5 + 96 * 5 + 5 * 24);
    /* RNN whose first layer has no weight for its input */
    rnn = (struct cudnn_rnn){0, 0, CUDNN_SKIP_INPUT, 24, 24, 24, 1};
    ck_assert_uint_eq(cudnn_weights(&rnn), 24 * 24);
}
END_TEST

Suite *suite_cudnn(void)
{
    Suite *suite = suite_create("cudnn");
    TCase *all = tcase_create("all");
    tcase_add_test(all, counts_a_matrix_product);
    tcase_add_test(all, counts_broadcast_and_virtual_tensors);
    tcase_add_test(all, counts_a_grouped_convolution);
    tcase_add_test(all, counts_attention_as_one_operation);
    tcase_add_test(all, leaves_incomplete_plans_unknown);
    tcase_add_test(all, survives_more_descriptors_than_places);
    tcase_add_test(all, keeps_plans_while_other_threads_make_descriptors);
    tcase_add_test(all, counts_weights_of_recurrent_layers);
    suite_add_tcase(suite, all);
    return suite;
}
