/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/delivery/post_save.h, child_env.h and saved.h, and of preload/steps/trigger.h:
 * commands, environments, requests, copies of traces, and lines of saved_traces.jsonl. */
#include "preload/delivery/post_save.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zlib.h>

#include "preload/delivery/child_env.h"
#include "preload/delivery/saved.h"
#include "preload/settings/demands.h"
#include "preload/steps/trigger.h"
#include "tests/support/comma.h"

Suite *suite_post_save(void);

START_TEST(splits_commands_like_a_shell)
{
    static const struct {
        const char *text, *words; /* words separated by | */
    } rows[] = {
        {"ls", "ls"},
        {"  cp -v\t\"a b\" 'c \"d' ", "cp|-v|a b|c \"d"},
        {"a\\ b \"\\\"\\x\" '\\'", "a b|\"\\x|\\"},
        {"x '' y\"\"z", "x||yz"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[64], joined[64] = "";
        const char *words[8];
        strcpy(text, rows[i].text);
        ck_assert(post_save_split(text, words, 8));
        for (int w = 0; words[w]; w++) {
            strcat(joined, w ? "|" : "");
            strcat(joined, words[w]);
        }
        ck_assert_str_eq(joined, rows[i].words);
    }
    const char *words[3];
    ck_assert(!post_save_split((char[]){"a 'b"}, words, 3));
    ck_assert(!post_save_split((char[]){"a b c"}, words, 3));
    ck_assert(!post_save_split((char[]){"  "}, words, 3));
}
END_TEST

START_TEST(removes_only_cprof_from_ld_preload)
{
    static const struct {
        const char *value, *left;
    } rows[] = {
        {"/x/libcprof.so", ""},
        {"libcprof.so", ""},
        {"/a/libfoo.so:/x/libcprof.so:/b/libbar.so", "/a/libfoo.so:/b/libbar.so"},
        {"/x/libcprof.so /a/libfoo.so ", "/a/libfoo.so"},
        {"/x/libcprof.so.1:/x/notlibcprof.so", "/x/libcprof.so.1:/x/notlibcprof.so"},
        {"::", ""},
    };
    char out[128];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_uint_eq(child_env_preload(rows[i].value, "/x/libcprof.so", out),
                          strlen(rows[i].left));
        ck_assert_str_eq(out, rows[i].left);
    }
}
END_TEST

START_TEST(copies_the_environment_without_cprof)
{
    clearenv();
    setenv("A", "1", 1);
    setenv("LD_PRELOAD", "/x/libcprof.so", 1);
    setenv("CUDA_INJECTION64_PATH", "/x/libcprof.so", 1);
    setenv("NVTX_INJECTION64_PATH", "/other/tool.so", 1);
    child_env_take("/x/libcprof.so");
    setenv("A", "2", 1);
    ck_assert_str_eq(child_env_get("A"), "1");
    ck_assert_ptr_null(child_env_get("LD_PRELOAD"));
    ck_assert_ptr_null(child_env_get("CUDA_INJECTION64_PATH"));
    ck_assert_str_eq(child_env_get("NVTX_INJECTION64_PATH"), "/other/tool.so");
    const char *more[] = {"A=3", "B=4"};
    const char **all = child_env_with(more, 2);
    ck_assert_str_eq(all[0], "NVTX_INJECTION64_PATH=/other/tool.so");
    ck_assert_str_eq(all[1], "A=3");
    ck_assert_str_eq(all[2], "B=4");
    ck_assert_ptr_null(all[3]);
    free(all);
    char path[256];
    ck_assert(child_env_search("sh", path, sizeof path));
    ck_assert(!child_env_search("no-such-program-here", path, sizeof path));
    ck_assert(!child_env_search("/etc/passwd", path, sizeof path));
}
END_TEST

