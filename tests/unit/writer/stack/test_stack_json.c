/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/stack/stack_table.h, writer/stack/stack_json.h and writer/stack/symbols.h: each
 * stack is stored once, from any number of threads. Also how events, files and names show it. */
#include "writer/stack/stack_json.h"

#include <check.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "writer/stack/dso_table.h"
#include "writer/stack/stack_table.h"
#include "writer/stack/symbols.h"

static struct buf out;

static const char *take_text(void)
{
    static char text[1 << 16];
    ck_assert(!out.failed && out.len < sizeof text);
    memcpy(text, out.data ? out.data : "", out.len);
    text[out.len] = '\0';
    buf_reset(&out);
    return text;
}

static uint32_t python(uint32_t caller, const char *file, const char *name, int32_t line)
{
    return stack_table_python(caller, file, (uint32_t)strlen(file), name, (uint32_t)strlen(name),
                              line);
}

/* main -> f -> g */
static uint32_t three_frames(void)
{
    uint32_t main_frame = python(0, "/home/u/train.py", "<module>", 61);
    return python(python(main_frame, "/home/u/train.py", "main", 54), "/lib/p/nn/conv.py",
                  "forward", 7);
}

static const char *args(uint32_t stack)
{
    bool first = true;
    stacks_args(&out, stack, &first);
    return take_text();
}

static const char *frames(const struct stacks_used *used)
{
    stacks_frames(&out, used);
    return take_text();
}

/* ---- the table ---- */

START_TEST(stores_each_stack_once)
{
    ck_assert(stack_table_start(256));
    ck_assert(!stack_table_has(0) && !stack_table_has(1));
    uint32_t stack = three_frames();
    ck_assert_uint_ne(stack, 0);
    ck_assert_uint_eq(three_frames(), stack);
    ck_assert(stack_table_has(stack) && !stack_table_has(stack + 1));
    uint32_t nodes = stack_table_nodes();
    uint32_t caller = stack_table_caller(stack);
    ck_assert_uint_ne(python(caller, "/lib/p/nn/conv.py", "forward", 8), stack); /* another line */
    ck_assert_uint_ne(python(caller, "/lib/p/nn/conv.pyf", "orward", 7), stack);
    ck_assert_uint_ne(python(0, "/lib/p/nn/conv.py", "forward", 7), stack); /* other callers */
    ck_assert_uint_eq(stack_table_nodes(), nodes + 3);
    ck_assert_uint_eq(stack_table_find(77), 0);
    ck_assert_uint_eq(stack_table_add(77, stack), stack);
    ck_assert_uint_eq(stack_table_find(77), stack);
    ck_assert_uint_eq(stack_table_add(77, caller), stack); /* the first stack is kept */
    ck_assert_uint_eq(stack_table_find(77 | UINT64_C(1) << 63), 0);
}
END_TEST

START_TEST(full_table_refuses_new_stacks)
{
    enum { MOST = 256 };
    ck_assert(stack_table_start(MOST));
    unsigned added = 0;
    for (uint64_t i = 1; i <= 3 * MOST; i++) {
        uint32_t node = stack_table_native(0, i, 0);
        added += node && stack_table_add(i * 0x9e3779b97f4a7c15u, node);
    }
    ck_assert_uint_eq(added, MOST);
    ck_assert(stack_table_full());
    for (uint64_t i = 1; i <= MOST; i++) /* earlier stacks are kept */
        ck_assert_uint_ne(stack_table_find(i * 0x9e3779b97f4a7c15u), 0);
    ck_assert_uint_eq(stack_table_find((MOST + 1) * 0x9e3779b97f4a7c15u), 0);
    char long_name[4000];
    memset(long_name, 'x', sizeof long_name);
    uint32_t node = 1;
    for (int i = 0; node; i++) { /* the room for texts ends, too */
        ck_assert_int_lt(i, 100);
        node = stack_table_python(0, "f", 1, long_name, sizeof long_name - (uint32_t)i, 1);
    }
}
END_TEST

