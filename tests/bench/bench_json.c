/* SPDX-License-Identifier: Apache-2.0 */
/* How many events a second the writer turns into JSON and gzip, and how many bytes each takes: a
 * fixed mix of nine operators (two with a sequence number, three with shapes) to one
 * allocation. The cases with stacks give each event one of 240 stacks of 18 frames.
 * Runs on the main thread; prints `name value unit` lines for scripts/bench. Usage: bench_json
 * [seconds per case [case]] */
#include "writer/json/json.h"
#include "writer/file/sink_file.h"
#include "writer/stack/stack_table.h"
#include "writer/stack/stack_json.h"
#include "writer/sums/top.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RECORDS 20000u /* events in one buffer, about one flush of a busy program */
#define SLOTS   8u     /* room for each record */
#define STACKS  240u

static const char *const dtypes[] = {"unsigned char", "signed char", "short", "int",
                                     "long int",      "c10::Half",   "float", "double"};

static const char *const names[] = {
    "aten::addmm_backward",  "aten::convolution_1d",  "aten::layer_norm_op1",
    "aten::native_dropout",  "aten::transpose_int1",  "aten::as_strided_copy",
    "aten::empty_strided_",  "aten::_reshape_alias",  "aten::resolve_conj_1",
    "aten::_softmax_data1",  "aten::embedding_dense", "aten::max_pool2d_with",
    "aten::threshold_back",  "aten::_to_copy_double", "aten::native_batchnm",
    "aten::scaled_dot_prod", "aten::cross_entropy_l", "aten::nll_loss_forwar",
    "aten::_foreach_add_ls", "aten::_fused_adamw_1",  "aten::lift_fresh_copy",
    "aten::unsafe_view_op1", "aten::select_backward", "aten::index_put_impl_",
};

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A small generator, so that each run sees the same numbers. */
static uint32_t next_random(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

static uint8_t *put_tensor(uint8_t *p, int64_t rows, int64_t columns)
{
    *p++ = SHAPE_TENSOR;
    *p++ = 6;
    *p++ = 2;
    memcpy(p, &rows, 8);
    memcpy(p + 8, &columns, 8);
    return p + 16;
}

static void fill_operator(struct record *r, unsigned i, unsigned kind)
{
    const char *name = names[next_random() % (sizeof(names) / sizeof(*names))];
    r->kind = REC_SPAN;
    r->category = CAT_CPU_OP;
    r->id = 1000 + i;
    r->op.sequence = kind < 2 ? (int64_t)(i / 5) : -1;
    r->name = numbered_name(name, (uint32_t)strlen(name)); /* as torch's operators have */
    if (kind % 3 == 0) {
        uint8_t *begin = (uint8_t *)(r + 1);
        uint8_t *p = put_tensor(begin, 64 << (i & 3), 1024);
        p = put_tensor(p, 1024, 512);
        *p++ = SHAPE_SCALAR;
        r->data_kind = DATA_SHAPES;
        r->data_len = (uint32_t)(p - begin);
    }
}

static void fill_memory(struct record *r, unsigned i)
{
    struct record_memory m = {.total_reserved = 0, .device_index = -1};
    r->kind = REC_MEMORY;
    r->category = CAT_MEMORY;
    r->parent = 1000 + i - 1;
    r->memory.address = 0x7f3200000000u + 64u * (next_random() % 4096u);
    r->memory.bytes = 4096 << (next_random() & 7);
    m.total_allocated = 900000000 + 4096 * (int64_t)(next_random() % 10000u);
    r->data_kind = DATA_MEMORY;
    r->data_len = sizeof(m);
    memcpy(r + 1, &m, sizeof(m));
}

static void fill(struct record *records, struct json_place *places)
{
    int64_t now = 1728000000000000;
    for (unsigned i = 0; i < RECORDS; i++) {
        struct record *r = records + (size_t)i * SLOTS;
        memset(r, 0, SLOTS * sizeof(*r));
        if (i % 10 == 9)
            fill_memory(r, i);
        else
            fill_operator(r, i, i % 10);
        now += 500 + next_random() % 8000;
        places[i] = (struct json_place){.pid = 31337, .tid = 31337 + (i / 64) % 4, .start_ns = now};
        places[i].end_ns = now + 400 + next_random() % 6000;
    }
}

/* ---- stacks ---- */

static void native_name(uint64_t pc, uint32_t object, struct buf *b)
{
    static const char *const functions[] = {
        "at::_ops::add_Tensor::call",
        "THPVariable_add",
        "torch::autograd::VariableType::mul_Tensor",
        "c10::impl::wrap_kernel_functor_unboxed_::call",
        "at::native::structured_ufunc_add_CPU::impl",
        "at::detail::empty_cpu",
    };
    buf_puts(b, functions[(pc + object) % 6]);
    buf_puts(b, " (libtorch_cpu.so)");
}

static void no_look(void)
{
}
static void no_want(uint32_t frame, uint64_t pc, uint32_t object)
{
    (void)frame, (void)pc, (void)object;
}
static void no_ask(bool stopping)
{
    (void)stopping;
}
static uint32_t no_answer(const char **file, uint32_t *len, int32_t *line)
{
    (void)file, (void)len, (void)line;
    return 0;
}

/* Six frames of Python that all share, 12 native ones that differ. */
static uint32_t make_stack(unsigned which)
{
    static const char file[] = "torch/nn/modules/module.py", name[] = "_call_impl";
    uint32_t node = 0;
    for (int32_t i = 0; i < 6; i++)
        node = stack_table_python(node, file, sizeof file - 1, name, sizeof name - 1, 100 + i);
    for (unsigned i = 0; i < 12; i++)
        node = stack_table_native(node, 0x7f0000000000u + which * 12u + i, 0);
    return node;
}

/* Gives each record a stack; runs of operators come from the same place, as in a training loop. */
static void add_stacks(struct record *records)
{
    static const struct stacks_resolver resolver = {native_name, no_look, no_want, no_ask,
                                                    no_answer};
    uint64_t stacks[STACKS];
    stack_table_start(4096);
    stacks_resolve_with(&resolver);
    for (unsigned i = 0; i < STACKS; i++)
        stacks[i] = make_stack(i);
    for (unsigned i = 0; i < RECORDS; i++) {
        struct record *r = records + (size_t)i * SLOTS;
        r->extras = 1u << EXTRA_STACK;
        memcpy((uint8_t *)(uintptr_t)record_data(r) + r->data_len, &stacks[i % STACKS], 8);
    }
}

static void to_json(struct buf *b, const struct record *records, const struct json_place *places)
{
    buf_reset(b);
    for (unsigned i = 0; i < RECORDS; i++)
        json_record(b, records + (size_t)i * SLOTS, record_name(records + (size_t)i * SLOTS),
                    &places[i], dtypes, 8);
}

/* The same with the table of the window: what a record costs with it, its share of adding up
 * included. */
static void run_top(const struct record *records, const struct json_place *places, double limit)
{
    struct buf text = {0};
    struct buf rows = {0};
    unsigned rounds = 0;
    double begin = seconds(CLOCK_THREAD_CPUTIME_ID);
    double spent;
    do {
        struct top *top = top_make(1u << 30);
        buf_reset(&text);
        buf_reset(&rows);
        for (unsigned i = 0; i < RECORDS; i++) {
            json_record(&text, records + (size_t)i * SLOTS,
                        record_name(records + (size_t)i * SLOTS), &places[i], dtypes, 8);
            top_record(top, records + (size_t)i * SLOTS, &places[i]);
        }
        if (top_finish(top))
            top_put(top, SIZE_MAX, &rows);
        top_free(top);
        rounds++;
        spent = seconds(CLOCK_THREAD_CPUTIME_ID) - begin;
    } while (spent < limit);
    printf("json_top_events_per_s %.0f events/s\n", (double)rounds * RECORDS / spent);
    buf_free(&text);
    buf_free(&rows);
}

/* Runs json (and gzip, level > 0) until the time is over, in CPU time of this thread. */
static void run(const char *name, const struct record *records, const struct json_place *places,
                int level, double limit)
{
    struct buf text = {0};
    struct buf packed = {0};
    struct gzip *gzip = level > 0 ? gzip_new(level) : NULL;
    unsigned rounds = 0;
    double begin = seconds(CLOCK_THREAD_CPUTIME_ID);
    double spent;
    do {
        to_json(&text, records, places);
        if (gzip) {
            buf_reset(&packed);
            gzip_member(gzip, &packed, text.data, text.len);
        }
        rounds++;
        spent = seconds(CLOCK_THREAD_CPUTIME_ID) - begin;
    } while (spent < limit);
    double bytes = (double)(gzip ? packed.len : text.len);
    printf("%s_events_per_s %.0f events/s\n", name, (double)rounds * RECORDS / spent);
    printf("%s_bytes_per_event %.1f B\n", name, bytes / RECORDS);
    gzip_free(gzip);
    buf_free(&text);
    buf_free(&packed);
}

static bool wanted(const char *name, const char *only)
{
    return !only || strcmp(name, only) == 0;
}

int main(int argc, char **argv)
{
    double limit = argc > 1 ? strtod(argv[1], NULL) : 1.0;
    const char *only = argc > 2 ? argv[2] : NULL;
    static const struct {
        const char *name;
        int level;
    } cases[] = {{"json", 0}, {"gzip1", 1}, {"gzip3", 3}};
    struct record *records = calloc((size_t)RECORDS * SLOTS, sizeof(*records));
    struct json_place *places = calloc(RECORDS, sizeof(*places));
    if (!records || !places)
        return 1;
    fill(records, places);
    for (unsigned i = 0; i < 3; i++) {
        if (wanted(cases[i].name, only))
            run(cases[i].name, records, places, cases[i].level, limit);
    }
    if (wanted("top", only))
        run_top(records, places, limit);
    sink_use_igzip();
    if (wanted("igzip", only))
        run("igzip", records, places, 1, limit);
    add_stacks(records);
    if (wanted("stacks_all_gzip", only))
        run("stacks_all_gzip", records, places, 1, limit);
    stacks_in_args(STACKS_PYTHON); /* the default */
    if (wanted("stacks", only))
        run("stacks", records, places, 0, limit);
    if (wanted("stacks_gzip", only))
        run("stacks_gzip", records, places, 1, limit);
    free(records);
    free(places);
    return 0;
}
