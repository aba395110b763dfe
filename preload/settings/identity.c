/* SPDX-License-Identifier: Apache-2.0 */
/* Rank, run name and trace paths of this process, and whether an ancestor is traced. */
#define _GNU_SOURCE
#include "preload/settings/identity.h"

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "preload/settings/run_names.h"
#include "preload/settings/rank.h"

#define ANCESTORS     32     /* to look at, at most */
#define BLOCKED_LEAST 48     /* of 64 signals: more are blocked in a cprof thread */
#define ANY           "\xff" /* placeholder value that matches any text; no byte of UTF-8 */

static const struct config *config;
static char run_name[NAMES_RUN_SIZE];
static char working_directory[PATH_MAX];
/* application threads write, the cprof thread reads; neither on a hot path */
static pthread_mutex_t rank_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rank_info rank;
static struct {
    int64_t rank, size; /* size 0: no communicator yet */
    const char *source;
} communicator; /* the largest one; rank_lock guards it */
/* a later one replaces an earlier one */
static const char backends[][5] = {"mpi", "ucc", "gloo", "nccl"};
static atomic_int backend = -1; /* index into backends; -1: none yet */
static bool pid_in_name;
/* when this process woke; files of ranks that it starts are newer */
static struct timespec started;

void identity_capture(void)
{
    if (!getcwd(working_directory, sizeof working_directory))
        working_directory[0] = '\0';
}

void identity_start(const struct config *given)
{
    config = given;
    clock_gettime(CLOCK_REALTIME_COARSE, &started); /* the clock of file times */
    char script[NAMES_SCRIPT_SIZE];
    names_script(script, sizeof script);
    rank_read(&rank, config_env, true);
    names_run(run_name, sizeof run_name, config->run_name, config_env, &rank, script,
              names_start_time());
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
        now.local_known = now.one_host;
        now.local_rank = now.one_host ? now.rank : 0;
        now.local_world_size = now.one_host ? now.world_size : 1;
    }
    pthread_mutex_unlock(&rank_lock);
    return now;
}

void identity_communicator(int64_t of, int64_t size, const char *source)
{
    if (of < 0 || of >= size)
        return;
    struct held_back before = hold_back();
    pthread_mutex_lock(&rank_lock);
    if (size > communicator.size) {
        communicator.rank = of;
        communicator.size = size;
        communicator.source = source;
    }
    pthread_mutex_unlock(&rank_lock);
    hold_back_end(&before);
}

void identity_backend(const char *name)
{
    int now = atomic_load_explicit(&backend, memory_order_relaxed);
    for (int i = (int)(sizeof backends / sizeof *backends) - 1; i > now; i--)
        if (strcmp(backends[i], name) == 0)
            while (now < i && !atomic_compare_exchange_weak_explicit(
                                  &backend, &now, i, memory_order_relaxed, memory_order_relaxed))
                ;
}

void identity_fill(struct trace_identity *out)
{
    struct rank_info now = rank_now();
    int of = atomic_load_explicit(&backend, memory_order_relaxed);
    *out = (struct trace_identity){.rank = now.rank,
                                   .local_rank = now.local_known ? now.local_rank : -1,
                                   .world_size = now.world_size,
                                   .local_world_size = now.local_world_size,
                                   .node_rank = now.node_rank,
                                   .backend = of >= 0 ? backends[of] : NULL,
                                   .source = now.source};
}

static long parent_of(long pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    if (!read_file(path, text, sizeof text))
        return 0;
    const char *after_name = strrchr(text, ')');
    long parent = 0;
    if (!after_name || sscanf(after_name + 1, " %*c %ld", &parent) != 1)
        return 0;
    return parent;
}

/* Whether a thread blocks all signals, as the cprof thread does (the C library keeps some
 * unblocked). `text` is static because the waking thread may have a small stack. */
static bool takes_no_signals(const char *task)
{
    static char text[4096];
    char path[400];
    unsigned long long blocked = 0;
    snprintf(path, sizeof path, "%s/status", task);
    const char *line = read_file(path, text, sizeof text) ? strstr(text, "\nSigBlk:") : NULL;
    return line && sscanf(line, "\nSigBlk: %llx", &blocked) == 1 &&
           __builtin_popcountll(blocked) > BLOCKED_LEAST;
}

