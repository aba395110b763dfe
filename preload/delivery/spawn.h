/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that cprof starts: the user's on-ready command, curl and addr2line. The host must not
 * notice them:
 *
 *   wait(), waitpid(-1), SIGCHLD  The program is not the host's child but that of a helper process,
 *                                 which is cloned with exit signal 0 and so is invisible to all but
 *                                 __WCLONE and __WALL. It never calls exec, because execve sets the
 *                                 exit signal back to SIGCHLD (execve(2)).
 *   atfork handlers, page tables  clone(CLONE_VM): nothing is copied, no handler runs. The helper
 *                                 runs on a stack of its own, makes system calls without the C
 *                                 library (whose errno is the cprof thread's) and has signals
 *                                 blocked.
 *   descriptors                   The helper's table is a copy, of which it closes all but a stderr
 *                                 that takes lines. The pipe with the program's output is open
 *                                 there only, so that nothing of the host can meet it.
 *   the host's end                The helper dies with the cprof thread (PR_SET_PDEATHSIG), and so
 *                                 does not hold the host's memory.
 *
 * The program runs in a session of its own (Ctrl-C does not reach it), with default signal handlers
 * and no signal blocked. cprof thread only.
 */
#ifndef PRELOAD_DELIVERY_SPAWN_H
#define PRELOAD_DELIVERY_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/writer.h"

enum {
    SPAWN_INPUT_MOST = 131072,
    SPAWN_TEXT_SIZE = 1024, /* of the output that is kept, with its NUL */
    SPAWN_MODEST_S = 60     /* of a processor's time */
};

#define SPAWN_FILE      3
#define SPAWN_FILE_PATH "/proc/self/fd/3"

#define SPAWN_MODEST_BYTES (UINT64_C(2) << 30) /* of memory of its own */

/* What to run. Everything pointed to must stay as it is until spawn_poll() returns true. */
struct spawn_request {
    const char *const *argv; /* argv[0] is the program's path: it is not searched for */
    const char *const *envp;
    const char *input; /* its stdin, at most SPAWN_INPUT_MOST bytes; NULL: /dev/null */
    size_t input_len;
    const char *file;              /* open in it to read, as SPAWN_FILE_PATH; or NULL */
    struct file_identity identity; /* of the file; one that is another by now is not handed over */
    /* its output goes to stderr, each line with our prefix, where messages would (writer.h); else
     * the end of it is kept */
    bool relay;
    char *output; /* not NULL: the beginning of its output is kept here instead */
    size_t output_size;
    bool modest; /* niced, and ended by the kernel beyond SPAWN_MODEST_BYTES or SPAWN_MODEST_S */
};

/* How it ended. */
struct spawn_result {
    int exec_error;             /* not 0: it could not be started, an errno value; ESTALE: its
                                 * file is gone, or has become another one */
    int status;                 /* as waitpid(2) gives it */
    char text[SPAWN_TEXT_SIZE]; /* the last bytes of its output, where nothing else was asked for */
    size_t output_len;          /* bytes in the request's `output` */
};

struct spawn; /* a program that runs */

/* Starts it; NULL, and *error an errno value, when there is no memory or no process to be had. <
 * 100 us. */
struct spawn *spawn_start(const struct spawn_request *request, int *error);

/* True when it has ended: *result is filled and the spawn is gone. Does not wait. */
bool spawn_poll(struct spawn *spawn, struct spawn_result *result);

/* Ends the program and what it started in its session's first group. spawn_poll() tells when it is
 * done, within 200 ms. */
void spawn_kill(struct spawn *spawn);

#endif
