/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/torch/torch_names.h: names of operators are cached by address. A name is never
 * mistaken for another name that is later at the same address. */
#include "preload/torch/torch_names.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload/flops/flops.h"
#include "preload/torch/torch.h"
#include "preload/core/torch_layout.h"

static struct thread_log *log_;
static struct known_name room;

static void setup(void)
{
    clock_start();
    ck_assert(thread_log_start(1u << 16));
    log_ = thread_log_get();
    ck_assert_ptr_nonnull(log_);
    torch_api.layout = torch_layout_find(2, 13, true);
    flops_start();
}

static const struct known_name *check_lookup(const char *text)
{
    const struct known_name *known = torch_name(log_, text, &room);
    struct text name = name_text(known->name, text);
    ck_assert_msg(name.len == strlen(text) && memcmp(name.at, text, name.len) == 0,
                  "%s is taken for %.*s", text, (int)name.len, name.at);
    const struct flops_row *row = flops_find(text, (uint32_t)strlen(text));
    ck_assert_ptr_eq(known->about, row ? row : flops_guess(text));
    return known;
}

static bool has_number(const char *text)
{
    return check_lookup(text)->name & NAME_NUMBERED;
}

START_TEST(numbers_names_from_the_second_lookup_on)
{
    static const char mm[] = "aten::mm", linear[] = "aten::linear", all[] = "c10d::allreduce_",
                      comms[] = "record_param_comms";
    ck_assert(!has_number(mm));
    for (int i = 0; i < 3; i++) {
        ck_assert(has_number(mm));
        ck_assert_ptr_ne(check_lookup(mm), &room);
    }
    ck_assert_ptr_nonnull(check_lookup(mm)->about);
    ck_assert_uint_eq(check_lookup(mm)->about_c10d, C10D_NONE);
    for (int i = 0; i < 3; i++) {
        /* not counted itself: its inner operators are */
        ck_assert_ptr_eq(check_lookup(linear)->about, flops_guess(linear));
        ck_assert_uint_eq(check_lookup(all)->about_c10d, C10D_TRANSFER);
        ck_assert_uint_eq(check_lookup(comms)->about_c10d, C10D_COMMS);
    }
    ck_assert_uint_eq(check_lookup(mm)->name, numbered_name(mm, 8));
}
END_TEST

/* As when one library of operators is unloaded and another one is loaded. */
START_TEST(notices_another_name_at_an_address)
{
    static const char *const names[] = {"aten::mm",  "aten::bmm", "aten::mm_", "aten::m",
                                        "aten::add", "aten::mul", "aten::mm",  "aten::mm and more",
                                        "x",         "",          "aten::mm"};
    static char place[64];
    for (int times = 0; times < 3; times++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            strcpy(place, names[i]);
            for (int again = 0; again <= times; again++)
                check_lookup(place);
        }
}
END_TEST

/* As autograd's engine makes names: anew for each call, at addresses that other names also use. */
START_TEST(finds_names_at_other_addresses)
{
    static const char *const names[] = {"autograd::engine::evaluate_function: AddmmBackward0",
                                        "torch::autograd::AccumulateGrad", "MulBackward0"};
    static char places[5][64];
    for (unsigned i = 0; i < 30; i++) {
        const char *name = names[i % 3];
        char *place = strcpy(places[i * 7 % 5], name);
        ck_assert_int_eq(has_number(place), i >= 3);
        if (i >= 3)
            ck_assert_uint_eq(check_lookup(place)->name,
                              numbered_name(name, (uint32_t)strlen(name)));
    }
}
END_TEST

/* Names that are made for one call would use up the numbers. */
START_TEST(gives_no_number_to_one_time_names)
{
    static char place[64];
    for (int i = 0; i < 3 * (int)NUMBERED_MOST; i++) {
        snprintf(place, sizeof place, "range %d", i);
        ck_assert(!has_number(place));
    }
    static const char mm[] = "aten::mm";
    check_lookup(mm);
    ck_assert(has_number(mm));
}
END_TEST

/* Names of all lengths: at the end of mapped memory, and across a page's end. */
START_TEST(reads_nothing_beyond_mapped_memory)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(pages, MAP_FAILED);
    ck_assert_int_eq(munmap(pages + 2 * page, page), 0);
    for (size_t len = 0; len < 100; len++) {
        for (int where = 0; where < 2; where++) {
            char *at = pages + 2 * page - len - 1 - (where ? page - len / 2 : 0);
            memset(at, 'a' + (int)(len % 26), len);
            at[len] = '\0';
            for (int i = 0; i < 3; i++)
                check_lookup(at);
        }
    }
    munmap(pages, 2 * page);
}
END_TEST

/* More names than the cache holds: the others are looked up each time. */
START_TEST(looks_up_names_beyond_the_cache)
{
    enum { N = 4 << KNOWN_BITS };
    static char names[N][32];
    for (int i = 0; i < N; i++)
        snprintf(names[i], sizeof names[i], "aten::operator_%d", i);
    for (int times = 0; times < 3; times++)
        for (int i = 0; i < N; i++)
            check_lookup(names[i]);
}
END_TEST

Suite *suite_torch_names(void)
{
    Suite *suite = suite_create("torch_names");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, NULL);
    tcase_add_test(all, numbers_names_from_the_second_lookup_on);
    tcase_add_test(all, notices_another_name_at_an_address);
    tcase_add_test(all, finds_names_at_other_addresses);
    tcase_add_test(all, gives_no_number_to_one_time_names);
    tcase_add_test(all, reads_nothing_beyond_mapped_memory);
    tcase_add_test(all, looks_up_names_beyond_the_cache);
    suite_add_tcase(suite, all);
    return suite;
}
