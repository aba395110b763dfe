/* SPDX-License-Identifier: Apache-2.0 */
/* Messages for people: one line, one write(2), no allocation, errno kept. Any thread. */
#include "writer/writer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINES_MAX  100u /* in the life of the process: a host's log is not ours to fill */
#define LINE_BYTES 2048u

static _Atomic int level = LOG_INFO;
static _Atomic uint32_t lines;

void log_set_level(enum log_level new_level)
{
    atomic_store(&level, (int)new_level);
}

static void put(enum log_level at, const char *format, va_list args)
{
    if ((int)at > atomic_load_explicit(&level, memory_order_relaxed))
        return;
    uint32_t n = atomic_fetch_add_explicit(&lines, 1, memory_order_relaxed);
    if (n > LINES_MAX)
        return;
    if (n == LINES_MAX)
        format = "more messages follow; no more are written";
    int saved = errno;
    char line[LINE_BYTES] = "cprof: ";
    size_t used = strlen(line);
    int more = vsnprintf(line + used, sizeof line - used - 1, format, args);
    if (more > 0) {
        used += (size_t)more < sizeof line - used - 1 ? (size_t)more : sizeof line - used - 2;
        line[used++] = '\n';
        ssize_t done = write(STDERR_FILENO, line, used);
        (void)done; /* a closed stderr is the program's business */
    }
    errno = saved;
}

#define LOG_FUNCTION(name, at)                                                                     \
    void name(const char *format, ...)                                                             \
    {                                                                                              \
        va_list args;                                                                              \
        va_start(args, format);                                                                    \
        put(at, format, args);                                                                     \
        va_end(args);                                                                              \
    }

LOG_FUNCTION(log_error, LOG_ERROR)
LOG_FUNCTION(log_warn, LOG_WARN)
LOG_FUNCTION(log_info, LOG_INFO)
LOG_FUNCTION(log_debug, LOG_DEBUG)
