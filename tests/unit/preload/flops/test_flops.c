/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/flops/flops.h: each formula against a number worked out by hand, on inputs in
 * torch 2.13's layout. */
#include "preload/flops/flops.h"

#include "tests/support/torch_objects.h"

#define INT  3u /* c10::ScalarType */
#define HALF 5u
#define BF16 15u
#define CUDA 1

#define COMPLEX_HALF   8u
#define COMPLEX_FLOAT  9u
#define COMPLEX_DOUBLE 10u

static int8_t device;

static void *on_device(void *t)
{
    SET(t, l->ti_device_set, bool, true);
    SET(t, l->ti_device_type, int8_t, device);
    SET(t, l->ti_device_index, int8_t, device == CUDA ? 3 : -1);
    return t;
}

static void start(void)
{
    setup();
    flops_start();
    device = 0;
    n_inputs = 0;
}

#define MADE(dtype, ...) on_device(TENSOR(dtype, __VA_ARGS__))
#define ADD(dtype, ...)  add(l->tag_tensor, MADE(dtype, __VA_ARGS__))

static void add_none(void)
{
    add(l->tag_none, NULL);
}

static void add_bool(bool value)
{
    add(l->tag_bool, (void *)(uintptr_t)value);
}

static void add_int(int64_t value)
{
    add(l->tag_int, (void *)value);
}

static void add_numbers(uint16_t tag, unsigned n, const int64_t *values)
{
    void *payloads[8];
    for (unsigned i = 0; i < n; i++)
        payloads[i] = (void *)values[i];
    add(l->tag_generic_list, list(0, tag, n, payloads));
}

#define INTS(...)                                                                                  \
    add_numbers(l->tag_int, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                    \
                (int64_t[]){__VA_ARGS__})
#define BOOLS(...)                                                                                 \
    add_numbers(l->tag_bool, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                   \
                (int64_t[]){__VA_ARGS__})

static struct flops_count n;

static enum flops_told count(const char *name)
{
    const struct flops_row *row = flops_find(name, (uint32_t)strlen(name));
    ck_assert_msg(row != NULL, "%s", name);
    enum flops_told result = flops_of(row, make_function(), &n);
    n_inputs = 0;
    return result;
}

static void expect(const char *name, uint64_t flops, uint64_t bytes)
{
    ck_assert_msg(count(name) == FLOPS_COUNTED, "%s is not counted", name);
    ck_assert_msg(n.flops == flops, "%s: %lu flops, not %lu", name, (unsigned long)n.flops,
                  (unsigned long)flops);
    ck_assert_msg(n.bytes == bytes, "%s: %lu bytes, not %lu", name, (unsigned long)n.bytes,
                  (unsigned long)bytes);
}

START_TEST(finds_operators_by_their_whole_name)
{
    ck_assert_ptr_nonnull(flops_find("aten::mm", 8));
    ck_assert_ptr_nonnull(flops_find("aten::mm and more", 8));
    ck_assert_ptr_null(flops_find("aten::mmm", 9));
    ck_assert_ptr_null(flops_find("aten::linear", 12));
    ck_assert_ptr_null(flops_find("aten::m", 7));
    ck_assert_ptr_null(flops_find("", 0));
    static const char *const all[] = {
#define FLOPS(name, formula, a, b, c, source) name,
#include "preload/flops/flops.def"
#undef FLOPS
    };
    const struct flops_row *before = NULL;
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        const struct flops_row *row = flops_find(all[i], (uint32_t)strlen(all[i]));
        ck_assert_msg(row && row > before, "%s is in flops.def twice", all[i]);
        before = row;
    }
}
END_TEST

START_TEST(counts_matrix_products)
{
    ADD(FLOAT, 3, 4), ADD(FLOAT, 4, 5);
    expect("aten::mm", 2 * 3 * 4 * 5, 4 * (12 + 20 + 15));
    ADD(FLOAT, 5), ADD(FLOAT, 3, 4), ADD(FLOAT, 4, 5);
    expect("aten::addmm", 120, 4 * (12 + 20 + 15 + 5));
    ADD(HALF, 2, 3, 4), ADD(HALF, 2, 4, 5);
    expect("aten::bmm", 240, 2 * (24 + 40 + 30));
    ADD(BF16, 2, 3, 5), ADD(BF16, 2, 3, 4), ADD(BF16, 2, 4, 5);
    expect("aten::baddbmm", 240, 2 * (24 + 40 + 30 + 30));
    ADD(FLOAT, 3, 4), ADD(FLOAT, 4);
    expect("aten::mv", 24, 4 * (12 + 4 + 3));
    ADD(FLOAT, 4), ADD(FLOAT, 4);
    expect("aten::dot", 8, 4 * (4 + 4 + 1));
    ADD(24, 16, 32), ADD(24, 32, 8), ADD(FLOAT, 1), ADD(FLOAT, 1);
    expect("aten::_scaled_mm", 2 * 16 * 32 * 8, 16 * 32 + 32 * 8 + 16 * 8);
    ck_assert_uint_eq(n.dtype, 24);
    ADD(45, 16, 32), ADD(45, 32, 8); /* two 4-bit numbers in each element */
    expect("aten::_scaled_mm_v2", 2 * 16 * 64 * 8, 16 * 32 + 32 * 8 + 16 * 8);
    ADD(FLOAT, 0, 4), ADD(FLOAT, 4, 5);
    expect("aten::mm", 0, 4 * 20);
    ADD(FLOAT, 3, 0), ADD(FLOAT, 0, 5);
    expect("aten::mm", 0, 0);
}
END_TEST

