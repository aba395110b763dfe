/* SPDX-License-Identifier: Apache-2.0 */
/* Starts programs without fork handlers and without a visible child. Three processes: the host with
 * the cprof thread, the helper (helper_*), and the program, which shares the host's memory until
 * exec (program_*). The last two also share the cprof thread's thread-local storage, so they make
 * only system calls by raw_syscall(). */
#define _GNU_SOURCE
#include "preload/delivery/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES  (32u << 10)
#define GUARD_BYTES  (64u << 10) /* at least a page, with any page size */
#define LINE_MOST    2000u
#define MODEST_NICE  10
#define CHECK_MS     50 /* between checks whether to kill the program */
#define CLOSED_MS    5  /* the same once the program has closed its output */
#define SIGNALS      64
#define PREFIX       "cprof: "
#define PREFIX_BYTES (sizeof PREFIX - 1)

struct spawn {
    struct spawn_request request;
    pid_t host, helper;
    _Atomic bool kill; /* set by the cprof thread, read by the helper; relaxed */
    _Atomic bool over; /* set last by the helper (release), read by the cprof thread */
    int exec_error, status;
    uint32_t line_len, text_len;
    size_t output_len;
    bool cut;          /* drops the rest of a line that was too long */
    bool stopped;      /* stderr takes no more */
    int input, output; /* the program's descriptors while it starts */
    int file;          /* the same; -1: none */
    int feed;          /* write end of its input; -1: closed */
    size_t fed;        /* bytes of the input written so far */
    struct {
        char prefix[PREFIX_BYTES];
        char text[LINE_MOST + 1];
    } line;
    char text[SPAWN_TEXT_SIZE];
    char read[512];
    size_t mapped;
    char *helper_stack, *program_stack; /* their upper ends */
};

/* ---- system calls that touch no thread-local storage; they return the result or -errno ---- */

#define RAW(number, a, b, c, d, e)                                                                 \
    raw_syscall((number), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)

/* The kernel's struct sigaction on both processors; all 0 is the default action. */
struct kernel_action {
    uintptr_t handler, flags, restorer, mask;
};

/* Resets the host's handlers. Ignored signals stay ignored, except real-time signals, SIGCHLD and
 * SIGPIPE, which programs expect to have their default action. */
APART static void default_signals(void)
{
    const struct kernel_action standard = {0};
    for (int number = 1; number <= SIGNALS; number++) {
        struct kernel_action now = {0};
        RAW(SYS_rt_sigaction, number, NULL, &now, 8, 0);
        bool kept = now.handler == (uintptr_t)SIG_IGN && number < 32 && number != SIGCHLD &&
                    number != SIGPIPE;
        if (!kept)
            RAW(SYS_rt_sigaction, number, &standard, NULL, 8, 0);
    }
}

APART static void close_from(unsigned first)
{
    if (RAW(SYS_close_range, first, ~0u, 0, 0, 0) == 0)
        return;
    struct rlimit most = {.rlim_cur = 1024};
    RAW(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &most, 0);
    for (unsigned fd = first; fd < most.rlim_cur && fd < 1u << 20; fd++)
        RAW(SYS_close, fd, 0, 0, 0, 0);
}

/* ---- the program until exec; the helper waits (CLONE_VFORK) ---- */

APART static void limit_itself(void)
{
    const struct rlimit bytes = {SPAWN_MODEST_BYTES, SPAWN_MODEST_BYTES};
    const struct rlimit seconds = {SPAWN_MODEST_S, SPAWN_MODEST_S}, no_core = {0, 0};
    RAW(SYS_setpriority, PRIO_PROCESS, 0, MODEST_NICE, 0, 0);
    RAW(SYS_prlimit64, 0, RLIMIT_DATA, &bytes, NULL, 0);
    RAW(SYS_prlimit64, 0, RLIMIT_CPU, &seconds, NULL, 0);
    RAW(SYS_prlimit64, 0, RLIMIT_CORE, &no_core, NULL, 0);
}

APART static int program_start(void *arg)
{
    struct spawn *s = arg;
    const uint64_t none = 0;
    RAW(SYS_setsid, 0, 0, 0, 0, 0);
    if (s->request.modest)
        limit_itself();
    RAW(SYS_dup3, s->input, 0, 0, 0, 0);
    RAW(SYS_dup3, s->output, 1, 0, 0, 0);
    RAW(SYS_dup3, s->output, 2, 0, 0, 0);
    if (s->file >= 0)
        RAW(SYS_dup3, s->file, SPAWN_FILE, 0, 0, 0);
    close_from(s->file >= 0 ? SPAWN_FILE + 1 : SPAWN_FILE);
    RAW(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, 8, 0);
    s->exec_error =
        (int)-RAW(SYS_execve, s->request.argv[0], s->request.argv, s->request.envp, 0, 0);
    RAW(SYS_exit_group, 127, 0, 0, 0, 0);
    return 0;
}

/* ---- the helper ---- */

/* Whether stderr takes a line, as in writer/base/log.c. In a blocking write, the helper would not
 * see that it must kill the program. */
