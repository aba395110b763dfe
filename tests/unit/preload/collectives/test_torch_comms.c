/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/collectives/torch_comms.c on an object built with torch's layout, and of the
 * args that collectives.c makes of it. */
#include "preload/collectives/torch_comms.h"

#include "preload/collectives/collectives.h"
#include "tests/support/torch_objects.h"
#include "writer/json/json_args.h"

#define ROUGHLY 512u /* upper bound of the object's size in all versions */

static const void *kept; /* what debug_info() returns */
static uintptr_t asked_kind;

static const void *debug_info(uintptr_t kind)
{
    asked_kind = kind;
    return kept;
}

/* An object with virtual functions as C++ lays it out: a pointer to its table, which is preceded
 * by its type, which holds its name. */
static void *object_of(const char *type_name)
{
    const void **type = make(2 * sizeof *type), **table = make(3 * sizeof *table);
    char *object = make(ROUGHLY);
    type[1] = type_name;
    table[1] = type;
    SET(object, 0, const void *, &table[2]);
    return object;
}

static void set_text(void *object, uint16_t at, const char *text)
{
    char *copy = make(24 + strlen(text) + 1);
    uint64_t len = strlen(text);
    memcpy(copy, &len, sizeof len); /* where the old ABI stores the length */
    strcpy(copy + 24, text);
    SET(object, at, const void *, copy + 24);
    if (l->cxx11_abi)
        SET(object, at + 8, uint64_t, len);
}

static void set_numbers(void *object, uint16_t at, size_t n, int64_t first, int64_t step)
{
    int64_t *numbers = make(n * sizeof *numbers + 1);
    for (size_t i = 0; i < n; i++)
        numbers[i] = first + (int64_t)i * step;
    SET(object, at, const void *, numbers);
    SET(object, at + 8, const void *, numbers + n);
}

static void *comms(const char *name, int32_t rank)
{
    char *object = object_of(TORCH_COMMS_TYPE_NAME);
    set_text(object, l->pc_name, name);
    set_text(object, l->pc_group, "12");
    set_text(object, l->pc_about, "tp");
    SET(object, l->pc_rank, int32_t, rank);
    SET(object, l->pc_size, int32_t, 4);
    if (l->pc_out - l->pc_in == 4) {
        SET(object, l->pc_in, int32_t, 8);
        SET(object, l->pc_out, int32_t, 32);
    } else {
        SET(object, l->pc_in, int64_t, INT64_C(8000000000));
        SET(object, l->pc_out, int64_t, INT64_C(32000000000));
    }
    SET(object, l->pc_dtype, uint8_t, FLOAT);
    SET(object, l->pc_start, int32_t, 1);
    SET(object, l->pc_stride, int32_t, 2);
    set_numbers(object, l->pc_ranks, 4, 1, 2);
    if (l->pc_seq != TORCH_LAYOUT_ABSENT) {
        SET(object, l->pc_seq, int64_t, 42);
        SET(object, l->pc_async, uint8_t, 1);
    }
    return object;
}

static void start_as(int minor, bool new_abi)
{
    setup();
    l = torch_api.layout = torch_layout_find(2, minor, new_abi);
    ck_assert_ptr_nonnull(l);
    torch_api.debug_info = debug_info;
    torch_api.comms_kind = 77;
    kept = NULL;
}

static void start(void)
{
    start_as(13, true);
}

/* The args of the object as JSON. */
static const char *args_json(const void *object)
{
    static struct buf text;
    struct torch_comms read;
    uint8_t args[COLLECTIVE_ARGS];
    kept = object;
    ck_assert(torch_comms_read(&read));
    uint32_t n = collective_of_comms(&read, NULL, 0, args);
    buf_reset(&text);
    json_args(&text, args, n, true);
    buf_put(&text, "", 1);
    return text.data;
}

START_TEST(lists_the_args_of_a_collective)
{
    ck_assert_str_eq(
        args_json(comms("_allgather_base", 3)),
        "\"Collective name\": \"_allgather_base\", \"In msg nelems\": 8000000000, "
        "\"Out msg nelems\": 32000000000, \"dtype\": \"Float\", \"Group size\": 4, \"Rank\": 3, "
        "\"Seq\": 42, \"Is asynchronized op\": 1, \"Global rank start\": 1, "
        "\"Global rank stride\": 2, \"Process Group Name\": \"12\", "
        "\"Process Group Description\": \"tp\", \"Process Group Ranks\": \"[1, 3, 5, 7]\", "
        "\"In split size\": \"[]\", \"Out split size\": \"[]\"");
    ck_assert_uint_eq(asked_kind, 77);
}
END_TEST

