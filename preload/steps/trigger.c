/* SPDX-License-Identifier: Apache-2.0 */
/* Windows on demand (CPROF_TRIGGER): signal, file, socket, NVTX ranges, CUDA profiler calls. */
#define _GNU_SOURCE
#include "preload/steps/trigger.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload/settings/settings.h"
#include "preload/core/core.h"
#include "preload/steps/steps.h"
#include "preload/steps/trigger_socket.h"

#define CHECK_MS   250 /* between checks of the file, the socket or the signal's handler */
#define CROWDED_MS 20  /* the same while strangers connect */
#define DEFAULT_MS 5000
#define MOST_MS    86400000
#define FILE_MOST  256
#define BLANKS     " \t\r\n"

/* Written once, by trigger_start(). */
static _Atomic bool started, on;
static const struct config *config;
static char file_path[PATH_MAX];
static int signal_number;
/* The program's own handler. The cprof thread changes it only while ours is not installed. */
static struct sigaction before;
static atomic_bool displaced; /* the program has replaced our handler; cprof thread, read at exit */

_Atomic bool trigger_by_cuda;
static _Atomic bool signalled; /* set by the handler, cleared by the cprof thread */
static _Atomic bool ever_signalled;
static _Atomic bool region_seen; /* set by any thread */
static _Atomic bool in_capture;  /* between cudaProfilerStart and cudaProfilerStop */

/* The cprof thread's own. */
static uint64_t checked_ns;
static uint64_t end_ns;     /* when the window of seconds ends; 0: none is open */
static uint64_t ended_mark; /* writer_mark() when that window ended */
static bool ended;          /* it has ended, and no trace has come since */
/* The last windows that a signal or a file requested, in steps and in seconds, until their trace is
 * whole. cprof thread; the exiting thread once that has ended. */
static struct asked_window {
    char who[96];
    int64_t step; /* a trace with this or a later step serves */
    bool waits;
} asked_for[2];

/* ---- requests -------------------------------------------------------------------------------- */

/* Reads seconds with up to three decimals as milliseconds. */
static bool parse_seconds(char *text, int64_t *ms)
{
    int64_t whole = 0, part = 0;
    char *point = strchr(text, '.');
    char decimals[4] = "000";
    if (point) {
        *point++ = '\0';
        size_t n = strlen(point);
        if (n == 0 || strspn(point, "0123456789") != n)
            return false;
        memcpy(decimals, point, n < 3 ? n : 3);
        parse_int(decimals, 0, 999, &part);
    }
    if (!parse_int(*text ? text : "0", 0, MOST_MS / 1000, &whole))
        return false;
    *ms = whole * 1000 + part;
    return *ms > 0;
}

/* Refuses a repeated word. */
static bool parse_word(char *word, struct trigger_request *r)
{
    if (strncmp(word, "steps=", 6) == 0 && r->steps == 0)
        return parse_int(word + 6, 1, INT32_MAX, &r->steps);
    if (strncmp(word, "from=", 5) == 0 && r->from == 0)
        return parse_int(word + 5, 1, DEMANDS_STEP, &r->from);
    return strncmp(word, "seconds=", 8) == 0 && r->ms == 0 && parse_seconds(word + 8, &r->ms);
}

bool trigger_parse(const char *text, struct trigger_request *request)
{
    char copy[FILE_MOST], *rest = NULL;
    *request = (struct trigger_request){0};
    size_t len = strlen(text);
    if (len >= sizeof copy)
        return false;
    memcpy(copy, text, len + 1);
    for (char *word = strtok_r(copy, BLANKS, &rest); word; word = strtok_r(NULL, BLANKS, &rest))
        if (!parse_word(word, request))
            return false;
    return request->ms == 0 || (request->steps == 0 && request->from == 0);
}

int trigger_signal_number(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } known[] = {{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP}};
    int64_t offset;
    if (strncasecmp(name, "SIG", 3) == 0)
        name += 3;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcasecmp(name, known[i].name) == 0)
            return known[i].number;
    if (strncasecmp(name, "RTMIN+", 6) == 0 && parse_int(name + 6, 0, SIGRTMAX - SIGRTMIN, &offset))
        return SIGRTMIN + (int)offset;
    return 0;
}