/* A program named cprof has threads of that name too. Its first thread does not count, nor one that
 * takes signals. */
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
        char task[sizeof path + 300], file[sizeof task + 8];
        snprintf(task, sizeof task, "%s/%s", path, entry->d_name);
        snprintf(file, sizeof file, "%s/comm", task);
        found = entry->d_name[0] != '.' && strtol(entry->d_name, NULL, 10) != pid &&
                read_file(file, name, sizeof name) && strcmp(name, "cprof\n") == 0 &&
                takes_no_signals(task);
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

/* Makes `path` absolute, below the directory in which the process began. Hydra and others change
 * directory later. */
static bool absolute_folder(const char *path, char *out, size_t size)
{
    int n = path[0] == '/' ? snprintf(out, size, "%s", path)
                           : snprintf(out, size, "%s/%s", working_directory, path);
    return n > 0 && (size_t)n < size;
}

static bool for_tensorboard(void)
{
    return config->tensorboard_dir && *config->tensorboard_dir;
}

/* Reports each setting once: several windows fail for the same reason. */
static bool no_path(const char *folder, const char *file, const struct path_error *error)
{
    static const char *_Atomic said;
    char why[512];
    if (atomic_exchange(&said, folder) == folder)
        return false;
    path_describe(error, names_variables, NAMES_VARIABLES, why, sizeof why);
    /* the names come last, because a long line is cut */
    log_error("no path for the trace: %s: %s/%s", why, folder, file);
    return false;
}

/* *cut: as in path_trace(). */
static bool expand(struct names_values *values, char *out, size_t size, bool *cut)
{
    char path[PATH_MAX];
    struct path_error error = {.status = PATH_TOO_LONG};
    if (path_trace(config->folder, config->filename, values->vars, NAMES_VARIABLES, identity_gzip(),
                   path, sizeof path, cut, &error) == PATH_OK &&
        absolute_folder(path, out, size))
        return true;
    return no_path(config->folder, config->filename, &error);
}

/* Makes <worker>.<time in ns>.pt.trace.json, as torch.profiler.tensorboard_trace_handler does. The
 * host name is a variable here, so that a slash in it cannot leave the folder. */
static bool expand_tensorboard(struct names_values *values, char *out, size_t size, bool *cut)
{
    char file[PATH_MAX], host[256] = "", path[PATH_MAX], pid[24] = "";
    const char *worker = config->tensorboard_worker;
    struct path_var vars[NAMES_VARIABLES + 1];
    struct path_error error = {.status = PATH_TOO_LONG};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    gethostname(host, sizeof host - 1);
    memcpy(vars, values->vars, sizeof values->vars);
    vars[NAMES_VARIABLES] = (struct path_var){"host", host};
    if (!*worker)
        snprintf(pid, sizeof pid, "_%ld", (long)getpid());
    int n = snprintf(file, sizeof file, "%s%s.%lld.pt.trace.json", *worker ? worker : "{host}", pid,
                     (long long)now.tv_sec * 1000000000 + now.tv_nsec);
    if (n > 0 && (size_t)n < sizeof file &&
        path_trace(config->tensorboard_dir, file, vars, NAMES_VARIABLES + 1, identity_gzip(), path,
                   sizeof path, cut, &error) == PATH_OK &&
        absolute_folder(path, out, size))
        return true;
    return no_path(config->tensorboard_dir, file, &error);
}

/* Inserts the text before the file name's ending. */
static bool add_before_ending(char *path, size_t size, const char *text)
{
    char *ending = path + (path_ending(path) - path);
    char rest[32];
    snprintf(rest, sizeof rest, "%s", ending);
    size_t n = strlen(text);
    if ((size_t)(ending - path) + n + strlen(rest) >= size)
        return false;
    memcpy(ending, text, n);
    strcpy(ending + n, rest);
    return true;
}

static bool add_pid(char *path, size_t size)
{
    char pid[24];
    snprintf(pid, sizeof pid, "-pid%ld", (long)getpid());
    return add_before_ending(path, size, pid);
}

static void say_cut(const char *path)
{
    if (once_here())
        log_warn("a name that the settings give is too long for a file; traces have it shortened, "
                 "as in %s",
                 path);
}

bool identity_trace_path(const struct train_time *time, char *path, unsigned long size)
{
    struct names_values values;
    struct rank_info now = rank_now();
    bool cut = false;
    names_fill(&values, run_name, &now, time);
    bool found = for_tensorboard()
                     ? expand_tensorboard(&values, path, size, &cut)
                     : expand(&values, path, size, &cut) && (!pid_in_name || add_pid(path, size));
    if (found && cut)
        say_cut(path);
    return found;
}

