/* SPDX-License-Identifier: Apache-2.0 */
/* Computes FLOPs by the formulas of the table flops.def, which explains them. */
#include "preload/flops/flops.h"

#include "preload/flops/flops_inputs.h"
#include "preload/settings/settings.h"

#define SLOTS        1024u /* slots of the hash table of names; a power of two */
#define SPATIAL_MOST 3u    /* most spatial dimensions of a convolution */
#define KEY          8u    /* bytes of the shortest name in the table */

uint64_t flops_wrapper_keys, flops_special_keys;

struct flops_row {
    const char *name;
    void (*formula)(struct call *call, int a, int b, int c);
    int8_t a, b, c;
    uint8_t len;
    bool product; /* all its work is products */
};

/* ---- the formulas ---------------------------------------------------------------------------- */

/* Operations of one multiply-add, by element type. A complex multiply-add is four products and four
 * sums. An element of FLOAT4_X2 holds two numbers. */
static uint64_t per_product(const struct call *call)
{
    switch (call->out->dtype) {
    case COMPLEX_HALF:
    case COMPLEX_FLOAT:
    case COMPLEX_DOUBLE:
    case COMPLEX_BFLOAT16:
        return 8;
    case FLOAT4_X2:
        return 4;
    default:
        return 2;
    }
}

/* A product with a sparse matrix: each stored entry is multiplied by a row or column of the other
 * matrix. With two sparse matrices the number of products is unknown. */
static __attribute__((noinline, cold)) void
count_sparse(struct call *call, const struct shape *left, const struct shape *right)
{
    call->sparse = false;
    call->bad |= left->sparse && right->sparse;
    uint64_t times_each = 1; /* for vectors */
    if (left->sparse && right->dims >= 2)
        times_each = (uint64_t)right->sizes[right->dims - 1];
    else if (right->sparse && left->dims >= 2)
        times_each = (uint64_t)left->sizes[left->dims - 2];
    uint64_t stored = left->sparse ? left->stored : right->stored;
    uint64_t depth = (uint64_t)left->sizes[left->dims - 1];
    uint64_t columns = right->dims >= 2 ? (uint64_t)right->sizes[right->dims - 1] : 1;
    uint64_t result = depth ? times(call, volume(call, left, 0) / depth, columns) : 0;
    call->out->flops = times(call, per_product(call), times(call, stored, times_each));
    move_bytes(call, elements_of(call, left), left->dtype);
    move_bytes(call, elements_of(call, right), right->dtype);
    move_bytes(call, result, left->dtype);
}

static void count_MATMUL(struct call *call, int a, int b, int c)
{
    struct shape left, right, added;
    if (!operand(call, a, &left, true) || !operand(call, b, &right, false))
        return;
    if (left.dims == 0 || right.dims == 0 || right.dims > left.dims) {
        call->bad = true;
        return;
    }
    if (__builtin_expect(call->sparse, 0)) {
        count_sparse(call, &left, &right);
        if (tensor_at(call, c, &added)) /* a sparse one may select the result's entries */
            move_bytes(call, elements_of(call, &added), added.dtype);
        return;
    }
    uint64_t rows = volume(call, &left, 0), columns = 1;
    if (right.dims >= 2) /* otherwise a vector */
        columns = (uint64_t)right.sizes[right.dims - 1];
    uint64_t depth = (uint64_t)left.sizes[left.dims - 1];
    uint64_t result = depth ? times(call, rows / depth, columns) : 0;
    call->out->flops = times(call, per_product(call), times(call, rows, columns));
    move_bytes(call, rows, left.dtype);
    move_bytes(call, volume(call, &right, 0), right.dtype);
    move_bytes(call, result, left.dtype);
    if (tensor_at(call, c, &added))
        move_bytes(call, volume(call, &added, 0), added.dtype);
}

/* A layer whose weight may be packed in a library's format: each row of the input is multiplied by
 * each number of the weight. */
