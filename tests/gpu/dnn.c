/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN: every function that cprof counts, --steps times, with distinct arguments, and backend
 * plans as cudnn-frontend makes them. Checks that the library got the arguments. */
#include <errno.h>

#include "preload/cprof.h"
#include "tests/gpu/dnn_sim.h"
#include "tests/gpu/program.h"

/* cudnn.h */
enum { FLOAT = 0, HALF = 2, BFLOAT16 = 9, FMA_MATH = 3, LSTM = 2, BIDIRECTIONAL = 1 };
enum { ENGINE = 2, CONFIG, HEURISTICS, PLAN, CONV = 10, CONV_FILTER, CONV_DATA, POINTWISE };
enum { GRAPH = 15, PACK, TENSOR, MATMUL = 19, SDPA = 41, SDPA_BACK = 43, SOFTMAX = 45 };
enum { TYPE_DATA = 1, TYPE_BOOL, TYPE_INT64, TYPE_DESCRIPTOR = 15 };
enum { DATA_TYPE = 901, DIMENSIONS, VIRTUAL = 907, RAGGED = 913 };

static char handle[8], a[8], b[8], c[8], space[8], reserve[8];
static float one = 1, zero;

/* Expects that the last call got these arguments, and counts its kernel. */
#define LAUNCHED(...)                                                                              \
    do {                                                                                           \
        GOT(__VA_ARGS__);                                                                          \
        tally.kernels++;                                                                           \
    } while (0)

/* x 2x3x8x8, filter 4x3x3x3, y 2x4x6x6 */
static void convolutions(void)
{
    struct dnn_sim_tensor x = {FLOAT, 4, {2, 3, 8, 8}}, f = {FLOAT, 4, {4, 3, 3, 3}};
    struct dnn_sim_tensor y = {FLOAT, 4, {2, 4, 6, 6}}, bias = {FLOAT, 4, {1, 4, 1, 1}};
    struct dnn_sim_conv exact = {FMA_MATH}, fast = {0};
    CHECK(cudnnConvolutionForward(handle, &one, &x, a, &f, b, &exact, 7, space, 1ul << 40, &zero,
                                  &y, c));
    LAUNCHED(P(handle), P(&one), P(&x), P(a), P(&f), P(b), P(&exact), 7, P(space), 1ul << 40,
             P(&zero), P(&y), P(c));
    CHECK(cudnnConvolutionBiasActivationForward(handle, &one, &x, a, &f, b, &fast, 7, space, 9,
                                                &zero, &y, c, &bias, a, reserve, &y, b));
    LAUNCHED(P(handle), P(&one), P(&x), P(a), P(&f), P(b), P(&fast), 7, P(space), 9, P(&zero),
             P(&y), P(c), P(&bias), P(a), P(reserve), P(&y), P(b));
    CHECK(cudnnConvolutionBackwardData(handle, &one, &f, a, &y, b, &exact, 7, space, 9, &zero, &x,
                                       c));
    LAUNCHED(P(handle), P(&one), P(&f), P(a), P(&y), P(b), P(&exact), 7, P(space), 9, P(&zero),
             P(&x), P(c));
    CHECK(cudnnConvolutionBackwardFilter(handle, &one, &x, a, &y, b, &exact, 7, space, 9, &zero, &f,
                                         c));
    LAUNCHED(P(handle), P(&one), P(&x), P(a), P(&y), P(b), P(&exact), 7, P(space), 9, P(&zero),
             P(&f), P(c));
    EXPECT(cudnnConvolutionForward(NULL, &one, &x, a, &f, b, &exact, 7, space, 9, &zero, &y, c) ==
           1);
}

/* Two layers of an LSTM in both directions, three sequences of 5, 4 and 2 steps. */
static void recurrent(void)
{
    static const int lengths[] = {5, 4, 2};
    struct dnn_sim_rnn rnn = {LSTM, BIDIRECTIONAL, 0, HALF, 0, 16, 24, 24, 2};
    struct dnn_sim_data x = {HALF, 3, 16, lengths}, y = {HALF, 3, 48, lengths};
    CHECK(cudnnRNNForward(handle, &rnn, 1, lengths, &x, a, &y, b, space, a, b, space, b, c, 3, c, 4,
                          space, 5, reserve));
    LAUNCHED(P(handle), P(&rnn), 1, P(lengths), P(&x), P(a), P(&y), P(b), P(space), P(a), P(b),
             P(space), P(b), P(c), 3, P(c), 4, P(space), 5, P(reserve));
    CHECK(cudnnRNNBackwardData_v8(handle, &rnn, lengths, &y, a, b, &x, c, space, a, b, c, space, a,
                                  b, c, 3, a, 4, space, 5, reserve));
    LAUNCHED(P(handle), P(&rnn), P(lengths), P(&y), P(a), P(b), P(&x), P(c), P(space), P(a), P(b),
             P(c), P(space), P(a), P(b), P(c), 3, P(a), 4, P(space), 5, P(reserve));
    CHECK(cudnnRNNBackwardWeights_v8(handle, &rnn, 1, lengths, &x, a, space, b, &y, c, 3, a, 4,
                                     space, 5, reserve));
    LAUNCHED(P(handle), P(&rnn), 1, P(lengths), P(&x), P(a), P(space), P(b), P(&y), P(c), 3, P(a),
             4, P(space), 5, P(reserve));
}

