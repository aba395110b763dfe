/* SPDX-License-Identifier: Apache-2.0 */
/* See thread_names.h. A list that is searched from its start: few programs name their threads, and those name few. */
#include "writer/thread_names.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "writer/writer.h"

#define MOST 4096u

/* Under the lock; `used` is also read without it: 0 is the usual case. */
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
static struct thread_name *names;
static uint32_t room;
static _Atomic uint32_t used;

static struct thread_name *find(uint32_t tid)
{
    for (uint32_t i = 0; i < used; i++)
        if (names[i].tid == tid)
            return &names[i];
    return NULL;
}

static struct thread_name *add(void)
{
    if (used == room && room < MOST) {
        uint32_t more = room ? room * 2 : 16;
        struct thread_name *bigger = realloc(names, more * sizeof *names);
        if (!bigger)
            return NULL;
        names = bigger;
        room = more;
    }
    return used < room ? &names[used++] : NULL;
}

void writer_name_thread(uint32_t tid, const char *text, size_t len)
{
    pthread_mutex_lock(&names_lock);
    struct thread_name *name = find(tid);
    if (!name)
        name = add();
    if (name) {
        name->tid = tid;
        name->ticks = clock_ticks();
        name->len = len < THREAD_NAME_MOST ? (uint32_t)len : THREAD_NAME_MOST;
        memcpy(name->text, text, name->len);
    }
    pthread_mutex_unlock(&names_lock);
}

bool thread_names_find(uint32_t tid, struct thread_name *out)
{
    if (atomic_load_explicit(&used, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&names_lock);
    const struct thread_name *name = find(tid);
    if (name)
        memcpy(out, name, sizeof *out);
    pthread_mutex_unlock(&names_lock);
    return name && out->len;
}

void thread_names_forget(uint32_t tid)
{
    if (atomic_load_explicit(&used, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&names_lock);
    struct thread_name *name = find(tid);
    if (name)
        *name = names[--used];
    pthread_mutex_unlock(&names_lock);
}