static void count_rows(struct call *call, int input, int weight)
{
    struct shape in, w;
    if (!operand(call, input, &in, true) || !operand(call, weight, &w, false))
        return;
    uint64_t depth = in.dims ? (uint64_t)in.sizes[in.dims - 1] : 0;
    uint64_t rows = depth ? volume(call, &in, 0) / depth : 0, weights = volume(call, &w, 0);
    call->bad |= in.dims == 0;
    call->out->flops = times(call, per_product(call), times(call, rows, weights));
    move_bytes(call, times(call, rows, depth), in.dtype);
    move_bytes(call, weights, w.dtype);
}

static void count_ROWS(struct call *call, int a, int b, int c)
{
    (void)c;
    count_rows(call, a, b);
}

/* True when the input at i is a tensor of at least `dims` dimensions. Distinguishes variants of an
 * operator by the input that they have there. */
static bool has_dims(struct call *call, int i, uint64_t dims)
{
    struct call one = {.values = call->values, .n = call->n, .out = call->out};
    struct shape s;
    return tensor_at(&one, i, &s) && s.dims >= dims;
}

static void count_LINEAR_X(struct call *call, int a, int b, int c)
{
    (void)c;
    count_rows(call, a, has_dims(call, b + 1, 2) ? b + 1 : b);
}

static int64_t input_number_at(struct call *call, int i);

static void count_COLUMNS(struct call *call, int a, int b, int c)
{
    struct shape in, w;
    int64_t columns = -1;
    if (!operand(call, a, &in, true))
        return;
    if (c < 0)
        columns = input_number_at(call, b);
    else if (operand(call, b, &w, false) && (uint64_t)c < w.dims)
        columns = w.sizes[c];
    call->bad |= columns < 0;
    uint64_t elements = volume(call, &in, 0);
    call->out->flops =
        call->bad ? 0 : times(call, per_product(call), times(call, elements, (uint64_t)columns));
    move_bytes(call, elements, in.dtype);
}

/* cuSPARSELt stores two of four numbers, followed by metadata: in all 9/16 of the matrix, or 10/16
 * with one-byte numbers. */
static void count_CSLT(struct call *call, int a, int b, int c)
{
    struct shape packed, right;
    (void)c;
    if (!operand(call, a, &packed, true) || !operand(call, b, &right, false))
        return;
    uint64_t kept = volume(call, &packed, 0) / (dtype_bytes(packed.dtype) == 1 ? 10 : 9) * 8;
    call->bad |= right.dims != 2;
    if (!call->bad)
        call->out->flops =
            times(call, per_product(call), times(call, kept, (uint64_t)right.sizes[1]));
    move_bytes(call, volume(call, &packed, 0), packed.dtype);
    move_bytes(call, volume(call, &right, 0), right.dtype);
}

/* An operator whose name suggests a product: it is unknown, not counted. Without tensor inputs, it
 * counts as running on this machine. */
static void count_GUESS(struct call *call, int a, int b, int c)
{
    struct shape s = {0};
    (void)a, (void)b, (void)c;
    for (int i = 0; (uint64_t)i < call->n && !s.sizes; i++)
        tensor_at(call, i, &s);
    if (s.sizes)
        note_first(call, &s);
    call->bad = !s.sizes || call->out->device_type == 0 || call->out->device_type == 1;
}

static void count_GROUPED(struct call *call, int a, int b, int c)
{
    struct shape left, right, ends;
    if (!operand(call, a, &left, true) || !operand(call, b, &right, false))
        return;
    bool ended = tensor_at(call, c, &ends);
    if (left.dims < 2 || left.dims > 3 || right.dims < 2 || right.dims > 3) {
        call->bad = true;
        return;
    }
    bool columns_split = left.dims == 3 && right.dims == 2; /* each column belongs to one group */
    bool depth_split = left.dims == 2 && right.dims == 2;   /* each group has its own result */
    uint64_t elements = volume(call, &left, columns_split ? 1 : 0);
    uint64_t columns = (uint64_t)right.sizes[right.dims - 1];
    uint64_t depth = (uint64_t)left.sizes[left.dims - 1];
    uint64_t result = depth ? times(call, elements / depth, columns) : 0;
    call->out->flops = times(call, per_product(call), times(call, elements, columns));
    move_bytes(call, volume(call, &left, 0), left.dtype);
    move_bytes(call, volume(call, &right, 0), right.dtype);
    move_bytes(call, depth_split && ended ? times(call, result, volume(call, &ends, 0)) : result,
               left.dtype);
}

