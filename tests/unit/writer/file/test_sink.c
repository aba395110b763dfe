/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/file/sink.h: the file after each flush and after each system call of a
 * flush, failing calls, other programs' files, final names. Each test has a folder of its own
 * under /tmp. */
#include "tests/support/sink_faults.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* ---- after every flush ----------------------------------------------------------------------- */

START_TEST(file_is_valid_after_every_flush)
{
    bool gzip = _i == 1;
    static const unsigned trailers[] = {10, 5000, 10, 0, 20000, 19999, 3, 3, 4096, 1};
    static const unsigned bodies[] = {0, 0, 3, 1000, 0, 0, 7, 1, 0, 0};
    struct sink *s = sink_file(part, gzip, 1);
    unsigned events = 0;
    ck_assert_int_ne(access(part, F_OK), 0); /* no file before the first flush */
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(flush(s, i % 3 == 0 ? i : -1, bodies[i], trailers[i]), 0);
        events += bodies[i];
        check_file(part, gzip, events, i - i % 3);
        ck_assert_uint_eq(s->bytes_written, contents(part)->len);
        if (!gzip) {
            ck_assert_uint_eq(s->body_size, events * EVENT_SIZE);
            ck_assert_uint_eq(s->bytes_written, HEAD_SIZE + events * EVENT_SIZE + trailer.len);
        }
    }
    ck_assert_int_eq(s->finish(s, final, false), 0);
    check_file(final, gzip, events, 9);
    ck_assert_int_eq(flush(s, 1, 1, 1), EBADF);
    s->discard(s); /* after finish() the file is not the sink's: discard() must keep it */
    ck_assert_int_eq(access(final, F_OK), 0);
    sink_free(s);
}
END_TEST

START_TEST(gzip_and_python_read_the_file)
{
    struct sink *s = sink_file(part, true, 1);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(flush(s, i, 400, i == 3 ? 9000 : 10), 0);
        char command[512];
        snprintf(command, sizeof(command), "gzip -t <'%s'", part);
        ck_assert_int_eq(system(command), 0);
        snprintf(command, sizeof(command),
                 "! command -v python3 >/dev/null || python3 -c 'import gzip, json, sys\n"
                 "assert len(json.load(gzip.open(sys.argv[1]))[\"traceEvents\"]) == %d' '%s'",
                 400 * (i + 1) + 1, part);
        ck_assert_int_eq(system(command), 0);
    }
    sink_free(s);
}
END_TEST

START_TEST(rejects_a_head_of_another_size)
{
    bool gzip = _i == 1;
    struct sink *s = sink_file(part, gzip, 1);
    ck_assert_int_eq(flush(s, 0, 10, 10), 0);
    uint64_t size = s->bytes_written - s->body_size;
    make_body(1);
    ck_assert_int_eq(
        s->flush(s, head_of(1), HEAD_SIZE - 1, body.data, body.len, trailer.data, trailer.len),
        EINVAL);
    check_file(part, gzip, 10, 0);
    ck_assert_int_eq(flush(s, 123456, 0, 10), 0);
    ck_assert_uint_eq(s->bytes_written - s->body_size, size);
    check_file(part, gzip, 10, 123456);
    sink_free(s);
}
END_TEST

static void setup_igzip(void)
{
    setup();
    sink_use_igzip();
}

/* ---- killed between and inside system calls -------------------------------------------------- */

START_TEST(kill_leaves_the_old_or_the_new_trace)
{
    struct sink *s = make(false);
    unsigned torn_allowed = 0;
    fault.after = judge;
    for (int i = 0; i < 100; i++) {
        unsigned events = i % 7 == 0 ? 0 : (unsigned)(i * 13 % 250);
        kills.before = kills.after;
        kills.after += events;
        uint64_t at = HEAD_SIZE + s->body_size;
        uint64_t old_end = s->bytes_written;
        /* Only two states may be incomplete: a partial trailer that crosses a page, and the first
         * write. */
        torn_allowed += i == 0 ? 1 : (unsigned)((old_end - 1) / 4096 - at / 4096);
        ck_assert_int_eq(flush(s, i / 25, events, (unsigned)(i * 31 % 900)), 0);
        check_file(part, false, kills.after, i / 25);
    }
    ck_assert_uint_le(kills.torn, torn_allowed);
    ck_assert_uint_gt(kills.whole, 100);
    ck_assert_uint_gt(kills.behind, 100);
    ck_assert_uint_lt(kills.torn, kills.whole / 4);
    sink_free(s);
}
END_TEST