/* Otherwise each event would read its frames again, in vain. */
START_TEST(table_without_room_for_frames_is_full)
{
    ck_assert(stack_table_start(256));
    uint32_t node = 1;
    for (uint64_t i = 1; node && i < 100000; i++) /* one very deep stack */
        node = stack_table_native(node, i, 0);
    ck_assert_uint_eq(node, 0);
    ck_assert(stack_table_full());
}
END_TEST

enum { THREADS = 8, STACKS = 4000 };
static uint32_t seen[THREADS][STACKS];

static void *add_many(void *arg)
{
    uint32_t *mine = arg;
    for (uint32_t i = 0; i < STACKS; i++) {
        uint64_t print = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        uint32_t node = stack_table_find(print);
        if (!node)
            node = stack_table_add(
                print, python(python(0, "a", "main", (int32_t)i / 10), "b", "f", (int32_t)i));
        mine[i] = node;
    }
    return NULL;
}

START_TEST(threads_get_the_same_stacks)
{
    pthread_t threads[THREADS];
    ck_assert(stack_table_start(4 * STACKS));
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, add_many, seen[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < STACKS; i++) {
        ck_assert_uint_ne(seen[0][i], 0);
        for (int t = 1; t < THREADS; t++)
            ck_assert_uint_eq(seen[t][i], seen[0][i]);
        ck_assert_int_eq(stack_table_frame(stack_table_frame_of(seen[0][i]))->line, (int32_t)i);
    }
}
END_TEST

/* ---- output ---- */

START_TEST(writes_stacks_as_kineto_does)
{
    ck_assert(stack_table_start(256));
    stacks_trim("/lib/p/", 7);
    stacks_trim("/lib", 4); /* the longest prefix is removed */
    stacks_trim("relative", 8);
    ck_assert_str_eq(args(three_frames()),
                     "\"Call stack\": \"nn/conv.py(7): forward;"
                     "/home/u/train.py(54): main;/home/u/train.py(61): <module>;\"");
    ck_assert_str_eq(args(0), "");
    bool first = false;
    stacks_args(&out, python(0, "a\"b\\\x01\xff", "f\n", 0), &first);
    ck_assert_str_eq(take_text(), ", \"Call stack\": \"a\\\"b\\\\\\u0001\xef\xbf\xbd(0): f\\n;\"");
    stacks_end(&out, 0);
    ck_assert_str_eq(take_text(), "}},\n");
    stacks_end(&out, 12);
    ck_assert_str_eq(take_text(), "}, \"sf\": 12},\n");
    ck_assert_str_eq(args(python(0, "", "[cut]", 0)), "\"Call stack\": \"[cut];\"");
}
END_TEST

/* Readers split the text at semicolons. */
START_TEST(semicolon_in_a_frame_does_not_split_it)
{
    ck_assert(stack_table_start(256));
    uint32_t stack = python(python(0, "<a;b>", "main", 1), "c.py", ";f;;g;", 2);
    ck_assert_str_eq(args(stack), "\"Call stack\": \"c.py(2): :f::g:;<a:b>(1): main;\"");
    struct stacks_used used = {0};
    stacks_use(&used, stack);
    /* readers do not split names here */
    ck_assert_ptr_nonnull(strstr(frames(&used), "\"c.py(2): ;f;;g;\""));
    stacks_used_free(&used);
}
END_TEST

static void name_pc(uint64_t pc, uint32_t object, struct buf *b)
{
    if (pc != 3)
        buf_printf(b, "native%d%s", (int)pc, object ? "'" : "");
}

static void update_nothing(void)
{
}

static uint32_t wanted[16], n_wanted, n_answered;

static void want(uint32_t frame, uint64_t pc, uint32_t object)
{
    (void)pc, (void)object;
    ck_assert_uint_lt(n_wanted, 16);
    wanted[n_wanted++] = frame;
}

static void ask(bool stopping)
{
    (void)stopping;
}

