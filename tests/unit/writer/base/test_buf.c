/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/base/buf.h and utf8.h: growth, limits, formatted text, characters. */
#include "writer/base/buf.h"
#include "writer/base/utf8.h"

#include <check.h>
#include <stdint.h>
#include <string.h>

START_TEST(growing_keeps_the_contents)
{
    struct buf b = {0};
    for (int i = 0; i < 10000; i++) {
        char byte = (char)i;
        buf_put(&b, &byte, 1);
    }
    ck_assert(!b.failed);
    ck_assert_uint_eq(b.len, 10000);
    for (int i = 0; i < 10000; i++)
        ck_assert_int_eq(b.data[i], (char)i);
    buf_free(&b);
    ck_assert_ptr_null(b.data);
    ck_assert_uint_eq(b.cap, 0);
}
END_TEST

START_TEST(buf_room_does_not_change_len)
{
    struct buf b = {0};
    char *p = buf_room(&b, 100000);
    ck_assert_ptr_nonnull(p);
    memset(p, 'x', 100000);
    ck_assert_uint_eq(b.len, 0);
    ck_assert_ptr_eq(buf_room(&b, 100000), p);
    b.len += 3;
    buf_puts(&b, "yz");
    ck_assert(memcmp(b.data, "xxxyz", 5) == 0);
    buf_free(&b);
}
END_TEST

START_TEST(accepts_empty_writes)
{
    struct buf b = {0};
    buf_put(&b, NULL, 0);
    buf_puts(&b, "");
    ck_assert_uint_eq(b.len, 0);
    ck_assert(!b.failed);
    ck_assert_ptr_nonnull(buf_room(&b, 0));
    buf_free(&b);
    buf_free(&b);
}
END_TEST

START_TEST(fails_beyond_the_limit_until_reset)
{
    struct buf b = {.limit = 5000};
    ck_assert_ptr_nonnull(buf_room(&b, 5000));
    ck_assert_uint_le(b.cap, 5000);
    b.len = 4999;
    buf_puts(&b, "ab");
    ck_assert(b.failed);
    ck_assert_uint_eq(b.len, 4999);
    buf_puts(&b, "c"); /* would fit, but the text before it is missing */
    ck_assert_uint_eq(b.len, 4999);
    ck_assert_ptr_null(buf_room(&b, 0));
    buf_reset(&b);
    ck_assert(!b.failed);
    ck_assert_uint_eq(b.limit, 5000);
    buf_puts(&b, "c");
    ck_assert_uint_eq(b.len, 1);
    buf_free(&b);
}
END_TEST

START_TEST(impossible_sizes_fail_and_keep_the_text)
{
    struct buf b = {0};
    buf_puts(&b, "kept");
    ck_assert_ptr_null(buf_room(&b, SIZE_MAX));
    ck_assert(b.failed);
    ck_assert_uint_eq(b.len, 4);
    ck_assert(memcmp(b.data, "kept", 4) == 0);
    b.failed = false;
    ck_assert_ptr_null(buf_room(&b, (size_t)PTRDIFF_MAX));
    ck_assert(b.failed);
    buf_free(&b);
}
END_TEST

START_TEST(formats_text_of_any_length)
{
    struct buf b = {0};
    buf_printf(&b, "%d-%s;", 42, "x");
    ck_assert(b.len == 5 && memcmp(b.data, "42-x;", 5) == 0);
    for (size_t n = 250; n < 260; n++) {
        buf_reset(&b);
        buf_printf(&b, "%*d", (int)n, 7);
        ck_assert_uint_eq(b.len, n);
        ck_assert_int_eq(b.data[n - 1], '7');
    }
    buf_reset(&b);
    buf_printf(&b, "%70000d", 7);
    ck_assert_uint_eq(b.len, 70000);
    buf_free(&b);

    struct buf small = {.limit = 300};
    buf_printf(&small, "%400d", 7);
    ck_assert(small.failed);
    ck_assert_uint_eq(small.len, 0);
    buf_free(&small);
}
END_TEST

static const char *utf8(const void *text, unsigned width, size_t n, uint32_t size)
{
    static char out[64];
    uint32_t used = utf8_text(text, width, n, out, size);
    ck_assert_uint_le(used, size);
    out[used] = '\0';
    return out;
}

START_TEST(converts_strings_to_utf8)
{
    static const uint8_t one[] = {'a', 0xe9, 'z'};
    static const uint16_t two[] = {'a', 0x540d, 0xe9};
    static const uint32_t four[] = {'a', 0x1f600, 0x540d};
    static const uint32_t none[] = {0x110000, UINT32_MAX, 0xd800, 0xe000};
    static const uint16_t surrogate[] = {0xdcff, 'b'};
    ck_assert_str_eq(utf8(one, 1, 3, 60), "aéz");
    ck_assert_str_eq(utf8(two, 2, 3, 60), "a名é");
    ck_assert_str_eq(utf8(four, 4, 3, 60), "a😀名");
    ck_assert_str_eq(utf8(surrogate, 2, 2, 60), "\xef\xbf\xbd"
                                                "b");
    ck_assert_str_eq(utf8(none, 4, 4, 60), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xee\x80\x80");
    ck_assert_str_eq(utf8(four, 4, 3, 5), "a😀"); /* cut between characters */
    ck_assert_str_eq(utf8(four, 4, 3, 4), "a");
    ck_assert_str_eq(utf8(one, 1, 0, 60), "");
}
END_TEST

Suite *suite_buf(void)
{
    Suite *suite = suite_create("buf");
    TCase *all = tcase_create("all");
    tcase_add_test(all, growing_keeps_the_contents);
    tcase_add_test(all, buf_room_does_not_change_len);
    tcase_add_test(all, accepts_empty_writes);
    tcase_add_test(all, fails_beyond_the_limit_until_reset);
    tcase_add_test(all, impossible_sizes_fail_and_keep_the_text);
    tcase_add_test(all, formats_text_of_any_length);
    tcase_add_test(all, converts_strings_to_utf8);
    suite_add_tcase(suite, all);
    return suite;
}