START_TEST(lists_the_args_of_older_torch)
{
    static const char wanted[] =
        "\"Collective name\": \"allreduce\", \"In msg nelems\": 8, \"Out msg nelems\": 32, "
        "\"dtype\": \"Float\", \"Group size\": 4, \"Rank\": 3, \"Global rank start\": 1, "
        "\"Global rank stride\": 2, \"Process Group Name\": \"12\", "
        "\"Process Group Description\": \"tp\", \"Process Group Ranks\": \"[1, 3, 5, 7]\", "
        "\"In split size\": \"[]\", \"Out split size\": \"[]\"";
    start_as(4, _i);
    ck_assert_str_eq(args_json(comms("allreduce", 3)), wanted);
    struct torch_comms read;
    start_as(3, _i); /* a version whose objects are unknown */
    kept = make(ROUGHLY);
    ck_assert(!torch_comms_read(&read));
}
END_TEST

START_TEST(names_the_peer_of_send_and_recv)
{
    ck_assert_ptr_nonnull(strstr(args_json(comms("send", 2)), "\"Rank\": 2, \"Dst Rank\": 5, "));
    ck_assert_ptr_nonnull(strstr(args_json(comms("recv", 1)), "\"Rank\": 1, \"Src Rank\": 3, "));
    ck_assert_ptr_null(strstr(args_json(comms("allreduce", 1)), "Src Rank"));
    void *unknown = comms("send", 2); /* c10d's values when ranks are not equally spaced */
    SET(unknown, l->pc_start, int32_t, -1);
    SET(unknown, l->pc_stride, int32_t, -1);
    set_numbers(unknown, l->pc_ranks, 0, 0, 0);
    const char *text = args_json(unknown);
    ck_assert_ptr_null(strstr(text, "Dst Rank"));
    ck_assert_ptr_null(strstr(text, "Global rank"));
}
END_TEST

START_TEST(cuts_long_lists_as_kineto_does)
{
    void *many = comms("all_to_allv", 0);
    set_numbers(many, l->pc_ranks, 30, 0, 1);
    set_numbers(many, l->pc_in_split, 31, 0, 1);
    set_numbers(many, l->pc_out_split, 100, INT64_MIN, 1);
    const char *text = args_json(many);
    ck_assert_ptr_nonnull(strstr(text, " 27, 28, 29]\""));
    ck_assert_ptr_nonnull(strstr(text, " 27, 28, ..., 30]\""));
    ck_assert_ptr_nonnull(
        strstr(text, "[-9223372036854775808, -9223372036854775807, -9223372036854775806, "));
}
END_TEST

START_TEST(ignores_other_objects)
{
    struct torch_comms read;
    ck_assert(!torch_comms_read(&read)); /* the thread runs no transfer */
    kept = object_of("N3abc5OtherE");
    ck_assert(!torch_comms_read(&read));
    kept = comms("allreduce", 0);
    ck_assert(torch_comms_read(&read));
    torch_api.debug_info = NULL;
    ck_assert(!torch_comms_read(&read));
    torch_api.debug_info = debug_info;
    torch_api.layout = NULL;
    ck_assert(!torch_comms_read(&read));
}
END_TEST

START_TEST(omits_impossible_fields)
{
    void *object = comms("allreduce", 0);
    SET(object, l->pc_group + 8, uint64_t, UINT64_C(1) << 40);
    SET(object, l->pc_about, const void *, NULL);
    SET(object, l->pc_dtype, uint8_t, 200);
    const char *text = args_json(object);
    ck_assert_ptr_null(strstr(text, "Process Group Name"));
    ck_assert_ptr_null(strstr(text, "Process Group Description"));
    ck_assert_ptr_null(strstr(text, "dtype"));
}
END_TEST

Suite *suite_torch_comms(void)
{
    Suite *suite = suite_create("torch_comms");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, start, NULL);
    tcase_add_test(all, lists_the_args_of_a_collective);
    tcase_add_loop_test(all, lists_the_args_of_older_torch, 0, 2);
    tcase_add_test(all, names_the_peer_of_send_and_recv);
    tcase_add_test(all, cuts_long_lists_as_kineto_does);
    tcase_add_test(all, ignores_other_objects);
    tcase_add_test(all, omits_impossible_fields);
    suite_add_tcase(suite, all);
    return suite;
}
