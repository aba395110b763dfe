/* SPDX-License-Identifier: Apache-2.0 */
/* The run's name and the format variables; run_names.h says which function runs where. */
#include "preload/settings/run_names.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "preload/settings/config.h"
#include "preload/core/core.h"

#define START_TIME "CPROF_START_TIME"
#define SECOND_NS  INT64_C(1000000000)
#define SECOND_US  INT64_C(1000000)

enum {
    CMDLINE_MAX = 4096,
    CMDLINE_SHORT = 512, /* enough to recognize a child of multiprocessing */
    PARENTS_MAX = 4,     /* multiprocessing's fork server stands between child and script */
    LOCAL_RANK = 2,      /* index of this variable */
    /* index of total_wct, the first of the variables in seconds */
    FIRST_SECONDS = NAMES_VARIABLES - 3
};

/* clang-format off */
const char *const names_variables[NAMES_VARIABLES] = {
    "run_name", "rank", "local_rank", "world_size", "local_world_size", "node_rank",
    "epoch", "batch", "batch_in_epoch", "sample", "sample_in_epoch", "token", "token_in_epoch",
    "total_wct", "epoch_wct", "batch_wct",
};
/* clang-format on */

/* Nanoseconds since 1970; written by names_capture() in the constructor, read-only afterwards. */
static int64_t start_ns;

/* The program's arguments in the format of /proc/PID/cmdline; written in the constructor. */
static char own_cmdline[CMDLINE_MAX];
static size_t own_length;

/* ---- command lines ---- */

/* The next argument after *at, or NULL. Each argument ends with a NUL. */
static const char *next_argument(const char *cmdline, size_t length, size_t *at)
{
    if (*at < length)
        *at += strnlen(cmdline + *at, length - *at) + 1;
    return *at < length ? cmdline + *at : NULL;
}

static const char *base_of(const char *path, size_t length, size_t *base_length)
{
    while (length > 1 && path[length - 1] == '/')
        length--;
    const char *slash = memrchr(path, '/', length);
    const char *base = slash && length > 1 ? slash + 1 : path;
    *base_length = length - (size_t)(base - path);
    return base;
}

/* Whether a byte may stay in a script's name: letters, digits, a few marks, and UTF-8. */
static bool is_tame(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c >= 0x80 || strchr("._-+@=", c);
}

/* Copies text[0..length). Bytes that may not stay, and a '.' or '-' at the beginning, become
 * '_'. */
static void put_script(const char *text, size_t length, char *out, size_t size)
{
    if (size > NAMES_SCRIPT_SIZE)
        size = NAMES_SCRIPT_SIZE;
    if (length > size - 1)
        length = size - 1;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        out[i] = c != 0 && is_tame(c) && (i > 0 || (c != '.' && c != '-')) ? text[i] : '_';
    }
    if (length == 0 && size > 1)
        out[length++] = '_';
    out[length] = '\0';
}

/* python, python3, python3.13t, pypy3 … */
static bool is_python(const char *name, size_t length)
{
    size_t prefix = length >= 6 && strncmp(name, "python", 6) == 0 ? 6 : 4;
    if (prefix == 4 && (length < 4 || strncmp(name, "pypy", 4) != 0))
        return false;
    for (size_t i = prefix; i < length; i++)
        if (!strchr("0123456789.td-bg", name[i]))
            return false;
    return true;
}

/* What Python runs. kind: 'c' or 'm' for that option, 's' for a script, 0 for stdin. */
static const char *python_target(const char *cmdline, size_t length, char *kind)
{
    size_t at = 0;
    const char *argument;

    *kind = 0;
    while ((argument = next_argument(cmdline, length, &at)) != NULL) {
        if (argument[0] != '-') {
            *kind = 's';
            return argument;
        }
        if (argument[1] == '\0')
            return NULL;
        if (argument[1] == '-') {
            if (strcmp(argument, "--check-hash-based-pycs") == 0)
                next_argument(cmdline, length, &at);
            continue;
        }
        const char *option = argument + 1 + strcspn(argument + 1, "cmWX");
        if (*option == '\0')
            continue;
        const char *value = option[1] ? option + 1 : next_argument(cmdline, length, &at);
        if (*option == 'c' || *option == 'm') {
            *kind = *option;
            return value;
        }
    }
    return NULL;
}

static bool begins_with_python(const char *cmdline, size_t length)
{
    size_t name_length;
    const char *name = base_of(cmdline, strnlen(cmdline, length), &name_length);
    return is_python(name, name_length);
}

