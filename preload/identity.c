/* SPDX-License-Identifier: Apache-2.0 */
/* Rank, run name and paths of this process, and whether an ancestor of it is traced; threads as in identity.h. */
#define _GNU_SOURCE
#include "preload/identity.h"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "preload/names.h"
#include "preload/rank.h"
#include "writer/writer.h"

#define ANCESTORS 32 /* looked at */

static const struct config *config;
static char run_name[NAMES_RUN_SIZE];
static char working_directory[PATH_MAX];
static pthread_mutex_t rank_lock =
    PTHREAD_MUTEX_INITIALIZER; /* application thread writes, cprof thread reads; neither on a hot path */
static struct rank_info rank;
static struct {
    int64_t rank, size; /* size 0: none seen */
    const char *source;
} communicator; /* the largest one, under rank_lock */
static bool pid_in_name;
static time_t started; /* this process woke; ranks that it starts write later */

void identity_start(const struct config *given)
{
    config = given;
    started = time(NULL);
    char script[NAMES_SCRIPT_SIZE];
    names_script(script, sizeof script);
    rank_read(&rank, config_env, true);
    names_run(run_name, sizeof run_name, config->run_name, config_env, &rank, script,
              names_start_time());
    if (!getcwd(working_directory, sizeof working_directory))
        working_directory[0] = '\0';
    pid_in_name = config->trace_children && identity_below_traced();
}

void identity_refresh(void)
{
    struct rank_info now;
    rank_read(&now, config_env, false);
    pthread_mutex_lock(&rank_lock);
    rank = now;
    pthread_mutex_unlock(&rank_lock);
}

static struct rank_info rank_now(void)
{
    pthread_mutex_lock(&rank_lock);
    struct rank_info now = rank;
    bool worlds = communicator.size > 1 && !now.known &&
                  (!now.world_known || now.world_size == communicator.size);
    if (worlds) {
        now.rank = communicator.rank;
        now.world_size = communicator.size;
        now.source = communicator.source;
        now.known = now.world_known = true;
    }
    pthread_mutex_unlock(&rank_lock);
    return now;
}

void identity_communicator(int64_t of, int64_t size, const char *source)
{
    if (of < 0 || of >= size)
        return;
    pthread_mutex_lock(&rank_lock);
    if (size > communicator.size) {
        communicator.rank = of;
        communicator.size = size;
        communicator.source = source;
    }
    pthread_mutex_unlock(&rank_lock);
}

void identity_fill(struct trace_identity *out)
{
    struct rank_info now = rank_now();
    *out = (struct trace_identity){.rank = now.rank,
                                   .local_rank = now.local_rank,
                                   .world_size = now.world_size,
                                   .local_world_size = now.local_world_size,
                                   .node_rank = now.node_rank,
                                   .source = now.source};
}

/* Reads up to size - 1 bytes of a small file; false when there is none. */
static bool read_small(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, size - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static long parent_of(long pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    if (!read_small(path, text, sizeof text))
        return 0;
    const char *after_name = strrchr(text, ')');
    long parent = 0;
    if (!after_name || sscanf(after_name + 1, " %*c %ld", &parent) != 1)
        return 0;
    return parent;
}

static bool has_cprof_thread(long pid)
{
    char path[64], name[32];
    snprintf(path, sizeof path, "/proc/%ld/task", pid);
    DIR *tasks = opendir(path);
    if (!tasks)
        return false;
    bool found = false;
    struct dirent *entry;
    while (!found && (entry = readdir(tasks))) {
        char file[sizeof path + 300];
        snprintf(file, sizeof file, "%s/%s/comm", path, entry->d_name);
        found = entry->d_name[0] != '.' && read_small(file, name, sizeof name) &&
                strcmp(name, "cprof\n") == 0;
    }
    closedir(tasks);
    return found;
}

bool identity_below_traced(void)
{
    long pid = getppid();
    for (int i = 0; i < ANCESTORS && pid > 1; i++, pid = parent_of(pid))
        if (has_cprof_thread(pid))
            return true;
    return false;
}

/* Puts `path` below the working directory of wake-up (programs change theirs). */
static bool absolute(const char *path, char *out, size_t size)
{
    int n = path[0] == '/' ? snprintf(out, size, "%s", path)
                           : snprintf(out, size, "%s/%s", working_directory, path);
    return n > 0 && (size_t)n < size;
}

static bool expand(struct names_values *values, char *out, size_t size)
{
    char path[PATH_MAX];
    struct path_error error;
    if (path_trace(config->folder, config->filename, values->vars, NAMES_VARIABLES,
                   config->use_gzip, path, sizeof path, NULL, &error) == PATH_OK &&
        absolute(path, out, size))
        return true;
    char why[512];
    path_describe(&error, names_variables, NAMES_VARIABLES, why, sizeof why);
    log_error("%s/%s: no path for the trace: %s", config->folder, config->filename, why);
    return false;
}

/* The pid goes before the ending, so that readers still know the file by it. */
static bool add_pid(char *path, size_t size)
{
    char *ending = path + (path_ending(path) - path);
    char rest[32], pid[24];
    snprintf(rest, sizeof rest, "%s", ending);
    int n = snprintf(pid, sizeof pid, "-pid%ld", (long)getpid());
    if ((size_t)(ending - path) + (size_t)n + strlen(rest) >= size)
        return false;
    memcpy(ending, pid, (size_t)n);
    strcpy(ending + n, rest);
    return true;
}

bool identity_trace_path(const struct train_time *time, char *path, unsigned long size)
{
    struct names_values values;
    struct rank_info now = rank_now();
    names_fill(&values, run_name, &now, time);
    return expand(&values, path, size) && (!pid_in_name || add_pid(path, size));
}

bool identity_trace_pattern(char *pattern, unsigned long size)
{
    struct names_values values;
    struct rank_info now = rank_now();
    names_fill(&values, run_name, &now, NULL);
    for (int i = NAMES_RUN_VARIABLES; i < NAMES_VARIABLES; i++)
        values.vars[i].value = "*";
    return expand(&values, pattern, size);
}

bool identity_ranks_wrote(void)
{
    struct names_values values;
    struct rank_info now = rank_now();
    char pattern[PATH_MAX];
    if (now.known)
        return false; /* a rank itself, in a launch of several without marks */
    names_fill(&values, run_name, &now, NULL);
    for (int i = 1; i < NAMES_VARIABLES; i++) /* all but the run's name */
        values.vars[i].value = "*";
    glob_t found;
    if (!expand(&values, pattern, sizeof pattern) || glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
        return false;
    bool wrote = false;
    for (size_t i = 0; i < found.gl_pathc && !wrote; i++) {
        struct stat st;
        wrote = stat(found.gl_pathv[i], &st) == 0 && st.st_mtim.tv_sec >= started;
    }
    globfree(&found);
    return wrote;
}

bool identity_gzip(void)
{
    return config->use_gzip || path_is_gzip(config->filename);
}
