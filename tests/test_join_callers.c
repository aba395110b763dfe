/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/join.h: what a call and its kernel say of the spans around them. */
#include "writer/join.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/fake_gpu.h"
#include "tests/support/session.h"

#define MOST_SPANS 5

/* Spans around a launch, the outermost first: o an operator, r a range, c a call of a communication library that says what it sends, l a
 * call of a library of products. */
static const struct {
    const char *spans;
    int external; /* which of them is behind `External id`; -1: none */
    bool sends;   /* the kernel is a transfer's */
} chains[] = {
    {"", -1, false},
    {"o", 0, false},
    {"r", 0, false},
    {"rr", 1, false},
    {"oo", 1, false},
    {"ro", 1, false},
    {"l", 0, false},
    {"ol", 0, false},
    {"rl", 0, false},
    /* libraries mark what they do by NVTX: an operator is what readers look for */
    {"or", 0, false},
    {"orr", 0, false},
    {"olr", 0, false},
    {"roror", 3, false},
    {"c", -1, true},
    {"oc", 0, true},
    {"rc", 0, true},
    /* NCCL itself does, so that its call is not the innermost span */
    {"cr", 1, true},
    {"crr", 2, true},
    {"ocr", 0, true},
    {"orcr", 0, true},
    {"oco", 2, false}, /* another's work, inside of a call */
};

static void setup(void)
{
    session_setup();
    session_options.gpu = &fake_gpu_source;
    atomic_store(&fake_gpu.since, 0);
}

static enum category category_of(char kind)
{
    return kind == 'o'   ? CAT_CPU_OP
           : kind == 'r' ? CAT_USER_ANNOTATION
           : kind == 'c' ? CAT_COLLECTIVE
                         : CAT_LIBRARY;
}

/* What preload/collectives.c says: {"Collective name": "allreduce"}. */
static void say_what_is_sent(struct open_span *span)
{
    static const char key[] = "Collective name", text[] = "allreduce";
    uint8_t data[64], *to = data;
    *to++ = ARG_TEXT;
    memcpy(to, &(uint16_t){sizeof key - 1}, 2);
    memcpy(to + 2, key, sizeof key - 1);
    to += 2 + sizeof key - 1;
    memcpy(to, &(uint32_t){sizeof text - 1}, 4);
    memcpy(to + 4, text, sizeof text - 1);
    to += 4 + sizeof text - 1;
    uint32_t n = (uint32_t)(to - data);
    uint8_t *room = span_data_room(thread_log_get(), span, n);
    ck_assert_ptr_nonnull(room);
    memcpy(room, data, n);
    span_data_done(thread_log_get(), span, DATA_ARGS, n);
}

START_TEST(the_spans_around_a_launch)
{
    static const char *const names[MOST_SPANS] = {"span_0", "span_1", "span_2", "span_3", "span_4"};
    const char *spans = chains[_i].spans;
    size_t n = strlen(spans);
    session_start(ACTION_SKIP, false);
    session_step(ACTION_ACTIVE_AND_SAVE);
    for (size_t i = 0; i < n; i++) {
        struct open_span *span = span_open(thread_log_get(), names[i], category_of(spans[i]),
                                           names[i], (uint32_t)strlen(names[i]));
        if (spans[i] == 'c')
            say_what_is_sent(span);
    }
    fake_gpu_launch("the_kernel", 5);
    for (size_t i = n; i-- > 0;)
        session_close(names[i]);
    session_step(ACTION_SKIP);
    session_end();
    struct trace t = session_trace(2);
    double wanted = -1;
    if (chains[_i].external >= 0) {
        char quoted[24];
        snprintf(quoted, sizeof quoted, "\"span_%d\"", chains[_i].external);
        wanted = trace_number(trace_event(&t, 'X', quoted), "External id");
        ck_assert(wanted > 0);
    }
    const char *call = trace_event(&t, 'X', "\"cudaLaunchKernel\"");
    ck_assert_msg(trace_number(call, "External id") == wanted, "inside %s: %s", spans, call);
    const char *kernel = trace_event(&t, 'X', "\"the_kernel\"");
    ck_assert_msg(trace_number(kernel, "External id") == wanted, "inside %s: %s", spans, kernel);
    bool sends = strstr(kernel, "\"Collective name\": \"allreduce\"") != NULL;
    ck_assert_msg(sends == chains[_i].sends, "inside %s: %s", spans, kernel);
    trace_check_lost(&t, "total", 0);
    trace_free(&t);
}
END_TEST

Suite *suite_join_callers(void)
{
    Suite *s = suite_create("join_callers");
    TCase *c = tcase_create("join_callers");
    tcase_add_checked_fixture(c, setup, session_teardown);
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, the_spans_around_a_launch, 0, (int)(sizeof chains / sizeof *chains));
    suite_add_tcase(s, c);
    return s;
}
