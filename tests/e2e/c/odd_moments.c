/* SPDX-License-Identifier: Apache-2.0 */
/* Calls at the worst moments: in cancelled threads, in signal handlers inside malloc() or a
 * step, at forks while another thread marks steps. Prints the outcome. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "preload/cprof.h"

static _Atomic int stop;

static void each_microseconds(long us, void (*handler)(int))
{
    struct sigaction action = {.sa_flags = SA_RESTART};
    struct itimerval timer = {{0, us}, {0, us}};
    action.sa_handler = handler;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* ---- a thread is cancelled in its first call ---- */

static void *cancelled(void *unused)
{
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cancel(pthread_self());
    /* the next cancellation point ends the thread */
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    cprof_mark("first");
    pthread_testcancel();
    return unused;
}

static void cancel(void)
{
    pthread_t thread;
    void *how;
    pthread_create(&thread, NULL, cancelled, NULL);
    pthread_join(thread, &how);
    for (int i = 0; i < 5; i++)
        cprof_step();
    printf("cancelled %d, step %ld\n", how == PTHREAD_CANCELED, (long)cprof_step_number());
}

/* ---- a thread is cancelled in a step, and in an event with a stack: others must not wait ---- */

static void *cancelled_in_step(void *unused)
{
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cancel(pthread_self());
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    cprof_step();
    atomic_store(&stop, 1); /* the step was no cancellation point */
    pthread_testcancel();
    return unused;
}

static void cancel_in_step(void)
{
    pthread_t thread;
    void *how;
    alarm(60);
    cprof_mark("awake");
    pthread_create(&thread, NULL, cancelled_in_step, NULL);
    pthread_join(thread, &how);
    for (int i = 0; i < 5; i++)
        cprof_step();
    printf("came back %d, cancelled %d, step %ld\n", stop, how == PTHREAD_CANCELED,
           (long)cprof_step_number());
}

static _Atomic int marked;

static void *cancelled_in_stack(void *unused)
{
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cancel(pthread_self());
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    cprof_mark("with a stack");
    marked++;
    pthread_testcancel();
    return unused;
}

static void cancel_in_stack(int n)
{
    cprof_mark("awake");
    for (int i = 0; i < n; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, cancelled_in_stack, NULL);
        pthread_join(thread, NULL);
    }
    printf("marked %d\n", marked);
}

/* ---- a handler leaves while malloc() holds its lock ---- */

static void leave(int unused)
{
    (void)unused;
    _exit(7);
}

static void *allocate(void *unused)
{
    for (;;) {
        char *p = malloc(70000);
        *(volatile char *)p = 1;
        free(p);
    }
    return unused;
}

static void leave_in_malloc(void)
{
    pthread_t thread;
    cprof_mark("awake");
    pthread_create(&thread, NULL, allocate, NULL);
    each_microseconds(100000, leave);
    allocate(NULL);
}

/* ---- a handler leaves, on an alternate stack of the usual size ---- */

static void leave_on_small_stack(long size)
{
    enum { GUARD = 64 << 10 };
    char *at = mmap(NULL, GUARD + (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                    -1, 0);
    mprotect(at, GUARD, PROT_NONE);
    stack_t stack = {.ss_sp = at + GUARD, .ss_size = (size_t)size};
    struct sigaction action = {.sa_flags = SA_ONSTACK};
    action.sa_handler = leave;
    cprof_mark("awake");
    cprof_step();
    if (sigaltstack(&stack, NULL) != 0)
        exit(77);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
}

/* ---- a handler marks steps while its thread does ---- */

static _Atomic long handled;

static void step_in_handler(int unused)
{
    (void)unused;
    handled++;
    cprof_step();
}

static void steps_in_handlers(void)
{
    long steps = 0;
    each_microseconds(50, step_in_handler);
    while (handled < 5000 && steps < 100000000) {
        cprof_step();
        steps++;
    }
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    long counted = (long)cprof_step_number();
    printf("counted %d\n", counted >= steps && counted <= steps + handled);
}

static void *mark_steps(void *unused)
{
    while (!stop)
        cprof_step();
    return unused;
}

/* ---- a handler does not return to the mark that it interrupted ---- */

static sigjmp_buf back;
static volatile long marks;

static void jump_back(int unused)
{
    (void)unused;
    handled++;
    siglongjmp(back, 1);
}

static void jump_out_of_marks(int n)
{
    cprof_mark("before");
    each_microseconds(500, jump_back);
    sigsetjmp(back, 1);
    while (handled < n) {
        marks++;
        cprof_mark("mark");
    }
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    printf("%ld\n", marks);
}

static void jump_out_of_metadata(int n)
{
    static char text[200000];
    memset(text, 'x', sizeof text - 1);
    cprof_mark("before");
    each_microseconds(300, jump_back);
    sigsetjmp(back, 1);
    while (handled < n)
        cprof_add_metadata("key", text + (++marks & 1));
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    puts("came back");
}

/* ---- handlers end threads that mark steps: others must not wait for them ---- */

static void end_thread(int unused)
{
    (void)unused;
    pthread_exit(NULL);
}

static void end_in_steps(int n)
{
    cprof_mark("awake");
    signal(SIGUSR1, end_thread);
    alarm(60);
    for (int i = 0; i < n; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, mark_steps, NULL);
        usleep((useconds_t)(200 + i % 97));
        pthread_kill(thread, SIGUSR1);
        pthread_join(thread, NULL);
        cprof_step();
    }
    puts("came back");
}

/* ---- forks while another thread reads the loaded objects, as each step does with stacks on
 * ---- */

