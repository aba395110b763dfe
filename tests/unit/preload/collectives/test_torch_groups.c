/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/collectives/torch_groups.c on objects built with torch 2.13's layout, and of
 * the args that collectives.c makes of them. */
#include "preload/collectives/torch_groups.h"

#include "preload/collectives/collectives.h"
#include "preload/collectives/communicators.h"
#include "tests/support/torch_objects.h"
#include "writer/json/json_args.h"

static void start(void)
{
    setup();
    n_inputs = 0;
}

static void *group(int32_t rank, int32_t size)
{
    void *made = make(l->pg_size + sizeof size);
    SET(made, l->pg_rank, int32_t, rank);
    SET(made, l->pg_size, int32_t, size);
    return made;
}

/* An object with this many slots, each of which holds the group. */
static void *wrap_group(void *of, unsigned slots, uint16_t tag)
{
    char *first = make(slots ? slots * l->iv_size : 1), *object = make(l->ob_slots + 24u);
    for (unsigned i = 0; i < slots; i++)
        put_value(first + i * l->iv_size, tag, of);
    SET(object, l->ob_slots, const void *, first);
    SET(object, l->ob_slots + 8, const void *, first + slots * l->iv_size);
    return object;
}

static void *list_of(uint16_t tag, void *payload)
{
    return list(l->kind_tensor, tag, 1, &payload);
}

static void note(const char *name)
{
    torch_groups_note(make_function(), name);
    n_inputs = 0;
}

static bool take(const void *tensor, struct torch_group *out)
{
    add(l->tag_tensor, tensor);
    bool known = torch_groups_take(make_function(), "gloo:all_reduce", out);
    n_inputs = 0;
    return known;
}

START_TEST(recognizes_names_of_transfers)
{
    ck_assert(torch_is_transfer("c10d::send"));
    ck_assert(!torch_is_transfer("c10"));
    ck_assert(!torch_is_transfer(""));
    ck_assert(!torch_is_transfer("aten::add"));
}
END_TEST

/* The number of the next transfer in a group. */
static uint64_t number_in(const void *group, int size, int rank, enum collective_peer peer_is)
{
    return communicator_number(communicator_of_group(group, size, rank), peer_is);
}

START_TEST(takes_an_operators_note_once)
{
    void *sent = TENSOR(FLOAT, 10), *other = TENSOR(FLOAT, 10), *world = group(1, 4);
    struct torch_group got;
    for (uint64_t i = 0; i < 3; i++) {
        add(l->tag_generic_list, list_of(l->tag_tensor, sent));
        add(l->tag_object, wrap_group(world, 1, l->tag_capsule));
        add(l->tag_int, (void *)3);
        note("c10d::broadcast_");
        ck_assert(!take(other, &got));
        ck_assert(take(sent, &got));
        ck_assert_ptr_eq(got.group, world);
        ck_assert_int_eq(got.rank, 1);
        ck_assert_int_eq(got.size, 4);
        ck_assert_int_eq(got.peer, 3);
        ck_assert_int_eq(got.peer_is, PEER_ROOT);
        ck_assert_uint_eq(got.seq, i);
        ck_assert(!take(sent, &got)); /* a note is taken once */
    }
}
END_TEST

/* The number after the group is the tag, not a peer. A receive from any rank is a transfer between
 * two ranks, although it names no peer. */
START_TEST(counts_a_receive_from_any_rank)
{
    void *received = TENSOR(FLOAT, 10), *world = group(1, 4);
    struct torch_group got;
    for (uint64_t i = 0; i < 2; i++) {
        add(l->tag_generic_list, list_of(l->tag_tensor, received));
        add(l->tag_object, wrap_group(world, 1, l->tag_capsule));
        add(l->tag_int, (void *)7);
        note("c10d::recv_any_source_");
        ck_assert(take(received, &got));
        ck_assert_int_eq(got.peer, -1);
        ck_assert_int_eq(got.peer_is, PEER_FROM);
        ck_assert_uint_eq(got.seq, i);
    }
    ck_assert_uint_eq(number_in(world, 4, 1, PEER_NONE), 0);
}
END_TEST

static void note_allreduce(void *tensor, void *of)
{
    add(l->tag_generic_list, list_of(l->tag_tensor, tensor));
    add(l->tag_object, wrap_group(of, 1, l->tag_capsule));
    note("c10d::allreduce_");
}

/* When two groups send the same tensor, it is unknown which begins first. */
START_TEST(forgets_a_tensor_sent_in_two_groups)
{
    void *sent = TENSOR(FLOAT, 10), *world = group(1, 4), *pair = group(0, 2);
    struct torch_group got;
    note_allreduce(sent, world);
    note_allreduce(sent, pair);
    ck_assert(!take(sent, &got));
    ck_assert(!take(sent, &got));
    note_allreduce(sent, world);
    note_allreduce(sent, world); /* the start of the first was not seen */
    ck_assert(take(sent, &got));
    ck_assert_ptr_eq(got.group, world);
}
END_TEST

