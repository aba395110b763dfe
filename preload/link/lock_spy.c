/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a mutex that is private to another library. Any application thread. */
#include "preload/link/lock_spy.h"

#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload/link/got.h"
#include "writer/writer.h"

#if defined(__x86_64__)
#define IS_FUNCTION_SLOT(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#elif defined(__aarch64__)
#define IS_FUNCTION_SLOT(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
#else
#define IS_FUNCTION_SLOT(type) 0
#endif

#define SLOTS_MAX 4

/* The object, filled under the loader's lock, used afterwards. */
struct object {
    const char *prefix;
    uintptr_t start, end; /* of its mapping */
    struct got_object got;
    _Atomic uintptr_t *slots[SLOTS_MAX]; /* its entries for pthread_mutex_lock */
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

/* Faster than got_entries(), which takes 2 ms more for torch: skips symbols that the object defines
 * itself. */
static void find_slots(struct object *object, uintptr_t base, const ElfW(Rela) * relocation,
                       size_t size, const ElfW(Sym) * symbols, const char *names)
{
    for (size_t i = 0; i < size / sizeof *relocation && object->n_slots < SLOTS_MAX; i++) {
        const ElfW(Rela) *r = &relocation[i];
        const ElfW(Sym) *symbol = &symbols[ELF64_R_SYM(r->r_info)];
        if (IS_FUNCTION_SLOT(ELF64_R_TYPE(r->r_info)) && symbol->st_shndx == SHN_UNDEF &&
            strcmp(names + symbol->st_name, "pthread_mutex_lock") == 0)
            object->slots[object->n_slots++] = (_Atomic uintptr_t *)(base + r->r_offset);
    }
}

/* An absolute address; the C library has relocated most of those in a dynamic section. */
static void *absolute_address(uintptr_t base, uintptr_t address)
{
    return (void *)(address < base ? base + address : address);
}

static void read_dynamic(struct object *object, uintptr_t base, const ElfW(Dyn) * dynamic)
{
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    const ElfW(Rela) * tables[2] = {NULL, NULL};
    size_t sizes[2] = {0, 0};
    for (const ElfW(Dyn) *d = dynamic; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            symbols = absolute_address(base, d->d_un.d_ptr);
        else if (d->d_tag == DT_STRTAB)
            names = absolute_address(base, d->d_un.d_ptr);
        else if (d->d_tag == DT_JMPREL)
            tables[0] = absolute_address(base, d->d_un.d_ptr);
        else if (d->d_tag == DT_PLTRELSZ)
            sizes[0] = d->d_un.d_val;
        else if (d->d_tag == DT_RELA)
            tables[1] = absolute_address(base, d->d_un.d_ptr);
        else if (d->d_tag == DT_RELASZ)
            sizes[1] = d->d_un.d_val;
    }
    for (int i = 0; i < 2 && symbols && names && object->n_slots == 0; i++)
        if (tables[i])
            find_slots(object, base, tables[i], sizes[i], symbols, names);
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
        read_dynamic(object, info->dlpi_addr, object->got.dynamic);
    return 1;
}

/* Makes the page of an entry writable, or read-only again if it is in RELRO. */
static bool protect(const struct object *object, _Atomic uintptr_t *slot, bool writable)
{
    uintptr_t at = (uintptr_t)slot, page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (at < object->got.relro || at >= object->got.relro_end)
        return true;
    return mprotect((void *)(at & ~(page - 1)), page, PROT_READ | (writable ? PROT_WRITE : 0)) == 0;
}

pthread_mutex_t *lock_spy(const char *prefix, bool (*call)(void))
{
    struct object object = {.prefix = prefix};
    uintptr_t before[SLOTS_MAX];
    unsigned open = 0;
    loader_walk(look_at_object, &object);
    while (open < object.n_slots && protect(&object, object.slots[open], true)) {
        before[open] = atomic_exchange(object.slots[open], (uintptr_t)spy);
        open++;
    }
    if (open > 0) {
        atomic_store(&first_locked, NULL);
        atomic_store(&spied_on, pthread_self());
        call();
        atomic_store(&spied_on, (pthread_t)0);
    }
    for (unsigned i = 0; i < open; i++)
        atomic_store(object.slots[i], before[i]);
    for (unsigned i = 0; i < open; i++)
        protect(&object, object.slots[i], false);
    uintptr_t found = (uintptr_t)atomic_load(&first_locked);
    bool is_static = found >= object.start && found + sizeof(pthread_mutex_t) <= object.end;
    return open > 0 && is_static ? (pthread_mutex_t *)found : NULL;
}
