/* SPDX-License-Identifier: Apache-2.0 */
/* Names that the program gave its threads. A hash table with chains, because programs with
 * thousands of threads may name them all. */
#include "writer/record/thread_names.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "writer/os/os.h"
#include "writer/writer.h"

#define BUCKETS 4096u /* a power of two */

/* An entry in its bucket's list or in the free list. next: index + 1 of the next entry; 0: none. */
struct entry {
    struct thread_name name;
    uint32_t next;
    uint32_t next_ended; /* as `next`, in the list of ended threads */
    bool listed, ended;  /* listed: in the list of ended threads; ended: not named again since */
};

/* Guarded by names_lock. `used` is also read without it, because it is usually 0. */
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;
static uint32_t room, made; /* entries allocated, and entries ever used */
static uint32_t buckets[BUCKETS], first_free, first_ended;
static _Atomic uint32_t used;

/* The link to the thread's entry, or the empty link at its chain's end. The kernel counts thread
 * ids up, so their low bits are the hash. */
static uint32_t *find_thread(uint32_t tid)
{
    uint32_t *link = &buckets[tid & (BUCKETS - 1)];
    while (*link && entries[*link - 1].name.tid != tid)
        link = &entries[*link - 1].next;
    return link;
}

static bool grow_threads(void)
{
    uint32_t more = room ? room * 2 : 16;
    struct entry *bigger = room < THREAD_NAMES ? realloc(entries, more * sizeof *entries) : NULL;
    if (!bigger)
        return false;
    entries = bigger;
    room = more;
    return true;
}

/* Adds an entry for a thread. NULL: too many, or no memory. */
static struct thread_name *add_thread(uint32_t tid)
{
    uint32_t place = first_free;
    if (place)
        first_free = entries[place - 1].next;
    else if (made < room || grow_threads())
        place = ++made;
    else
        return NULL;
    uint32_t *bucket = &buckets[tid & (BUCKETS - 1)];
    struct entry *e = &entries[place - 1];
    e->name.tid = tid;
    e->next = *bucket;
    e->listed = false;
    *bucket = place;
    used++;
    return &e->name;
}

void writer_name_thread(uint32_t tid, const char *text, size_t len)
{
    struct held_back before = hold_back();
    pthread_mutex_lock(&names_lock);
    uint32_t place = *find_thread(tid);
    struct thread_name *name = place ? &entries[place - 1].name : add_thread(tid);
    if (name) {
        ((struct entry *)name)->ended = false;
        name->ticks = clock_ticks();
        name->len = len < THREAD_NAME_MOST ? (uint32_t)len : THREAD_NAME_MOST;
        memcpy(name->text, text, name->len);
    }
    pthread_mutex_unlock(&names_lock);
    hold_back_end(&before);
    if (!name)
        thread_log_lost(NULL, LOSS_NAMES, 1);
}

bool thread_names_find(uint32_t tid, struct thread_name *out)
{
    if (atomic_load_explicit(&used, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&names_lock);
    uint32_t place = *find_thread(tid);
    if (place)
        memcpy(out, &entries[place - 1].name, sizeof *out);
    pthread_mutex_unlock(&names_lock);
    return place && out->len;
}

void thread_names_ended(uint32_t tid)
{
    if (atomic_load_explicit(&used, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&names_lock);
    uint32_t place = *find_thread(tid);
    struct entry *e = place ? &entries[place - 1] : NULL;
    if (e && !e->listed) {
        e->next_ended = first_ended;
        first_ended = place;
        e->listed = true;
    }
    if (e)
        e->ended = true;
    pthread_mutex_unlock(&names_lock);
}

static void take_out_thread(uint32_t place)
{
    struct entry *e = &entries[place - 1];
    *find_thread(e->name.tid) = e->next;
    e->next = first_free;
    first_free = place;
    used--;
}

void thread_names_forget(void)
{
    if (atomic_load_explicit(&used, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&names_lock);
    while (first_ended) {
        uint32_t place = first_ended;
        struct entry *e = &entries[place - 1];
        first_ended = e->next_ended;
        e->listed = false;
        if (e->ended)
            take_out_thread(place);
    }
    pthread_mutex_unlock(&names_lock);
}
