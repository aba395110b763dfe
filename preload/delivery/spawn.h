/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that cprof starts: the on-ready command, curl and addr2line. The host does not notice
 * them:
 *
 *   wait(), waitpid(-1), SIGCHLD  The program is a child of a helper process. The helper is cloned
 *                                 with exit signal 0, so only __WCLONE and __WALL see it. It never
 *                                 calls exec, which would reset the exit signal to SIGCHLD
 *                                 (execve(2)).
 *   atfork handlers, page tables  clone(CLONE_VM) copies nothing and runs no handlers. The helper
 *                                 has its own stack and blocks signals. It makes system calls
 *                                 without the C library, whose errno is the cprof thread's.
 *   descriptors                   The helper has a copy of the table, and closes all but a stderr
 *                                 that takes messages. Only the helper has the output's pipe.
 *   the host's end                The helper dies with the cprof thread (PR_SET_PDEATHSIG), so it
 *                                 does not hold the host's memory.
 *
 * The program runs in its own session (Ctrl-C does not reach it), with default signal handlers and
 * no blocked signals. cprof thread only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/writer.h"

enum {
    SPAWN_INPUT_MOST = 131072,
    SPAWN_TEXT_SIZE = 1024, /* size of the kept output with its NUL */
    SPAWN_MODEST_S = 60     /* of processor time */
};

#define SPAWN_FILE      3
#define SPAWN_FILE_PATH "/proc/self/fd/3"

#define SPAWN_MODEST_BYTES (UINT64_C(2) << 30) /* of its own memory */

/* The program and its input. All pointers must stay valid until spawn_poll() returns true. */
struct spawn_request {
    const char *const *argv; /* argv[0] is a path */
    const char *const *envp;
    const char *input; /* its stdin, at most SPAWN_INPUT_MOST bytes; NULL: /dev/null */
    size_t input_len;
    const char *file;              /* a file that it can read as SPAWN_FILE_PATH; or NULL */
    struct file_identity identity; /* of the file; another file is not passed */
    /* true: its output goes where messages go (writer.h), each line with cprof's prefix; false: the
     * end of the output is kept */
    bool relay;
    char *output; /* if not NULL, keeps the beginning of the output */
    size_t output_size;
    bool modest; /* niced, and killed beyond SPAWN_MODEST_BYTES or SPAWN_MODEST_S */
};

/* How the program ended. */
struct spawn_result {
    /* an errno value if it could not start, else 0; ESTALE: its file is gone or is another one */
    int exec_error;
    int status;                 /* as waitpid(2) returns it */
    char text[SPAWN_TEXT_SIZE]; /* the end of its output if kept here */
    size_t output_len;          /* bytes in the request's `output` */
};

struct spawn; /* a running program */

/* Starts the program. Returns NULL and an errno value in *error if there is no memory or process.
 * Takes less than 100 us. */
struct spawn *spawn_start(const struct spawn_request *request, int *error);

/* True once it has ended: fills *result and frees the spawn. Does not wait. */
bool spawn_poll(struct spawn *spawn, struct spawn_result *result);

/* Kills the program and its process group. spawn_poll() returns true within 200 ms. */
void spawn_kill(struct spawn *spawn);