bool names_is_multiprocessing(const char *cmdline, size_t length)
{
    char kind;
    if (length == 0 || cmdline[length - 1] != '\0' || !begins_with_python(cmdline, length))
        return false;
    const char *code = python_target(cmdline, length, &kind);
    return kind == 'c' && code && strncmp(code, "from multiprocessing.", 21) == 0;
}

void names_script_of(const char *cmdline, size_t length, char *out, size_t size)
{
    char kind;

    if (length == 0 || cmdline[length - 1] != '\0') {
        put_script("program", 7, out, size);
        return;
    }
    size_t text_length;
    const char *text = base_of(cmdline, strnlen(cmdline, length), &text_length);
    if (!begins_with_python(cmdline, length)) {
        bool login = text_length > 1 && text[0] == '-'; /* -bash */
        put_script(text + login, text_length - login, out, size);
        return;
    }
    const char *target = python_target(cmdline, length, &kind);
    if (!target || kind == 'c') {
        put_script("python", 6, out, size);
        return;
    }
    if (kind == 'm') {
        const char *dot = strrchr(target, '.');
        text = dot && dot[1] ? dot + 1 : target;
        text_length = strlen(text);
    } else {
        text = base_of(target, strlen(target), &text_length);
        const char *dot = memrchr(text, '.', text_length);
        if (dot && dot > text && strncmp(dot, ".py", 3) == 0)
            text_length = (size_t)(dot - text);
    }
    put_script(text, text_length, out, size);
}

/* Reads a cmdline file; `out` ends with a NUL even if cut. Returns the length including it. */
static size_t read_cmdline(const char *path, char *out, size_t size)
{
    size_t length = read_file(path, out, size);
    return length > 0 && out[length - 1] != '\0' ? length + 1 : length;
}

/* Copies argv: /proc shows the title that a program may give itself later. */
void names_take_arguments(int argc, char **argv)
{
    for (int i = 0; i < argc && argv[i] && own_length < sizeof own_cmdline; i++) {
        size_t length = strlen(argv[i]) + 1, room = sizeof own_cmdline - own_length;
        memcpy(own_cmdline + own_length, argv[i], length < room ? length : room);
        own_length += length < room ? length : room;
    }
    if (own_length)
        own_cmdline[own_length - 1] = '\0';
}

/* read_cmdline() of this process. */
static size_t take_own_cmdline(char *out, size_t size)
{
    if (own_length == 0)
        return read_cmdline("/proc/self/cmdline", out, size);
    size_t length = own_length < size ? own_length : size;
    memcpy(out, own_cmdline, length);
    out[length - 1] = '\0';
    return length;
}

/* The parent of a process, or 0. */
static pid_t parent_of(pid_t pid)
{
    char path[32], stat[512];
    int parent = 0;

    if (pid == getpid())
        return getppid();
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    read_file(path, stat, sizeof stat);
    /* the name in parentheses may hold blanks and parentheses */
    const char *end = strrchr(stat, ')');
    if (end && sscanf(end + 1, " %*c %d", &parent) != 1)
        parent = 0;
    return parent;
}

void names_script(char *out, size_t size)
{
    /* Static, because the waking thread may have a small stack. */
    static char cmdline[CMDLINE_MAX];
    char path[32];
    pid_t pid = getpid();
    size_t length = take_own_cmdline(cmdline, sizeof cmdline);

    for (int i = 0; i < PARENTS_MAX && names_is_multiprocessing(cmdline, length); i++) {
        pid = parent_of(pid);
        if (pid <= 1)
            break;
        snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
        length = read_cmdline(path, cmdline, sizeof cmdline);
    }
    names_script_of(cmdline, length, out, size);
}

/* ---- start of the launch ---- */

/* Shells and terminals outlive many runs, so their start time names none. */
static bool is_session(const char *program)
{
    static const char *const sessions[] = {"sh",    "bash", "dash", "zsh",  "ksh",   "mksh",
                                           "ash",   "fish", "csh",  "tcsh", "rbash", "busybox",
                                           "login", "su",   "sudo", "sshd", "tmux",  "screen"};
    if (*program == '-')
        program++;
    for (size_t i = 0; i < sizeof sessions / sizeof sessions[0]; i++)
        if (strcmp(program, sessions[i]) == 0)
            return true;
    return false;
}

/* Whether this process belongs to the launch that it inherited. */
static bool is_part_of_launch(void)
{
    struct rank_info rank;
    char cmdline[CMDLINE_SHORT];

    rank_read(&rank, config_env, false);
    if (rank.known && (rank.world_size > 1 || !rank.world_known))
        return true;
    const char *program = program_invocation_short_name;
    if (!is_python(program, strlen(program)))
        return false;
    return names_is_multiprocessing(cmdline, take_own_cmdline(cmdline, sizeof cmdline));
}