/* A complex multiply-add is four products and four sums of real numbers. */
START_TEST(counts_complex_products)
{
    ADD(COMPLEX_FLOAT, 3, 4), ADD(COMPLEX_FLOAT, 4, 5);
    expect("aten::mm", 8 * 3 * 4 * 5, 8 * (12 + 20 + 15));
    ADD(COMPLEX_DOUBLE, 2, 3, 5), ADD(COMPLEX_DOUBLE, 2, 3, 4), ADD(COMPLEX_DOUBLE, 2, 4, 5);
    expect("aten::baddbmm", 960, 16 * (24 + 40 + 30 + 30));
    ADD(COMPLEX_HALF, 4), ADD(COMPLEX_HALF, 4);
    expect("aten::vdot", 32, 4 * (4 + 4 + 1));
    ADD(COMPLEX_HALF, 3, 4), ADD(COMPLEX_HALF, 4);
    expect("aten::mv", 96, 4 * (12 + 4 + 3));
    ADD(COMPLEX_FLOAT, 1, 3, 8), ADD(COMPLEX_FLOAT, 5, 3, 3), add_none(), INTS(1), INTS(0), INTS(1);
    add_int(1);
    expect("aten::conv1d", 8 * 5 * 3 * 3 * 6, 8 * (24 + 45 + 30));
    ADD(COMPLEX_FLOAT, 3, 4), ADD(COMPLEX_FLOAT, 3, 4); /* as torch counts it */
    expect("aten::mul", 12, 8 * 36);
}
END_TEST

/* Two groups: each row, column or index of the inner dimension belongs to one of them. */
START_TEST(counts_grouped_products)
{
    ADD(BF16, 10, 4), ADD(BF16, 2, 4, 5), ADD(INT, 2);
    expect("aten::_grouped_mm", 2 * 10 * 4 * 5, 2 * (40 + 40 + 50));
    ADD(BF16, 2, 3, 4), ADD(BF16, 4, 10), ADD(INT, 2);
    expect("aten::_grouped_mm", 2 * 3 * 4 * 10, 2 * (24 + 40 + 30));
    ADD(BF16, 2, 3, 4), ADD(BF16, 2, 4, 5), add_none();
    expect("aten::_grouped_mm", 2 * 2 * 3 * 4 * 5, 2 * (24 + 40 + 30));
    ADD(24, 3, 10), ADD(24, 10, 5), ADD(FLOAT, 3), ADD(FLOAT, 5), ADD(INT, 2);
    expect("aten::_scaled_grouped_mm", 2 * 3 * 10 * 5, 30 + 50 + 2 * 15);
    ADD(BF16, 10), ADD(BF16, 2, 10, 5), ADD(INT, 2);
    ck_assert_int_eq(count("aten::_grouped_mm"), FLOPS_UNKNOWN);
}
END_TEST

