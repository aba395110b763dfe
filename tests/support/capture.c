/* SPDX-License-Identifier: Apache-2.0 */
/* Captures what a test writes to stderr and stdout. */
#define _GNU_SOURCE
#include "tests/support/capture.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int redirect(int fd)
{
    char path[] = "/tmp/cprof-capture-XXXXXX";
    int file = mkostemp(path, O_APPEND); /* as with `>>`, which logs often use */
    ck_assert_int_ge(file, 0);
    unlink(path);
    ck_assert_int_eq(dup2(file, fd), fd);
    close(file);
    return fd;
}

void capture_start(void)
{
    fflush(NULL);
    redirect(STDERR_FILENO);
    redirect(STDOUT_FILENO);
}

static const char *contents(int fd)
{
    static char text[2][1 << 18];
    char *to = text[fd == STDERR_FILENO];
    fflush(NULL);
    ssize_t n = pread(fd, to, sizeof text[0] - 1, 0);
    ck_assert_int_ge(n, 0);
    to[n] = '\0';
    return to;
}

const char *capture_stderr(void)
{
    return contents(STDERR_FILENO);
}

const char *capture_stdout(void)
{
    return contents(STDOUT_FILENO);
}

unsigned capture_lines(const char *text, const char *part)
{
    unsigned n = 0;
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        n += memmem(text, length, part, strlen(part)) != NULL;
        text += length + (text[length] == '\n');
    }
    return n;
}