START_TEST(parses_trigger_requests)
{
    struct trigger_request r;
    ck_assert(trigger_parse("", &r) && r.steps == 0 && r.ms == 0);
    ck_assert(trigger_parse(" \n", &r) && r.steps == 0 && r.ms == 0);
    ck_assert(trigger_parse(" steps=3\n", &r) && r.steps == 3 && r.ms == 0);
    ck_assert(trigger_parse("seconds=2", &r) && r.steps == 0 && r.ms == 2000);
    ck_assert(trigger_parse("seconds=.25", &r) && r.ms == 250);
    ck_assert(trigger_parse("seconds=1.0625", &r) && r.ms == 1062);
    ck_assert(trigger_parse("steps=3 from=70\n", &r) && r.steps == 3 && r.from == 70);
    ck_assert(trigger_parse(" from=70  steps=3", &r) && r.steps == 3 && r.from == 70);
    ck_assert(trigger_parse("from=4611686018427387903", &r) && r.steps == 0 &&
              r.from == DEMANDS_STEP);
    static const char *const bad[] = {
        "steps=0",           "steps=-1",        "steps=",
        "steps=1x",          "seconds=0",       "seconds=1.",
        "seconds=1e3",       "seconds=86401",   "3",
        "steps=1 seconds=1", "from=0",          "from=x",
        "from=5 seconds=1",  "steps=1 steps=2", "from=4611686018427387904"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!trigger_parse(bad[i], &r), "%s", bad[i]);
}
END_TEST

START_TEST(parses_names_of_allowed_signals)
{
    ck_assert_int_eq(trigger_signal_number("USR2"), SIGUSR2);
    ck_assert_int_eq(trigger_signal_number("sigusr1"), SIGUSR1);
    ck_assert_int_eq(trigger_signal_number("HUP"), SIGHUP);
    ck_assert_int_eq(trigger_signal_number("RTMIN+2"), SIGRTMIN + 2);
    ck_assert_int_eq(trigger_signal_number("KILL"), 0);
    ck_assert_int_eq(trigger_signal_number("TERM"), 0);
    ck_assert_int_eq(trigger_signal_number("RTMIN+99"), 0);
    ck_assert_int_eq(trigger_signal_number("12"), 0);
}
END_TEST

static void put_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static const char *read_packed(const char *path, char *text, unsigned size, bool packed)
{
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fgetc(file) == 0x1f, packed);
    fclose(file);
    gzFile gz = gzopen(path, "r");
    int n = gzread(gz, text, size - 1);
    gzclose(gz);
    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    return text;
}

/* Copies the file that has the name `from` now. */
static int copy_trace(const char *from, const char *to)
{
    struct file_identity file = {0};
    file_identity_look(from, &file, NULL);
    return writer_copy_trace(from, &file, to);
}

START_TEST(copies_and_compresses_by_file_name)
{
    char text[64], folder[] = "/tmp/cprof-copy-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
    put_file("a.json", "{\"a\": 1}");
    put_file("old.json", "old");
    ck_assert_int_eq(copy_trace("a.json", "b.json"), 0);
    ck_assert_str_eq(read_packed("b.json", text, sizeof text, false), "{\"a\": 1}");
    ck_assert_int_eq(copy_trace("a.json", "c.json.gz"), 0);
    ck_assert_str_eq(read_packed("c.json.gz", text, sizeof text, true), "{\"a\": 1}");
    /* like cprof's traces: consecutive gzip members */
    ck_assert_int_eq(system("cat c.json.gz c.json.gz >two.json.gz"), 0);
    ck_assert_int_eq(copy_trace("two.json.gz", "old.json"), 0);
    ck_assert_str_eq(read_packed("old.json", text, sizeof text, false), "{\"a\": 1}{\"a\": 1}");
    ck_assert_int_eq(copy_trace("none.json", "d.json"), ENOENT);
    struct file_identity other;
    ck_assert(file_identity_look("old.json", &other, NULL));
    ck_assert_int_eq(writer_copy_trace("a.json", &other, "d.json"), ESTALE);
    ck_assert_int_eq(copy_trace("a.json", "no/folder.json"), ENOENT);
    ck_assert_int_eq(system("head -c 15 c.json.gz >cut.json.gz"), 0);
    ck_assert_int_ne(copy_trace("cut.json.gz", "e.json"), 0);
    ck_assert_int_eq(symlink("a.json", "link.json"), 0);
    ck_assert_int_eq(copy_trace("link.json", "f.json"), ELOOP);
    ck_assert_int_eq(system("test $(ls *.part e.json f.json 2>/dev/null | wc -l) = 0"), 0);
    ck_assert_int_eq(system("rm -r \"$PWD\""), 0);
}
END_TEST