/* 2 x batch x out x in / groups x kernel x output positions. */
START_TEST(counts_convolutions)
{
    ADD(FLOAT, 2, 6, 9, 7), ADD(FLOAT, 8, 3, 3, 2), add_none();
    INTS(2, 1), INTS(1, 0), INTS(1, 2), add_int(2); /* groups 2: output 5 x 5 */
    expect("aten::conv2d", 2 * 2 * 8 * 3 * 6 * 25, 4 * (756 + 144 + 2 * 8 * 25));
    ADD(FLOAT, 2, 6, 9), ADD(FLOAT, 8, 6, 3), add_none(), INTS(1), INTS(0), INTS(1), add_int(1);
    expect("aten::conv1d", 2 * 2 * 8 * 6 * 3 * 7, 4 * (108 + 144 + 112));
    ADD(FLOAT, 6, 9), ADD(FLOAT, 8, 6, 3), add_none(), INTS(1), INTS(0), INTS(1), add_int(1);
    expect("aten::conv1d", 2 * 8 * 6 * 3 * 7, 4 * (54 + 144 + 56)); /* without a batch */
    ADD(FLOAT, 1, 2, 4, 4, 4), ADD(FLOAT, 3, 2, 2, 2, 2), add_none(), INTS(2), INTS(0), INTS(1);
    add_int(1); /* one number for all dimensions: 2 x 2 x 2 */
    expect("aten::conv3d", 2 * 3 * 2 * 8 * 8, 4 * (128 + 48 + 24));
    ADD(FLOAT, 2, 4, 5, 5), ADD(FLOAT, 4, 3, 3, 3), add_none(), INTS(2, 2), INTS(1, 1), INTS(1, 1);
    add_int(2), INTS(1, 1); /* groups 2: six channels; (5 - 1) 2 - 2 + 2 + 1 + 1: output 10 x 10 */
    expect("aten::conv_transpose2d", 2 * 2 * 4 * 25 * 3 * 9, 4 * (200 + 108 + 2 * 6 * 100));
    ADD(FLOAT, 4, 5, 5), ADD(FLOAT, 4, 3, 3, 3), INTS(0, 0), INTS(0, 0), INTS(1, 1);
    INTS(2, 2), add_int(1); /* without a batch, dilation 2: 4 + 2 x 2 + 1 = 9 x 9 */
    expect("aten::cudnn_convolution_transpose", 2 * 4 * 25 * 3 * 9, 4 * (100 + 108 + 3 * 81));
    ADD(FLOAT, 1, 1, 3, 3), ADD(FLOAT, 1, 1, 5, 5), add_none(), INTS(1, 1), INTS(0, 0), INTS(1, 1);
    expect("aten::conv2d", 0, 4 * (9 + 25)); /* a filter larger than the input: torch refuses it */
}
END_TEST

START_TEST(counts_convolutions_of_other_signatures)
{
    for (int transposed = 0; transposed < 2; transposed++) {
        ADD(FLOAT, 1, 2, 4), ADD(FLOAT, 2, 2, 3), add_none(), INTS(1), INTS(0), INTS(1);
        add_bool(transposed), INTS(0), add_int(1);
        ck_assert_int_eq(count("aten::convolution"), FLOPS_COUNTED);
        ck_assert_uint_eq(n.flops, transposed ? 2 * 8 * 6 : 2 * 2 * 2 * 3 * 2);
    }
    ADD(FLOAT, 2, 3, 8, 8), ADD(FLOAT, 5, 3, 3, 3), INTS(1, 1), INTS(1, 1), INTS(1, 1);
    expect("aten::cudnn_convolution", 2 * 2 * 5 * 3 * 9 * 64, 4 * (384 + 135 + 640));
    ADD(FLOAT, 2, 3, 8, 8), ADD(FLOAT, 5, 3, 3, 3), add_none(), INTS(1, 1), INTS(2, 2), INTS(1, 1);
    ck_assert_int_eq(count("aten::mkldnn_convolution"), FLOPS_COUNTED); /* padding before stride */
    ck_assert_uint_eq(n.flops, 2 * 2 * 5 * 3 * 9 * 16);
}
END_TEST

static uint64_t backward(bool input, bool weight, bool transposed)
{
    if (transposed)
        ADD(FLOAT, 2, 8, 9), ADD(FLOAT, 2, 6, 7), ADD(FLOAT, 6, 8, 3);
    else
        ADD(FLOAT, 2, 8, 7), ADD(FLOAT, 2, 6, 9), ADD(FLOAT, 8, 6, 3);
    add_none(), INTS(1), INTS(0), INTS(1), add_bool(transposed), INTS(0), add_int(1);
    BOOLS(input, weight, true);
    ck_assert_int_eq(count("aten::convolution_backward"), FLOPS_COUNTED);
    return n.flops;
}

START_TEST(counts_gradients_of_convolutions)
{
    uint64_t forward = 2 * 2 * 8 * 7 * 6 * 3;
    ck_assert_uint_eq(backward(true, true, false), 2 * forward);
    ck_assert_uint_eq(backward(false, true, false), forward);
    ck_assert_uint_eq(backward(false, false, false), 0);
    ck_assert_uint_eq(backward(true, true, true), 2 * forward);
}
END_TEST

