/* SPDX-License-Identifier: Apache-2.0 */
/* The thread behind io_thread.h. It makes the system calls that it is given and does nothing else.
 *
 * Its descriptor table is its own. Other people's code must not run there: a malloc hook or an
 * unwinder keeps a descriptor in a variable of the process, and on this thread the number means
 * another file. So io_server.c calls no function of the C library. scripts/lint/check_source.py has
 * the list of what it may call. */
#ifndef WRITER_BASE_IO_SERVER_H
#define WRITER_BASE_IO_SERVER_H

#include <stdint.h>

/* Whose turn it is. IO_REFUSED: the thread got no table of its own and has ended; see result. */
enum io_turn { IO_ASKS, IO_SERVES, IO_REFUSED, IO_ENDS };

/* Who has the turn may read and write the other fields. */
struct io_server {
    _Atomic uint32_t turn; /* futex: enum io_turn; both threads write it (release) */
    long number, args[6];  /* the system call */
    long result;           /* as the kernel gives it: -errno on failure */
};

/* What the thread runs, with a struct io_server whose turn is IO_SERVES. Makes the table, then
 * gives the first turn to IO_ASKS. Returns after IO_ENDS and IO_REFUSED. */
void *io_serve(void *server);

#endif
