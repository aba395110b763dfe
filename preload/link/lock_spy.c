/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a mutex that is private to another library. Any application thread. */
#include "preload/link/lock_spy.h"

#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "preload/link/got.h"
#include "writer/writer.h"

#define SLOTS_MAX 4

/* The object, filled under the loader's lock, used afterwards. */
struct object {
    const char *prefix;
    uintptr_t start, end; /* of its mapping */
    struct got_object got;
    void *_Atomic *slots[SLOTS_MAX]; /* its entries for pthread_mutex_lock */
    unsigned n_slots;
};

static _Atomic(pthread_t) spied_on; /* the thread inside `call`; 0: none */
/* the first mutex that this thread locks inside `call` */
static pthread_mutex_t *_Atomic first_locked;

static int spy(pthread_mutex_t *mutex)
{
    pthread_mutex_t *none = NULL;
    if (atomic_load(&spied_on) == pthread_self())
        atomic_compare_exchange_strong(&first_locked, &none, mutex);
    return pthread_mutex_lock(mutex);
}

static void note_slot(const struct got_object *o, const char *name, void *_Atomic *slot, void *arg)
{
    struct object *object = arg;
    (void)o;
    if (object->n_slots < SLOTS_MAX && strcmp(name, "pthread_mutex_lock") == 0)
        object->slots[object->n_slots++] = slot;
}

static int look_at_object(struct dl_phdr_info *info, size_t size, void *data)
{
    struct object *object = data;
    (void)size;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    if (!slash || strncmp(slash + 1, object->prefix, strlen(object->prefix)) != 0)
        return 0;
    object->start = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr, end = start + p->p_memsz;
        if (p->p_type == PT_LOAD) {
            object->start = start < object->start ? start : object->start;
            object->end = end > object->end ? end : object->end;
        }
    }
    if (got_describe(info, &object->got))
        got_entries(&object->got, note_slot, object);
    return 1;
}

pthread_mutex_t *lock_spy(const char *prefix, bool (*call)(void))
{
    struct object object = {.prefix = prefix};
    void *before[SLOTS_MAX];
    unsigned open = 0;
    loader_walk(look_at_object, &object);
    for (; open < object.n_slots; open++) {
        before[open] = atomic_load(object.slots[open]);
        if (got_write(&object.got, object.slots[open], before[open], (void *)(uintptr_t)spy) !=
            GOT_WRITTEN)
            break;
    }
    if (open > 0) {
        atomic_store(&first_locked, NULL);
        atomic_store(&spied_on, pthread_self());
        call();
        atomic_store(&spied_on, (pthread_t)0);
    }
    for (unsigned i = 0; i < open; i++)
        got_write(&object.got, object.slots[i], (void *)(uintptr_t)spy, before[i]);
    uintptr_t found = (uintptr_t)atomic_load(&first_locked);
    bool is_static = found >= object.start && found + sizeof(pthread_mutex_t) <= object.end;
    return open > 0 && is_static ? (pthread_mutex_t *)found : NULL;
}