/* Answers for every other frame that was asked for. */
static uint32_t answer(const char **file, uint32_t *len, int32_t *line)
{
    uint32_t n = n_answered;
    n_answered += n_answered < n_wanted ? 2 : 0;
    *file = "/src/x.cpp and more";
    *len = 10;
    *line = (int32_t)n + 1;
    return n < n_wanted ? wanted[n] : 0;
}

static const struct stacks_resolver resolver = {name_pc, update_nothing, want, ask, answer};

START_TEST(writes_native_frames)
{
    ck_assert(stack_table_start(256));
    stacks_resolve_with(&resolver);
    uint32_t py = python(0, "/a.py", "main", 1);
    uint32_t both = stack_table_native(stack_table_native(py, 3, 0), 4, 0);
    uint32_t alone = stack_table_native(0, 5, 0);
    ck_assert_str_eq(args(both), "\"Call stack\": \"native4;0x3;/a.py(1): main;\"");
    stacks_in_args(STACKS_PYTHON);
    ck_assert_str_eq(args(both), "\"Call stack\": \"/a.py(1): main;\"");
    ck_assert_str_eq(args(alone), "");
    stacks_in_args(STACKS_NONE);
    ck_assert_str_eq(args(both), "");
}
END_TEST

START_TEST(native_frames_get_source_lines)
{
    ck_assert(stack_table_start(256));
    stacks_resolve_with(&resolver);
    uint32_t both = stack_table_native(stack_table_native(python(0, "/a.py", "f", 1), 6, 0), 7, 0);
    ck_assert_str_eq(args(both), "\"Call stack\": \"native7;native6;/a.py(1): f;\"");
    stacks_look(false);
    ck_assert_uint_eq(n_wanted, 2); /* without the Python frame */
    ck_assert_str_eq(args(both), "\"Call stack\": \"native7;/src/x.cpp(1): native6;/a.py(1): f;\"");
    stacks_look(false);
    ck_assert_uint_eq(n_wanted, 2); /* each frame is asked for once */
    stacks_trim("/src", 4);
    uint32_t more = stack_table_native(both, 8, 0);
    stacks_look(true);
    ck_assert_str_eq(
        args(more),
        "\"Call stack\": \"x.cpp(3): native8;native7;/src/x.cpp(1): native6;/a.py(1): f;\"");
}
END_TEST

START_TEST(other_library_at_an_address_is_another_frame)
{
    ck_assert(stack_table_start(256));
    stacks_resolve_with(&resolver);
    uint32_t first = stack_table_native(0, 9, 0), second = stack_table_native(0, 9, 3);
    ck_assert_uint_ne(first, second);
    ck_assert_uint_eq(stack_table_native(0, 9, 3), second);
    ck_assert_str_eq(args(first), "\"Call stack\": \"native9;\"");
    ck_assert_str_eq(args(second), "\"Call stack\": \"native9';\"");
}
END_TEST

START_TEST(file_lists_only_the_frames_it_uses)
{
    struct stacks_used used = {0};
    ck_assert(stack_table_start(4096));
    ck_assert_str_eq(frames(&used), "");
    python(0, "/other.py", "unused", 1);
    uint32_t stack = three_frames();
    uint32_t caller = stack_table_caller(stack), first = stack_table_caller(caller);
    stacks_use(&used, 0);
    ck_assert_uint_eq(used.bytes, 0);
    stacks_use(&used, stack);
    size_t bytes = used.bytes;
    stacks_use(&used, caller); /* used already */
    ck_assert_uint_eq(used.bytes, bytes);
    char expected[512];
    snprintf(expected, sizeof expected,
             "\"stackFrames\": {\n"
             "\"%u\": {\"category\": \"python\", \"name\": \"/home/u/train.py(61): <module>\"},\n"
             "\"%u\": {\"category\": \"python\", \"name\": \"/home/u/train.py(54): main\", "
             "\"parent\": %u},\n"
             "\"%u\": {\"category\": \"python\", \"name\": \"/lib/p/nn/conv.py(7): forward\", "
             "\"parent\": %u}\n},\n",
             first, caller, first, stack, caller);
    const char *text = frames(&used);
    ck_assert_str_eq(text, expected);
    ck_assert(strlen(text) <= used.bytes && used.bytes <= 2 * strlen(text));
    for (uint32_t i = 0; i < 3000; i++) /* the bit set must grow */
        stacks_use(&used, python(0, "/many.py", "f", (int32_t)i));
    ck_assert(used.words * 64 > stack + 3000);
    stacks_used_free(&used);
}
END_TEST