APART static bool helper_has_room(struct spawn *s)
{
    struct pollfd look = {.fd = STDERR_FILENO, .events = POLLOUT};
    struct timespec wait = {.tv_nsec = s->stopped ? 0 : LOG_PATIENCE_MS * 1000000};
    s->stopped = RAW(SYS_ppoll, &look, 1, &wait, NULL, 0) <= 0;
    return !s->stopped;
}

APART static void helper_put_line(struct spawn *s)
{
    s->line.text[s->line_len] = '\n';
    if (helper_has_room(s))
        RAW(SYS_write, STDERR_FILENO, &s->line, PREFIX_BYTES + s->line_len + 1, 0, 0);
    s->line_len = 0;
}

APART static void helper_relay(struct spawn *s, char c)
{
    if (c == '\n') {
        if (!s->cut)
            helper_put_line(s);
        s->cut = false;
        return;
    }
    if (s->cut)
        return;
    s->line.text[s->line_len++] = (unsigned char)c < ' ' ? ' ' : c;
    if (s->line_len == LINE_MOST) {
        helper_put_line(s);
        s->cut = true;
    }
}

/* Keeps the first bytes in the request's buffer, if it has one; else the last SPAWN_TEXT_SIZE -
 * 1. */
APART static void helper_keep(struct spawn *s, char c)
{
    if (s->request.output) {
        if (s->output_len < s->request.output_size)
            s->request.output[s->output_len++] = c;
        return;
    }
    if (s->text_len == SPAWN_TEXT_SIZE - 1) {
        for (uint32_t i = 0; i < SPAWN_TEXT_SIZE / 2; i++)
            s->text[i] = s->text[i + SPAWN_TEXT_SIZE / 2 - 1];
        s->text_len = SPAWN_TEXT_SIZE / 2;
    }
    s->text[s->text_len++] = c;
}

/* Returns false at the end of the output or when nothing is there. */
APART static bool helper_read(struct spawn *s, int fd, long *got)
{
    *got = RAW(SYS_read, fd, s->read, sizeof s->read, 0, 0);
    for (long i = 0; i < *got; i++) {
        if (s->request.relay)
            helper_relay(s, s->read[i]);
        else
            helper_keep(s, s->read[i]);
    }
    return *got > 0;
}

/* Opens the program's stdin: a pipe or /dev/null. Negative: -errno. */
APART static int helper_input(struct spawn *s)
{
    int ends[2];
    s->feed = -1;
    if (!s->request.input)
        return (int)RAW(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC, 0, 0);
    long error = RAW(SYS_pipe2, ends, O_CLOEXEC, 0, 0, 0);
    if (error)
        return (int)error;
    RAW(SYS_fcntl, ends[1], F_SETFL, O_NONBLOCK, 0, 0);
    s->feed = ends[1];
    return ends[0];
}

/* Opens the request's file. Returns 0 or an errno value. */
APART static int helper_file(struct spawn *s)
{
    const struct file_identity *wanted = &s->request.identity;
    struct statx st = {.stx_mode = 0};
    s->file = -1;
    if (!s->request.file)
        return 0;
    long fd = RAW(SYS_openat, AT_FDCWD, s->request.file,
                  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0, 0);
    if (fd < 0)
        return fd == -ENOENT || fd == -ELOOP ? ESTALE : (int)-fd;
    s->file = (int)fd; /* 5 or more: 0 to 2 and the pipes are open */
    long error = RAW(SYS_statx, fd, "", AT_EMPTY_PATH, FILE_IDENTITY_MASK, &st);
    if (error)
        return (int)-error;
    const struct file_identity now = file_identity_of_statx(&st);
    return file_identity_same(&now, wanted) ? 0 : ESTALE;
}

/* Writes what the pipe takes now. For users with many pipes that is a page (pipe(7),
 * pipe-user-pages-soft). */
APART static void helper_feed(struct spawn *s)
{
    size_t left = s->request.input_len - s->fed;
    long put = left ? RAW(SYS_write, s->feed, s->request.input + s->fed, left, 0, 0) : 0;
    if (put > 0)
        s->fed += (size_t)put;
    if (s->fed < s->request.input_len && (put > 0 || put == -EAGAIN || put == -EINTR))
        return;
    RAW(SYS_close, s->feed, 0, 0, 0, 0); /* all written, or the program closed it */
    s->feed = -1;
}

/* Waits for the program's end. Processes that it started may live on; their output is not
 * awaited. */
APART static void helper_watch(struct spawn *s, long program, int fd)
{
    bool open = true, killed = false;
    for (;;) {
        struct pollfd look[2] = {{.fd = open ? fd : -1, .events = POLLIN},
                                 {.fd = s->feed, .events = POLLOUT}};
        struct timespec wait = {.tv_nsec = (open || s->feed >= 0 ? CHECK_MS : CLOSED_MS) * 1000000};
        long got = 0, ready = RAW(SYS_ppoll, look, 2, &wait, NULL, 0);
        if (ready > 0 && look[0].revents && !helper_read(s, fd, &got) && got == 0)
            open = false;
        if (ready > 0 && look[1].revents)
            helper_feed(s);
        if (!killed && atomic_load_explicit(&s->kill, memory_order_relaxed)) {
            RAW(SYS_kill, -program, SIGKILL, 0, 0, 0);
            killed = true;
        }
        if (RAW(SYS_wait4, program, &s->status, WNOHANG, NULL, 0) == program)
            break;
    }
    RAW(SYS_fcntl, fd, F_SETFL, O_NONBLOCK, 0, 0);
    for (long got = 0, n = 0; open && n < 4096 && helper_read(s, fd, &got); n++)
        ;
    if (s->request.relay && s->line_len > 0)
        helper_put_line(s);
}