/* The number of elements when the first `a` inputs are broadcast to each other; inputs that are no
 * tensors are numbers. */
static uint64_t broadcast(struct call *call, int a, struct shape shapes[3])
{
    uint64_t dims = 0, n = 1, tensors = 0, more_than_numbers = 0;
    for (int i = 0; i < a; i++) {
        if (!tensor_at(call, i, &shapes[i]))
            continue;
        if (tensors++ == 0)
            note_first(call, &shapes[i]);
        dims = shapes[i].dims > dims ? shapes[i].dims : dims;
        more_than_numbers += shapes[i].dims > 0; /* torch also wraps numbers as tensors */
        move_bytes(call, elements_of(call, &shapes[i]), shapes[i].dtype);
    }
    call->bad |= tensors == 0;
    if (more_than_numbers == 1 && call->sparse) {
        call->sparse = false;
        return shapes[0].stored + shapes[1].stored + shapes[2].stored;
    }
    if (a == 1)
        return volume(call, &shapes[0], 0);
    for (uint64_t d = 1; d <= dims; d++) {
        uint64_t size = 1;
        for (int i = 0; i < a; i++)
            if (shapes[i].dims >= d && shapes[i].sizes[shapes[i].dims - d] != 1)
                size = (uint64_t)shapes[i].sizes[shapes[i].dims - d];
        n = times(call, n, size);
    }
    return n;
}

static void count_ELEMENTS(struct call *call, int a, int b, int c)
{
    struct shape shapes[3] = {{0}};
    uint64_t n = broadcast(call, a, shapes);
    call->out->flops = times(call, n, (uint64_t)b);
    if (c)
        move_bytes(call, n, call->out->dtype);
}

static void count_FIRST(struct call *call, int a, int b, int c)
{
    struct shape shapes[3] = {{0}};
    uint64_t n = broadcast(call, a, shapes);
    call->out->flops = call->bad ? 0 : times(call, elements_of(call, &shapes[0]), (uint64_t)b);
    if (c)
        move_bytes(call, n, shapes[0].dtype);
}

static void count_REDUCE(struct call *call, int a, int b, int c)
{
    struct shape s;
    (void)c;
    if (!operand(call, a, &s, true))
        return;
    uint64_t n = elements_of(call, &s);
    call->sparse = false;
    call->out->flops = times(call, n, (uint64_t)b);
    move_bytes(call, n, s.dtype);
}

/* Sums elements and bytes of the tensors of the list at position i. first: the first tensor sets
 * dtype and device. */
static uint64_t sum_list(struct call *call, int i, bool first, uint64_t *bytes)
{
    const struct torch_layout *l = torch_api.layout;
    uint64_t n, elements = 0;
    const char *value = list_at(call, i, &n);
    for (uint64_t k = 0; value && k < n; k++, value += l->iv_size) {
        struct shape s;
        if (value_tag(torch_api.layout, value) != l->tag_tensor)
            return elements; /* a list of numbers */
        struct call one = {.values = value, .n = 1, .out = call->out};
        if (!operand(&one, 0, &s, first && k == 0)) {
            call->bad = true;
            call->inside |= one.inside;
            return 0;
        }
        call->sparse |= one.sparse;
        uint64_t these = volume(call, &s, 0);
        elements += these;
        *bytes += times(call, these, dtype_bytes(s.dtype));
    }
    return elements;
}

