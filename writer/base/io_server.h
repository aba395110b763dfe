/* SPDX-License-Identifier: Apache-2.0 */
/* The thread behind io_thread.h. It makes the system calls that it is given, and nothing else.
 *
 * Its descriptor table is its own. Other people's code must not run there: a malloc hook or an
 * unwinder may keep a descriptor in a variable, and on this thread the number means another file.
 * So io_server.c calls no function of the C library. scripts/lint/check_source.py lists what it may
 * call. */
#pragma once

#include <stdint.h>

/* Whose turn it is. IO_REFUSED: the thread got no table of its own and has ended; see result. */
enum io_turn { IO_ASKS, IO_SERVES, IO_REFUSED, IO_ENDS };

/* The thread whose turn it is may read and write the other fields. */
struct io_server {
    _Atomic uint32_t turn; /* futex: enum io_turn; both threads write it (release) */
    long number, args[6];  /* the system call */
    long result;           /* of the system call: -errno on failure */
};

/* The thread's function; takes a struct io_server with turn IO_SERVES. Makes the table, then gives
 * the first turn to IO_ASKS. Returns after IO_ENDS or IO_REFUSED. */
void *io_serve(void *server);