/* ---- the backend ---- */

static void *create(int type)
{
    void *d = NULL;
    CHECK(cudnnBackendCreateDescriptor(type, &d));
    EXPECT(d != NULL);
    return d;
}

static void set(void *d, int name, int type, int64_t n, const void *values)
{
    uint64_t first = 0;
    memcpy(&first, values, type == TYPE_INT64 || type == TYPE_DESCRIPTOR ? 8 : type == 2 ? 1 : 4);
    CHECK(cudnnBackendSetAttribute(d, name, type, n, values));
    EXPECT(blas_sim_note[0] == P(d) && blas_sim_note[1] == (uint64_t)name &&
           blas_sim_note[2] == (uint64_t)n && blas_sim_note[3] == first);
}

static void *tensor(int type, bool virtual, int dims, const int64_t *size)
{
    void *t = create(TENSOR);
    set(t, DATA_TYPE, TYPE_DATA, 1, &type);
    set(t, DIMENSIONS, TYPE_INT64, dims, size);
    set(t, VIRTUAL, TYPE_BOOL, 1, &virtual);
    return t;
}

/* An operation on three tensors, under these attributes. */
static void *operation(int type, const int names[3], void *x, void *f, void *y)
{
    void *op = create(type), *const tensors[] = {x, f, y};
    for (int i = 0; i < 3; i++)
        set(op, names[i], TYPE_DESCRIPTOR, 1, &tensors[i]);
    CHECK(cudnnBackendFinalize(op));
    return op;
}

/* The engine of a plan: the best by heuristics, or an engine by number. */
enum { HEURISTIC = -1, PLAIN, TENSOR_CORE, CONVERTING };

static void *plan_of(void *const *operations, int n, int64_t engine)
{
    bool by_heuristics = engine == HEURISTIC;
    void *graph = create(GRAPH), *config = create(CONFIG), *plan = create(PLAN);
    void *from = create(by_heuristics ? HEURISTICS : ENGINE);
    set(graph, 801, TYPE_DESCRIPTOR, n, operations);
    CHECK(cudnnBackendFinalize(graph));
    set(from, by_heuristics ? 201 : 1300, TYPE_DESCRIPTOR, 1, &graph);
    if (!by_heuristics)
        set(from, 1301, TYPE_INT64, 1, &engine);
    CHECK(cudnnBackendFinalize(from));
    int64_t got = 0;
    if (by_heuristics) {
        CHECK(cudnnBackendGetAttribute(from, 202, TYPE_DESCRIPTOR, 1, &got, &config));
        EXPECT(got == 1);
    } else {
        set(config, 300, TYPE_DESCRIPTOR, 1, &from);
        CHECK(cudnnBackendFinalize(config));
    }
    set(plan, 401, TYPE_DESCRIPTOR, 1, &config);
    CHECK(cudnnBackendFinalize(plan));
    for (int i = 0; i < n; i++)
        CHECK(cudnnBackendDestroyDescriptor(operations[i]));
    CHECK(cudnnBackendDestroyDescriptor(graph));
    CHECK(cudnnBackendDestroyDescriptor(from));
    CHECK(cudnnBackendDestroyDescriptor(config));
    return plan;
}

enum { FORWARD, DATA, FILTER, ATTENTION, NOTHING, PACKED, UNSEEN };
enum { SINGLE = UNSEEN + 1, SINGLE_TF32, SINGLE_HALF, ONE_NODE, ONE_NODE_BACK, LENGTHS, PLANS };
static void *plans[PLANS];

