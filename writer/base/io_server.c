/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that makes system calls in a descriptor table of its own. */
#include "writer/base/io_server.h"

#include <limits.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "writer/os/os.h"

#define UNSHARE 2 /* CLOSE_RANGE_UNSHARE; some systems lack linux/close_range.h */

static void give_turn(struct io_server *s, enum io_turn to)
{
    atomic_store(&s->turn, to);
    futex_wake(&s->turn);
}

void *io_serve(void *server)
{
    struct io_server *s = server;
    const long *a = s->args;
    raw_syscall(SYS_prctl, PR_SET_NAME, (long)"cprof-files", 0, 0, 0, 0);
    s->result = raw_syscall(SYS_close_range, 0, UINT_MAX, UNSHARE, 0, 0, 0);
    if (s->result != 0) {
        give_turn(s, IO_REFUSED);
        return server;
    }
    for (;;) {
        give_turn(s, IO_ASKS);
        while (atomic_load(&s->turn) == IO_ASKS)
            futex_wait(&s->turn, IO_ASKS, -1);
        if (atomic_load(&s->turn) == IO_ENDS)
            return server;
        s->result = raw_syscall(s->number, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
}
