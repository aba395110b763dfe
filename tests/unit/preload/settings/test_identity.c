/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/settings/identity.h: a name with the characters of a pattern is taken
 * literally when cprof looks for earlier traces. */
#include "preload/settings/identity.h"

#include <check.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

Suite *suite_identity(void);

static struct config config;
static char base[] = "/tmp/cprof-identity-XXXXXX";

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(base));
}

/* identity_ranks_wrote() finds traces only for a process that has had a child. */
static void have_a_child(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

static void teardown(void)
{
    char remove[64];
    snprintf(remove, sizeof remove, "rm -r %s", base);
    ck_assert_int_eq(system(remove), 0);
}

static void make_folders(const char *path)
{
    char folder[PATH_MAX];
    for (const char *at = path; (at = strchr(at + 1, '/'));) {
        snprintf(folder, sizeof folder, "%.*s", (int)(at - path), path);
        mkdir(folder, 0755);
    }
}

/* Where a name that the user chose can stand. */
enum place { IN_FOLDER, IN_FILE_NAME, IN_RUN_NAME, IN_DIRECTORY, PLACES };

/* Starts identity.c with the name in this place. */
static void start(enum place place, const char *name)
{
    static char folder[PATH_MAX], file[PATH_MAX], directory[PATH_MAX];
    snprintf(folder, sizeof folder, "%s/%s/{run_name}", base, place == IN_FOLDER ? name : "t");
    snprintf(file, sizeof file, "%s-rank{rank}.{batch}.json", place == IN_FILE_NAME ? name : "t");
    snprintf(directory, sizeof directory, "%s/%s/", base, place == IN_DIRECTORY ? name : "d");
    make_folders(directory);
    ck_assert_int_eq(chdir(directory), 0);
    config = (struct config){.folder = place == IN_DIRECTORY ? "t" : folder,
                             .filename = file,
                             .run_name = place == IN_RUN_NAME ? name : "run"};
    identity_capture();
    identity_start(&config);
}

/* Writes a trace of such a process and returns its path. */
static const char *leave_trace(enum place place, const char *name)
{
    static char path[PATH_MAX];
    const struct train_time time = {.batch = 7};
    start(place, name);
    ck_assert(identity_trace_path(&time, path, sizeof path));
    make_folders(path);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    ck_assert_msg(fd >= 0, "%s: %m", path);
    close(fd);
    return path;
}

/* Checks that the process finds its own trace `path` and no other; NULL: none. */
static void check_found(const char *path, const char *name)
{
    char pattern[PATTERN_SIZE];
    glob_t found;
    ck_assert(identity_trace_pattern(pattern, sizeof pattern));
    ck_assert_msg(find_files(pattern, &found) == (path != NULL), "pattern %s of the name %s",
                  pattern, name);
    ck_assert_msg(identity_ranks_wrote() == (path != NULL), "%s", name);
    if (!path)
        return;
    ck_assert_uint_eq(found.gl_pathc, 1);
    ck_assert_str_eq(found.gl_pathv[0], path);
    globfree(&found);
}

START_TEST(takes_pattern_characters_in_names_literally)
{
    /* The first name of a row, read as a pattern, would match the second. */
    static const char *const names[][2] = {
        {"lr[0.1]", "lr0"},      {"layers=[2,3]", "layers=,"}, {"[!a]", "b"}, {"a*b", "axb"},
        {"what?", "whatx"},      {"back\\slash", "backslash"}, {"[", "x"},    {"end\\", "end"},
        {"\\[0]*\xff", "[0]xy"},
    };
    enum place place = (enum place)_i;
    have_a_child();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        leave_trace(place, names[i][1]);
        start(place, names[i][0]);
        check_found(NULL, names[i][0]);
        check_found(leave_trace(place, names[i][0]), names[i][0]);
    }
}
END_TEST

START_TEST(finds_rank_traces_only_with_children)
{
    leave_trace(IN_FOLDER, "name");
    ck_assert(!identity_ranks_wrote());
    have_a_child();
    ck_assert(identity_ranks_wrote());
    config.trace_children = true;
    ck_assert(!identity_ranks_wrote());
}
END_TEST

START_TEST(ignores_traces_older_than_its_start)
{
    const char *path = leave_trace(IN_FOLDER, "name");
    have_a_child();
    usleep(20000); /* the files' timestamps must differ */
    start(IN_FOLDER, "name");
    ck_assert(!identity_ranks_wrote());
    ck_assert_int_eq(utimensat(AT_FDCWD, path, NULL, 0), 0);
    ck_assert(identity_ranks_wrote());
}
END_TEST

START_TEST(finds_traces_under_a_long_escaped_path)
{
    enum { LEVEL = 200, LEVELS = 15 };
    char name[LEVEL * LEVELS];
    memset(name, '[', sizeof name);
    for (int i = 1; i < LEVELS; i++)
        name[i * LEVEL] = '/';
    name[sizeof name - 1] = '\0';
    have_a_child();
    check_found(leave_trace(IN_FOLDER, name), name);
}
END_TEST

Suite *suite_identity(void)
{
    Suite *suite = suite_create("identity");
    TCase *tcase = tcase_create("identity");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, takes_pattern_characters_in_names_literally, 0, PLACES);
    tcase_add_test(tcase, finds_rank_traces_only_with_children);
    tcase_add_test(tcase, ignores_traces_older_than_its_start);
    tcase_add_test(tcase, finds_traces_under_a_long_escaped_path);
    suite_add_tcase(suite, tcase);
    return suite;
}