/* ---- failing calls --------------------------------------------------------------------------- */

START_TEST(completes_short_and_interrupted_writes)
{
    bool gzip = _i == 1;
    struct sink *s = make(gzip);
    fault.most = 37;
    fault.interrupt = true;
    ck_assert_int_eq(flush(s, 1, 20, 500), 0);
    check_file(part, gzip, 20, 1);
    ck_assert_int_eq(flush(s, 2, 20, 5), 0);
    check_file(part, gzip, 40, 2);
    sink_free(s);
}
END_TEST

/* Each call of a flush fails in turn. The file must be unchanged, and the flush must then
 * succeed. */
START_TEST(failed_call_keeps_the_file)
{
    bool gzip = (_i & 1) != 0;
    static const int errors[] = {ENOSPC, EIO, EDQUOT, EFBIG, 0};
    fault.error = errors[_i / 2];
    unsigned failures = 0;
    for (int at = 1; at < 16; at++) {
        struct sink *s = make(gzip);
        unsigned events = 0;
        for (unsigned trailer_size = 1; trailer_size < 9000;
             trailer_size = trailer_size * 3 + at % 5) {
            bool made = s->bytes_written != 0;
            uint64_t size = s->bytes_written;
            fault.most = 3000;
            fault.at = at;
            fault.times = 1;
            int error = flush(s, 7, 60, trailer_size);
            bool failed = error != 0;
            fault.at = 0;
            fault.most = 0;
            failures += failed;
            if (failed) {
                ck_assert_int_eq(error, fault.error != 0 ? fault.error : error);
                if (!made && s->bytes_written == 0) {
                    ck_assert_int_ne(access(part, F_OK), 0);
                } else {
                    /* After a failed close() the file may hold the new trace, after other failures
 * the old one. */
                    struct buf *file = contents(part);
                    struct buf *text = gzip ? unpacked(file) : file;
                    ck_assert_ptr_nonnull(text);
                    ck_assert(json_valid(text->data, text->len));
                    unsigned found = count_events(text);
                    ck_assert(found == events || found == events + 60);
                    ck_assert(made ? s->bytes_written == size : s->bytes_written != 0);
                }
                ck_assert_int_eq(flush_again(s, 7), 0);
            }
            events += 60;
            check_file(part, gzip, events, 7);
        }
        s->discard(s);
        sink_free(s);
    }
    ck_assert_uint_gt(failures, 10);
}
END_TEST

START_TEST(recovers_from_a_full_disk)
{
    struct sink *s = make(false);
    ck_assert_int_eq(flush(s, 1, 10, 100), 0);
    for (int i = 0; i < 20; i++) {
        fault.at = 1 + i % 3; /* sometimes the truncation that undoes a write fails too */
        fault.times = 5;
        fault.error = ENOSPC;
        ck_assert_int_eq(flush(s, 1, 100, 100), ENOSPC);
        fault.at = 0;
        struct buf *file = contents(part);
        ck_assert_ptr_nonnull(value_end((uint8_t *)file->data, (uint8_t *)file->data + file->len));
    }
    ck_assert_int_eq(flush(s, 2, 5, 10), 0);
    check_file(part, false, 15, 2);
    sink_free(s);
}
END_TEST

START_TEST(failed_close_fails_the_flush)
{
    struct sink *s = make(false);
    ck_assert_int_eq(flush(s, 1, 10, 500), 0);
    fault.at = 3; /* tail, commit, close */
    fault.times = 1;
    fault.error = EIO;
    ck_assert_int_eq(flush(s, 1, 10, 100), EIO);
    fault.at = 1; /* the write that undoes it fails too */
    fault.times = 1;
    ck_assert_int_eq(flush(s, 1, 10, 100), EIO);
    check_file(part, false, 20, 1); /* written, but close() failed: may not be on disk */
    ck_assert_int_eq(s->finish(s, final, false), 0);
    check_file(final, false, 10, 1); /* undone: flush() reported its failure */
    sink_free(s);
}
END_TEST

START_TEST(finish_undoes_a_failed_flush)
{
    struct sink *s = make(false);
    ck_assert_int_eq(flush(s, 1, 10, 500), 0);
    fault.at = 2; /* commit, close: no data follows the old end */
    fault.times = 1;
    fault.error = EIO;
    ck_assert_int_eq(flush(s, 1, 1, 500 - EVENT_SIZE), EIO);
    ck_assert_int_eq(s->finish(s, final, false), 0);
    check_file(final, false, 10, 1);
    sink_free(s);
}
END_TEST

