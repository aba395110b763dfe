/* SPDX-License-Identifier: Apache-2.0 */
/* See aside.h. */
#define _GNU_SOURCE
#include "writer/aside.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "writer/close_range.h"
#include "writer/futex.h"
#include "writer/life.h"
#include "writer/writer.h"

#define UNSHARE (1u << 1) /* CLOSE_RANGE_UNSHARE of linux/close_range.h, which is not everywhere */
#define STACK   (256u << 10)

/* Whose turn it is: a futex. Who has the turn may write everything here. */
enum turn { OURS, ASIDE, REFUSED, ENDING };
static _Atomic uint32_t turn;

static _Atomic(pthread_t) asking, working; /* the two threads; 0: none */
static enum { NOT_YET, THERE, NONE } other;
static void (*began)(void);
static uint64_t cpu_ns;
static int refusal; /* errno value */

/* What one of the two asks of the other, on the asking one's stack. */
struct request {
    aside_work *work;
    void *arg;
    int result;
    bool done;
};
static struct request *request; /* the last one, to be served by the one whose turn it is */

static bool is_here(_Atomic(pthread_t) *thread)
{
    return atomic_load_explicit(thread, memory_order_relaxed) == pthread_self();
}

static void give_turn(enum turn to)
{
    atomic_store(&turn, to);
    futex_wake(&turn);
}

static void wait_while(enum turn whose)
{
    while (atomic_load(&turn) == (uint32_t)whose)
        futex_wait(&turn, whose, -1);
}

static void serve(void)
{
    struct request *r = request;
    r->result = r->work(r->arg);
    r->done = true;
}

/* Has the other one do it, and meanwhile does what that one asks for. */
static int ask(enum turn whom, aside_work *work, void *arg)
{
    struct request mine = {.work = work, .arg = arg};
    request = &mine;
    for (;;) {
        give_turn(whom);
        wait_while(whom);
        if (mine.done)
            return mine.result;
        serve();
    }
}

/* ---- the other thread ------------------------------------------------------------------------------------- */

static void count_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    cpu_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *do_work(void *unused)
{
    prctl(PR_SET_NAME, "cprof-files", 0, 0, 0);
    if (syscall(SYS_close_range, 0u, UINT_MAX, UNSHARE) != 0) {
        refusal = errno;
        life_thread(-1);
        give_turn(REFUSED);
        return unused;
    }
    if (began)
        began();
    atomic_store(&working, pthread_self());
    give_turn(OURS);
    for (;;) {
        wait_while(OURS);
        if (atomic_load(&turn) == ENDING) {
            life_thread(-1);
            return unused;
        }
        serve();
        count_time();
        give_turn(OURS);
    }
}

/* With the signals blocked and on the processors that the thread which asks has. 0 or an errno value. */
static int start(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK);
    atomic_store(&turn, ASIDE);
    life_thread(1);
    int error = pthread_create(&thread, &attr, do_work, NULL);
    pthread_attr_destroy(&attr);
    if (error) {
        life_thread(-1);
        return error;
    }
    wait_while(ASIDE);
    return atomic_load(&turn) == REFUSED ? refusal : 0;
}

static bool is_there(void)
{
    if (other == NOT_YET) {
        int error = start();
        other = error ? NONE : THERE;
        if (error)
            log_debug("files are opened among the program's own: %s", strerror(error));
    }
    return other == THERE;
}

/* ---- for the thread that asks ----------------------------------------------------------------------------- */

void aside_begin(void (*on_thread)(void))
{
    began = on_thread;
    atomic_store(&asking, pthread_self());
}

int aside_run(aside_work *work, void *arg)
{
    return is_here(&asking) && is_there() ? ask(ASIDE, work, arg) : work(arg);
}

int aside_back(aside_work *work, void *arg)
{
    return is_here(&working) ? ask(OURS, work, arg) : work(arg);
}

uint64_t aside_cpu_ns(void)
{
    return cpu_ns;
}

void aside_end(void)
{
    aside_abandon();
    if (other == THERE)
        give_turn(ENDING);
}

void aside_abandon(void)
{
    /* threads that come later may have the same numbers */
    atomic_store(&asking, (pthread_t)0);
    atomic_store(&working, (pthread_t)0);
}