static void count_LIST(struct call *call, int a, int b, int c)
{
    uint64_t n, bytes = 0, written = 0;
    if (!list_at(call, a, &n)) {
        call->bad = true;
        return;
    }
    uint64_t elements = sum_list(call, a, true, &bytes);
    written = times(call, bytes, (uint64_t)c);
    for (int i = 0; (uint64_t)i < call->n && !call->bad; i++)
        if (i != a)
            sum_list(call, i, false, &bytes);
    call->out->flops = times(call, elements, (uint64_t)b);
    call->out->bytes = bytes + written;
}

static void count_COPY(struct call *call, int a, int b, int c)
{
    struct shape to, from;
    (void)a, (void)b, (void)c;
    if (!operand(call, 0, &to, true))
        return;
    move_bytes(call, elements_of(call, &to), to.dtype);
    if (tensor_at(call, 1, &from))
        move_bytes(call, elements_of(call, &from), from.dtype);
    call->sparse = false;
}

static void count_GATHER(struct call *call, int a, int b, int c)
{
    struct shape table, indices;
    (void)c;
    if (!operand(call, a, &table, true) || !operand(call, b, &indices, false))
        return;
    uint64_t n = volume(call, &indices, 0);
    move_bytes(call, n, indices.dtype);
    move_bytes(call, times(call, 2, times(call, n, volume(call, &table, 1))), table.dtype);
}

static void count_BAG(struct call *call, int a, int b, int c)
{
    struct shape table, indices, bags;
    const char *mode = value_at(call, c + 2);
    if (!operand(call, a, &table, true) || !operand(call, b, &indices, false))
        return;
    bool largest = c >= 0 && mode &&
                   value_tag(torch_api.layout, mode) == torch_api.layout->tag_int &&
                   value_word(mode, torch_api.layout->iv_payload) == 2;
    uint64_t n = volume(call, &indices, 0), width = volume(call, &table, 1);
    call->out->flops = largest ? 0 : times(call, n, width);
    move_bytes(call, n, indices.dtype);
    move_bytes(call, times(call, n, width), table.dtype);
    if (tensor_at(call, c, &bags))
        move_bytes(call, times(call, volume(call, &bags, 0), width), table.dtype);
    else
        move_bytes(call, times(call, n, width), table.dtype);
}

/* ---- convolutions ---- */

/* A convolution's operands. Each element of the weight takes part in `position` products. */
struct conv {
    struct shape input, weight;
    uint64_t spatial; /* number of spatial dimensions */
    /* elements in one channel of all samples: of the output, or of a transposed convolution's
     * input */
    uint64_t position;
};

/* Positions of a transposed convolution's arguments. more: the output padding. */
struct spread {
    int stride, padding, more, dilation, groups;
};

static bool conv_shapes(struct call *call, int input, int weight, struct conv *k)
{
    if (!operand(call, input, &k->input, true) || !operand(call, weight, &k->weight, false))
        return false;
    k->spatial = k->weight.dims - 2;
    bool fits = k->weight.dims > 2 && k->spatial <= SPATIAL_MOST &&
                k->input.dims + 1 >= k->weight.dims && k->input.dims <= k->weight.dims;
    call->bad |= !fits;
    return fits;
}

static uint64_t conv_batch(const struct conv *k)
{
    return k->input.dims == k->weight.dims ? (uint64_t)k->input.sizes[0] : 1;
}

/* Length of the output along spatial dimension d. */
static uint64_t output_length(struct call *call, const struct conv *k, uint64_t d, int stride,
                              int padding, int dilation)
{
    int64_t in = k->input.sizes[k->input.dims - k->spatial + d];
    int64_t filter = k->weight.sizes[k->weight.dims - k->spatial + d];
    int64_t step = int_of(call, stride, d, 1);
    int64_t most = INT64_C(1) << 40;
    int64_t pad = int_of(call, padding, d, 0), spread = int_of(call, dilation, d, 1);
    if (step <= 0 || in < 0 || in > most || filter > most || pad > most || spread > 1 << 20)
        call->bad = true;
    int64_t room = call->bad ? -1 : in + 2 * pad - spread * (filter - 1) - 1;
    return room < 0 ? 0 : (uint64_t)(room / step + 1);
}