/* 2 x 3 heads x 5 x 7 scores; two products over 4 and 8. */
START_TEST(counts_attention)
{
    uint64_t scores = 2 * 3 * 5 * 7, bytes = 4 * (2 * 3 * (5 * 4 + 7 * 4 + 7 * 8 + 5 * 8));
    ADD(FLOAT, 2, 3, 5, 4), ADD(FLOAT, 2, 3, 7, 4), ADD(FLOAT, 2, 3, 7, 8);
    expect("aten::_scaled_dot_product_flash_attention", 2 * scores * (4 + 8), bytes);
    ADD(FLOAT, 2, 3, 5, 8);
    ADD(FLOAT, 2, 3, 5, 4), ADD(FLOAT, 2, 3, 7, 4), ADD(FLOAT, 2, 3, 7, 8);
    expect("aten::_scaled_dot_product_flash_attention_backward", 2 * scores * (3 * 4 + 2 * 8),
           2 * bytes);
    ADD(FLOAT, 2, 5, 3, 4), ADD(FLOAT, 2, 7, 3, 4), ADD(FLOAT, 2, 7, 3, 8), add_none(), add_none();
    expect("aten::_flash_attention_forward", 2 * scores * (4 + 8), bytes);
    ADD(FLOAT, 2, 3, 5, 4), ADD(FLOAT, 2, 1, 7, 4), ADD(FLOAT, 2, 1, 7, 8); /* shared heads */
    ck_assert_int_eq(count("aten::_scaled_dot_product_efficient_attention"), FLOPS_COUNTED);
    ck_assert_uint_eq(n.flops, 2 * scores * (4 + 8));
    ADD(FLOAT, 2, 5, 3, 4), ADD(FLOAT, 2, 7, 3, 4), ADD(FLOAT, 2, 7, 3, 8), ADD(INT, 3);
    ck_assert_int_eq(count("aten::_flash_attention_forward"), FLOPS_UNKNOWN); /* packed sequences */
}
END_TEST

/* 5 steps of 2 samples: w_ih 128 x 16, w_hh 128 x 32. */
START_TEST(counts_recurrent_layers)
{
    uint64_t weights = 128 * 16 + 128 * 32;
    ADD(FLOAT, 5, 2, 16), ADD(FLOAT, 128, 16), ADD(FLOAT, 128, 32);
    expect("aten::mkldnn_rnn_layer", 2 * 10 * weights, 4 * (160 + weights));
    ADD(FLOAT, 5, 2, 16), ADD(FLOAT, 128, 16), ADD(FLOAT, 128, 32);
    expect("aten::mkldnn_rnn_layer_backward", 4 * 10 * weights, 4 * (160 + weights));
    ADD(FLOAT, 10, 16);
    void *matrices[] = {MADE(FLOAT, 128, 16), MADE(FLOAT, 128, 32), MADE(FLOAT, 128),
                        MADE(FLOAT, 128)};
    add(l->tag_generic_list, list(l->kind_tensor, l->tag_tensor, 4, matrices));
    expect("aten::_cudnn_rnn", 2 * 10 * weights, 4 * (160 + weights));
}
END_TEST

START_TEST(counts_elementwise_operators)
{
    ADD(FLOAT, 3, 1), ADD(FLOAT, 1, 5);
    expect("aten::add", 3, 4 * (3 + 5 + 15)); /* as torch.profiler: elements of the first input */
    ADD(FLOAT, 3, 1), ADD(FLOAT, 4, 1, 5);
    expect("aten::sub", 60, 4 * (3 + 20 + 60));
    ADD(FLOAT, 2, 3), add(l->tag_double, NULL);
    expect("aten::mul_", 6, 4 * (6 + 6));
    add(l->tag_int, NULL), ADD(HALF, 2, 3); /* 2 ** tensor */
    expect("aten::pow", 6, 2 * (6 + 6));
    add(l->tag_int, NULL), add_int(3);
    ck_assert_int_eq(count("aten::pow"), FLOPS_UNKNOWN);
    ADD(FLOAT, 2, 3), ADD(FLOAT, 2, 3), ADD(FLOAT, 2, 3);
    expect("aten::addcdiv_", 18, 4 * 24);
    ADD(HALF, 2, 3);
    expect("aten::gelu", 6, 24);
    ADD(FLOAT, 2, 3);
    expect("aten::relu", 0, 48);
    ADD(FLOAT, 4, 8);
    expect("aten::_softmax", 128, 256);
    ADD(FLOAT, 4, 8), INTS(8), ADD(FLOAT, 8), ADD(FLOAT, 8);
    expect("aten::native_layer_norm", 7 * 32, 256);
    ADD(FLOAT, 4, 8), ADD(FLOAT, 4, 8);
    expect("aten::native_layer_norm_backward", 13 * 32, 3 * 128);
    ADD(FLOAT, 4, 8);
    expect("aten::sum", 32, 128);
}
END_TEST

