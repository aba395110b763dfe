/* SPDX-License-Identifier: Apache-2.0 */
/* Fork handlers: prepare, parent and child. They run on the forking thread. */
#include "preload/hooks/fork.h"

#include <errno.h>
#include <pthread.h>

#include "cupti/gpu_trace.h"
#include "preload/core/core.h"
#include "preload/torch/torch.h"
#include "preload/hooks/thread_count.h"
#include "writer/writer.h"

/* This fork took the locks; false if its thread held them already. Written before the fork by the
 * forking thread, read in parent and child. */
static bool holds_locks;

static void before_fork(void)
{
    int saved = errno;
    holds_locks = torch_lock_before_fork();
    if (holds_locks) {
        loader_hold();
        gpu_fork_begin();
    }
    errno = saved;
}

static void release(bool child)
{
    if (holds_locks) {
        gpu_fork_end();
        loader_release(child);
    }
    torch_lock_after_fork();
}

static void in_parent(void)
{
    release(false);
    thread_count_forked();
}

/* The only thread left, which holds the locks. */
static void in_child(void)
{
    release(true);
    cprof_in_child();
}

bool fork_start(void)
{
    return pthread_atfork(before_fork, in_parent, in_child) == 0;
}
