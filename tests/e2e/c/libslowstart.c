/* SPDX-License-Identifier: Apache-2.0 */
/* Makes each thread begin half a second late, as on a busy machine. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

struct start {
    void *(*run)(void *);
    void *arg;
};

static void *late(void *at)
{
    struct start start = *(struct start *)at;
    free(at);
    usleep(500000);
    return start.run(start.arg);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    struct start *start = malloc(sizeof *start);
    *start = (struct start){run, arg};
    return next(thread, attr, late, start);
}