static void make_plans(void)
{
    static const int64_t x[] = {2, 3, 8, 8}, f[] = {4, 3, 3, 3}, y[] = {2, 4, 6, 6};
    static const int64_t q[] = {2, 4, 10, 16}, kt[] = {2, 4, 16, 12}, scores[] = {2, 4, 10, 12};
    static const int64_t v[] = {2, 4, 12, 16};
    static const int forward[] = {704, 703, 705}, data[] = {710, 709, 711};
    static const int filter[] = {716, 715, 717}, matmul[] = {1520, 1521, 1522};
    void *xt = tensor(HALF, false, 4, x), *ft = tensor(HALF, false, 4, f),
         *yt = tensor(HALF, false, 4, y);
    void *op = operation(CONV, forward, xt, ft, yt), *relu = create(POINTWISE);
    plans[FORWARD] = plan_of((void *[]){op, relu}, 2, HEURISTIC);
    op = operation(CONV_DATA, data, xt, ft, yt);
    plans[DATA] = plan_of(&op, 1, PLAIN);
    op = operation(CONV_FILTER, filter, xt, ft, yt);
    plans[FILTER] = plan_of(&op, 1, HEURISTIC);
    void *qt = tensor(BFLOAT16, false, 4, q), *ktt = tensor(BFLOAT16, false, 4, kt),
         *st = tensor(FLOAT, true, 4, scores), *vt = tensor(BFLOAT16, false, 4, v),
         *ot = tensor(BFLOAT16, false, 4, q);
    op = operation(MATMUL, matmul, qt, ktt, st);
    void *softmax = create(POINTWISE), *op2 = operation(MATMUL, matmul, st, vt, ot);
    plans[ATTENTION] = plan_of((void *[]){op, softmax, op2}, 3, HEURISTIC);
    relu = create(POINTWISE);
    plans[NOTHING] = plan_of(&relu, 1, HEURISTIC);
    set(ktt, RAGGED, TYPE_DESCRIPTOR, 1, &vt);
    op = operation(MATMUL, matmul, qt, ktt, st);
    plans[PACKED] = plan_of(&op, 1, HEURISTIC);
    plans[UNSEEN] = create(PLAN); /* as a plan that was read from text */
    CHECK(cudnnBackendFinalize(plans[UNSEEN]));
    void *const tensors[] = {xt, ft, yt, qt, ktt, st, vt, ot};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        CHECK(cudnnBackendDestroyDescriptor(tensors[i]));
}

/* A single-precision convolution by an engine of that precision and by two that use less. */
static void make_single(void)
{
    static const int64_t x[] = {2, 3, 8, 8}, f[] = {4, 3, 3, 3}, y[] = {2, 4, 6, 6};
    static const int forward[] = {704, 703, 705};
    void *xt = tensor(FLOAT, false, 4, x), *ft = tensor(FLOAT, false, 4, f),
         *yt = tensor(FLOAT, false, 4, y);
    for (int64_t engine = PLAIN; engine <= CONVERTING; engine++) {
        void *op = operation(CONV, forward, xt, ft, yt);
        plans[SINGLE + engine] = plan_of(&op, 1, engine);
    }
    CHECK(cudnnBackendDestroyDescriptor(xt));
    CHECK(cudnnBackendDestroyDescriptor(ft));
    CHECK(cudnnBackendDestroyDescriptor(yt));
}

/* Attention as one operation, with 8 heads of queries, and 2 of keys and values: with softmax
 * results, backward, and with sequence lengths in device memory. */
static void make_one_node(void)
{
    static const int64_t q[] = {2, 8, 10, 16}, k[] = {2, 2, 12, 16}, v[] = {2, 2, 12, 24};
    static const int64_t o[] = {2, 8, 10, 24};
    static const int kinds[] = {SDPA, SDPA_BACK, SDPA}, first[] = {2800, 2851, 2800};
    void *tensors[] = {tensor(BFLOAT16, false, 4, q), tensor(BFLOAT16, false, 4, k),
                       tensor(BFLOAT16, false, 4, v), tensor(BFLOAT16, false, 4, o)};
    void *softmax = create(SOFTMAX);
    for (int i = 0; i < 3; i++) {
        void *op = create(kinds[i]);
        for (int t = 0; t < 4; t++)
            set(op, first[i] + t, TYPE_DESCRIPTOR, 1, &tensors[t]);
        if (i == 0)
            set(op, 2814, TYPE_DESCRIPTOR, 1, &softmax);
        if (i == 2)
            set(op, 2809, TYPE_DESCRIPTOR, 1, &tensors[0]);
        CHECK(cudnnBackendFinalize(op));
        plans[ONE_NODE + i] = plan_of(&op, 1, HEURISTIC);
    }
    for (int t = 0; t < 4; t++)
        CHECK(cudnnBackendDestroyDescriptor(tensors[t]));
    CHECK(cudnnBackendDestroyDescriptor(softmax));
}

static void execute(void)
{
    for (int i = 0; i < PLANS; i++) {
        void *pack = create(PACK);
        CHECK(cudnnBackendExecute(handle, plans[i], pack));
        LAUNCHED(P(handle), P(plans[i]), P(pack));
        CHECK(cudnnBackendDestroyDescriptor(pack));
    }
}

int main(int argc, char **argv)
{
    long steps = number(argc, argv, "steps", 3);
    errno = 55;
    make_plans(); /* before any call that wakes cprof */
    make_single();
    make_one_node();
    CHECK(cudaDeviceSynchronize());
    tally.device_syncs++;
    for (long step = 0; step < steps; step++) {
        errno = 55;
        convolutions();
        recurrent();
        execute();
        CHECK(cudaDeviceSynchronize());
        tally.device_syncs++;
        cprof_step();
        tally.steps++;
    }
    for (int i = 0; i < PLANS; i++)
        CHECK(cudnnBackendDestroyDescriptor(plans[i]));
    EXPECT(cudnnBackendExecute(handle, NULL, NULL) == 3);
    return report();
}