START_TEST(counts_operators_on_tensor_lists)
{
    for (int i = 0; i < 2; i++) {
        void *tensors[] = {MADE(FLOAT, 2, 3), MADE(FLOAT, 4)};
        add(l->tag_generic_list, list(l->kind_tensor, l->tag_tensor, 2, tensors));
    }
    expect("aten::_foreach_add_", 10, 4 * 30);
    for (int i = 0; i < 4; i++) {
        void *tensors[] = {MADE(FLOAT, 2, 3), MADE(FLOAT, 4)};
        add(l->tag_generic_list, list(l->kind_tensor, l->tag_tensor, 2, tensors));
    }
    add(l->tag_generic_list, list(l->kind_tensor, l->tag_tensor, 0, NULL));
    expect("aten::_fused_adam_", 13 * 10, 4 * 70); /* four lists read, three written */
    void *tensors[] = {MADE(FLOAT, 2, 3), undefined};
    add(l->tag_generic_list, list(l->kind_tensor, l->tag_tensor, 2, tensors));
    ck_assert_int_eq(count("aten::_foreach_add_"), FLOPS_UNKNOWN);
}
END_TEST

START_TEST(counts_bytes_of_memory_operators)
{
    ADD(FLOAT, 2, 3), ADD(HALF, 2, 3);
    expect("aten::copy_", 0, 24 + 12);
    ADD(FLOAT, 2, 3);
    expect("aten::zero_", 0, 24);
    ADD(FLOAT, 100, 8), ADD(LONG, 2, 3);
    expect("aten::embedding", 0, 2 * 6 * 8 * 4 + 6 * 8);
}
END_TEST

/* 20 rows of 8 in three bags. */
START_TEST(counts_embedding_bags)
{
    for (int mode = 0; mode < 3; mode++) { /* sum, mean, max */
        ADD(FLOAT, 100, 8), ADD(LONG, 20), ADD(LONG, 3), add_bool(false), add_int(mode);
        expect("aten::_embedding_bag", mode == 2 ? 0 : 160, 20 * 8 + 4 * (160 + 24));
    }
    ADD(FLOAT, 3, 8), ADD(LONG, 20), ADD(LONG, 20);
    expect("aten::_embedding_bag_dense_backward", 160, 20 * 8 + 4 * (160 + 160));
}
END_TEST

START_TEST(leaves_unreadable_inputs_unknown)
{
    void *symbolic = MADE(FLOAT, 3, 4);
    SET(symbolic, l->ti_flags, uint8_t, (uint8_t)l->mask_symbolic);
    add(l->tag_tensor, symbolic), ADD(FLOAT, 4, 5);
    ck_assert_int_eq(count("aten::mm"), FLOPS_UNKNOWN);
    void *nested = MADE(FLOAT, 3, 4);
    SET(nested, l->ti_key_set, uint64_t, UINT64_C(1) << l->key_nested);
    add(l->tag_tensor, nested), ADD(FLOAT, 4, 5);
    ck_assert_int_eq(count("aten::bmm"), FLOPS_UNKNOWN);
    ck_assert_int_eq(count("aten::mm"), FLOPS_UNKNOWN); /* no inputs */
    ADD(FLOAT, 3, 4);
    ck_assert_int_eq(count("aten::mm"), FLOPS_UNKNOWN);
    add_int(3), ADD(FLOAT, 4, 5);
    ck_assert_int_eq(count("aten::mm"), FLOPS_UNKNOWN);
    ADD(FLOAT, INT64_C(1) << 40, 1 << 20), ADD(FLOAT, 1 << 20, 1 << 20);
    ck_assert_int_eq(count("aten::mm"), FLOPS_UNKNOWN); /* more than 63 bits */
    ADD(FLOAT, 2, 3), ADD(FLOAT, 8, 3, 3, 3), add_none(), INTS(1, 1), INTS(1, 1), INTS(1, 1);
    ck_assert_int_eq(count("aten::conv2d"), FLOPS_UNKNOWN);
    ADD(FLOAT, 1, 3, 8, 8), ADD(FLOAT, 8, 3, 3, 3), add_none(), INTS(0, 1), INTS(1, 1), INTS(1, 1);
    ck_assert_int_eq(count("aten::conv2d"), FLOPS_UNKNOWN); /* stride 0 */
}
END_TEST

