/* SPDX-License-Identifier: Apache-2.0 */
/* fork: prepare, parent and child handlers; see fork.h. They run on the forking application thread.
 * */
#include "preload/hooks/fork.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "cupti/gpu_trace.h"
#include "preload/core/core.h"
#include "preload/torch/torch.h"
#include "preload/hooks/thread_count.h"
#include "writer/writer.h"

/* No fork handler stands around this one: it holds the locks. Written before the fork, read in
 * parent and child, by the forking thread. */
static bool holds;

static void before_fork(void)
{
    int saved = errno;
    holds = torch_lock_before_fork();
    if (holds) {
        loader_hold();
        gpu_fork_begin();
    }
    errno = saved;
}

static void release(bool child)
{
    if (holds) {
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

/* One thread is left, and it holds the locks. */
static void in_child(void)
{
    release(true);
    cprof_in_child();
}

bool fork_start(void)
{
    return pthread_atfork(before_fork, in_parent, in_child) == 0;
}