/* ---- names of addresses ---- */

static __attribute__((noinline)) uint64_t here(void)
{
    return (uint64_t)(uintptr_t)__builtin_return_address(0);
}

static __attribute__((noinline)) uint64_t in_a_static_function(void)
{
    uint64_t pc = here();
    __asm__ volatile("" : "+r"(pc));
    return pc;
}

START_TEST(names_addresses)
{
    dso_table_look();
    symbols_name(in_a_static_function(), 0, &out);
    ck_assert_str_eq(take_text(), "in_a_static_function (unit)");
    symbols_name((uint64_t)(uintptr_t)&lsearch + 1, 0, &out);
    const char *name = take_text();
    ck_assert_msg(strstr(name, "lsearch (libc.so.6)") == name, "%s", name);
    symbols_name(16, 0, &out);
    ck_assert_str_eq(take_text(), ""); /* unmapped */
}
END_TEST

START_TEST(shortens_cpp_names)
{
    static const struct {
        const char *name, *shown;
    } rows[] = {
        {"at::native::add(at::Tensor const&, c10::Scalar const&)", "at::native::add"},
        {"at::Tensor c10::Dispatcher::call<at::Tensor, long>(c10::Op<at::Tensor (long)> const&) "
         "const",
         "c10::Dispatcher::call"},
        {"void f<int, (anonymous namespace)::x<1> >(int)", "f"},
        {"torch::(anonymous namespace)::conv(long)", "torch::(anonymous namespace)::conv"},
        {"x::operator()(int) const", "x::operator()"},
        {"std::ostream& std::operator<< <char>(std::ostream&, char)", "std::operator<<"},
        {"y::operator->() const", "y::operator->"},
        {"cpu_alloc::{lambda(unsigned long)#1}::operator()(unsigned long) const",
         "cpu_alloc::{lambda#1}::operator()"},
        {"a::b(int)::{lambda()#2}::c() const::d()", "a::b::{lambda#2}::c::d"},
        {"x::operator bool() const", "x::operator bool"},
        {"main", "main"},
        {"f(int) [clone .isra.0]", "f"},
        {"", ""},
        {"<<<((", ""},
        {"a<b->c>(x)", "a"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char shown[200];
        size_t n = symbols_shorten(rows[i].name, strlen(rows[i].name), shown, sizeof shown);
        ck_assert_msg(n == strlen(rows[i].shown) && memcmp(shown, rows[i].shown, n) == 0,
                      "%s: %.*s", rows[i].name, (int)n, shown);
    }
    char few[4];
    ck_assert_uint_eq(symbols_shorten("abcdefgh", 8, few, sizeof few), 4);
    ck_assert_uint_eq(symbols_shorten("operator()", 10, few, sizeof few), 4);
}
END_TEST

Suite *suite_stack_json(void)
{
    Suite *suite = suite_create("stack_json");
    TCase *all = tcase_create("all");
    tcase_add_test(all, stores_each_stack_once);
    tcase_add_test(all, full_table_refuses_new_stacks);
    tcase_add_test(all, table_without_room_for_frames_is_full);
    tcase_add_test(all, threads_get_the_same_stacks);
    tcase_add_test(all, writes_stacks_as_kineto_does);
    tcase_add_test(all, semicolon_in_a_frame_does_not_split_it);
    tcase_add_test(all, writes_native_frames);
    tcase_add_test(all, native_frames_get_source_lines);
    tcase_add_test(all, other_library_at_an_address_is_another_frame);
    tcase_add_test(all, file_lists_only_the_frames_it_uses);
    tcase_add_test(all, names_addresses);
    tcase_add_test(all, shortens_cpp_names);
    suite_add_tcase(suite, all);
    return suite;
}