static void conv_bytes(struct call *call, const struct conv *k, uint64_t out)
{
    move_bytes(call, volume(call, &k->input, 0), k->input.dtype);
    move_bytes(call, volume(call, &k->weight, 0), k->weight.dtype);
    move_bytes(call, out, k->input.dtype);
}

/* Counts a convolution: one product for each weight and each position of its window. */
static void count_window(struct call *call, struct conv *k, int stride, int padding, int dilation)
{
    k->position = conv_batch(k);
    for (uint64_t d = 0; d < k->spatial; d++)
        k->position =
            times(call, k->position, output_length(call, k, d, stride, padding, dilation));
    uint64_t weights = volume(call, &k->weight, 0);
    call->out->flops = times(call, per_product(call), times(call, k->position, weights));
    conv_bytes(call, k, times(call, k->position, (uint64_t)k->weight.sizes[0]));
}

static void count_CONV(struct call *call, int stride, int padding, int dilation)
{
    struct conv k;
    const char *named = value_at(call, padding);
    call->inside = named && value_tag(torch_api.layout, named) == torch_api.layout->tag_string;
    if (call->inside || !conv_shapes(call, 0, 1, &k))
        return; /* padding is a name; the aten::convolution inside has it as numbers */
    count_window(call, &k, stride, padding, dilation);
}

/* mkldnn's convolution. An optional tensor, which is added to the result, may precede the
 * weight. */
static void count_CONV_X(struct call *call, int input, int weight, int c)
{
    struct conv k;
    (void)c;
    int at = has_dims(call, weight + 1, 3) ? weight + 1 : weight;
    if (conv_shapes(call, input, at, &k))
        count_window(call, &k, at + 3, at + 2, at + 4);
}

/* oneDNN's convolution of integers. An optional tensor, which is added to the result, may precede
 * the bias. */
static void count_CONV_Q(struct call *call, int input, int weight, int bias)
{
    struct conv k;
    int at = has_dims(call, bias, 3) ? bias + 1 : bias;
    if (conv_shapes(call, input, weight, &k))
        count_window(call, &k, at + 1, at + 2, at + 3);
}

/* A transposed convolution: each number of the input is multiplied by the weights of its
 * channel. */
static void count_SPREAD(struct call *call, int a, int b, int c)
{
    struct shape in, w;
    (void)c;
    if (!operand(call, a, &in, true) || !operand(call, b, &w, false))
        return;
    call->bad |= in.dims < 3 || in.sizes[1] <= 0;
    uint64_t weights = volume(call, &w, 0), elements = volume(call, &in, 0);
    uint64_t each = call->bad ? 0 : weights / (uint64_t)in.sizes[1];
    call->out->flops = times(call, per_product(call), times(call, elements, each));
    move_bytes(call, elements, in.dtype);
    move_bytes(call, weights, w.dtype);
}

/* The integer at position i. Makes the call bad if there is none. */
static int64_t input_number_at(struct call *call, int i)
{
    const char *value = value_at(call, i);
    if (!value || value_tag(torch_api.layout, value) != torch_api.layout->tag_int) {
        call->bad = true;
        return 0;
    }
    return (int64_t)value_word(value, torch_api.layout->iv_payload);
}