/* The sent tensor is the last input before the group. Results come before it. */
START_TEST(finds_the_group_by_the_sent_tensor)
{
    void *in = TENSOR(FLOAT, 10), *out = TENSOR(FLOAT, 20);
    struct torch_group got;
    add(l->tag_generic_list, list_of(l->tag_generic_list, list_of(l->tag_tensor, out)));
    add(l->tag_generic_list, list_of(l->tag_tensor, in));
    add(l->tag_object, wrap_group(group(0, 2), 1, l->tag_capsule));
    note("c10d::allgather_");
    ck_assert(!take(out, &got));
    ck_assert(take(in, &got));
    ck_assert_int_eq(got.peer, -1);
    /* For a scatter, the other ranks send nothing: the received tensor identifies it. */
    add(l->tag_generic_list, list_of(l->tag_tensor, out));
    add(l->tag_generic_list, list(0, l->tag_generic_list, 0, NULL));
    add(l->tag_object, wrap_group(group(1, 2), 1, l->tag_capsule));
    add(l->tag_int, (void *)0);
    note("c10d::scatter_");
    ck_assert(take(out, &got));
    ck_assert_int_eq(got.peer, 0);
}
END_TEST

/* The range of a barrier lacks the barrier's tensor, so cprof finds the note by the range's
 * name. The note must be gone before another operator's tensor has the same address. */
START_TEST(finds_the_group_of_a_barrier)
{
    void *own = TENSOR(FLOAT, 1), *world = group(1, 4), *half = group(0, 2);
    struct torch_group got;
    add(l->tag_tensor, own);
    add(l->tag_object, wrap_group(half, 1, l->tag_capsule));
    note("c10d::barrier");
    ck_assert(!take(own, &got));
    ck_assert(!torch_groups_take(make_function(), "gloo:all_reduce", &got));
    ck_assert(!torch_groups_take(make_function(), "gloo:scatter", &got));
    ck_assert(torch_groups_take(make_function(), "gloo:barrier", &got));
    ck_assert_ptr_eq(got.group, half);
    ck_assert(!torch_groups_take(make_function(), "gloo:barrier", &got)); /* taken once */
    note_allreduce(own, world);
    ck_assert(take(own, &got));
    ck_assert_ptr_eq(got.group, world);
}
END_TEST

START_TEST(rejects_objects_that_are_no_groups)
{
    void *sent = TENSOR(FLOAT, 10);
    struct torch_group got;
    void *const none[] = {wrap_group(group(0, 2), 0, l->tag_capsule),
                          wrap_group(group(0, 2), 2, l->tag_capsule),
                          wrap_group(group(0, 2), 1, l->tag_object),
                          wrap_group(NULL, 1, l->tag_capsule),
                          wrap_group(group(2, 2), 1, l->tag_capsule),
                          wrap_group(group(-1, 2), 1, l->tag_capsule),
                          wrap_group(group(0, 0), 1, l->tag_capsule),
                          wrap_group(group(0, INT32_MAX), 1, l->tag_capsule),
                          NULL};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        add(l->tag_tensor, sent);
        add(l->tag_object, none[i]);
        note("c10d::allreduce_");
        ck_assert_msg(!take(sent, &got), "object %zu is taken for a group", i);
    }
    add(l->tag_tensor, sent);
    note("c10d::allreduce_"); /* no inputs at all */
    ck_assert(!take(sent, &got));
    add(l->tag_object, wrap_group(group(0, 2), 1, l->tag_capsule));
    note("c10d::barrier"); /* no tensor identifies it */
    note("c10d::barrier"); /* no inputs */
    ck_assert(!torch_groups_take(make_function(), "gloo:all_reduce", &got));
    struct torch_layout older = *l; /* a version whose groups are not read */
    older.ob_slots = TORCH_LAYOUT_ABSENT;
    torch_api.layout = &older;
    add(l->tag_tensor, sent);
    add(l->tag_object, wrap_group(group(0, 2), 1, l->tag_capsule));
    note("c10d::allreduce_");
    ck_assert(!take(sent, &got));
}
END_TEST

/* The args of a transfer as JSON. */
static const char *args_json(const char *range, const struct torch_group *of)
{
    static struct buf text;
    /* two tensors of 2 x 3 floats */
    static const uint8_t tensor[] = {FLOAT, 2, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0};
    uint8_t shapes[2 + 2 * sizeof tensor] = {SHAPE_LIST, 2}, args[COLLECTIVE_ARGS];
    memcpy(shapes + 2, tensor, sizeof tensor);
    memcpy(shapes + 2 + sizeof tensor, tensor, sizeof tensor);
    uint32_t n = collective_of_shapes(range, shapes, sizeof shapes, of, args);
    buf_reset(&text);
    json_args(&text, args, n, true);
    buf_put(&text, "", 1);
    return text.data;
}

