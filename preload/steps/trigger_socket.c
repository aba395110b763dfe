/* SPDX-License-Identifier: Apache-2.0 */
/* The socket of CPROF_TRIGGER=socket. */
#define _GNU_SOURCE
#include "preload/steps/trigger_socket.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "preload/settings/settings.h"
#include "preload/steps/steps.h"
#include "preload/steps/trigger.h"

#define CLIENTS_MOST 16
#define BACKLOG      4096 /* strangers fill it as well; net.core.somaxconn limits it */
#define ACCEPTS_MOST 256  /* in one pass */
#define LINE_MOST    256
#define PATIENCE_MS  5000 /* for a client to send its request */

/* A descriptor, and the inode by which to recognize it. */
struct endpoint {
    int fd;
    dev_t device;
    ino_t inode;
};

struct client {
    bool used, waiting; /* waiting: for a trace */
    bool timed;         /* waits for a window of seconds */
    struct endpoint at;
    uint64_t since_ns;
    int64_t step; /* a trace with this or a later step serves */
    unsigned len;
    char line[LINE_MOST];
};

static struct endpoint listener = {.fd = -1};
static struct client clients[CLIENTS_MOST];
static uint64_t n_traces;
static bool crowded; /* a stranger connected in the last pass */

static bool set_endpoint(struct endpoint *e, int fd)
{
    struct stat st;
    if (io_fstat(fd, &st) != 0)
        return false;
    *e = (struct endpoint){fd, st.st_dev, st.st_ino};
    return true;
}

/* The program may have closed the descriptor and reused its number, where it can reach it. */
static bool is_own_endpoint(const struct endpoint *e)
{
    struct stat st;
    return e->fd >= 0 && (io_is_apart() || (io_fstat(e->fd, &st) == 0 && st.st_dev == e->device &&
                                            st.st_ino == e->inode));
}

static void close_ours(struct endpoint *e)
{
    if (is_own_endpoint(e))
        io_close(e->fd);
    e->fd = -1;
}

/* ---- listening ------------------------------------------------------------------------------- */

/* The number of the pid namespace; 0: unknown. Containers that share a network need it. */
static unsigned long long pid_namespace(void)
{
    char link[64] = "";
    unsigned long long number = 0;
    if (readlink("/proc/self/ns/pid", link, sizeof link - 1) <= 0 ||
        sscanf(link, "pid:[%llu]", &number) != 1)
        return 0;
    return number;
}

static socklen_t make_address(struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "cprof-%llu-%ld",
                     pid_namespace(), (long)getpid());
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static bool open_listener(void)
{
    struct sockaddr_un address;
    socklen_t size = make_address(&address);
    int fd = io_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && io_bind(fd, (struct sockaddr *)&address, size) == 0 &&
        io_listen(fd, BACKLOG) == 0 && set_endpoint(&listener, fd))
        return true;
    log_warn("CPROF_TRIGGER=socket: cannot listen at @%s: %s; the trigger is off",
             address.sun_path + 1, strerror(errno));
    if (fd >= 0)
        io_close(fd);
    return false;
}

static bool is_allowed(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return io_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           owner_is_trusted(peer.uid);
}

static struct client *free_client(void)
{
    for (unsigned i = 0; i < CLIENTS_MOST; i++)
        if (!clients[i].used)
            return &clients[i];
    return NULL;
}