START_TEST(file_is_valid_when_truncation_fails)
{
    bool gzip = _i == 1;
    struct sink *s = make(gzip);
    ck_assert_int_eq(flush(s, 1, 10, 90000), 0);
    uint64_t size = contents(part)->len;
    fault.at = 2; /* commit, truncate */
    fault.times = 1;
    fault.error = EIO;
    ck_assert_int_eq(flush(s, 1, 0, 10), 0);
    ck_assert_uint_eq(contents(part)->len, size);
    check_file(part, gzip, 10, 1);
    ck_assert_int_eq(flush(s, 1, 1, 10), 0);
    ck_assert_uint_eq(contents(part)->len, s->bytes_written);
    check_file(part, gzip, 11, 1);
    sink_free(s);
}
END_TEST

START_TEST(recovers_from_the_file_size_limit)
{
    bool gzip = _i == 1;
    struct rlimit old;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_IGN);
    struct sink *s = sink_file(part, gzip, 1);
    ck_assert_int_eq(flush(s, 1, 100, 100), 0);
    struct rlimit small = {s->bytes_written + 100, old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    int error = flush(s, 1, 20000, 100);
    int again = flush(s, 1, 20000, 100);
    setrlimit(RLIMIT_FSIZE, &old);
    ck_assert_int_eq(error, EFBIG);
    ck_assert_int_eq(again, EFBIG);
    check_file(part, gzip, 100, 1);
    ck_assert_int_eq(flush(s, 1, 20000, 100), 0);
    check_file(part, gzip, 20100, 1);
    sink_free(s);
}
END_TEST

/* ---- names and other programs' files --------------------------------------------------------- */

START_TEST(creates_missing_folders)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/a//b/c/t.part", folder);
    struct sink *s = sink_file(path, false, 1);
    ck_assert_int_eq(flush(s, 1, 1, 1), 0);
    check_file(path, false, 1, 1);
    snprintf(final, sizeof(final), "%s/x/y/t.json", folder);
    ck_assert_int_eq(s->finish(s, final, false), 0);
    check_file(final, false, 1, 1);
    sink_free(s);
}
END_TEST