APART static void helper_run(struct spawn *s)
{
    int ends[2];
    s->input = helper_input(s);
    if (s->input < 0 || RAW(SYS_pipe2, ends, O_CLOEXEC, 0, 0, 0) != 0) {
        s->exec_error = EMFILE;
        return;
    }
    s->output = ends[1];
    s->exec_error = helper_file(s);
    if (s->exec_error)
        return;
    long program = clone(program_start, s->program_stack, CLONE_VM | CLONE_VFORK | SIGCHLD, s);
    if (program < 0) {
        s->exec_error = EAGAIN;
        return;
    }
    RAW(SYS_close, s->input, 0, 0, 0, 0);
    RAW(SYS_close, s->output, 0, 0, 0, 0);
    if (s->file >= 0)
        RAW(SYS_close, s->file, 0, 0, 0, 0);
    helper_watch(s, program, ends[0]);
}

APART static int helper_start(void *arg)
{
    struct spawn *s = arg;
    RAW(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    RAW(SYS_prctl, PR_SET_NAME, "cprof-helper", 0, 0, 0);
    if (RAW(SYS_getppid, 0, 0, 0, 0, 0) == s->host) {
        default_signals();
        close_from(s->request.relay ? STDERR_FILENO + 1 : STDERR_FILENO);
        RAW(SYS_close, 0, 0, 0, 0, 0);
        RAW(SYS_close, 1, 0, 0, 0, 0);
        /* Fills 0 to 2, so that nothing opened below gets these numbers. */
        for (int i = 0; i < 3; i++)
            RAW(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0, 0);
        helper_run(s);
    }
    atomic_store_explicit(&s->over, true, memory_order_release);
    RAW(SYS_exit_group, 0, 0, 0, 0, 0);
    return 0;
}

/* ---- the cprof thread ---- */

static struct spawn *map_spawn(void)
{
    size_t own = (sizeof(struct spawn) + 4095) & ~(size_t)4095;
    size_t size = own + 2 * (GUARD_BYTES + STACK_BYTES);
    char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    /* Stacks grow down, towards their guard pages. */
    mprotect(at, GUARD_BYTES, PROT_NONE);
    mprotect(at + GUARD_BYTES + STACK_BYTES, GUARD_BYTES, PROT_NONE);
    struct spawn *s = (struct spawn *)(void *)(at + 2 * (GUARD_BYTES + STACK_BYTES));
    s->mapped = size;
    s->helper_stack = at + GUARD_BYTES + STACK_BYTES;
    s->program_stack = at + 2 * (GUARD_BYTES + STACK_BYTES);
    return s;
}

static void unmap_spawn(struct spawn *s)
{
    char *end = s->program_stack;
    munmap(end - 2 * (GUARD_BYTES + STACK_BYTES), s->mapped);
}

struct spawn *spawn_start(const struct spawn_request *request, int *error)
{
    struct spawn *s = map_spawn();
    if (!s) {
        *error = ENOMEM;
        return NULL;
    }
    s->request = *request;
    s->request.relay = request->relay && log_is_for_lines();
    s->host = (pid_t)syscall(SYS_getpid);
    memcpy(s->line.prefix, PREFIX, PREFIX_BYTES);
    if (request->input_len > SPAWN_INPUT_MOST) {
        *error = E2BIG;
        unmap_spawn(s);
        return NULL;
    }
    sigset_t all, before; /* the cprof thread blocks all signals anyway; tests do not */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    s->helper = clone(helper_start, s->helper_stack, CLONE_VM, s); /* exit signal 0 */
    *error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (s->helper >= 0)
        return s;
    unmap_spawn(s);
    return NULL;
}

bool spawn_poll(struct spawn *s, struct spawn_result *result)
{
    int saved = errno;
    int unused;
    pid_t ended = waitpid(s->helper, &unused, WNOHANG | __WCLONE);
    bool gone = ended < 0 && errno != EINTR; /* the program reaped it, with __WALL */
    errno = saved;
    if (ended != s->helper && !gone)
        return false;
    bool over = atomic_load_explicit(&s->over, memory_order_acquire);
    result->exec_error = over ? s->exec_error : 0;
    result->status = over ? s->status : SIGKILL; /* something killed the helper */
    memcpy(result->text, s->text, s->text_len);
    result->text[s->text_len] = '\0';
    result->output_len = s->output_len;
    if (!gone) /* otherwise the helper may still be exiting, and a fault there would hit the host */
        unmap_spawn(s);
    return true;
}

void spawn_kill(struct spawn *s)
{
    atomic_store_explicit(&s->kill, true, memory_order_relaxed);
}