/* Length of a transposed convolution's output along spatial dimension d. */
static uint64_t spread_length(struct call *call, const struct conv *k, uint64_t d,
                              const struct spread *at)
{
    int64_t most = INT64_C(1) << 20, in = k->input.sizes[k->input.dims - k->spatial + d];
    int64_t filter = k->weight.sizes[k->weight.dims - k->spatial + d];
    int64_t step = int_of(call, at->stride, d, 1), pad = int_of(call, at->padding, d, 0);
    int64_t more = int_of(call, at->more, d, 0), dilation = int_of(call, at->dilation, d, 1);
    if (in > most || filter > most || step > most || dilation > most || pad > most || more > most)
        call->bad = true;
    int64_t length = call->bad ? 0 : (in - 1) * step - 2 * pad + dilation * (filter - 1) + more + 1;
    return length > 0 ? (uint64_t)length : 0;
}

static void count_spread(struct call *call, const struct spread *at)
{
    struct conv k;
    if (!conv_shapes(call, 0, 1, &k))
        return;
    uint64_t inputs = volume(call, &k.input, 0), filter = volume(call, &k.weight, 1);
    call->out->flops = times(call, per_product(call), times(call, inputs, filter));
    int64_t groups = input_number_at(call, at->groups);
    uint64_t out = times(call, conv_batch(&k), (uint64_t)k.weight.sizes[1]);
    out = times(call, out, groups > 0 ? (uint64_t)groups : 0);
    for (uint64_t d = 0; d < k.spatial; d++)
        out = times(call, out, spread_length(call, &k, d, at));
    conv_bytes(call, &k, out);
}

static void count_CONV_T(struct call *call, int stride, int padding, int dilation)
{
    bool torch = stride < padding; /* otherwise cuDNN's order */
    struct spread at = {stride, padding, padding + 1, dilation,
                        torch ? dilation - 1 : dilation + 1};
    count_spread(call, &at);
}

static void count_CONVOLUTION(struct call *call, int transposed, int padding, int c)
{
    struct spread at = {padding - 1, padding, transposed + 1, padding + 1, transposed + 2};
    (void)c;
    if (truth(call, value_at(call, transposed)))
        count_spread(call, &at);
    else
        count_CONV(call, padding - 1, padding, padding + 1);
}

/* Each requested gradient takes as many products as the convolution itself. */
static void count_CONV_BACK(struct call *call, int transposed, int stride, int mask)
{
    struct conv k;
    struct shape gradient;
    uint64_t n, wanted = 0;
    (void)stride;
    if (!operand(call, 0, &gradient, false) || !conv_shapes(call, 1, 2, &k))
        return;
    const char *asked = list_at(call, mask, &n);
    if (!asked || n < 2) {
        call->bad = true;
        return;
    }
    for (uint64_t i = 0; i < 2; i++)
        wanted += truth(call, asked + i * torch_api.layout->iv_size);
    bool turned = truth(call, value_at(call, transposed));
    uint64_t moved = turned ? volume(call, &k.input, 0) : volume(call, &gradient, 0);
    uint64_t filter = volume(call, &k.weight, 1); /* weights of one channel of `moved` */
    call->out->flops =
        times(call, wanted, times(call, per_product(call), times(call, moved, filter)));
    conv_bytes(call, &k, volume(call, &gradient, 0));
    call->out->bytes = times(call, call->out->bytes, wanted ? wanted : 1);
}

/* ---- attention ---- */

struct attention {
    uint64_t heads;      /* heads of all samples */
    uint64_t q, k;       /* sequence lengths */
    uint64_t dim, v_dim; /* sizes of a head: of queries and keys, and of values */
};

static bool read_attention(struct call *call, int at, bool sequence_first, int packed,
                           struct attention *s)
{
    struct shape q, k, v, lengths;
    if (!operand(call, at, &q, true) || !operand(call, at + 1, &k, false) ||
        !operand(call, at + 2, &v, false))
        return false;
    unsigned length = sequence_first ? 1 : 2, head = sequence_first ? 2 : 1;
    if (q.dims != 4 || k.dims != 4 || v.dims != 4 || tensor_at(call, packed, &lengths)) {
        call->bad = true;
        return false;
    }
    s->heads = times(call, (uint64_t)q.sizes[0], (uint64_t)q.sizes[head]);
    s->q = (uint64_t)q.sizes[length];
    s->k = (uint64_t)k.sizes[length];
    s->dim = (uint64_t)q.sizes[3];
    s->v_dim = (uint64_t)v.sizes[3];
    move_bytes(call, volume(call, &q, 0), q.dtype);
    move_bytes(call, volume(call, &k, 0), k.dtype);
    move_bytes(call, volume(call, &v, 0), v.dtype);
    move_bytes(call, times(call, times(call, s->heads, s->q), s->v_dim), q.dtype);
    return true;
}