START_TEST(fails_when_the_folder_is_a_file)
{
    char path[256];
    close(open(part, O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
    snprintf(path, sizeof(path), "%s/t.part", part);
    struct sink *s = sink_file(path, false, 1);
    ck_assert_int_eq(flush(s, 1, 1, 1), ENOTDIR);
    ck_assert_uint_eq(s->bytes_written, 0);
    sink_free(s);
    snprintf(path, sizeof(path), "%s/a/b.part", part);
    s = sink_file(path, false, 1);
    ck_assert_int_eq(flush(s, 1, 1, 1), ENOTDIR);
    sink_free(s);
}
END_TEST

START_TEST(refuses_links_and_existing_files)
{
    char target[128];
    snprintf(target, sizeof(target), "%s/target", folder);
    ck_assert_int_eq(symlink(target, part), 0);
    struct sink *s = sink_file(part, false, 1);
    ck_assert_int_eq(flush(s, 1, 1, 1), ELOOP);
    ck_assert_int_ne(access(target, F_OK), 0);
    ck_assert_int_eq(s->finish(s, final, false), ENOENT);
    unlink(part);
    close(open(part, O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
    ck_assert_int_eq(flush(s, 1, 1, 1), EEXIST);
    ck_assert_uint_eq(contents(part)->len, 0);
    unlink(part);
    ck_assert_int_eq(flush(s, 1, 1, 1), 0);
    /* Another process replaces the part file by a link to it. */
    ck_assert_int_eq(rename(part, target), 0);
    ck_assert_int_eq(symlink(target, part), 0);
    ck_assert_int_eq(flush(s, 1, 1, 1), ELOOP);
    sink_free(s);
}
END_TEST

START_TEST(does_not_change_other_programs_files)
{
    struct sink *s = sink_file(part, false, 1);
    ck_assert_int_eq(flush(s, 1, 1, 1), 0);
    char kept[256];
    snprintf(kept, sizeof(kept), "%s.kept", part); /* keeps the inode number in use */
    ck_assert_int_eq(rename(part, kept), 0);
    ck_assert_int_eq(flush(s, 1, 1, 1), ENOENT);
    int fd = open(part, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    ck_assert_int_eq((int)write(fd, "checkpoint", 10), 10);
    ck_assert_int_eq(ftruncate(fd, 1000000), 0);
    close(fd);
    ck_assert_int_eq(flush(s, 1, 1, 1), ESTALE);
    ck_assert_int_eq(s->finish(s, final, true), ESTALE);
    s->discard(s);
    ck_assert_uint_eq(contents(part)->len, 1000000);
    ck_assert_int_eq(memcmp(contents(part)->data, "checkpoint", 11), 0);
    sink_free(s);

    unlink(part);
    s = sink_file(part, false, 1);
    ck_assert_int_eq(flush(s, 1, 100, 1), 0);
    ck_assert_int_eq(truncate(part, 5), 0); /* the sink's file, but truncated by another program */
    ck_assert_int_eq(flush(s, 1, 1, 1), ESTALE);
    ck_assert_uint_eq(contents(part)->len, 5);
    unlink(part);
    ck_assert_int_eq(mkfifo(part, 0666), 0); /* open() must not wait for a reader */
    ck_assert_int_ne(flush(s, 1, 1, 1), 0);
    sink_free(s);
}
END_TEST

START_TEST(keeps_no_descriptor_open)
{
    int before = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(before);
    struct sink *s = sink_file(part, true, 1);
    ck_assert_int_eq(flush(s, 1, 10, 10), 0);
    /* longer than the sink left it: the flush truncates the excess */
    ck_assert_int_eq(truncate(part, 100000), 0);
    ck_assert_int_eq(flush(s, 1, 10, 10), 0);
    check_file(part, true, 20, 1);
    unlink(part);
    ck_assert_int_eq(flush(s, 1, 10, 10), ENOENT);
    int after = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(after);
    ck_assert_int_eq(before, after);
    sink_free(s);
}
END_TEST

/* ext4 gives a new file the inode number of one that was just removed. */
START_TEST(knows_its_file_from_one_with_the_same_inode)
{
    const struct timespec pause = {.tv_nsec = 20000000}; /* files are born at ticks of 1 to 10 ms */
    struct sink *s = sink_file(part, false, 1);
    ck_assert_int_eq(flush(s, 0, 10, 10), 0);
    ck_assert_int_eq(_i ? s->drop(s, 3 * EVENT_SIZE) : 0, 0);
    ck_assert_int_eq(s->finish(s, final, false), 0);
    ck_assert(file_identity_has_name(&s->file, final));
    nanosleep(&pause, NULL);
    ck_assert_int_eq(unlink(final), 0);
    fclose(fopen(final, "w"));
    ck_assert(!file_identity_has_name(&s->file, final));
    sink_free(s);
}
END_TEST

/* _i: 0 link() works, 1 link() fails, 2 link() and the exclusive rename fail */
START_TEST(finish_refuses_an_existing_name)
{
    link_error = _i >= 1 ? (const int[]){0, EPERM, ENOSYS}[_i] : 0;
    rename_new_error = _i == 2 ? EINVAL : 0;
    struct sink *s = make(false);
    ck_assert_int_eq(s->finish(s, final, false), ENOENT); /* nothing written yet */
    ck_assert_int_eq(flush(s, 1, 10, 10), 0);
    int fd = open(final, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    ck_assert_int_eq((int)write(fd, "theirs", 6), 6);
    close(fd);
    ck_assert_int_eq(s->finish(s, final, false), EEXIST);
    ck_assert_uint_eq(contents(final)->len, 6);
    check_file(part, false, 10, 1);
    ck_assert_int_eq(flush(s, 1, 10, 10), 0); /* the part file is still the sink's */
    if (_i == 0) {
        ck_assert_int_eq(s->finish(s, final, true), 0);
    } else {
        strcat(final, "2");
        ck_assert_int_eq(s->finish(s, final, false), 0);
    }
    ck_assert_int_ne(access(part, F_OK), 0);
    check_file(final, false, 20, 1);
    ck_assert_int_eq(s->finish(s, final, false), EBADF);
    sink_free(s);
}
END_TEST

/* _i: 0 FIFO, 1 folder, 2 link, 3 link to nothing */
START_TEST(finish_replaces_only_regular_files)
{
    struct stat before, after;
    struct sink *s = make(false);
    ck_assert_int_eq(flush(s, 1, 10, 10), 0);
    ck_assert_int_eq(_i == 0   ? mkfifo(final, 0666)
                     : _i == 1 ? mkdir(final, 0777)
                               : symlink(_i == 2 ? part : "nothing", final),
                     0);
    ck_assert_int_eq(lstat(final, &before), 0);
    ck_assert_int_eq(s->finish(s, final, true), EEXIST);
    ck_assert_int_eq(lstat(final, &after), 0);
    ck_assert_uint_eq(before.st_ino, after.st_ino);
    check_file(part, false, 10, 1);
    ck_assert_int_eq(remove(final), 0);
    ck_assert_int_eq(s->finish(s, final, true), 0);
    check_file(final, false, 10, 1);
    sink_free(s);
}
END_TEST

START_TEST(reports_link_errors_without_a_fallback)
{
    static const int errors[] = {EACCES, EROFS, EXDEV, EIO};
    struct sink *s = make(false);
    ck_assert_int_eq(flush(s, 1, 10, 10), 0);
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        link_error = errors[i];
        ck_assert_int_eq(s->finish(s, final, false), errors[i]);
        link_error = EMLINK;
        rename_new_error = errors[i];
        ck_assert_int_eq(s->finish(s, final, false), errors[i]);
    }
    check_file(part, false, 10, 1);
    /* link() made the link but reported an error, as NFS can. */
    link_error = EEXIST;
    ck_assert_int_eq(link(part, final), 0);
    ck_assert_int_eq(s->finish(s, final, false), 0);
    ck_assert_int_ne(access(part, F_OK), 0);
    check_file(final, false, 10, 1);
    sink_free(s);
}
END_TEST

START_TEST(discard_removes_the_part_file)
{
    struct sink *s = sink_file(part, true, 1);
    s->discard(s);
    sink_free(s);
    s = sink_file(part, true, 1);
    ck_assert_int_eq(flush(s, 1, 10, 10), 0);
    s->discard(s);
    ck_assert_int_ne(access(part, F_OK), 0);
    ck_assert_int_eq(flush(s, 1, 10, 10), EBADF);
    sink_free(s);
    sink_free(NULL);
}
END_TEST

START_TEST(disk_low_checks_the_nearest_existing_folder)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/not/there/t.part", folder);
    ck_assert_int_eq(sink_disk_low(path), sink_disk_low(folder));
    ck_assert_int_eq(sink_disk_low("not/there"), sink_disk_low("."));
    ck_assert_int_eq(sink_disk_low("/not/there"), sink_disk_low("/"));
    ck_assert_int_eq(sink_disk_low("/notthere"), sink_disk_low("/"));
    ck_assert(!sink_disk_low("/proc/self")); /* has no blocks: not a disk that can fill up */
    sink_disk_low("");
}
END_TEST

Suite *suite_sink(void)
{
    Suite *suite = suite_create("sink");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_set_timeout(all, 60);
    tcase_add_loop_test(all, file_is_valid_after_every_flush, 0, 2);
    tcase_add_test(all, gzip_and_python_read_the_file);
    tcase_add_loop_test(all, rejects_a_head_of_another_size, 0, 2);
    tcase_add_test(all, kill_leaves_the_old_or_the_new_trace);
    tcase_add_loop_test(all, completes_short_and_interrupted_writes, 0, 2);
    tcase_add_loop_test(all, failed_call_keeps_the_file, 0, 10);
    tcase_add_test(all, recovers_from_a_full_disk);
    tcase_add_test(all, failed_close_fails_the_flush);
    tcase_add_test(all, finish_undoes_a_failed_flush);
    tcase_add_loop_test(all, file_is_valid_when_truncation_fails, 0, 2);
    tcase_add_loop_test(all, recovers_from_the_file_size_limit, 0, 2);
    tcase_add_test(all, creates_missing_folders);
    tcase_add_test(all, fails_when_the_folder_is_a_file);
    tcase_add_test(all, refuses_links_and_existing_files);
    tcase_add_test(all, does_not_change_other_programs_files);
    tcase_add_test(all, keeps_no_descriptor_open);
    tcase_add_loop_test(all, knows_its_file_from_one_with_the_same_inode, 0, 2);
    tcase_add_loop_test(all, finish_refuses_an_existing_name, 0, 3);
    tcase_add_loop_test(all, finish_replaces_only_regular_files, 0, 4);
    tcase_add_test(all, reports_link_errors_without_a_fallback);
    tcase_add_test(all, discard_removes_the_part_file);
    tcase_add_test(all, disk_low_checks_the_nearest_existing_folder);
    suite_add_tcase(suite, all);
    TCase *igzip = tcase_create("igzip");
    tcase_add_checked_fixture(igzip, setup_igzip, teardown);
    tcase_set_timeout(igzip, 60);
    tcase_add_loop_test(igzip, file_is_valid_after_every_flush, 1, 2);
    tcase_add_test(igzip, gzip_and_python_read_the_file);
    tcase_add_loop_test(igzip, rejects_a_head_of_another_size, 1, 2);
    suite_add_tcase(suite, igzip);
    return suite;
}
