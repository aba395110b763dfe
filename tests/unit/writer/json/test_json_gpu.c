/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/json/json_gpu.h: the exact text of each event, extreme numbers, hostile names,
 * full buffers. */
#include "tests/fuzz/json_valid.h"
#include "writer/json/json_gpu.h"
#include "writer/record/modules.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const struct json_place place = {77, 78, 1234, 1801};
static const struct json_link no_link;

static struct buf out;

/* The buffer's text, terminated, valid until the next call. Each line must be strict JSON. */
static const char *take_text(void)
{
    static char *text;
    free(text);
    ck_assert(!out.failed);
    ck_assert_msg(json_lines_valid(out.data, out.len), "%.*s", (int)out.len, out.data);
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

static void set_name(struct gpu_record *r, const char *name)
{
    r->name = name;
    r->name_len = (uint16_t)strlen(name);
}

static struct gpu_record make_kernel(void)
{
    struct gpu_record r = {.kind = GPU_KERNEL, .correlation = 135071, .context = 1, .stream = 7};
    set_name(&r, "ampere_sgemm_128x64_nn");
    r.kernel.grid[0] = 8;
    r.kernel.grid[1] = 16;
    r.kernel.grid[2] = 5;
    r.kernel.block[0] = 128;
    r.kernel.block[1] = r.kernel.block[2] = 1;
    r.kernel.registers = 122;
    r.kernel.shared_memory = 12544;
    r.kernel.blocks_per_sm = 5.925926F;
    r.kernel.warps_per_sm = 24;
    r.kernel.occupancy = 25;
    return r;
}

static struct gpu_record make_copy(void)
{
    struct gpu_record r = {.kind = GPU_COPY, .correlation = 14, .context = 1, .stream = 7};
    r.copy.bytes = 567000;
    r.copy.kind = 1;
    r.copy.from_kind = 1;
    r.copy.to_kind = 3;
    return r;
}

#define HEAD(cat, name)                                                                            \
    "{\"ph\": \"X\", \"cat\": \"" cat "\", \"name\": \"" name                                      \
    "\", \"pid\": 77, \"tid\": 78, \"ts\": 1.234, \"dur\": 0.567, \"args\": {"

#define KERNEL_ARGS                                                                                \
    "\"queued\": 0, \"device\": 0, \"context\": 1, \"stream\": 7, \"correlation\": 135071, "       \
    "\"registers per thread\": 122, \"shared memory\": 12544, \"blocks per SM\": 5.925926, "       \
    "\"warps per SM\": 24.0, \"grid\": [8, 16, 5], \"block\": [128, 1, 1]"

static const char *work_text(const struct gpu_record *r, const struct json_link *link)
{
    json_gpu_work(&out, r, &place, link);
    return take_text();
}

/* ---- work ------------------------------------------------------------------------------------ */

START_TEST(writes_a_kernel)
{
    struct gpu_record r = make_kernel();
    struct json_link link = {.external_id = 112};
    ck_assert_str_eq(
        work_text(&r, &link),
        HEAD("kernel", "ampere_sgemm_128x64_nn") "\"External id\": 112, " KERNEL_ARGS
                                                 ", \"est. achieved occupancy %\": 25}},\n");
}
END_TEST

START_TEST(writes_a_graph_kernel)
{
    struct gpu_record r = make_kernel();
    r.graph = 3;
    r.node = (uint64_t)3 << 32 | 9;
    r.kernel.has_channel = r.kernel.has_priority = true;
    r.kernel.channel = 4;
    r.kernel.channel_type = 2;
    r.kernel.priority = -5;
    r.kernel.queued_ns = 800;
    struct json_link link = {.external_id = 1,
                             .captured_by = 2,
                             .captured_name = {"aten::\"mm\"", 10},
                             .captured_module = modules_id("Net.mlp", 7)};
    const char *text = work_text(&r, &link);
    ck_assert_ptr_nonnull(strstr(text, "\"queued\": 800, "));
    ck_assert_ptr_nonnull(strstr(text, "\"est. achieved occupancy %\": 25, \"graph id\": 3, "
                                       "\"graph node id\": 12884901897, \"priority\": -5, "
                                       "\"channel\": 4, \"channel_type\": 2, \"captured by\": 2, "
                                       "\"captured in\": \"aten::\\\"mm\\\"\", "
                                       "\"captured module\": \"Net.mlp\"}},\n"));
}
END_TEST

START_TEST(omits_unknown_values)
{
    struct gpu_record r = make_kernel();
    r.device = r.context = r.stream = GPU_NONE;
    r.name = NULL;
    r.kernel.occupancy = -1;
    r.kernel.blocks_per_sm = NAN;
    r.kernel.warps_per_sm = -1;
    const char *text = work_text(&r, &no_link);
    ck_assert_ptr_nonnull(strstr(text, "\"name\": \"unknown kernel\""));
    ck_assert_ptr_nonnull(strstr(text, "\"device\": -1, \"context\": -1, \"stream\": -1, "));
    static const char *const absent[] = {"External id", "SM",      "occupancy", "graph",
                                         "priority",    "channel", "captured",  "nan"};
    for (size_t i = 0; i < sizeof(absent) / sizeof(*absent); i++)
        ck_assert_msg(strstr(text, absent[i]) == NULL, "%s in %s", absent[i], text);
    r.kernel.blocks_per_sm = INFINITY;
    r.kernel.occupancy = 0;
    text = work_text(&r, &no_link);
    ck_assert_ptr_nonnull(strstr(text, "\"blocks per SM\": 9000000000000000000.0"));
    ck_assert_ptr_nonnull(strstr(text, "occupancy %\": 0"));
}
END_TEST

START_TEST(writes_decimals)
{
    static const struct {
        float value;
        const char *text;
    } cases[] = {{0, "0.0"},
                 {0.5F, "0.5"},
                 {1e-7F, "0.0"},
                 {0.000001F, "0.000001"},
                 {0.009259F, "0.009259"},
                 {21.25F, "21.25"},
                 {999999.9375F, "999999.9375"},
                 {0.9999999F, "1.0"},
                 {1e12F, "999999995904.0"},
                 {1e20F, "9000000000000000000.0"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char expected[64];
        struct gpu_record r = make_kernel();
        r.kernel.blocks_per_sm = cases[i].value;
        snprintf(expected, sizeof(expected), "\"blocks per SM\": %s,", cases[i].text);
        const char *text = work_text(&r, &no_link);
        ck_assert_msg(strstr(text, expected) != NULL, "%s in %s", expected, text);
    }
}
END_TEST

START_TEST(writes_a_whole_graph)
{
    struct gpu_record r = {
        .kind = GPU_GRAPH, .correlation = 5, .context = 1, .stream = 13, .graph = UINT32_MAX};
    struct json_link link = {.external_id = 8};
    ck_assert_str_eq(
        work_text(&r, &link),
        HEAD("kernel",
             "CUDA graph 4294967295") "\"External id\": 8, \"device\": 0, \"context\": 1, "
                                      "\"stream\": 13, \"correlation\": 5, "
                                      "\"graph id\": 4294967295}},\n");
}
END_TEST

START_TEST(writes_a_copy)
{
    struct gpu_record r = make_copy();
    struct json_link link = {.external_id = 3};
    ck_assert_str_eq(work_text(&r, &link),
                     HEAD("gpu_memcpy",
                          "Memcpy HtoD (Pageable -> Device)") "\"External id\": 3, "
                                                              "\"device\": 0, \"context\": 1, "
                                                              "\"stream\": 7, \"correlation\": 14, "
                                                              "\"bytes\": 567000, \"memory "
                                                              "bandwidth (GB/s)\": 1000.0}},\n");
    r.copy.has_channel = true;
    r.copy.channel = 6;
    r.graph = 1;
    r.node = UINT64_MAX;
    ck_assert_ptr_nonnull(
        strstr(work_text(&r, &no_link),
               "1000.0, \"graph id\": 1, \"graph node id\": "
               "\"18446744073709551615\", \"channel\": 6, \"channel_type\": 0}},\n"));
    set_name(&r, "own name");
    ck_assert_ptr_nonnull(strstr(work_text(&r, &no_link), "\"name\": \"own name\""));
}
END_TEST

START_TEST(copy_without_duration_has_no_bandwidth)
{
    struct gpu_record r = make_copy();
    struct json_place at = {1, 2, 5, 5};
    json_gpu_work(&out, &r, &at, &no_link);
    const char *text = take_text();
    ck_assert_ptr_nonnull(strstr(text, "\"dur\": 0.000, "));
    ck_assert_ptr_nonnull(strstr(text, "\"bytes\": 567000}},\n"));
    r.copy.bytes = UINT64_MAX;
    at.end_ns = 6;
    json_gpu_work(&out, &r, &at, &no_link);
    ck_assert_ptr_nonnull(strstr(take_text(),
                                 "\"bytes\": \"18446744073709551615\", \"memory bandwidth "
                                 "(GB/s)\": 9000000000000000000.0}},\n"));
}
END_TEST

static const struct {
    uint8_t record, kind, from, to;
    const char *name;
} names[] = {
    {GPU_COPY, 1, 1, 3, "Memcpy HtoD (Pageable -> Device)"},
    {GPU_COPY, 2, 3, 2, "Memcpy DtoH (Device -> Pinned)"},
    {GPU_COPY, 8, 3, 3, "Memcpy DtoD (Device -> Device)"},
    {GPU_COPY, 9, 7, 6, "Memcpy HtoH (Managed Static -> Device Static)"},
    {GPU_COPY, 10, 3, 3, "Memcpy PtoP (Device -> Device)"},
    {GPU_COPY, 99, 255, 8, "Memcpy Unknown (Unknown -> Unknown)"},
    {GPU_FILL, 0, 0, 3, "Memset (Device)"},
    {GPU_FILL, 0, 0, 5, "Memset (Managed)"},
    {GPU_FILL, 0, 0, 255, "Memset (Unknown)"},
};

START_TEST(names_copies_and_fills_as_kineto_does)
{
    char want[80];
    struct gpu_record r = make_copy();
    r.kind = names[_i].record;
    r.copy.kind = names[_i].kind;
    r.copy.from_kind = names[_i].from;
    r.copy.to_kind = names[_i].to;
    snprintf(want, sizeof(want), "\"name\": \"%s\"", names[_i].name);
    ck_assert_ptr_nonnull(strstr(work_text(&r, &no_link), want));
}
END_TEST

START_TEST(writes_a_copy_between_devices)
{
    struct gpu_record r = make_copy();
    r.flags = GPU_PEER | GPU_ASYNC;
    r.copy.kind = 10;
    r.copy.from_kind = 3;
    r.device = 1;
    r.copy.peer.from_device = 0;
    r.copy.peer.to_device = 1;
    r.copy.peer.from_context = 2;
    r.copy.peer.to_context = GPU_NONE;
    ck_assert_str_eq(
        work_text(&r, &no_link),
        HEAD("gpu_memcpy",
             "Memcpy PtoP (Device -> Device)") "\"fromDevice\": 0, "
                                               "\"inDevice\": 1, \"toDevice\": 1, \"fromContext\": "
                                               "2, \"inContext\": 1, "
                                               "\"toContext\": -1, \"stream\": 7, \"correlation\": "
                                               "14, \"bytes\": 567000, "
                                               "\"memory bandwidth (GB/s)\": 1000.0}},\n");
}
END_TEST

START_TEST(writes_a_memset)
{
    struct gpu_record r = make_copy();
    r.kind = GPU_FILL;
    r.flags = GPU_PEER; /* has no meaning for a memset */
    ck_assert_str_eq(
        work_text(&r, &no_link),
        HEAD("gpu_memset",
             "Memset (Device)") "\"device\": 0, \"context\": 1, "
                                "\"stream\": 7, \"correlation\": 14, \"bytes\": 567000, "
                                "\"memory bandwidth (GB/s)\": 1000.0}},\n");
}
END_TEST

/* ---- calls, waits, events -------------------------------------------------------------------- */

START_TEST(writes_a_cuda_call)
{
    struct gpu_record r = {.kind = GPU_CALL, .correlation = UINT32_MAX, .stream = 7};
    r.call.cbid = 211;
    set_name(&r, "cudaLaunchKernel");
    json_gpu_call(&out, &r, &place, 112, 0);
    ck_assert_str_eq(
        take_text(),
        HEAD("cuda_runtime", "cudaLaunchKernel") "\"External id\": 112, "
                                                 "\"cbid\": 211, \"correlation\": 4294967295}},\n");
    set_name(&r, "cuLaunchKernel");
    r.flags = GPU_DRIVER | GPU_FAILED;
    json_gpu_call(&out, &r, &place, 0, 0);
    ck_assert_str_eq(
        take_text(),
        HEAD("cuda_driver", "cuLaunchKernel") "\"cbid\": 211, "
                                              "\"correlation\": 4294967295, \"failed\": true}},\n");
    r.correlation = 0;
    json_gpu_call(&out, &r, &place, 0, 0);
    ck_assert_ptr_nonnull(strstr(take_text(), "\"args\": {\"failed\": true}},\n"));
    r.flags = 0;
    json_gpu_call(&out, &r, &place, 5, 0);
    ck_assert_ptr_nonnull(strstr(take_text(), "\"args\": {\"External id\": 5}},\n"));
    json_gpu_call(&out, &r, &place, 0, 0);
    ck_assert_ptr_nonnull(strstr(take_text(), "\"args\": {}},\n"));
    r.name_len = 0;
    json_gpu_call(&out, &r, &place, 0, 0);
    ck_assert_ptr_nonnull(strstr(take_text(), "\"unknown CUDA call\""));
}
END_TEST

START_TEST(writes_synchronizations)
{
    struct gpu_record r = {.kind = GPU_SYNC, .correlation = 24, .context = 1, .stream = GPU_NONE};
    struct json_wait wait = {-1, -1};
    r.sync.type = 1;
    r.sync.event = 9;
    json_gpu_sync(&out, &r, &place, 2, &wait);
    ck_assert_str_eq(
        take_text(),
        HEAD("cuda_sync",
             "Event Sync") "\"External id\": 2, "
                           "\"cuda_sync_kind\": \"Event Sync\", \"wait_on_stream\": -1, "
                           "\"wait_on_cuda_event_record_corr_id\": -1, "
                           "\"wait_on_cuda_event_id\": 9, \"stream\": -1, \"correlation\": 24, "
                           "\"device\": 0, \"context\": 1}},\n");
    r.sync.type = 2;
    r.stream = 20;
    r.device = GPU_NONE;
    wait = (struct json_wait){7, UINT32_MAX};
    json_gpu_sync(&out, &r, &place, 0, &wait);
    ck_assert_str_eq(
        take_text(),
        HEAD("cuda_sync", "Stream Wait Event") "\"cuda_sync_kind\": "
                                               "\"Stream Wait Event\", \"wait_on_stream\": 7, "
                                               "\"wait_on_cuda_event_record_corr_id\": 4294967295, "
                                               "\"wait_on_cuda_event_id\": 9, \"stream\": 20, "
                                               "\"correlation\": 24, "
                                               "\"device\": -1, \"context\": 1}},\n");
    r.sync.type = 3;
    r.sync.result = 700;
    json_gpu_sync(&out, &r, &place, 0, &wait);
    ck_assert_str_eq(
        take_text(),
        HEAD("cuda_sync", "Stream Sync") "\"cuda_sync_kind\": \"Stream Sync\", "
                                         "\"stream\": 20, \"correlation\": 24, \"device\": -1, "
                                         "\"context\": 1, \"result\": 700}},\n");
    r.sync.type = 4;
    json_gpu_sync(&out, &r, &place, 0, &wait);
    ck_assert_ptr_nonnull(strstr(take_text(), "\"cuda_sync_kind\": \"Context Sync\", \"stream\""));
    r.sync.type = 5;
    json_gpu_sync(&out, &r, &place, 0, &wait);
    ck_assert_ptr_nonnull(strstr(take_text(), "\"cuda_sync_kind\": \"Unknown Sync\", \"stream\""));
}
END_TEST

START_TEST(writes_overhead)
{
    struct gpu_record r = {.kind = GPU_OVERHEAD};
    set_name(&r, "Buffer Flush");
    json_gpu_overhead(&out, &r, &place);
    ck_assert_str_eq(take_text(), HEAD("overhead", "Buffer Flush") "}},\n");
    r.name = NULL;
    json_gpu_overhead(&out, &r, &place);
    ck_assert_str_eq(take_text(), HEAD("overhead", "Unknown") "}},\n");
}
END_TEST

START_TEST(writes_a_gpu_annotation)
{
    json_gpu_annotation(&out, "Optimizer.step#SGD.step", 23, &place, 21222);
    ck_assert_str_eq(take_text(), HEAD("gpu_user_annotation",
                                       "Optimizer.step#SGD.step") "\"External id\": 21222}},\n");
    json_gpu_annotation(&out, "", 0, &place, 0);
    ck_assert_str_eq(take_text(), HEAD("gpu_user_annotation", "") "}},\n");
}
END_TEST

START_TEST(writes_arrows)
{
    json_gpu_arrow_start(&out, 135071, &place);
    ck_assert_str_eq(take_text(), "{\"ph\": \"s\", \"id\": 135071, \"pid\": 77, \"tid\": 78, "
                                  "\"ts\": 1.234, \"cat\": \"ac2g\", \"name\": \"ac2g\"},\n");
    json_gpu_arrow_end(&out, UINT64_MAX, &place);
    ck_assert_str_eq(take_text(),
                     "{\"ph\": \"f\", \"id\": 9223372036854775807, \"pid\": 77, \"tid\": 78, "
                     "\"ts\": 1.234, \"cat\": \"ac2g\", \"name\": \"ac2g\", "
                     "\"bp\": \"e\"},\n");
}
END_TEST

/* ---- driver memory --------------------------------------------------------------------------- */

#define MEMORY_HEAD                                                                                \
    "{\"ph\": \"i\", \"cat\": \"cuda_memory\", \"s\": \"t\", \"name\": \"[driver memory]\", "      \
    "\"pid\": 77, \"tid\": 78, \"ts\": 1.234, \"args\": {"
#define COUNTER(name)                                                                              \
    "{\"ph\": \"C\", \"name\": \"" name "\", \"pid\": 77, \"tid\": 78, \"ts\": 1.234, \"args\": {"

START_TEST(writes_driver_memory)
{
    struct gpu_record r = {.kind = GPU_MEMORY, .correlation = 31, .stream = 7, .device = 2};
    r.memory.address = 0x7f0000000000;
    r.memory.bytes = 4096;
    r.memory.kind = 3;
    json_gpu_memory(&out, &r, &place, 12, 8192);
    ck_assert_str_eq(take_text(), MEMORY_HEAD
                     "\"External id\": 12, \"Total Allocated\": 8192, \"Bytes\": 4096, "
                     "\"Device Id\": 2, \"Memory Kind\": \"Device\", \"Addr\": 139637976727552, "
                     "\"correlation\": 31}},\n" COUNTER(
                         "Driver memory CUDA:2") "\"allocated bytes\": 8192}},\n");
    r.flags = GPU_RELEASE;
    r.memory.kind = 2;
    r.memory.pool = UINT64_MAX;
    r.memory.pool_used = 5;
    r.memory.pool_size = 6;
    json_gpu_memory(&out, &r, &place, 0, UINT64_MAX);
    ck_assert_str_eq(take_text(), MEMORY_HEAD
                     "\"Total Allocated\": 9223372036854775807, \"Bytes\": -4096, "
                     "\"Device Id\": -1, \"Memory Kind\": \"Pinned\", \"Addr\": 139637976727552, "
                     "\"correlation\": 31, \"Pool\": \"18446744073709551615\", \"Pool Used\": 5, "
                     "\"Pool Size\": 6}},\n" COUNTER(
                         "Driver memory Pinned") "\"allocated bytes\": 9223372036854775807}},\n");
    r.memory.kind = 4;
    r.memory.bytes = UINT64_MAX;
    json_gpu_memory(&out, &r, &place, 0, 0);
    const char *text = take_text();
    ck_assert_ptr_nonnull(strstr(text, "\"Driver memory CUDA:2 Array\""));
    ck_assert_ptr_nonnull(strstr(text, "\"Bytes\": -9223372036854775807,"));
    ck_assert_ptr_null(strstr(text, "stream"));
}
END_TEST

/* ---- random records -------------------------------------------------------------------------- */

/* A record of random fields, mostly large numbers. */
static struct gpu_record any_record(char *name)
{
    struct gpu_record r;
    uint64_t shift = next_random() % 64;
    for (size_t i = 0; i < sizeof(r) / 8; i++) {
        uint64_t word = next_random() % 4 == 0 ? UINT64_MAX : next_random() >> shift;
        memcpy((char *)&r + 8 * i, &word, 8);
    }
    r.kernel.has_channel = r.kernel.has_priority = next_random() % 2 != 0;
    size_t n = next_random() % 8 == 0 ? 3000 : next_random() % 40;
    for (size_t i = 0; i < n; i++)
        name[i] = (char)next_random();
    r.name = n % 5 != 0 ? name : NULL;
    r.name_len = (uint16_t)n;
    return r;
}

/* Appends one event of any kind. */
static void put_any(struct buf *b, struct gpu_record *r)
{
    struct json_place at = {(uint32_t)next_random(), UINT32_MAX, (int64_t)next_random(),
                            (int64_t)next_random()};
    struct json_link link = {.external_id = next_random(),
                             .captured_by = next_random() % 2 * UINT64_MAX,
                             .captured_name = {r->name, r->name ? r->name_len : 0},
                             .captured_module = (uint32_t)next_random(),
                             .hlo_op = {r->name, r->name ? r->name_len : 0},
                             .flops = next_random() % 2 * next_random()};
    struct json_wait wait = {(int64_t)next_random(), INT64_MIN};
    switch (next_random() % 9) {
    case 0:
        json_gpu_call(b, r, &at, UINT64_MAX, 0);
        break;
    case 1:
        /* Its byte may hold another kind's number, which is no valid bool. */
        r->kind = next_random() % 2 ? GPU_COPY : GPU_FILL;
        r->copy.has_channel = next_random() % 2 != 0;
        json_gpu_work(b, r, &at, &link);
        break;
    case 2:
        r->kind = GPU_GRAPH;
        json_gpu_work(b, r, &at, &link);
        break;
    case 3:
        json_gpu_sync(b, r, &at, UINT64_MAX, &wait);
        break;
    case 4:
        json_gpu_overhead(b, r, &at);
        break;
    case 5:
        json_gpu_memory(b, r, &at, next_random(), next_random());
        break;
    case 6:
        json_gpu_annotation(b, r->name, r->name ? r->name_len : 0, &at, UINT64_MAX);
        break;
    case 7:
        json_gpu_arrow_start(b, next_random(), &at);
        json_gpu_arrow_end(b, next_random(), &at);
        break;
    default:
        r->kind = GPU_KERNEL;
        json_gpu_work(b, r, &at, &link);
        break;
    }
}

START_TEST(random_records_become_valid_json)
{
    char name[3000];
    for (int i = 0; i < 100000; i++) {
        struct gpu_record r = any_record(name);
        put_any(&out, &r);
        ck_assert_msg(!out.failed && json_lines_valid(out.data, out.len), "%.*s", (int)out.len,
                      out.data);
        buf_reset(&out);
    }
}
END_TEST

START_TEST(full_buffer_holds_only_whole_events)
{
    char name[3000];
    for (size_t limit = 1; limit < 9000; limit += limit % 7 + 1) {
        struct buf b = {.limit = limit};
        for (int i = 0; i < 200 && !b.failed; i++) {
            struct gpu_record r = any_record(name);
            size_t before = b.len;
            put_any(&b, &r);
            ck_assert_uint_ge(b.len, before);
        }
        ck_assert(b.failed);
        ck_assert_uint_le(b.len, limit);
        ck_assert(json_lines_valid(b.data, b.len));
        buf_free(&b);
    }
}
END_TEST

/* The room that json_gpu.c reserves after an event's name must hold the longest event. */
START_TEST(longest_kernel_fits_the_reserved_room)
{
    struct gpu_record r = {.kind = GPU_KERNEL,
                           .correlation = UINT32_MAX,
                           .device = UINT32_MAX - 1,
                           .context = UINT32_MAX - 1,
                           .stream = UINT32_MAX - 1,
                           .graph = UINT32_MAX,
                           .node = UINT64_MAX};
    set_name(&r, "k");
    for (int i = 0; i < 3; i++)
        r.kernel.grid[i] = r.kernel.block[i] = INT32_MIN;
    r.kernel.registers = r.kernel.channel = r.kernel.channel_type = UINT32_MAX;
    r.kernel.shared_memory = r.kernel.priority = INT32_MIN;
    r.kernel.blocks_per_sm = r.kernel.warps_per_sm = INFINITY;
    r.kernel.occupancy = INT16_MAX;
    r.kernel.has_channel = r.kernel.has_priority = true;
    r.kernel.queued_ns = UINT64_MAX;
    struct json_place at = {UINT32_MAX, UINT32_MAX, INT64_MAX / 2, INT64_MAX};
    struct json_link link = {.external_id = UINT64_MAX, .captured_by = UINT64_MAX};
    json_gpu_work(&out, &r, &at, &link);
    size_t n = strlen(take_text());
    ck_assert_msg(n < 1024, "%zu", n); /* GPU_ROOM */
}
END_TEST

Suite *suite_json_gpu(void)
{
    Suite *suite = suite_create("json_gpu");
    TCase *work = tcase_create("work");
    tcase_add_test(work, writes_a_kernel);
    tcase_add_test(work, writes_a_graph_kernel);
    tcase_add_test(work, omits_unknown_values);
    tcase_add_test(work, writes_decimals);
    tcase_add_test(work, writes_a_whole_graph);
    tcase_add_test(work, writes_a_copy);
    tcase_add_test(work, copy_without_duration_has_no_bandwidth);
    tcase_add_loop_test(work, names_copies_and_fills_as_kineto_does, 0,
                        sizeof(names) / sizeof(names[0]));
    tcase_add_test(work, writes_a_copy_between_devices);
    tcase_add_test(work, writes_a_memset);
    suite_add_tcase(suite, work);
    TCase *others = tcase_create("others");
    tcase_add_test(others, writes_a_cuda_call);
    tcase_add_test(others, writes_synchronizations);
    tcase_add_test(others, writes_overhead);
    tcase_add_test(others, writes_a_gpu_annotation);
    tcase_add_test(others, writes_arrows);
    tcase_add_test(others, writes_driver_memory);
    suite_add_tcase(suite, others);
    TCase *all = tcase_create("all");
    tcase_add_test(all, random_records_become_valid_json);
    tcase_add_test(all, full_buffer_holds_only_whole_events);
    tcase_add_test(all, longest_kernel_fits_the_reserved_room);
    suite_add_tcase(suite, all);
    return suite;
}