START_TEST(skips_operators_that_compute_nothing_themselves)
{
    ADD(FLOAT, 1, 3, 8, 8), ADD(FLOAT, 8, 3, 3, 3), add_none(), INTS(1, 1);
    add(l->tag_string, NULL), INTS(1, 1), add_int(1); /* padding="same" */
    ck_assert_int_eq(count("aten::conv2d"), FLOPS_NONE);
    device = 13; /* the device meta computes nothing */
    ADD(FLOAT, 3, 4), ADD(FLOAT, 4, 5);
    ck_assert_int_eq(count("aten::mm"), FLOPS_NONE);
}
END_TEST

static void *with_key(uint16_t key)
{
    void *t = MADE(FLOAT, 3, 4);
    SET(t, l->ti_key_set, uint64_t, UINT64_C(1) << key);
    return t;
}

static int coo_table, compressed_table; /* only their addresses matter */

/* A sparse matrix of 3 x 4 with `stored` numbers, with the members of a SparseTensorImpl or a
 * SparseCsrTensorImpl. */
static void *sparse(bool coo, int64_t stored)
{
    torch_api.coo_class = &coo_table;
    torch_api.compressed_class = &compressed_table;
    void *t = make(l->ti_size + 40);
    memcpy(t, MADE(FLOAT, 3, 4), l->ti_size);
    SET(t, 0, const void *, coo ? &coo_table : &compressed_table);
    uint16_t key = coo ? l->key_sparse : (uint16_t)(l->key_sparse + 1);
    SET(t, l->ti_key_set, uint64_t, UINT64_C(1) << key);
    void *values = MADE(FLOAT, stored), *indices = MADE(LONG, 2, stored), *rows = MADE(LONG, 4);
    SET(values, l->ti_numel, int64_t, stored);
    SET(indices, l->ti_numel, int64_t, coo ? 2 * stored : stored);
    SET(rows, l->ti_numel, int64_t, 4);
    SET(t, (uint16_t)(l->ti_size + (coo ? 24 : 16)), const void *, values);
    SET(t, (uint16_t)(l->ti_size + (coo ? 16 : 8)), const void *, indices);
    if (!coo)
        SET(t, l->ti_size, const void *, rows);
    return t;
}

#define SPARSE(stored) add(l->tag_tensor, sparse(coo, stored))

/* Each stored number is multiplied by a row or column of the other matrix. */
START_TEST(counts_sparse_products)
{
    for (int coo = 0; coo < 2; coo++) {
        uint64_t index_bytes = coo ? 2 * 5 * 8 : (5 + 4) * 8;
        SPARSE(5), ADD(FLOAT, 4, 7);
        expect("aten::mm", 2 * 5 * 7, index_bytes + 4 * (5 + 28 + 21));
        ADD(FLOAT, 3, 7), SPARSE(5), ADD(FLOAT, 4, 7);
        expect("aten::addmm", 2 * 5 * 7, index_bytes + 4 * (5 + 28 + 21 + 21));
        ADD(FLOAT, 6, 3), SPARSE(5);
        expect("aten::mm", 2 * 6 * 5, index_bytes + 4 * (18 + 5 + 24));
        SPARSE(5), ADD(FLOAT, 4);
        expect("aten::mv", 2 * 5, index_bytes + 4 * (5 + 4 + 3));
        SPARSE(5);
        expect("aten::sum", 5, index_bytes + 4 * 5);
        SPARSE(5), add_int(2);
        expect("aten::mul", 5, index_bytes + 4 * (5 + 5));
        SPARSE(5), add(l->tag_tensor,
                       /* torch passes a number as a tensor without dimensions */
                       on_device(tensor(FLOAT, 0, (int64_t[]){1})));
        expect("aten::mul", 5, index_bytes + 4 * (5 + 5 + 1));
        add(l->tag_tensor, on_device(tensor(FLOAT, 0, (int64_t[]){1}))), SPARSE(5);
        expect("aten::div", 5, index_bytes + 4 * (5 + 5 + 1));
        SPARSE(5), SPARSE(7);
        expect("aten::copy_", 0, 4 * (5 + 7) + 2 * index_bytes + (coo ? 2 : 1) * 2 * 8);
        SPARSE(5), SPARSE(5);
        ck_assert_int_eq(count("aten::mm"), FLOPS_UNKNOWN);
        SPARSE(5), ADD(FLOAT, 3, 4);
        ck_assert_int_eq(count("aten::add"), FLOPS_UNKNOWN);
        /* the sparse matrix selects entries of the product */
        SPARSE(5), ADD(FLOAT, 3, 4), ADD(FLOAT, 4, 4);
        ck_assert_int_eq(count("aten::addmm"), FLOPS_UNKNOWN);
        add(l->tag_tensor, with_key((uint16_t)(l->key_sparse + !coo))), ADD(FLOAT, 4, 7);
        /* a wrapper: it has a sparse key but neither sparse class */
        ck_assert_int_eq(count("aten::mm"), FLOPS_UNKNOWN);
        add(l->tag_generic_list,
            list(l->kind_tensor, l->tag_tensor, 1, (void *[]){sparse(coo, 5)}));
        ck_assert_int_eq(count("aten::_fused_sgd_"), FLOPS_UNKNOWN);
    }
}
END_TEST