/* dims and v_dims: how many products run over each kind of head dimension. */
static void count_attention(struct call *call, const struct attention *s, uint64_t dims,
                            uint64_t v_dims)
{
    uint64_t scores = times(call, times(call, s->heads, s->q), s->k);
    uint64_t depth = times(call, dims, s->dim) + times(call, v_dims, s->v_dim);
    call->out->flops = times(call, per_product(call), times(call, scores, depth));
}

static void count_SDPA(struct call *call, int a, int b, int c)
{
    struct attention s;
    if (read_attention(call, a, b != 0, c, &s))
        count_attention(call, &s, 1, 1);
}

static void count_SDPA_BACK(struct call *call, int a, int b, int c)
{
    struct attention s;
    if (!read_attention(call, a, b != 0, c, &s))
        return;
    count_attention(call, &s, 3, 2);
    call->out->bytes = times(call, 2, call->out->bytes); /* also the gradient of each tensor */
}

/* ---- recurrent layers ---- */

static void count_rnn(struct call *call, uint64_t weights, uint64_t bytes, int passes)
{
    struct shape input;
    if (!operand(call, 0, &input, true) || input.dims == 0)
        return;
    uint64_t elements = volume(call, &input, 0);
    uint64_t width = (uint64_t)input.sizes[input.dims - 1];
    uint64_t steps = width ? elements / width : 0; /* time steps of all samples */
    call->out->flops =
        times(call, times(call, per_product(call), steps), times(call, weights, (uint64_t)passes));
    move_bytes(call, elements, input.dtype);
    call->out->bytes += bytes;
}

static void count_RNN(struct call *call, int a, int b, int c)
{
    struct shape w;
    uint64_t weights = 0, bytes = 0;
    (void)c;
    for (int i = a; i < a + 2; i++) {
        if (!operand(call, i, &w, false))
            return;
        uint64_t these = volume(call, &w, 0);
        weights += these;
        bytes += times(call, these, dtype_bytes(w.dtype));
    }
    count_rnn(call, weights, bytes, b);
}

/* The list's matrices are weights; its vectors are biases, which are not counted. */
static void count_RNN_LIST(struct call *call, int a, int b, int c)
{
    const struct torch_layout *l = torch_api.layout;
    uint64_t n, weights = 0, bytes = 0;
    (void)c;
    const char *value = list_at(call, a, &n);
    if (!value)
        call->bad = true;
    for (uint64_t i = 0; value && i < n; i++, value += l->iv_size) {
        struct call one = {.values = value, .n = 1, .out = call->out};
        struct shape w;
        if (!operand(&one, 0, &w, false)) {
            call->bad = true;
            call->inside |= one.inside;
            return;
        }
        uint64_t these = w.dims == 2 ? volume(call, &w, 0) : 0;
        weights += these;
        bytes += times(call, these, dtype_bytes(w.dtype));
    }
    count_rnn(call, weights, bytes, b);
}

/* ---- the table ------------------------------------------------------------------------------- */

static bool is_product(void (*formula)(struct call *, int, int, int))
{
    return formula != count_FIRST && formula != count_ELEMENTS && formula != count_REDUCE &&
           formula != count_LIST && formula != count_COPY && formula != count_GATHER &&
           formula != count_BAG;
}

