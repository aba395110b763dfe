/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of single gzip members: stored, by zlib and by igzip. test_sink.c tests whole files. */
#include "tests/support/gunzip.h"
#include "writer/file/sink_file.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

Suite *suite_sink_gzip(void);

/* Appends n bytes of typical trace text, or of noise that deflate can only store. */
static void make_text(struct buf *b, size_t n, bool noisy)
{
    uint64_t noise = 88172645463325252u; /* xorshift64 */
    for (size_t at = 0; at < n; at++) {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        char byte = noisy ? (char)noise : "{\"ph\": \"X\"}, "[at % 13];
        buf_put(b, &byte, 1);
    }
}

START_TEST(stores_members_of_any_size)
{
    static const size_t sizes[] = {0, 1, 65534, 65535, 65536, 200000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        struct buf plain = {0};
        struct buf packed = {0};
        memset(buf_room(&plain, sizes[i] + 1), 'x', sizes[i] + 1);
        plain.len = sizes[i];
        ck_assert_int_eq(gzip_stored(&packed, plain.data, sizes[i]), 0);
        struct buf *back = unpacked(&packed);
        ck_assert_ptr_nonnull(back);
        ck_assert_uint_eq(back->len, sizes[i]);
        ck_assert(memcmp(plain.data, back->data ? back->data : "", sizes[i]) == 0);
        buf_free(&plain);
        buf_free(&packed);
    }
}
END_TEST

START_TEST(igzip_members_unpack_to_their_input)
{
    static const size_t sizes[] = {0, 1, 70000, 3000000};
    struct buf by_zlib = {0};
    struct gzip *zlib = gzip_new(1);
    ck_assert_int_eq(gzip_member(zlib, &by_zlib, "", 0), 0);
    gzip_free(zlib);
    sink_use_igzip();
    struct igzip *g = igzip_new();
    if (!g) {
        fprintf(stderr, "gzip: igzip skipped: built without isa-l.h (Debian: libisal-dev), or no "
                        "libisal.so.2\n");
        return;
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (int noisy = 0; noisy < 2; noisy++) {
            struct buf plain = {0};
            struct buf packed = {0};
            make_text(&plain, sizes[i], noisy);
            struct buf full = {.limit = 1}; /* out of memory at once; the next member is complete */
            ck_assert_int_eq(igzip_member(g, &full, plain.data, plain.len), ENOMEM);
            ck_assert_int_eq(igzip_member(g, &packed, plain.data, plain.len), 0);
            ck_assert(noisy || packed.len < 100 + sizes[i] / 20);
            ck_assert(memcmp(packed.data, by_zlib.data, 10) ==
                      0); /* `cprof recover` searches for this header */
            struct buf *back = unpacked(&packed);
            ck_assert_ptr_nonnull(back);
            ck_assert_uint_eq(back->len, sizes[i]);
            ck_assert(sizes[i] == 0 || memcmp(plain.data, back->data, sizes[i]) == 0);
            buf_free(&plain);
            buf_free(&packed);
        }
    igzip_free(g);
    buf_free(&by_zlib);
}
END_TEST

START_TEST(members_are_independent)
{
    struct gzip *g = gzip_new(99);
    struct buf packed = {0};
    struct buf body = {0};
    make_text(&body, 50000, false);
    ck_assert_int_eq(gzip_member(g, &packed, body.data, body.len), 0);
    size_t first = packed.len;
    struct buf full = {.limit = 1000}; /* out of memory inside a member */
    ck_assert_int_eq(gzip_member(g, &full, body.data, body.len), ENOMEM);
    ck_assert_int_eq(gzip_stored(&full, body.data, body.len), ENOMEM);
    ck_assert_int_eq(gzip_member(g, &packed, body.data, body.len), 0);
    ck_assert_uint_eq(packed.len, 2 * first);
    ck_assert_int_eq(gzip_member(g, &packed, "", 0), 0);
    struct buf *back = unpacked(&packed);
    ck_assert_ptr_nonnull(back);
    ck_assert_uint_eq(back->len, 2 * body.len);
    ck_assert(memcmp(back->data + body.len, body.data, body.len) == 0);
    gzip_free(g);
    gzip_free(NULL);
    buf_free(&body);
    buf_free(&packed);
    buf_free(&full);
}
END_TEST

Suite *suite_sink_gzip(void)
{
    Suite *suite = suite_create("sink_gzip");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, stores_members_of_any_size);
    tcase_add_test(all, igzip_members_unpack_to_their_input);
    tcase_add_test(all, members_are_independent);
    suite_add_tcase(suite, all);
    return suite;
}
