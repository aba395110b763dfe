/* SPDX-License-Identifier: Apache-2.0 */
/* Ends the process once the program's last thread has exited. */
#define _GNU_SOURCE
#include "preload/hooks/last_thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/core/core.h"
#include "writer/writer.h"

#define POLL_MS  20
#define ALONE_MS 1000 /* longest wait for finished cprof threads to exit */

static pthread_key_t key;
static _Atomic bool main_left;
static sigset_t mask; /* the main thread's; written before main_left */

/* Destructor of `key`: the C library runs it for the main thread only if that exits before the
 * process. */
static void main_leaves(void *unused)
{
    (void)unused;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    atomic_store(&main_left, true);
    writer_wake();
}

void last_thread_start(void)
{
    if ((pid_t)syscall(SYS_gettid) == getpid() && pthread_key_create(&key, main_leaves) == 0)
        pthread_setspecific(key, &key);
}

/* Number of threads, including a main thread that has exited; 0: unknown. The link count of the
 * folder gives it without a descriptor (proc_task_getattr() in fs/proc/base.c). */
static unsigned count_threads(void)
{
    struct stat st;
    return stat("/proc/self/task", &st) == 0 && st.st_nlink > 2 ? (unsigned)st.st_nlink - 2 : 0;
}

/* Destructors of other keys may still run before that. */
static bool main_is_gone(void)
{
    return thread_state((uint32_t)getpid()) == 'Z';
}

/* Has the main thread's signal mask, because the program's atexit() functions run here. */
static void *end_process(void *unused)
{
    prctl(PR_SET_NAME, "cprof-last", 0, 0, 0);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    cprof_at_exit();
    for (unsigned ms = 0; ms < ALONE_MS && count_threads() > 2; ms++)
        usleep(1000);
    return unused;
}

static bool start_end(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    io_thread_returns();
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    bool done = pthread_create(&thread, &attr, end_process, NULL) == 0;
    pthread_attr_destroy(&attr);
    return done;
}

int last_thread_poll(bool stopping)
{
    static bool ending;
    if (stopping || ending || !atomic_load_explicit(&main_left, memory_order_acquire))
        return -1;
    if (count_threads() == writer_threads() + 1 && main_is_gone())
        ending = start_end();
    return ending ? -1 : POLL_MS;
}