static struct trigger_request with_defaults(struct trigger_request asked)
{
    if (asked.steps == 0 && asked.ms == 0) {
        asked.steps = asked.from > 0 || steps_current() > 0 ? config->active : 0;
        asked.ms = asked.steps ? 0 : DEFAULT_MS;
    }
    return asked;
}

/* Keeps the later one of two windows of steps. */
static void remember_asked(const char *who, int64_t step, bool timed)
{
    struct asked_window *a = &asked_for[timed];
    if (a->waits && a->step > step)
        return;
    *a = (struct asked_window){.step = step, .waits = true};
    snprintf(a->who, sizeof a->who, "%s", who);
}

static void say_nothing_recorded(struct asked_window *a)
{
    if (a->waits)
        log_info("%s: nothing was recorded: no trace was written", a->who);
    a->waits = false;
}

bool trigger_window(const struct trigger_request *request, char *answer, size_t size, int64_t *step,
                    bool *timed)
{
    struct trigger_request r = with_defaults(*request);
    *timed = r.steps == 0;
    switch (steps_demand(r.steps, r.from, step)) {
    case STEPS_REFUSED:
        snprintf(answer, size, "recording is off");
        return false;
    case STEPS_TOO_MANY:
        snprintf(answer, size, "%u windows are waiting for their steps already", DEMANDS_MOST);
        return false;
    case STEPS_RECORDING:
        *timed = *timed && end_ns != 0;
        snprintf(answer, size, "open step=%" PRId64, *step);
        return true;
    default:
        break;
    }
    if (r.steps) {
        snprintf(answer, size, "opens step=%" PRId64 " steps=%" PRId64, *step, r.steps);
        return true;
    }
    ended = false;
    end_ns = clock_monotonic_ns() + (uint64_t)r.ms * 1000000u;
    snprintf(answer, size, "opens step=%" PRId64 " seconds=%" PRId64 ".%03d", *step, r.ms / 1000,
             (int)(r.ms % 1000));
    return true;
}

/* For requests without a client to answer. */
static void open_and_say(const struct trigger_request *request, const char *who)
{
    char answer[160];
    int64_t step;
    bool timed;
    if (!trigger_window(request, answer, sizeof answer, &step, &timed)) {
        log_warn("%s: no window: %s", who, answer);
        return;
    }
    log_info("%s: a window %s%s", who, strncmp(answer, "open ", 5) == 0 ? "is " : "", answer);
    remember_asked(who, step, timed);
}

static void end_timed(uint64_t now)
{
    if (!end_ns || now < end_ns)
        return;
    end_ns = 0;
    steps_demand_end();
    ended = steps_action() < ACTION_ACTIVE; /* otherwise the open window leaves a trace */
    ended_mark = writer_mark();
}

bool trigger_left_nothing(void)
{
    return ended && !end_ns && writer_saved(ended_mark);
}

/* ---- signal ---------------------------------------------------------------------------------- */

/* Async-signal-safe: stores, a futex call and the program's handler. */
static void handler(int number, siginfo_t *info, void *context)
{
    atomic_store(&signalled, true);
    atomic_store(&ever_signalled, true);
    if (atomic_load(&cprof_life) == LIFE_AWAKE)
        writer_wake();
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else if (before.sa_handler != SIG_DFL)
        before.sa_handler(number);
}

static bool is_default(const struct sigaction *action)
{
    return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == SIG_DFL;
}

static bool is_own_action(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == handler;
}

/* Installs our handler over `before`, with its mask, stack and restart flag. there: the handler it
 * replaced. */
static bool take_signal(struct sigaction *there)
{
    struct sigaction ours = before;
    ours.sa_flags &= ~SA_RESETHAND;
    ours.sa_flags |= SA_SIGINFO | (is_default(&before) ? SA_RESTART | SA_ONSTACK : 0);
    ours.sa_sigaction = handler;
    return sigaction(signal_number, &ours, there) == 0;
}

/* Lightning restores Python's view of all handlers after each fit(), which is the default in our
 * place. The next signal would end the program, so our handler is installed again. */
