/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to the user: one line per write(2), no allocation, errno kept. A line that cannot be
 * written at once is dropped. Any thread. */
#include "writer/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "writer/os/os.h"

/* per process, and as many errors: cprof must not fill a log */
#define LINES_MAX  100u
#define LINE_BYTES 2048u

static _Atomic int level = LOG_INFO;
/* Standard error at the start of the program. Written in the constructor. */
static enum { NOT_ASKED, NOTHING, SOMETHING } began_with;
static struct stat at_start;
static _Atomic uint32_t lines[2]; /* lines written; [1]: errors */

void log_set_level(enum log_level new_level)
{
    atomic_store(&level, (int)new_level);
}

void log_start(void)
{
    began_with = fstat(STDERR_FILENO, &at_start) == 0 ? SOMETHING : NOTHING;
}

/* The program may have reused descriptor 2 for another file. Lines go there if it is what it was,
 * or what people redirect to: a terminal, a pipe, a file opened for append. */
bool log_is_for_lines(void)
{
    struct stat now;
    if (began_with == NOT_ASKED || isatty(STDERR_FILENO))
        return true;
    if (began_with == NOTHING || fstat(STDERR_FILENO, &now) != 0)
        return false;
    if (now.st_dev == at_start.st_dev && now.st_ino == at_start.st_ino)
        return true;
    return S_ISFIFO(now.st_mode) ||
           (S_ISREG(now.st_mode) && (fcntl(STDERR_FILENO, F_GETFL) & O_APPEND));
}

/* True when a line can be written at once. A reader that has stopped must not stop the program. The
 * first wait is LOG_PATIENCE_MS; further ones are 0 until the reader reads again. */
static bool is_writable(void)
{
    static _Atomic bool stopped;
    struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};
    bool room = poll(&fd, 1, atomic_load(&stopped) ? 0 : LOG_PATIENCE_MS) > 0;
    atomic_store(&stopped, !room);
    return room;
}

/* Writes to stderr. Holds back the signals that a failed write raises (no reader, RLIMIT_FSIZE). */
static void write_line(const char *text, size_t size)
{
    struct write_signals held;
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* the caller may hold a lock */
    write_signals_hold(&held);
    ssize_t done = log_is_for_lines() && is_writable() ? write(STDERR_FILENO, text, size) : 0;
    write_signals_release(&held, done < 0 ? errno : 0);
    pthread_setcancelstate(cancel, NULL);
}

/* Replaces control characters by spaces: a path or name may contain anything, and must not break
 * the line or command a terminal. Those of ASCII, and those of two bytes in UTF-8 (0xc2, 0x80 to
 * 0x9f). */
static void hide_controls(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i],
                      next = i + 1 < len ? (unsigned char)text[i + 1] : 0;
        if (c < ' ' || c == 0x7f || (c == 0xc2 && next >= 0x80 && next < 0xa0))
            text[i] = ' ';
        if (c == 0xc2 && text[i] == ' ')
            text[++i] = ' ';
    }
}

/* Formats and writes a line in `room` of LINE_BYTES. */
static void format_line(char *room, const char *format, va_list args)
{
    static const char prefix[] = "cprof: ";
    size_t used = sizeof prefix - 1;
    memcpy(room, prefix, used);
    int more = vsnprintf(room + used, LINE_BYTES - used - 1, format, args);
    if (more <= 0)
        return;
    used += (size_t)more < LINE_BYTES - used - 1 ? (size_t)more : LINE_BYTES - used - 2;
    hide_controls(room, used);
    room[used++] = '\n';
    write_line(room, used);
}

/* For a thread while another one writes a line, or a signal handler during one. */
static __attribute__((noinline)) void put_on_stack(const char *format, va_list args)
{
    char room[LINE_BYTES];
    format_line(room, format, args);
}

/* Static room: a crash handler that ends the program may have a stack of 8 KB, half of it taken by
 * registers. */
static void put_line(const char *format, va_list args)
{
    static char room[LINE_BYTES];
    static atomic_flag taken = ATOMIC_FLAG_INIT;
    int saved = errno;
    if (atomic_flag_test_and_set_explicit(&taken, memory_order_acquire)) {
        put_on_stack(format, args);
    } else {
        format_line(room, format, args);
        atomic_flag_clear_explicit(&taken, memory_order_release);
    }
    errno = saved;
}

static bool is_on(enum log_level at)
{
    return (int)at <= atomic_load_explicit(&level, memory_order_relaxed);
}

/* Writes a line up to the limit. */
static void put_counted(enum log_level at, const char *format, va_list args)
{
    if (!is_on(at))
        return;
    uint32_t n = atomic_fetch_add_explicit(&lines[at == LOG_ERROR], 1, memory_order_relaxed);
    if (n <= LINES_MAX)
        put_line(n < LINES_MAX ? format : "more messages follow; no more are written", args);
}

void log_last(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (is_on(LOG_INFO))
        put_line(format, args);
    va_end(args);
}

#define LOG_FUNCTION(name, at)                                                                     \
    void name(const char *format, ...)                                                             \
    {                                                                                              \
        va_list args;                                                                              \
        va_start(args, format);                                                                    \
        put_counted(at, format, args);                                                             \
        va_end(args);                                                                              \
    }

LOG_FUNCTION(log_error, LOG_ERROR)
LOG_FUNCTION(log_warn, LOG_WARN)
LOG_FUNCTION(log_info, LOG_INFO)
LOG_FUNCTION(log_debug, LOG_DEBUG)
