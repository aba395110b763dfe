/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of a sink's drop(): it removes the older part of the body, or changes nothing if a call
 * fails or the process is killed. */
#include "tests/support/sink_faults.h"

#define OLDER 60u
#define NEWER 40u

/* A sink whose file has OLDER and NEWER events. *older receives the bytes of the older ones. */
static struct sink *make_two_parts(bool gzip, uint64_t *older)
{
    struct sink *s = make(gzip);
    ck_assert_int_eq(flush(s, 7, OLDER, 4000), 0);
    *older = s->body_size;
    ck_assert_int_eq(flush(s, -1, NEWER, 5000), 0);
    return s;
}

/* The name of the copy that replaces the file. */
static const char *copy_name(void)
{
    static char name[sizeof part + 4];
    snprintf(name, sizeof(name), "%s.new", part);
    return name;
}

/* Each call of a drop fails in turn. The file must be unchanged, no copy may be left, and the
 * drop must then succeed. */
START_TEST(failed_drop_keeps_the_file)
{
    bool gzip = (_i & 1) != 0;
    static const int errors[] = {ENOSPC, EIO, EDQUOT, EFBIG, 0};
    unsigned failures = 0;
    for (int at = 1; at < 16; at++) {
        uint64_t older;
        struct sink *s = make_two_parts(gzip, &older);
        uint64_t size = s->bytes_written;
        uint64_t body_size = s->body_size;
        fault.error = errors[_i / 2];
        fault.most = 3000;
        fault.at = at;
        fault.times = 1;
        int error = s->drop(s, older);
        fault.at = 0;
        fault.most = 0;
        ck_assert_int_ne(access(copy_name(), F_OK), 0);
        if (error != 0) {
            failures++;
            check_file(part, gzip, OLDER + NEWER, 7);
            ck_assert_uint_eq(s->bytes_written, size);
            ck_assert_uint_eq(s->body_size, body_size);
            ck_assert_int_eq(s->drop(s, older), 0);
        }
        check_file(part, gzip, NEWER, 7);
        ck_assert_uint_eq(s->body_size, body_size - older);
        ck_assert_uint_eq(s->bytes_written, contents(part)->len);
        ck_assert_int_eq(flush(s, 8, 5, 10), 0);
        check_file(part, gzip, NEWER + 5, 8);
        s->discard(s);
        ck_assert_int_ne(access(part, F_OK), 0);
        sink_free(s);
    }
    ck_assert_uint_ge(failures, 4); /* head, body, trailer, rename */
}
END_TEST

START_TEST(kill_during_drop_leaves_a_valid_file)
{
    uint64_t older;
    struct sink *s = make_two_parts(false, &older);
    kills.before = OLDER + NEWER;
    kills.after = NEWER;
    fault.after = judge;
    ck_assert_int_eq(s->drop(s, older), 0);
    fault.after = NULL;
    ck_assert_uint_eq(kills.torn + kills.behind, 0);
    ck_assert_uint_ge(kills.whole, 4); /* after three writes and the rename */
    sink_free(s);
}
END_TEST

/* In a container the next run may have the pid of the killed run, and so the same file names. */
START_TEST(replaces_a_copy_left_by_a_killed_drop)
{
    uint64_t older;
    struct sink *s = make_two_parts(false, &older);
    close(open(copy_name(), O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
    ck_assert_int_eq(s->drop(s, older), 0);
    ck_assert_int_ne(access(copy_name(), F_OK), 0);
    check_file(part, false, NEWER, 7);
    sink_free(s);
}
END_TEST

/* _i: 0 FIFO, 1 folder, 2 link, 3 link to nothing */
START_TEST(refuses_other_files_with_the_copys_name)
{
    uint64_t older;
    struct stat st;
    struct sink *s = make_two_parts(false, &older);
    ck_assert_int_eq(_i == 0   ? mkfifo(copy_name(), 0666)
                     : _i == 1 ? mkdir(copy_name(), 0777)
                               : symlink(_i == 2 ? part : final, copy_name()),
                     0);
    ck_assert_int_eq(s->drop(s, older), EEXIST);
    ck_assert_int_eq(lstat(copy_name(), &st), 0);
    ck_assert(!S_ISREG(st.st_mode));
    ck_assert_int_ne(access(final, F_OK), 0);
    check_file(part, false, OLDER + NEWER, 7);
    ck_assert_int_eq(flush(s, -1, 1, 10), 0);
    sink_free(s);
}
END_TEST

START_TEST(rejects_a_drop_beyond_the_body)
{
    uint64_t older;
    struct sink *s = make(false);
    ck_assert_int_eq(s->drop(s, 0), EBADF); /* nothing written yet */
    sink_free(s);
    s = make_two_parts(false, &older);
    ck_assert_int_eq(s->drop(s, s->body_size + 1), EBADF);
    ck_assert_int_eq(s->drop(s, s->body_size), 0);
    check_file(part, false, 0, 7);
    ck_assert_int_eq(rename(part, final), 0);
    ck_assert_int_eq(s->drop(s, 0), ENOENT);
    close(open(part, O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
    ck_assert_int_eq(s->drop(s, 0), ESTALE);
    ck_assert_uint_eq(contents(part)->len, 0);
    ck_assert_int_ne(access(copy_name(), F_OK), 0);
    sink_free(s);
}
END_TEST

Suite *suite_sink_drop(void)
{
    Suite *suite = suite_create("sink_drop");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_set_timeout(all, 60);
    tcase_add_loop_test(all, failed_drop_keeps_the_file, 0, 10);
    tcase_add_test(all, kill_during_drop_leaves_a_valid_file);
    tcase_add_test(all, replaces_a_copy_left_by_a_killed_drop);
    tcase_add_loop_test(all, refuses_other_files_with_the_copys_name, 0, 4);
    tcase_add_test(all, rejects_a_drop_beyond_the_body);
    suite_add_tcase(suite, all);
    return suite;
}