/* Bounded: strangers may connect faster than this accepts. */
static void accept_some(void)
{
    int fd;
    crowded = false;
    for (int i = 0; i < ACCEPTS_MOST && is_own_endpoint(&listener) &&
                    (fd = io_accept4(listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;
         i++) {
        bool allowed = is_allowed(fd);
        crowded = crowded || !allowed;
        struct client *c = allowed ? free_client() : NULL;
        if (!c || !set_endpoint(&c->at, fd)) {
            io_close(fd);
            continue;
        }
        c->used = true;
        c->waiting = false;
        c->since_ns = clock_monotonic_ns();
        c->len = 0;
    }
}

/* ---- clients --------------------------------------------------------------------------------- */

static void disconnect(struct client *c)
{
    close_ours(&c->at);
    c->used = c->waiting = false;
}

/* Disconnects a client whose buffer is full. */
static void tell_client(struct client *c, const char *word, const char *text)
{
    char line[PATH_MAX + 64];
    int n = snprintf(line, sizeof line, "%s%s%s\n", word, *text ? " " : "", text);
    if (n <= 0 || (size_t)n >= sizeof line || !is_own_endpoint(&c->at) ||
        io_send(c->at.fd, line, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) != n)
        disconnect(c);
}

/* Reads the rest of the client's input first: closing a socket with unread bytes discards the
 * answer. */
static void tell_and_disconnect(struct client *c, const char *word, const char *text)
{
    char unused[1024];
    tell_client(c, word, text);
    for (int i = 0; i < 64 && is_own_endpoint(&c->at); i++)
        if (io_recv(c->at.fd, unused, sizeof unused, MSG_DONTWAIT) <= 0)
            break;
    disconnect(c);
}

static void tell_status(struct client *c)
{
    static const char *const actions[] = {"skip", "warmup", "active", "active_and_save"};
    struct trace_identity id = {0};
    char text[160];
    identity_fill(&id);
    snprintf(text, sizeof text,
             "pid=%ld rank=%" PRId64 " step=%" PRId64 " action=%s traces=%" PRIu64, (long)getpid(),
             id.rank, steps_current(), actions[steps_action()], n_traces);
    tell_and_disconnect(c, "status", text);
}

/* Saves the flight recorder. */
static void save_last(struct client *c)
{
    char path[PATH_MAX];
    if (!writer_flight_save(path, sizeof path)) {
        tell_and_disconnect(c, "error", "no flight recorder: CPROF_FLIGHT is off, or cannot write");
        return;
    }
    tell_client(c, "trace", path);
    tell_and_disconnect(c, "done", "");
}

static void open_window(struct client *c, const char *text)
{
    struct trigger_request request = {0};
    char reply[160];
    if (!trigger_parse(text, &request)) {
        tell_and_disconnect(c, "error", "a window takes steps=N and from=K, or seconds=S");
        return;
    }
    if (!trigger_window(&request, reply, sizeof reply, &c->step, &c->timed)) {
        tell_and_disconnect(c, "error", reply);
        return;
    }
    c->waiting = true;
    tell_client(c, reply, "");
}

static void answer(struct client *c)
{
    static const char window[] = "window";
    size_t n = sizeof window - 1;
    if (strcmp(c->line, "status") == 0)
        tell_status(c);
    else if (strcmp(c->line, "last") == 0)
        save_last(c);
    else if (strncmp(c->line, window, n) == 0 && (c->line[n] == ' ' || !c->line[n]))
        open_window(c, c->line + n);
    else
        tell_and_disconnect(
            c, "error",
            "known requests: window [steps=N] [from=K], window seconds=S, last, status");
}

/* True when the client has closed both directions. One that closed only its sending half still
 * reads. */
static bool has_hung_up(const struct client *c)
{
    return io_poll(c->at.fd, 0) & POLLHUP;
}

/* Reads from a client. Disconnects a waiting one that is gone. */
static void read_client(struct client *c)
{
    char unused[64], *at = c->waiting ? unused : c->line + c->len;
    size_t room = c->waiting ? sizeof unused : sizeof c->line - 1 - c->len;
    ssize_t n = io_recv(c->at.fd, at, room, MSG_DONTWAIT);
    if (n == 0 && !c->waiting && c->len > 0)
        c->line[c->len++] = '\n'; /* the end of the stream ends the line */
    else if (n == 0 && c->waiting && !has_hung_up(c))
        return;
    else if (n <= 0 && !(n < 0 && (errno == EAGAIN || errno == EINTR)))
        disconnect(c);
    if (!c->used || c->waiting)
        return;
    c->len += n > 0 ? (unsigned)n : 0;
    char *end = memchr(c->line, '\n', c->len);
    if (end) {
        *end = '\0';
        if (end > c->line && end[-1] == '\r')
            end[-1] = '\0';
        answer(c);
    } else if (c->len >= sizeof c->line - 1) {
        tell_and_disconnect(c, "error", "the line is too long");
    } else if (clock_monotonic_ns() - c->since_ns > PATIENCE_MS * 1000000ull) {
        disconnect(c);
    }
}

/* ---- passes: the descriptors live outside the program's table where possible ---- */

bool trigger_socket_poll(void)
{
    static bool opened;
    if (!opened && !open_listener())
        return false;
    opened = true;
    accept_some();
    for (unsigned i = 0; i < CLIENTS_MOST; i++) {
        struct client *c = &clients[i];
        if (c->used && !is_own_endpoint(&c->at))
            c->used = c->waiting = false;
        if (c->used)
            read_client(c);
        if (c->waiting && writer_is_off())
            tell_and_disconnect(c, "error", "recording is off: no trace was written");
        else if (c->waiting && c->timed && trigger_left_nothing())
            tell_and_disconnect(c, "error", "nothing was recorded: no trace was written");
    }
    return true;
}

bool trigger_socket_crowded(void)
{
    return crowded;
}

void trigger_socket_trace(const struct saved_trace *trace)
{
    n_traces++;
    for (unsigned i = 0; i < CLIENTS_MOST; i++) {
        struct client *c = &clients[i];
        if (!c->waiting || (trace->first_step < c->step && trace->last_step < c->step))
            continue;
        tell_client(c, "trace", trace->path);
        if (c->used)
            tell_and_disconnect(c, "done", "");
    }
}

void trigger_socket_close(void)
{
    for (unsigned i = 0; i < CLIENTS_MOST; i++)
        if (clients[i].waiting)
            tell_and_disconnect(&clients[i], "error", "the program ends; no trace was written");
        else if (clients[i].used)
            disconnect(&clients[i]);
    close_ours(&listener);
}

void trigger_socket_in_child(void)
{
    for (unsigned i = 0; i < CLIENTS_MOST; i++)
        if (clients[i].used)
            disconnect(&clients[i]);
    close_ours(&listener);
}