static void keep_signal(void)
{
    struct sigaction now;
    if (sigaction(signal_number, NULL, &now) != 0)
        return;
    /* never cleared: at exit, an interpreter restores the default and we would install ours */
    if (!is_default(&now) && !is_own_action(&now))
        atomic_store(&displaced, true);
    if (!is_default(&now))
        return;
    before = now;
    /* the program installed its own meanwhile: it keeps its place */
    if (take_signal(&now) && !is_default(&now))
        sigaction(signal_number, &now, NULL);
}

static bool start_signal(const char *name)
{
    signal_number = trigger_signal_number(name);
    if (!signal_number) {
        log_warn("CPROF_TRIGGER=signal:%s: must be one of USR1, USR2, HUP, RTMIN+0 to RTMIN+%d; "
                 "the trigger is off",
                 name, SIGRTMAX - SIGRTMIN);
        return false;
    }
    if (sigaction(signal_number, NULL, &before) != 0)
        return false;
    if (!(before.sa_flags & SA_SIGINFO) && before.sa_handler == SIG_IGN) {
        log_warn("CPROF_TRIGGER=signal:%s: this process ignores the signal (nohup?), and its "
                 "children inherit that; the trigger is off",
                 name);
        return false;
    }
    return take_signal(NULL);
}

static void check_signal(void)
{
    static const struct trigger_request nothing;
    char who[32];
    if (!atomic_exchange(&signalled, false))
        return;
    snprintf(who, sizeof who, "signal %d", signal_number);
    open_and_say(&nothing, who);
}

/* ---- file ------------------------------------------------------------------------------------ */

static bool start_file(const char *path)
{
    if (identity_expand(path, file_path, sizeof file_path))
        return true;
    log_warn("CPROF_TRIGGER=file:%s: may hold {run_name} {rank} {local_rank} {world_size} "
             "{local_world_size} {node_rank} and at most %d bytes; the trigger is off",
             path, PATH_MAX - 1);
    return false;
}

/* Anybody may put a file there, so it is ignored for as long as it stays, and the owner's next
 * request counts. */
static void refuse_file(const char *why)
{
    if (once_here())
        log_warn("%s: %s; it is ignored", file_path, why);
}

/* Reads and removes the trigger file. False: it is not trusted, or it cannot be removed, which
 * turns the trigger off, since it would trigger for ever. */
static bool take_file(int fd, const struct stat *st, char *text, size_t size)
{
    if (!owner_is_trusted(st->st_uid) || !has_one_name(fd, file_path)) {
        refuse_file("must belong to this user or root and have one link");
        return false;
    }
    ssize_t n = io_read(fd, text, size - 1);
    text[n > 0 ? n : 0] = '\0';
    if (unlink(file_path) != 0) {
        log_warn("%s: cannot be removed: %s; CPROF_TRIGGER=file is off", file_path,
                 strerror(errno));
        atomic_store(&on, false);
        return false;
    }
    return true;
}

/* Reads into text[FILE_MOST]. False: no request. */
static bool read_request_file(char *text)
{
    struct stat st;
    int fd = open_foreign(file_path, O_NOFOLLOW, UINT64_MAX, &st);
    if (fd < 0) {
        if (errno == ELOOP || errno == EINVAL)
            refuse_file(errno == ELOOP ? "a symbolic link" : "no regular file of this user");
        return false;
    }
    bool taken = take_file(fd, &st, text, FILE_MOST);
    io_close(fd);
    return taken;
}

static void check_file(void)
{
    struct trigger_request request;
    char text[FILE_MOST];
    if (!read_request_file(text))
        return;
    if (trigger_parse(text, &request))
        open_and_say(&request, file_path);
    else
        log_warn("%s: must be empty or hold steps=N, from=K or seconds=S; no window was opened",
                 file_path);
}

/* ---- ranges of the program ------------------------------------------------------------------- */

const char *trigger_nvtx_pattern(void)
{
    return config_get()->trigger == CONFIG_TRIGGER_NVTX ? config_trigger_name() : NULL;
}

void trigger_configure(const struct config *given)
{
    atomic_store(&trigger_by_cuda, given->trigger == CONFIG_TRIGGER_CUDA);
}

void trigger_cuda(bool begins)
{
    if (atomic_exchange(&in_capture, begins) != begins)
        trigger_region(begins);
}

