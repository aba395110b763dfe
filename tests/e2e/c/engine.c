/* SPDX-License-Identifier: Apache-2.0 */
/* Calls libengine.c; a mode for each way of reaching it. Prints the results, so that
 * tests/e2e/test_step_names.py can compare runs with and without cprof. The library is linked
 * (modes all, inside, threads, pages, fiber) or opened (open). */
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "preload/cprof.h"

struct large {
    long a[5];
};
struct two {
    double x, y;
};

/* Weak, because the common build links no library. The test links this program again. */
#define WEAK __attribute__((weak))
int engine_step(int i) WEAK;
long engine_many(long a, double b, long c, double d, long e, double f, long g, double h, long i,
                 double j, long k, struct large l, long m, double n, double o, double p,
                 double q) WEAK;
struct large engine_large(int i) WEAK;
struct two engine_two(double x) WEAK;
long double engine_long(long double x) WEAK;
int engine_sum(int n, ...) WEAK;
void engine_leave(jmp_buf where) WEAK;
int engine_inside(int n) WEAK;
extern int engine_data WEAK;

static void all(void)
{
    struct large l = {{1, 2, 3, 4, 5}};
    jmp_buf where;
    errno = 0;
    int answer = engine_step(21);
    printf("%d %d\n", answer, errno);
    printf("%ld\n",
           engine_many(1, 2.5, 3, 4.5, 5, 6.5, 7, 8.5, 9, 10.5, 11, l, 12, 13.5, 14.5, 15.5, 16.5));
    l = engine_large(100);
    printf("%ld %ld\n", l.a[0], l.a[4]);
    struct two t = engine_two(1.5);
    printf("%g %g\n", t.x, t.y);
    printf("%Lg\n", engine_long(2.25L));
    printf("%d\n", engine_sum(6, 1, 1.0, 2, 2.0, 3, 3.0, 4, 4.0, 5, 5.0, 6, 6.0));
    int left = setjmp(where);
    if (left == 0)
        engine_leave(where);
    printf("left %d\n", left);
    printf("data %d\n", engine_data);
}

static void *many(void *arg)
{
    for (int i = 0; i < 100; i++)
        if (engine_step(i) != 2 * i)
            return arg;
    return NULL;
}

static void threads(void)
{
    pthread_t thread[8];
    void *wrong = NULL, *one;
    cprof_mark("awake"); /* calls during cprof's waking up are not counted */
    for (int i = 0; i < 8; i++)
        pthread_create(&thread[i], NULL, many, &wrong);
    for (int i = 0; i < 8; i++) {
        pthread_join(thread[i], &one);
        wrong = one ? one : wrong;
    }
    printf("wrong %d\n", wrong != NULL);
}

__attribute__((noinline)) static long many_below(size_t bytes)
{
    struct large l = {{1, 2, 3, 4, 5}};
    volatile char *room = alloca(bytes);
    room[0] = 0; /* keeps the compiler from removing it */
    return engine_many(1, 2.5, 3, 4.5, 5, 6.5, 7, 8.5, 9, 10.5, 11, l, 12, 13.5, 14.5, 15.5, 16.5);
}

static ucontext_t home;

static void called_at_the_top(void)
{
    printf("%d\n", engine_step(21));
}

/* A call at the very top of a stack. A guard page follows, as in a pool of fibers. */
static void fiber(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = 64 << 10;
    ucontext_t top;
    char *at = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(at + size, page, PROT_NONE);
    getcontext(&top);
    top.uc_stack = (stack_t){.ss_sp = at, .ss_size = size};
    top.uc_link = &home;
    makecontext(&top, called_at_the_top, 0);
    swapcontext(&home, &top);
}

/* Calls with their arguments at every place of a 4 KB page. */
static void pages(void)
{
    long first = many_below(16);
    unsigned wrong = 0;
    for (size_t bytes = 16; bytes < 4096 + 512; bytes += 16)
        wrong += many_below(bytes) != first;
    printf("%ld wrong %u\n", first, wrong);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "all") == 0) {
        for (int i = 0; i < 3; i++)
            all();
    } else if (strcmp(mode, "inside") == 0) {
        printf("%d\n", engine_inside(5));
    } else if (strcmp(mode, "threads") == 0) {
        threads();
    } else if (strcmp(mode, "pages") == 0) {
        pages();
    } else if (strcmp(mode, "fiber") == 0) {
        fiber();
        /* argument: a plugin linked to the library */
    } else if (strcmp(mode, "open") == 0 && argc > 2) {
        cprof_range_push("before");
        cprof_range_pop();
        void *plugin = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
        int (*run)(int) = plugin ? (int (*)(int))dlsym(plugin, "plugin_run") : NULL;
        struct timespec pause = {0, 20000000};
        nanosleep(&pause, NULL);
        cprof_range_push("after"); /* makes cprof search the newly loaded objects */
        cprof_range_pop();
        printf("%d\n", run ? run(5) : -1);
    }
    return 0;
}