/* Exports the start in nanoseconds. printf and setenv are too slow for the constructor's budget of
 * 50 us. */
static void export_start(void)
{
    static char entry[] = START_TIME "=1234567890123456789"; /* the environment's from then on */
    int64_t rest = start_ns;
    for (char *at = entry + sizeof entry - 1; *--at != '='; rest /= 10)
        *at = (char)('0' + rest % 10);
    putenv(entry);
}

/* Takes the start time of Hydra's proxy process (MPICH), the common parent of the ranks on a
 * machine. Hydra exports no launch id, and `-genv LD_PRELOAD` reaches only the ranks. The proxy's
 * start is in clock ticks since boot, so all ranks read the same. Returns false for another
 * parent. */
static bool hydra_start(int64_t *ns)
{
    char path[32], stat[512] = "";
    unsigned long long ticks = 0;
    struct timespec now, up;
    pid_t pid = getppid(); /* or of a shell that the proxy started, which exports nothing */
    for (int i = 0; i < PARENTS_MAX && pid > 1; i++, pid = parent_of(pid)) {
        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
        if (!read_file(path, stat, sizeof stat) || strstr(stat, "(hydra_pmi_proxy)"))
            break;
    }
    const char *end = strstr(stat, "(hydra_pmi_proxy)") ? strrchr(stat, ')') : NULL;
    if (!end ||
        sscanf(end + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &ticks) != 1 ||
        clock_gettime(CLOCK_REALTIME, &now) != 0 || clock_gettime(CLOCK_BOOTTIME, &up) != 0)
        return false;
    int64_t now_ns = now.tv_sec * SECOND_NS + now.tv_nsec;
    int64_t tick_ns = SECOND_NS / sysconf(_SC_CLK_TCK);
    int64_t ago = up.tv_sec * SECOND_NS + up.tv_nsec - (int64_t)ticks * tick_ns;
    /* rounded to a tick, because the two clocks are read one after the other */
    *ns = (now_ns - ago + tick_ns / 2) / tick_ns * tick_ns;
    return ago >= 0 && ago < now_ns;
}

void names_capture(void)
{
    struct timespec now;
    int64_t inherited;

    clock_gettime(CLOCK_REALTIME_COARSE, &now); /* the clock of file times */
    start_ns = now.tv_sec * SECOND_NS + now.tv_nsec;
    if (!config_enabled())
        return;
    if (parse_int(config_env(START_TIME), 1, start_ns, &inherited) && is_part_of_launch()) {
        start_ns = inherited;
        return;
    }
    if (config_env("PMI_RANK") && is_part_of_launch() && hydra_start(&inherited))
        start_ns = inherited;
    /* Hydra's ranks export too: a torchrun agent's ranks have another parent */
    if (!is_session(program_invocation_short_name))
        export_start();
}

int64_t names_start_time(void)
{
    return start_ns / SECOND_NS;
}

int64_t names_start_ns(void)
{
    return start_ns;
}

/* ---- the run's name ---- */

/* The value of a variable, or NULL if it is unset or blank. */
static const char *said(rank_lookup *lookup, const char *name)
{
    const char *value = lookup(name);
    return parse_is_blank(value) ? NULL : value;
}

static const char *first_said(rank_lookup *lookup, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *value = said(lookup, names[i]);
        if (value)
            return value;
    }
    return NULL;
}

/* Makes a file name of `text`: no slash, no control characters, not "." or "..". */
static void put_run(const char *text, char *out, size_t size)
{
    if (size > NAMES_RUN_SIZE)
        size = NAMES_RUN_SIZE;
    while (*text == ' ' || *text == '\t' || *text == '\r' || *text == '\n')
        text++;
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r\n", text[length - 1]))
        length--;
    if (length > size - 1)
        for (length = size - 1; length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80;)
            length--; /* not inside a UTF-8 character */
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        out[i] = c < 0x20 || c == 0x7f || c == '/' ? '_' : text[i];
    }
    out[length] = '\0';
    if (strcmp(out, ".") == 0 || strcmp(out, "..") == 0)
        memset(out, '_', length);
}