void trigger_region(bool begins)
{
    atomic_store(&region_seen, true);
    steps_region(begins);
}

void trigger_finish(void)
{
    if (!atomic_load(&started) || atomic_load(&region_seen))
        return;
    if (config->trigger == CONFIG_TRIGGER_NVTX)
        log_info("CPROF_TRIGGER=nvtx:%s: no NVTX range matched; nothing was recorded",
                 config_trigger_name());
    /* a program's handler that calls ours in turn is fine; then a signal has come here */
    if (config->trigger == CONFIG_TRIGGER_SIGNAL && atomic_load(&displaced) &&
        !atomic_load(&ever_signalled))
        log_warn("CPROF_TRIGGER=signal:%s: the program replaced cprof's handler, and no signal "
                 "reached cprof; use another signal, a file or a socket",
                 config_trigger_name());
    if (config->trigger == CONFIG_TRIGGER_CUDA)
        log_info("CPROF_TRIGGER=cuda: cprof saw no call of cudaProfilerStart or cuProfilerStart; "
                 "nothing "
                 "was recorded");
}

void trigger_over(void)
{
    if (writer_is_off())
        return;
    for (unsigned i = 0; i < 2; i++)
        say_nothing_recorded(&asked_for[i]);
}

/* ---- life ------------------------------------------------------------------------------------ */

bool trigger_try(const struct config *given)
{
    const char *name = config_trigger_name();
    return given->trigger == CONFIG_TRIGGER_SIGNAL ? start_signal(name)
           : given->trigger == CONFIG_TRIGGER_FILE ? start_file(name)
                                                   : given->trigger == CONFIG_TRIGGER_SOCKET;
}

void trigger_start(const struct config *given)
{
    if (given->trigger == CONFIG_TRIGGER_OFF || atomic_exchange(&started, true))
        return;
    config = given;
    if (!trigger_try(given) || !writer_run())
        return;
    atomic_store(&on, true);
    writer_wake(); /* the cprof thread may sleep without a timeout */
}

int trigger_poll(bool stopping)
{
    if (!atomic_load(&on))
        return -1;
    if (stopping) {
        if (config->trigger == CONFIG_TRIGGER_SOCKET)
            trigger_socket_close();
        atomic_store(&on, false);
        return -1;
    }
    uint64_t now = clock_monotonic_ns();
    end_timed(now);
    if (trigger_left_nothing())
        say_nothing_recorded(&asked_for[true]);
    if (config->trigger == CONFIG_TRIGGER_SIGNAL)
        check_signal();
    bool crowded = config->trigger == CONFIG_TRIGGER_SOCKET && trigger_socket_crowded();
    int pause = crowded ? CROWDED_MS : CHECK_MS;
    if (now - checked_ns >= (uint64_t)pause * 1000000u) {
        checked_ns = now;
        if (config->trigger == CONFIG_TRIGGER_SIGNAL)
            keep_signal();
        else if (config->trigger == CONFIG_TRIGGER_FILE)
            check_file();
        else if (!trigger_socket_poll())
            atomic_store(&on, false);
    }
    int64_t left = end_ns > now ? (int64_t)((end_ns - now) / 1000000u) + 1 : pause;
    return (int)(left < pause ? left : pause);
}

void trigger_trace(const struct saved_trace *trace)
{
    for (unsigned i = 0; i < 2; i++)
        if (trace->first_step >= asked_for[i].step || trace->last_step >= asked_for[i].step)
            asked_for[i].waits = false;
    if (!atomic_load(&on))
        return;
    if (config->trigger == CONFIG_TRIGGER_SOCKET)
        trigger_socket_trace(trace);
    ended = false;
}

/* Restores the program's signal action; by default, the signal then ends the child. */
static void give_back_signal(void)
{
    struct sigaction now;
    if (sigaction(signal_number, NULL, &now) == 0 && is_own_action(&now))
        sigaction(signal_number, &before, NULL);
}

void trigger_in_child(void)
{
    if (!atomic_load(&started) || !config)
        return;
    if (config->trigger == CONFIG_TRIGGER_SOCKET)
        trigger_socket_in_child();
    else if (config->trigger == CONFIG_TRIGGER_SIGNAL && signal_number)
        give_back_signal();
}