START_TEST(counts_each_group_from_zero)
{
    static const char first, second;
    ck_assert_uint_eq(number_in(&first, 4, 1, PEER_NONE), 0);
    ck_assert_uint_eq(number_in(&second, 4, 1, PEER_NONE), 0);
    ck_assert_uint_eq(number_in(&first, 4, 1, PEER_NONE), 1);
    /* another group at the same address */
    ck_assert_uint_eq(number_in(&first, 2, 1, PEER_NONE), 0);
    ck_assert_uint_eq(number_in(&first, 2, 1, PEER_NONE), 1);
    ck_assert_uint_eq(number_in(&first, 2, 0, PEER_ROOT), 0);
    ck_assert_uint_eq(number_in(&second, 4, 1, PEER_NONE), 1);
}
END_TEST

/* A transfer between two ranks does not advance the number that all ranks of a group share. */
START_TEST(counts_sends_apart_from_collectives)
{
    static const char group;
    ck_assert_uint_eq(number_in(&group, 4, 1, PEER_NONE), 0);
    ck_assert_uint_eq(number_in(&group, 4, 1, PEER_TO), 0);
    ck_assert_uint_eq(number_in(&group, 4, 1, PEER_FROM), 1);
    ck_assert_uint_eq(number_in(&group, 4, 1, PEER_ROOT), 1);
    ck_assert_uint_eq(number_in(&group, 4, 1, PEER_TO), 2);
    /* another group at the same address */
    ck_assert_uint_eq(number_in(&group, 2, 1, PEER_TO), 0);
    ck_assert_uint_eq(number_in(&group, 2, 1, PEER_NONE), 0);
}
END_TEST

START_TEST(lists_the_args_of_gloo_ranges)
{
    struct torch_group of = {(void *)0x10, 4, 1, 2, PEER_TO, true, 7};
    ck_assert_str_eq(
        args_json("gloo:all_reduce", NULL),
        "\"backend\": \"gloo\", \"Collective name\": \"allreduce\", \"In msg nelems\": 12, "
        "\"Out msg nelems\": 12, \"dtype\": \"Float\", \"bytes\": 48");
    ck_assert_str_eq(
        args_json("gloo:all_gather", NULL),
        "\"backend\": \"gloo\", \"Collective name\": \"allgather\", \"In msg nelems\": 12, "
        "\"dtype\": \"Float\"");
    ck_assert_str_eq(
        args_json("gloo:send", &of),
        "\"backend\": \"gloo\", \"Collective name\": \"send\", \"In msg nelems\": 12, "
        "\"dtype\": \"Float\", \"bytes\": 48, \"Dst Rank\": 2, \"Group size\": 4, \"Rank\": 1, "
        "\"Comms Id\": \"0x10\", \"Seq\": 7");
    of.peer_is = PEER_NONE;
    ck_assert_str_eq(
        args_json("gloo:all_gather", &of),
        "\"backend\": \"gloo\", \"Collective name\": \"allgather\", \"In msg nelems\": 12, "
        "\"Out msg nelems\": 48, \"dtype\": \"Float\", \"bytes\": 192, \"Group size\": 4, "
        "\"Rank\": 1, \"Comms Id\": \"0x10\", \"Seq\": 7");
    ck_assert_str_eq(
        args_json("gloo:scatter", &of),
        "\"backend\": \"gloo\", \"Collective name\": \"scatter\", \"In msg nelems\": 12, "
        "\"dtype\": \"Float\", \"Group size\": 4, \"Rank\": 1, \"Comms Id\": \"0x10\", "
        "\"Seq\": 7");
}
END_TEST

Suite *suite_torch_groups(void)
{
    Suite *suite = suite_create("torch_groups");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, start, NULL);
    tcase_add_test(all, recognizes_names_of_transfers);
    tcase_add_test(all, takes_an_operators_note_once);
    tcase_add_test(all, counts_a_receive_from_any_rank);
    tcase_add_test(all, forgets_a_tensor_sent_in_two_groups);
    tcase_add_test(all, finds_the_group_by_the_sent_tensor);
    tcase_add_test(all, finds_the_group_of_a_barrier);
    tcase_add_test(all, rejects_objects_that_are_no_groups);
    tcase_add_test(all, counts_each_group_from_zero);
    tcase_add_test(all, counts_sends_apart_from_collectives);
    tcase_add_test(all, lists_the_args_of_gloo_ranges);
    suite_add_tcase(suite, all);
    return suite;
}