/* A packed weight may have a shape of the library's own. */
START_TEST(counts_products_of_packed_weights)
{
    ADD(FLOAT, 2, 3, 8), ADD(FLOAT, 99), ADD(FLOAT, 5, 8), add_none(), add_int(6);
    expect("mkl::_mkl_linear", 2 * 6 * 5 * 8, 4 * (48 + 40));
    ADD(FLOAT, 6, 8), ADD(FLOAT, 5, 8), ADD(FLOAT, 5);
    expect("mkldnn::_linear_pointwise", 2 * 6 * 5 * 8, 4 * (48 + 40));
    ADD(FLOAT, 6, 8), ADD(FLOAT, 6, 5), ADD(FLOAT, 5, 8), ADD(FLOAT, 5);
    expect("mkldnn::_linear_pointwise", 2 * 6 * 5 * 8, 4 * (48 + 40));
    ADD(BF16, 6, 64), ADD(INT, 4, 4, 32, 4), add_int(32), ADD(BF16, 2, 32, 2);
    expect("aten::_weight_int4pack_mm", 2 * 6 * 64 * 32, 2 * 6 * 64);
    ADD(FLOAT, 6, 64), ADD(INT, 1000), add_int(32), add_int(64), add_int(10);
    expect("aten::_dyn_quant_matmul_4bit", 2 * 6 * 64 * 10, 4 * 6 * 64);
    ADD(HALF, 6, 8), ADD(HALF, 5, 4), ADD(HALF, 5, 1);
    expect("aten::_sparse_semi_structured_linear", 2 * 6 * 5 * 4, 2 * (48 + 20));
    ADD(HALF, 16 * 32 * 9 / 16), ADD(HALF, 32, 10);
    expect("aten::_cslt_sparse_mm", 2 * 16 * 16 * 10, 2 * (16 * 18 + 320));
    for (int added = 0; added < 2; added++) {
        ADD(FLOAT, 2, 3, 8, 8);
        if (added)
            ADD(FLOAT, 2, 4, 4, 4);
        ADD(FLOAT, 4, 3, 3, 3), add_none(), INTS(1, 1), INTS(2, 2), INTS(1, 1), add_int(1);
        expect("mkldnn::_convolution_pointwise", 2 * 2 * 16 * 4 * 27, 4 * (384 + 108 + 128));
    }
    ADD(FLOAT, 2, 4, 4, 4), ADD(FLOAT, 4, 2, 3, 3), add_none(), INTS(1, 1);
    expect("mkldnn::_convolution_transpose_pointwise", 2 * 128 * 18, 4 * (128 + 72));
}
END_TEST

/* Operators without a row in flops.def. Their names say that they are products. */
START_TEST(guesses_products_by_name)
{
    static const char *const products[] = {"quantized::linear_dynamic", "quantized::linear_relu",
                                           "mine::fused_gemm_bias",     "aten::_new_mm",
                                           "vllm::unified_attention",   "aten::conv_tbc"};
    static const char *const others[] = {"quantized::linear_prepack",
                                         "mkldnn::_reorder_linear_weight",
                                         "aten::linspace",
                                         "AddmmBackward0",
                                         "aten::upsample_bilinear2d",
                                         "aten::comm",
                                         "autograd::engine::evaluate_function: MmBackward0"};
    for (unsigned i = 0; i < sizeof products / sizeof *products; i++) {
        const struct flops_row *row = flops_guess(products[i]);
        ck_assert_msg(row != NULL, "%s", products[i]);
        ADD(FLOAT, 3, 4);
        ck_assert_int_eq(flops_of(row, make_function(), &n), FLOPS_UNKNOWN);
        ck_assert(n.product);
        n_inputs = 0;
    }
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
        ck_assert_msg(!flops_guess(others[i]), "%s", others[i]);
    add(l->tag_tensor, with_key(l->key_python));
    ck_assert_int_eq(flops_of(flops_guess(products[0]), make_function(), &n), FLOPS_NONE);
    n_inputs = 0;
}
END_TEST