/* As identity_trace_path(); values may be ANY. Returns false for a shortened name too, since no
 * pattern matches it. */
static bool expand_pattern(struct names_values *values, bool pid, char *pattern, size_t size)
{
    char path[PATH_MAX];
    bool cut;
    return expand(values, path, sizeof path, &cut) && !cut &&
           (!pid || add_pid(path, sizeof path)) && path_quote(path, *ANY, pattern, size);
}

bool identity_remote_name(const struct train_time *time, unsigned number, char *name,
                          unsigned long size)
{
    struct names_values values;
    struct rank_info now = rank_now();
    struct path_error error;
    char text[24];
    names_fill(&values, run_name, &now, time);
    if (path_trace("", config->remote_file_name, values.vars, NAMES_VARIABLES, identity_gzip(),
                   name, size, NULL, &error) != PATH_OK)
        return no_path("CPROF_REMOTE_FILE_NAME", config->remote_file_name, &error);
    snprintf(text, sizeof text, "-%u", number);
    return (!pid_in_name || add_pid(name, size)) &&
           (number == 1 || add_before_ending(name, size, text));
}

bool identity_expand(const char *text, char *out, unsigned long size)
{
    struct names_values values;
    struct rank_info now = rank_now();
    char path[PATH_MAX];
    names_fill(&values, run_name, &now, NULL);
    return path_expand(text, values.vars, NAMES_RUN_VARIABLES, path, sizeof path, NULL) ==
               PATH_OK &&
           absolute_folder(path, out, size);
}

bool identity_metrics_path(char *path, unsigned long size)
{
    return identity_expand(config->metrics, path, size);
}

const char *identity_run_name(void)
{
    return run_name;
}

bool identity_trace_pattern(char *pattern, unsigned long size)
{
    struct names_values values;
    struct rank_info now = rank_now();
    if (for_tensorboard())
        return false; /* these names hold the time, so no other file has them */
    names_fill(&values, run_name, &now, NULL);
    for (int i = NAMES_RUN_VARIABLES; i < NAMES_VARIABLES; i++)
        values.vars[i].value = ANY;
    return expand_pattern(&values, pid_in_name, pattern, size);
}

const char *identity_renamed_by(void)
{
    static const char name[] = "{run_name}";
    return strstr(config->folder, name) || strstr(config->filename, name) ? "CPROF_RUN_NAME"
                                                                          : "CPROF_FOLDER";
}

bool identity_shares_second(void)
{
    return !config->run_name[0] && strcmp(identity_renamed_by(), "CPROF_RUN_NAME") == 0;
}

/* A process without children has started no ranks. */
static bool had_children(void)
{
    struct rusage of_dead;
    siginfo_t of_one;
    return (getrusage(RUSAGE_CHILDREN, &of_dead) == 0 && of_dead.ru_maxrss > 0) ||
           waitid(P_ALL, 0, &of_one, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static bool since_started(const struct timespec *t)
{
    return t->tv_sec != started.tv_sec ? t->tv_sec > started.tv_sec : t->tv_nsec >= started.tv_nsec;
}

bool identity_ranks_wrote(void)
{
    struct names_values values;
    struct rank_info now = rank_now();
    char pattern[PATTERN_SIZE];
    if (now.known || config->trace_children || for_tensorboard())
        /* not a launcher: it is a rank, or every process is to be traced */
        return false;
    names_fill(&values, run_name, &now, NULL);
    for (int i = 1; i < NAMES_VARIABLES; i++) /* all but the run name */
        values.vars[i].value = ANY;
    glob_t found;
    if (!expand_pattern(&values, false, pattern, sizeof pattern) || !find_files(pattern, &found))
        return false;
    bool wrote = false;
    for (size_t i = 0; i < found.gl_pathc && !wrote; i++) {
        struct stat st;
        wrote = owner_is_trusted_file(found.gl_pathv[i], &st) && since_started(&st.st_mtim);
    }
    globfree(&found);
    wrote = wrote && had_children();
    if (wrote)
        log_debug(
            "no step was marked here, and ranks of this run left traces: the launcher leaves none");
    return wrote;
}

bool identity_gzip(void)
{
    bool remote =
        config->remote_url && *config->remote_url && path_is_gzip(config->remote_file_name);
    return config->use_gzip || path_is_gzip(config->filename) || remote;
}