/* Exit status of a child that loads the library; -1: the child hangs. */
static int load_in_child(const char *library)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        _exit(dlopen(library, RTLD_NOW | RTLD_LOCAL) == NULL);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void forks(const char *library, int n)
{
    pthread_t thread;
    int status = 0;
    cprof_mark("awake");
    pthread_create(&thread, NULL, mark_steps, NULL);
    while (n-- > 0 && status == 0)
        status = load_in_child(library);
    stop = 1;
    pthread_join(thread, NULL);
    printf("child %d\n", status);
}

/* ---- many threads with one event each ---- */

static pthread_barrier_t all;

static void *mark_once(void *unused)
{
    cprof_range_push("once");
    cprof_range_pop();
    pthread_barrier_wait(&all);
    pthread_barrier_wait(&all);
    return unused;
}

/* getrusage() would include the peak of the process that executed this program. */
/* The value in KB of a line of /proc/self/status. */
static long kb_of(const char *key)
{
    char line[256];
    long kb = -1;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && kb < 0 && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0)
            kb = atol(line + strlen(key));
    if (f)
        fclose(f);
    return kb;
}

static void start_threads(int n, pthread_t *threads)
{
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    pthread_barrier_init(&all, NULL, (unsigned)n + 1);
    for (int i = 0; i < n; i++)
        if (pthread_create(&threads[i], &small, mark_once, NULL) != 0)
            exit(77);
    pthread_barrier_wait(&all);
}

static void wait_for_a_line(void)
{
    char wait[8];
    puts("ready");
    fflush(stdout);
    if (!fgets(wait, sizeof wait, stdin))
        exit(2);
}

/* Each of n threads has had an event, and the events are in the file. Three quarters of a
 * limited address space must then be free. */
static void limited_threads(int n)
{
    const struct rlimit limit = {UINT64_C(2) << 30, UINT64_C(2) << 30};
    pthread_t *threads = calloc((size_t)n, sizeof *threads);
    setrlimit(RLIMIT_AS, &limit);
    cprof_mark("awake");
    start_threads(n, threads);
    cprof_mark("last");
    wait_for_a_line();
    printf("%s\n", malloc(UINT64_C(3) << 29) ? "enough" : "not enough");
    pthread_barrier_wait(&all);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

static void many_threads(int n)
{
    pthread_t *threads = calloc((size_t)n, sizeof *threads);
    cprof_mark("awake");
    start_threads(n, threads);
    wait_for_a_line();
    pthread_barrier_wait(&all);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    printf("%ld MB\n", kb_of("VmHWM:") >> 10);
}

static void *mark_and_end(void *unused)
{
    cprof_range_push("once");
    cprof_range_pop();
    return unused;
}

/* The memory of ended threads must be freed while recording goes on. */
static void threads_in_turn(int n)
{
    cprof_mark("awake");
    long before = kb_of("VmSize:"), most = before + (1 << 20), now = most;
    for (int i = 0; i < n; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, mark_and_end, NULL) != 0)
            exit(77);
        pthread_join(thread, NULL);
    }
    cprof_mark("last");
    wait_for_a_line();
    for (int i = 0; i < 600 && (now = kb_of("VmSize:")) >= most; i++)
        usleep(100000);
    if (now < most)
        puts("given back");
    else
        printf("%ld MB are not given back\n", (now - before) >> 10);
}

/* ---- small stacks ---- */

static const char *export_to;

static void *wake_up(void *unused)
{
    cprof_step();
    return unused;
}

static void *export_there(void *unused)
{
    cprof_export_chrome_trace(export_to);
    return unused;
}

static void on_stack_of(size_t bytes, void *(*work)(void *))
{
    pthread_attr_t small;
    pthread_t thread;
    pthread_attr_init(&small);
    if (pthread_attr_setstacksize(&small, bytes) != 0 ||
        pthread_create(&thread, &small, work, NULL) != 0)
        exit(77);
    pthread_join(thread, NULL);
}

/* The smallest possible thread wakes cprof up; one of 48 KB writes a copy of the trace. */
static void small_stacks(const char *path)
{
    export_to = path;
    on_stack_of(16 << 10, wake_up);
    for (int i = 0; i < 6; i++) {
        cprof_mark("work");
        cprof_step();
    }
    on_stack_of(48 << 10, export_there);
    puts("came back");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "cancel") == 0)
        cancel();
    else if (strcmp(what, "cancel-in-step") == 0)
        cancel_in_step();
    else if (strcmp(what, "cancel-in-stack") == 0)
        cancel_in_stack(20);
    else if (strcmp(what, "leave-in-malloc") == 0)
        leave_in_malloc();
    else if (strcmp(what, "leave-on-small-stack") == 0)
        leave_on_small_stack(argc > 2 ? atol(argv[2]) : sysconf(_SC_SIGSTKSZ));
    else if (strcmp(what, "steps-in-handlers") == 0)
        steps_in_handlers();
    else if (strcmp(what, "jump-out-of-marks") == 0)
        jump_out_of_marks(20);
    else if (strcmp(what, "end-in-steps") == 0)
        end_in_steps(1000);
    else if (strcmp(what, "forks") == 0 && argc > 3)
        forks(argv[2], atoi(argv[3]));
    else if (strcmp(what, "limited-threads") == 0 && argc > 2)
        limited_threads(atoi(argv[2]));
    else if (strcmp(what, "jump-out-of-metadata") == 0)
        jump_out_of_metadata(2000);
    else if (strcmp(what, "small-stacks") == 0 && argc > 2)
        small_stacks(argv[2]);
    else if (strcmp(what, "threads") == 0 && argc > 2)
        many_threads(atoi(argv[2]));
    else if (strcmp(what, "threads-in-turn") == 0 && argc > 2)
        threads_in_turn(atoi(argv[2]));
    else
        return 2;
    return 0;
}