/* A wrapper tensor only stands for another tensor. The operators inside it are counted. */
START_TEST(skips_wrapper_tensors)
{
    const uint16_t keys[] = {l->key_python, l->key_vmap, l->key_old_vmap, l->key_grad_wrapper};
    for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++) {
        add(l->tag_tensor, with_key(keys[i])), ADD(FLOAT, 4, 5);
        ck_assert_int_eq(count("aten::mm"), FLOPS_NONE);
        ADD(FLOAT, 5, 3), add(l->tag_tensor, with_key(keys[i]));
        ck_assert_int_eq(count("aten::mm"), FLOPS_NONE);
        ADD(FLOAT, 3, 4), add(l->tag_tensor, with_key(keys[i]));
        ck_assert_int_eq(count("aten::add"), FLOPS_NONE);
        add(l->tag_generic_list, list(l->kind_tensor, l->tag_tensor, 2,
                                      (void *[]){MADE(FLOAT, 3, 4), with_key(keys[i])}));
        ck_assert_int_eq(count("aten::_foreach_sqrt_"), FLOPS_NONE);
        void *symbolic = with_key(keys[i]); /* the wrapper's sizes do not matter */
        SET(symbolic, l->ti_flags, uint8_t, (uint8_t)l->mask_symbolic);
        add(l->tag_tensor, symbolic), ADD(FLOAT, 4, 5);
        ck_assert_int_eq(count("aten::mm"), FLOPS_NONE);
    }
    struct torch_layout unknown = *l; /* a version whose keys are unknown */
    unknown.key_python = unknown.key_vmap = TORCH_LAYOUT_ABSENT;
    unknown.key_old_vmap = unknown.key_grad_wrapper = TORCH_LAYOUT_ABSENT;
    torch_api.layout = &unknown;
    flops_start();
    add(l->tag_tensor, with_key(l->key_python)), ADD(FLOAT, 4, 5);
    ck_assert_int_eq(count("aten::mm"), FLOPS_COUNTED);
    torch_api.layout = l;
}
END_TEST

static size_t two_inputs(const void *function)
{
    (void)function;
    return 2;
}

/* A transform of torch.func leaves unwrapped values on the stack, before the operator's own
 * inputs. */
START_TEST(reads_inputs_after_unwrapped_values)
{
    torch_api.num_inputs = two_inputs;
    add(l->tag_tensor, with_key(l->key_grad_wrapper)), ADD(FLOAT, 4, 5);
    add(l->tag_tensor, with_key(l->key_grad_wrapper)), ADD(FLOAT, 4, 5);
    ADD(FLOAT, 3, 4), ADD(FLOAT, 4, 5);
    expect("aten::mm", 120, 4 * (12 + 20 + 15));
    add(l->tag_tensor, with_key(l->key_grad_wrapper)), ADD(FLOAT, 4, 5);
    ADD(FLOAT, 7, 4), add(l->tag_tensor, with_key(l->key_vmap));
    ck_assert_int_eq(count("aten::mm"), FLOPS_NONE);
    torch_api.num_inputs = NULL;
}
END_TEST

START_TEST(reports_device_and_dtype)
{
    device = CUDA;
    ADD(BF16, 3, 4), ADD(BF16, 4, 5);
    ck_assert_int_eq(count("aten::mm"), FLOPS_COUNTED);
    ck_assert_int_eq(n.device_type, CUDA);
    ck_assert_int_eq(n.device_index, 3);
    ck_assert_uint_eq(n.dtype, BF16);
}
END_TEST

Suite *suite_flops(void)
{
    Suite *suite = suite_create("flops");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, start, NULL);
    tcase_add_test(all, finds_operators_by_their_whole_name);
    tcase_add_test(all, counts_matrix_products);
    tcase_add_test(all, counts_complex_products);
    tcase_add_test(all, counts_grouped_products);
    tcase_add_test(all, counts_convolutions);
    tcase_add_test(all, counts_convolutions_of_other_signatures);
    tcase_add_test(all, counts_gradients_of_convolutions);
    tcase_add_test(all, counts_attention);
    tcase_add_test(all, counts_recurrent_layers);
    tcase_add_test(all, counts_elementwise_operators);
    tcase_add_test(all, counts_operators_on_tensor_lists);
    tcase_add_test(all, counts_bytes_of_memory_operators);
    tcase_add_test(all, counts_embedding_bags);
    tcase_add_test(all, leaves_unreadable_inputs_unknown);
    tcase_add_test(all, skips_operators_that_compute_nothing_themselves);
    tcase_add_test(all, skips_wrapper_tensors);
    tcase_add_test(all, counts_sparse_products);
    tcase_add_test(all, counts_products_of_packed_weights);
    tcase_add_test(all, guesses_products_by_name);
    tcase_add_test(all, reads_inputs_after_unwrapped_values);
    tcase_add_test(all, reports_device_and_dtype);
    suite_add_tcase(suite, all);
    return suite;
}