static bool is_link(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

START_TEST(copies_follow_symbolic_links)
{
    char text[64], absolute[64], folder[] = "/tmp/cprof-copy-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
    put_file("a.json", "{\"a\": 1}");
    ck_assert_int_eq(mkdir("sub", 0777), 0);
    put_file("sub/old.json", "old");
    snprintf(absolute, sizeof absolute, "%s/sub/link.json", folder);
    ck_assert_int_eq(symlink("old.json", "sub/link.json"), 0);
    ck_assert_int_eq(symlink(absolute, "to.json"), 0);
    ck_assert_int_eq(copy_trace("a.json", "to.json"), 0);
    ck_assert(is_link("to.json") && is_link("sub/link.json"));
    ck_assert_str_eq(read_packed("sub/old.json", text, sizeof text, false), "{\"a\": 1}");
    ck_assert_int_eq(symlink("sub/../sub/new.json", "new.json.gz"), 0);
    /* the given name decides about compression, not the name that the link leads to */
    ck_assert_int_eq(copy_trace("a.json", "new.json.gz"), 0);
    ck_assert_str_eq(read_packed("sub/new.json", text, sizeof text, true), "{\"a\": 1}");
    ck_assert(is_link("new.json.gz"));
    ck_assert_int_eq(symlink("none/new.json", "nowhere.json"), 0);
    ck_assert_int_eq(copy_trace("a.json", "nowhere.json"), ENOENT);
    ck_assert_int_eq(symlink("loop.json", "loop.json"), 0);
    ck_assert_int_eq(copy_trace("a.json", "loop.json"), ELOOP);
    ck_assert_int_eq(symlink("sub", "folder.json"), 0);
    ck_assert_int_eq(copy_trace("a.json", "folder.json"), EISDIR);
    ck_assert_int_eq(system("test $(ls *.part */*.part 2>/dev/null | wc -l) = 0"), 0);
    ck_assert_int_eq(system("rm -r \"$PWD\""), 0);
}
END_TEST

/* cprof follows the rule of fs.protected_symlinks=1. Only root can create another user's link. */
START_TEST(refuses_foreign_links_in_a_shared_folder)
{
    char folder[] = "/tmp/cprof-copy-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
    put_file("a.json", "{\"a\": 1}");
    ck_assert_int_eq(mkdir("shared", 0777), 0);
    ck_assert_int_eq(chmod("shared", 01777), 0);
    ck_assert_int_eq(symlink("../to.json", "shared/link.json"), 0);
    if (lchown("shared/link.json", 65534, 65534) == 0) {
        ck_assert_int_eq(copy_trace("a.json", "shared/link.json"), EACCES);
        ck_assert_int_ne(access("to.json", F_OK), 0);
        ck_assert_int_eq(lchown("shared/link.json", geteuid(), getegid()), 0);
    }
    ck_assert_int_eq(copy_trace("a.json", "shared/link.json"), 0);
    ck_assert_int_eq(access("to.json", F_OK), 0);
    ck_assert_int_eq(system("rm -r \"$PWD\""), 0);
}
END_TEST

static int listen_at(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    strcpy(at.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof at) == 0 ? fd : -1;
}

/* _i: 1 for a gzip file */
START_TEST(copies_into_a_fifo_but_no_socket)
{
    const char *name = _i ? "fifo.json.gz" : "fifo.json";
    char text[64], folder[] = "/tmp/cprof-copy-XXXXXX", got[4096];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
    put_file("a.json", "{\"a\": 1}");
    ck_assert_int_eq(mkfifo(name, 0666), 0);
    ck_assert_int_eq(copy_trace("a.json", name), EPIPE);
    int in = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ck_assert_int_eq(copy_trace("a.json", name), 0);
    ssize_t n = read(in, got, sizeof got);
    ck_assert_int_gt(n, 0);
    close(in);
    FILE *file = fopen("got", "w");
    ck_assert_uint_eq(fwrite(got, 1, (size_t)n, file), (size_t)n);
    fclose(file);
    ck_assert_str_eq(read_packed("got", text, sizeof text, _i), "{\"a\": 1}");
    int listening = listen_at("socket");
    ck_assert_int_ge(listening, 0);
    ck_assert_int_eq(copy_trace("a.json", "socket"), ESOCKTNOSUPPORT);
    close(listening);
    ck_assert_int_eq(mkdir("folder", 0777), 0);
    ck_assert_int_eq(copy_trace("a.json", "folder"), EISDIR);
    struct stat st;
    ck_assert(lstat(name, &st) == 0 && S_ISFIFO(st.st_mode));
    ck_assert_int_eq(system("test $(ls *.part 2>/dev/null | wc -l) = 0"), 0);
    ck_assert_int_eq(system("rm -r \"$PWD\""), 0);
}
END_TEST

/* As for /dev/stdout: cprof writes into a pipe, and never replaces an open file. */
START_TEST(copies_into_an_open_pipe_but_no_file)
{
    char name[64], got[4096], folder[] = "/tmp/cprof-copy-XXXXXX";
    int ends[2];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
    put_file("a.json", "{\"a\": 1}");
    put_file("b.json", "b");
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    snprintf(name, sizeof name, "/proc/self/fd/%d", ends[1]);
    ck_assert_int_eq(symlink(name, "out"), 0);
    ck_assert_int_eq(copy_trace("a.json", "out"), 0);
    ck_assert_int_eq(read(ends[0], got, sizeof got), 8);
    ck_assert_int_eq(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
    int fd = open("b.json", O_WRONLY | O_CLOEXEC);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ck_assert_int_eq(copy_trace("a.json", name), ETXTBSY);
    close(fd);
    ck_assert_int_eq(system("test \"$(cat b.json)\" = b && rm -r \"$PWD\""), 0);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

static _Atomic bool churn_over;

/* The first of these variables moves the array `environ`, as does each that exceeds the largest
 * number so far. The others are added and removed in place. */
static void *churn_environment(void *unused)
{
    static char big[4096];
    memset(big, 'x', sizeof big - 1);
    for (int i = 0; i < 100; i++) {
        char name[32];
        snprintf(name, sizeof name, "COMES%d", i);
        setenv(name, big, 1);
        setenv("CHANGES", big, 1);
        setenv("CHANGES", "", 1);
        unsetenv("CHANGES");
    }
    atomic_store(&churn_over, true);
    return unused;
}

/* How many of STAYS0 to STAYS63 the last copy of the environment lacks. */
static unsigned missing(void)
{
    unsigned n = 0;
    for (int i = 0; i < 64; i++) {
        char name[32];
        snprintf(name, sizeof name, "STAYS%d", i);
        const char *value = child_env_get(name);
        n += !value || strcmp(value, "1") != 0;
    }
    return n;
}

#define FIRST_HALF "{\"half"

/* Completes a line of another rank. A large write becomes visible page by page, so a reader can see
 * a part of a line. */
static void *write_the_rest(void *list)
{
    usleep(20000);
    ck_assert_int_gt(fputs("\": 1}\n", list), 0);
    ck_assert_int_eq(fflush(list), 0);
    return NULL;
}

/* _i: 1 if the other rank never completes its line */
START_TEST(adds_a_line_after_an_unfinished_line)
{
    char folder[] = "/tmp/cprof-list-XXXXXX", list[64], trace[64], line[4096], *text = NULL;
    size_t size = 0;
    bool cut = _i;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(list, sizeof list, "%s/saved_traces.jsonl", folder);
    snprintf(trace, sizeof trace, "%s/a.json", folder);
    put_file(trace, "{}");
    FILE *other = fopen(list, "a");
    ck_assert_ptr_nonnull(other);
    fputs(FIRST_HALF, other);
    fflush(other);
    pthread_t writing;
    if (!cut)
        ck_assert_int_eq(pthread_create(&writing, NULL, write_the_rest, other), 0);
    struct saved_file file;
    struct saved_trace about = {.path = trace, .first_step = 3};
    ck_assert(file_identity_look(trace, &about.file, NULL));
    ck_assert(saved_look(&file, &about));
    saved_add_line(&about, &file, NULL, -1);
    if (!cut)
        pthread_join(writing, NULL);
    fclose(other);
    FILE *in = fopen(list, "r");
    ck_assert_int_gt(getline(&text, &size, in), 0);
    ck_assert_str_eq(text, cut ? FIRST_HALF "\n" : FIRST_HALF "\": 1}\n");
    ck_assert_ptr_nonnull(fgets(line, sizeof line, in));
    ck_assert_msg(strncmp(line, "{\"saved_ns\": ", 13) == 0, "%s", line);
    ck_assert_ptr_nonnull(strstr(line, "\"first_step\": 3,"));
    ck_assert_int_eq(line[strlen(line) - 1], '\n');
    ck_assert_ptr_null(fgets(line, sizeof line, in));
    fclose(in);
    free(text);
    free(file.path);
    unlink(trace);
    unlink(list);
    rmdir(folder);
}
END_TEST

/* The list is valid JSON in any locale. Seconds are written as in file names. */
START_TEST(writes_decimal_points_in_a_comma_locale)
{
    char folder[] = "/tmp/cprof-comma-XXXXXX", trace[64], path[64], remove[64], line[4096] = "";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    bool comma = comma_locale(folder);
    snprintf(trace, sizeof trace, "%s/a.json", folder);
    snprintf(path, sizeof path, "%s/saved_traces.jsonl", folder);
    snprintf(remove, sizeof remove, "rm -r %s", folder);
    put_file(trace, "{}");
    struct saved_file file;
    struct saved_trace about = {.path = trace,
                                .time = {.epoch = 1,
                                         .batch = 7,
                                         .total_wct_ns = INT64_C(3600178256999),
                                         .epoch_wct_ns = 1500000000,
                                         .batch_wct_ns = 26000}};
    ck_assert(file_identity_look(trace, &about.file, NULL));
    ck_assert(saved_look(&file, &about));
    saved_add_line(&about, &file, NULL, -1);
    free(file.path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_gt(read(fd, line, sizeof line - 1), 0);
    close(fd);
    ck_assert_int_eq(system(remove), 0);
    ck_assert_msg(strstr(line, ", \"timestamp\": {\"epoch\": 1, \"batch\": 7, ") &&
                      strstr(line, ", \"total_wct\": 3600.178256, \"epoch_wct\": 1.5, "
                                   "\"batch_wct\": 2.6e-05}, \"first_step\": 0, "),
                  "in a locale with%s a decimal comma: %s", comma ? "" : "out", line);
}
END_TEST

START_TEST(copies_the_environment_while_it_changes)
{
    for (int round = 0; round < 20; round++) {
        pthread_t thread;
        unsigned lacking = 0;
        clearenv();
        for (int i = 0; i < 64; i++) {
            char name[32];
            snprintf(name, sizeof name, "STAYS%d", i);
            setenv(name, "1", 1);
        }
        atomic_store(&churn_over, false);
        ck_assert_int_eq(pthread_create(&thread, NULL, churn_environment, NULL), 0);
        do { /* no ck_assert here: libcheck itself calls getenv() */
            child_env_take("/x/libcprof.so");
            lacking += missing();
        } while (!atomic_load(&churn_over));
        pthread_join(thread, NULL);
        ck_assert_uint_eq(lacking, 0);
    }
    child_env_take("/x/libcprof.so");
    ck_assert_uint_eq(strlen(child_env_get("COMES99")), 4095);
    ck_assert_ptr_null(child_env_get("CHANGES"));
}
END_TEST

static char *moving[] = {NULL, (char *)"B=2", NULL};

/* Ends a setenv() that was interrupted after it moved the array and before it stored the first
 * entry. */
static void *finish_moving(void *entry)
{
    usleep(3000);
    __atomic_store_n(&moving[0], (char *)entry, __ATOMIC_RELEASE);
    return NULL;
}

START_TEST(waits_for_an_interrupted_setenv)
{
    char **before = environ;
    moving[0] = (char *)8;
    environ = moving;
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, finish_moving, (void *)"A=1");
    child_env_take("/x/libcprof.so");
    if (rc == 0)
        pthread_join(thread, NULL);
    environ = before;
    ck_assert_int_eq(rc, 0);
    ck_assert_str_eq(child_env_get("A"), "1");
    ck_assert_str_eq(child_env_get("B"), "2");
}
END_TEST

START_TEST(skips_invalid_environment_entries)
{
    static char huge[200 << 10], a[] = "A=1", b[] = "B=2", no_sign[] = "no sign", empty[] = "";
    char *entries[] = {a, no_sign, huge, empty, (char *)8, b, NULL}, **before = environ;
    memset(huge, 'H', sizeof huge - 1);
    huge[1] = '=';
    environ = entries;
    errno = 77;
    child_env_take("/x/libcprof.so");
    int left = errno;
    environ = before; /* libcheck itself calls getenv() */
    ck_assert_int_eq(left, 77);
    ck_assert_str_eq(child_env_get("A"), "1");
    ck_assert_str_eq(child_env_get("B"), "2");
    ck_assert_ptr_null(child_env_get("H"));
    environ = NULL;
    child_env_take("/x/libcprof.so");
    environ = before;
    ck_assert_ptr_null(child_env_get("A"));
}
END_TEST

Suite *suite_post_save(void)
{
    Suite *suite = suite_create("post_save");
    TCase *tcase = tcase_create("after");
    tcase_add_test(tcase, splits_commands_like_a_shell);
    tcase_add_test(tcase, removes_only_cprof_from_ld_preload);
    tcase_add_test(tcase, copies_the_environment_without_cprof);
    tcase_add_test(tcase, copies_the_environment_while_it_changes);
    tcase_add_test(tcase, waits_for_an_interrupted_setenv);
    tcase_add_test(tcase, skips_invalid_environment_entries);
    tcase_add_test(tcase, parses_trigger_requests);
    tcase_add_test(tcase, parses_names_of_allowed_signals);
    tcase_add_test(tcase, copies_and_compresses_by_file_name);
    tcase_add_test(tcase, copies_follow_symbolic_links);
    tcase_add_test(tcase, refuses_foreign_links_in_a_shared_folder);
    tcase_add_loop_test(tcase, copies_into_a_fifo_but_no_socket, 0, 2);
    tcase_add_test(tcase, copies_into_an_open_pipe_but_no_file);
    tcase_add_loop_test(tcase, adds_a_line_after_an_unfinished_line, 0, 2);
    tcase_add_test(tcase, writes_decimal_points_in_a_comma_locale);
    suite_add_tcase(suite, tcase);
    return suite;
}