static struct flops_row rows[] = {
#define FLOPS(name, formula, a, b, c, source)                                                      \
    {name, count_##formula, a, b, c, sizeof(name) - 1, false},
#include "preload/flops/flops.def"
#undef FLOPS
};
static const struct flops_row guess = {.formula = count_GUESS, .product = true};
#define ROWS (sizeof rows / sizeof rows[0])
_Static_assert(ROWS < 255, "a slot is a byte");

static uint8_t slots[SLOTS]; /* row + 1 by hash of the name; written by flops_start() */

static uint64_t load(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* The hash of a name, from its end, middle and length, in which names differ. */
static uint32_t hash(const char *name, uint32_t len)
{
    uint64_t h = load(name + len - KEY) + 3 * load(name + (len - KEY) / 2) + len;
    return (uint32_t)(h * 0x9e3779b97f4a7c15u >> 54);
}

static uint64_t key_mask(uint16_t bit)
{
    return bit == TORCH_LAYOUT_ABSENT ? 0 : UINT64_C(1) << bit;
}

void flops_start(void)
{
    const struct torch_layout *l = torch_api.layout;
    flops_wrapper_keys = key_mask(l->key_python) | key_mask(l->key_vmap) |
                         key_mask(l->key_old_vmap) | key_mask(l->key_grad_wrapper);
    flops_special_keys = flops_wrapper_keys;
    /* the compressed formats follow COO */
    for (uint16_t bit = l->key_sparse; bit < l->key_nested; bit++)
        flops_special_keys |= key_mask(bit);
    for (unsigned i = 0; i < ROWS; i++) {
        rows[i].product = is_product(rows[i].formula);
        uint32_t at = hash(rows[i].name, rows[i].len);
        while (slots[at] && slots[at] != i + 1)
            at = (at + 1) & (SLOTS - 1);
        slots[at] = (uint8_t)(i + 1);
    }
}

const struct flops_row *flops_find(const char *name, uint32_t len)
{
    if (len < KEY)
        return NULL;
    for (uint32_t at = hash(name, len); slots[at]; at = (at + 1) & (SLOTS - 1)) {
        const struct flops_row *row = &rows[slots[at] - 1];
        if (row->len == len && memcmp(row->name, name, len) == 0)
            return row;
    }
    return NULL;
}

static inline void count_call(struct call *call, const struct flops_row *row)
{
    *call->out =
        (struct flops_count){.device_type = -1, .device_index = -1, .product = row->product};
    row->formula(call, row->a, row->b, row->c);
}

const struct flops_row *flops_guess(const char *name)
{
    return product_name(name) ? &guess : NULL;
}

static inline enum flops_told told_by(const struct call *call)
{
    if (call->inside)
        return FLOPS_NONE;
    if (call->out->device_type != 0 && call->out->device_type != 1)
        return call->bad ? FLOPS_UNKNOWN : FLOPS_NONE;
    return call->bad || call->sparse ? FLOPS_UNKNOWN : FLOPS_COUNTED;
}

/* A boxed call shows its whole stack, on which torch.func's transforms leave the tensors that they
 * have unwrapped. The operator's own inputs are the last ones. Needed only if the first inputs are
 * wrappers, which precede the unwrapped tensors. */
static __attribute__((cold, noinline)) enum flops_told
count_last(const struct flops_row *row, const void *function, struct flops_count *out)
{
    struct call call = {.out = out};
    call.values = value_inputs(function, &call.n);
    uint64_t own = torch_api.num_inputs ? torch_api.num_inputs(function) : 0;
    if (own == 0 || own >= call.n)
        return FLOPS_NONE;
    call.values += (call.n - own) * torch_api.layout->iv_size;
    call.n = own;
    count_call(&call, row);
    return told_by(&call);
}

enum flops_told flops_of(const struct flops_row *row, const void *function, struct flops_count *out)
{
    struct call call = {.out = out};
    call.values = value_inputs(function, &call.n);
    count_call(&call, row);
    return __builtin_expect(call.inside, 0) ? count_last(row, function, out) : told_by(&call);
}