/* Writes the launch id that all ranks share. Returns false when the launcher gave none. */
static bool launch_id(rank_lookup *lookup, const struct rank_info *rank, char *out, size_t size)
{
    static const char *const elastic[] = {"TORCHELASTIC_RUN_ID"};
    static const char *const mpi[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID"};
    bool several = rank->known && (rank->world_size > 1 || !rank->world_known);

    const char *id = first_said(lookup, elastic, 1);
    if (id && strcasecmp(id, "none") != 0) {
        snprintf(out, size, "%s", id);
        return true;
    }
    id = several ? first_said(lookup, mpi, sizeof mpi / sizeof mpi[0]) : NULL;
    if (id) {
        snprintf(out, size, "%s", id);
        return true;
    }
    const char *job = said(lookup, "SLURM_JOB_ID");
    const char *step = said(lookup, "SLURM_STEP_ID");
    const char *tasks = said(lookup, "SLURM_STEP_NUM_TASKS");
    int64_t count;
    if (!tasks)
        tasks = said(lookup, "SLURM_NTASKS");
    if (job && step && parse_int(tasks, 2, INT32_MAX, &count)) {
        snprintf(out, size, "%s.%s", job, step);
        return true;
    }
    return false;
}

/* A job that Slurm restarts keeps its number, and its steps count from 0 again. */
static void add_restart(rank_lookup *lookup, char *id, size_t size)
{
    const char *count = said(lookup, "SLURM_RESTART_COUNT");
    size_t used = strlen(id);
    int64_t n;
    if (count && parse_int(count, 1, INT32_MAX, &n))
        snprintf(id + used, size - used, "-restart%" PRId64, n);
}

void names_run(char *out, size_t size, const char *setting, rank_lookup *lookup,
               const struct rank_info *rank, const char *script, int64_t start)
{
    static const char *const given[] = {"COMPOSER_RUN_NAME", "RUN_NAME"};
    char text[NAMES_RUN_SIZE + 4];

    if (size == 0)
        return;
    const char *name = parse_is_blank(setting) ? first_said(lookup, given, 2) : setting;
    if (name) {
        put_run(name, out, size);
        return;
    }
    if (launch_id(lookup, rank, text, sizeof text)) {
        add_restart(lookup, text, sizeof text);
    } else {
        const char *job = said(lookup, "SLURM_JOB_ID");
        time_t seconds = (time_t)start;
        struct tm local;
        if (!localtime_r(&seconds, &local))
            memset(&local, 0, sizeof local);
        int used = snprintf(text, sizeof text, "%.*s-", NAMES_SCRIPT_SIZE, job ? job : script);
        strftime(text + used, sizeof text - (size_t)used, "%Y%m%d-%H%M%S", &local);
    }
    put_run(text, out, size);
}

/* ---- format variables ---- */

/* Writes seconds as Python writes a float of microseconds, for names like Composer's. No trailing
 * zeros, at least one decimal, an exponent below 0.0001. */
static void put_seconds(char *out, size_t size, int64_t ns)
{
    int64_t us = ns / 1000;
    if (us > 0 && us < 10) {
        snprintf(out, size, "%" PRId64 "e-06", us);
    } else if (us > 0 && us < 100) {
        const char *point = us % 10 ? "." : "";
        snprintf(out, size, "%" PRId64 "%s%.*" PRId64 "e-05", us / 10, point, us % 10 > 0, us % 10);
    } else {
        snprintf(out, size, "%" PRId64 ".%06" PRId64, us / SECOND_US, us % SECOND_US);
        for (size_t n = strlen(out); out[n - 1] == '0' && out[n - 2] != '.'; n--)
            out[n - 1] = '\0';
    }
}

void names_fill(struct names_values *values, const char *run_name, const struct rank_info *rank,
                const struct train_time *time)
{
    static const struct train_time none;
    const struct train_time *t = time ? time : &none;
    const int64_t numbers[NAMES_VARIABLES] = {
        0,
        rank->rank,
        rank->local_rank,
        rank->world_size,
        rank->local_world_size,
        rank->node_rank,
        t->epoch,
        t->batch,
        t->batch_in_epoch,
        t->sample,
        t->sample_in_epoch,
        t->token,
        t->token_in_epoch,
        t->total_wct_ns,
        t->epoch_wct_ns,
        t->batch_wct_ns,
    };
    for (int i = 0; i < NAMES_VARIABLES; i++) {
        if (i < FIRST_SECONDS)
            snprintf(values->numbers[i], sizeof values->numbers[i], "%" PRId64, numbers[i]);
        else
            put_seconds(values->numbers[i], sizeof values->numbers[i], numbers[i]);
        values->vars[i].name = names_variables[i];
        values->vars[i].value = values->numbers[i];
    }
    values->vars[0].value = run_name;
    if (!rank->local_known)
        values->vars[LOCAL_RANK].value = "null"; /* as in the trace */
}
