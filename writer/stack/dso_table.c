/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded and unloaded objects by address. Everything is changed with the lock of the loader's list
 * held, so there is one writer at a time. The first callback of a walk starts a whole inner walk,
 * and so knows where the list ends. What is read without that lock is atomic, or written before its
 * number. */
#define _GNU_SOURCE
#include "writer/stack/dso_table.h"

#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "writer/writer.h"

#define PATHS_BYTES (1u << 20)
#define GAPS_MOST   64u
#define NOTE_MOST   1024u /* bytes; a build id takes 36 */

/* An object and its state. */
struct known {
    struct elf_object object; /* the first member: dso_table_index() */
    /* the walking thread writes, others read, relaxed: it may change at once */
    _Atomic bool loaded;
    bool seen; /* in the current walk */
};

/* A range of addresses. */
struct span {
    /* The walking thread writes (release), others read (acquire): a reader of a new value sees the
     * new version, too. */
    _Atomic uint64_t start, end;
    _Atomic uint32_t number; /* of the object */
};

static struct known known[DSO_MOST];
static _Atomic unsigned n_known; /* release: the entries below are whole */
static char paths[PATHS_BYTES];
static size_t paths_used;
/* total loads and unloads at the last walk, as the loader counts them */
static uint64_t loads, unloads;
static unsigned expected; /* likely index of the next object in the loader's list */
/* walks that found something unloaded; the walking thread adds, any thread reads */
static _Atomic uint32_t losses;
/* Set during a walk, because a signal handler on the same thread may come here. Acquire and release
 * tell thread checkers what the list's lock does. */
static _Atomic bool looking;

/* Both arrays are sorted and without overlaps. A reader needs an even version that is the same
 * before and after. */
static _Atomic uint32_t version;
static struct span gaps[GAPS_MOST]; /* ranges where something was unloaded at any time */
static _Atomic unsigned n_gaps;
static struct span newcomers[DSO_MOST];
static _Atomic unsigned n_newcomers;

/* ---- ranges with unloaded code ---- */

static void set_span(struct span *s, uint64_t start, uint64_t end, uint32_t number)
{
    atomic_store_explicit(&s->start, start, memory_order_release);
    atomic_store_explicit(&s->end, end, memory_order_release);
    atomic_store_explicit(&s->number, number, memory_order_release);
}

/* Index of the first span that ends after the address; n: none. */
static unsigned span_behind(const struct span *spans, unsigned n, uint64_t address)
{
    unsigned low = 0, high = n;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (atomic_load_explicit(&spans[middle].end, memory_order_acquire) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const struct span *span_of(const struct span *spans, unsigned n, uint64_t address)
{
    unsigned i = span_behind(spans, n, address);
    return i < n && atomic_load_explicit(&spans[i].start, memory_order_acquire) <= address
               ? &spans[i]
               : NULL;
}

/* Makes room for a span at index `at`. */
static void move_up(struct span *spans, unsigned n, unsigned at)
{
    for (; n > at; n--)
        set_span(&spans[n], spans[n - 1].start, spans[n - 1].end, spans[n - 1].number);
}

/* Index of the gap that is nearest to the next one. */
static unsigned nearest_gap(unsigned n)
{
    unsigned nearest = 0;
    for (unsigned i = 1; i + 1 < n; i++)
        if (gaps[i + 1].start - gaps[i].end < gaps[nearest + 1].start - gaps[nearest].end)
            nearest = i;
    return nearest;
}

/* Joins gaps[from, until). */
static unsigned join_gaps(unsigned n, unsigned from, unsigned until)
{
    gaps[from].end = gaps[until - 1].end;
    for (unsigned i = until; i < n; i++)
        set_span(&gaps[from + 1 + i - until], gaps[i].start, gaps[i].end, 0);
    return n - (until - from - 1);
}

/* Adds a gap and joins it with those that it touches. With too many gaps, the two nearest are
 * joined, with the loaded code between them. */
static void add_gap(uint64_t start, uint64_t end)
{
    unsigned n = n_gaps;
    if (n == GAPS_MOST) {
        unsigned i = nearest_gap(n);
        n = join_gaps(n, i, i + 2);
    }
    unsigned from = span_behind(gaps, n, start), until = from;
    while (until < n && gaps[until].start < end)
        until++;
    if (from == until) {
        move_up(gaps, n, from);
        set_span(&gaps[from], start, end, 0);
        n++;
    } else {
        n = join_gaps(n, from, until);
        gaps[from].start = start < gaps[from].start ? start : gaps[from].start;
        gaps[from].end = end > gaps[from].end ? end : gaps[from].end;
    }
    n_gaps = n;
}

static bool meets_gap(const struct elf_object *o)
{
    unsigned i = span_behind(gaps, n_gaps, o->start);
    return i < n_gaps && gaps[i].start < o->end;
}

static void add_newcomer(const struct elf_object *o, uint32_t number)
{
    unsigned n = n_newcomers, at = span_behind(newcomers, n, o->start);
    move_up(newcomers, n, at);
    set_span(&newcomers[at], o->start, o->end, number);
    n_newcomers = n + 1;
}

static uint32_t object_number_at(uint64_t address)
{
    if (!span_of(gaps, n_gaps, address))
        return DSO_FIRST;
    const struct span *s = span_of(newcomers, n_newcomers, address);
    return s ? s->number : DSO_GAP;
}

uint32_t dso_table_at(uint64_t address)
{
    if (__builtin_expect(atomic_load_explicit(&n_gaps, memory_order_acquire) == 0, 1))
        return DSO_FIRST;
    uint32_t before = atomic_load_explicit(&version, memory_order_acquire);
    uint32_t number = object_number_at(address);
    bool whole = !(before & 1) && before == atomic_load_explicit(&version, memory_order_acquire);
    return whole ? number : DSO_GAP;
}

/* ---- objects ---- */

static unsigned index_of(const struct known *k)
{
    return (unsigned)(k - known);
}

static bool describe_object(const struct dl_phdr_info *info, struct elf_object *o)
{
    *o = (struct elf_object){.base = info->dlpi_addr,
                             .start = UINT64_MAX,
                             .path = info->dlpi_name ? info->dlpi_name : ""};
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uint64_t from = info->dlpi_addr + p->p_vaddr;
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        o->start = from < o->start ? from : o->start;
        o->end = from + p->p_memsz > o->end ? from + p->p_memsz : o->end;
    }
    return o->end != 0;
}

/* True when the note is part of a mapped segment. */
static bool is_mapped(const Elf64_Phdr *headers, unsigned n, const Elf64_Phdr *note)
{
    for (unsigned i = 0; i < n; i++)
        if (headers[i].p_type == PT_LOAD && (headers[i].p_flags & PF_R) &&
            note->p_vaddr >= headers[i].p_vaddr &&
            note->p_vaddr + note->p_filesz <= headers[i].p_vaddr + headers[i].p_filesz)
            return true;
    return false;
}

uint64_t dso_table_print(const Elf64_Phdr *headers, unsigned n,
                         bool (*read)(const Elf64_Phdr *note, void *to, const void *arg),
                         const void *arg)
{
    char bytes[NOTE_MOST];
    uint64_t print = hash_text((const char *)headers, n * sizeof *headers);
    for (unsigned i = 0; i < n; i++) {
        const Elf64_Phdr *note = &headers[i];
        if (note->p_type != PT_NOTE || note->p_filesz > sizeof bytes ||
            !is_mapped(headers, n, note))
            continue;
        if (!read(note, bytes, arg))
            return 0;
        print = print * UINT64_C(0x9fb21c651e98df25) ^ hash_text(bytes, note->p_filesz);
    }
    return print;
}

static bool read_mapped(const Elf64_Phdr *note, void *to, const void *base)
{
    memcpy(to, (const char *)base + note->p_vaddr, note->p_filesz);
    return true;
}

/* The loader's list has no name for the program itself. */
static bool is_same_object(const struct elf_object *a, const struct elf_object *b)
{
    return a->base == b->base && a->start == b->start && a->end == b->end &&
           (!b->path[0] || strcmp(a->path, b->path) == 0);
}

static struct known *find_loaded(const struct elf_object *o)
{
    unsigned n = atomic_load_explicit(&n_known, memory_order_relaxed);
    for (unsigned i = 0; i < n; i++) {
        struct known *k = &known[expected + i < n ? expected + i : expected + i - n];
        if (k->loaded && is_same_object(&k->object, o))
            return k;
    }
    return NULL;
}

/* Finds an object that was unloaded and is loaded again. */
static struct known *find_back(const struct elf_object *o)
{
    for (unsigned i = 0; i < atomic_load_explicit(&n_known, memory_order_relaxed); i++)
        if (!known[i].loaded && known[i].object.print == o->print &&
            is_same_object(&known[i].object, o))
            return &known[i];
    return NULL;
}

static const char *keep_path(const char *path)
{
    char exe[PATH_MAX] = "";
    if (!path[0] && readlink("/proc/self/exe", exe, sizeof exe - 1) > 0)
        path = exe;
    size_t size = strlen(path) + 1;
    if (size > sizeof paths - paths_used)
        return NULL;
    char *kept = memcpy(paths + paths_used, path, size);
    paths_used += size;
    return kept;
}

static struct known *add_object(const struct elf_object *o)
{
    unsigned n = atomic_load_explicit(&n_known, memory_order_relaxed);
    const char *path = n < DSO_MOST ? keep_path(o->path) : NULL;
    if (!path)
        return NULL;
    known[n].object = *o;
    known[n].object.path = path;
    atomic_store_explicit(&n_known, n + 1, memory_order_release);
    return &known[n];
}

static int list_object(struct dl_phdr_info *info, size_t size, void *unused)
{
    struct elf_object o;
    (void)size, (void)unused;
    if (!describe_object(info, &o))
        return 0;
    struct known *k = find_loaded(&o);
    if (!k) {
        o.print = dso_table_print(info->dlpi_phdr, info->dlpi_phnum, read_mapped,
                                  (const void *)(uintptr_t)info->dlpi_addr);
        k = find_back(&o);
        k = k ? k : add_object(&o);
        if (!k)
            return 0;
        atomic_store_explicit(&k->loaded, true, memory_order_relaxed);
    }
    k->seen = true;
    expected = index_of(k) + 1;
    return 0;
}

/* Updates gaps and newcomers: a new object may lie in a gap, an old one between gaps that were
 * joined. */
static void note_changes(void)
{
    unsigned n = atomic_load_explicit(&n_known, memory_order_relaxed);
    atomic_fetch_add(&version, 1);
    for (unsigned i = 0; i < n; i++)
        if (known[i].loaded && !known[i].seen) {
            atomic_store_explicit(&known[i].loaded, false, memory_order_relaxed);
            add_gap(known[i].object.start, known[i].object.end);
        }
    n_newcomers = 0;
    for (unsigned i = 0; i < n; i++) {
        known[i].seen = false;
        if (known[i].loaded && meets_gap(&known[i].object))
            add_newcomer(&known[i].object, i + 1);
    }
    atomic_fetch_add(&version, 1);
}

static void update_objects(const struct dl_phdr_info *info)
{
    bool gone = info->dlpi_subs != unloads;
    loads = info->dlpi_adds;
    unloads = info->dlpi_subs;
    loader_walk_within(list_object, NULL);
    note_changes();
    if (gone) /* after the changes are noted */
        atomic_fetch_add(&losses, 1);
}

/* The object number at an address, read under the lock of the loader's list. */
struct question {
    uint64_t address;
    uint32_t number;
};

static int look_at_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct question *q = arg;
    (void)size;
    if (atomic_exchange_explicit(&looking, true, memory_order_acquire))
        return 1;
    if (info->dlpi_adds != loads || info->dlpi_subs != unloads)
        update_objects(info);
    if (q)
        q->number = object_number_at(q->address);
    atomic_store_explicit(&looking, false, memory_order_release);
    return 1;
}

uint32_t dso_table_look(void)
{
    loader_walk(look_at_object, NULL);
    return atomic_load(&losses);
}

uint32_t dso_table_look_at(uint64_t address)
{
    struct question q = {address, DSO_GAP};
    loader_walk(look_at_object, &q);
    return q.number;
}

const struct elf_object *dso_table_find(uint64_t address, uint32_t number)
{
    unsigned n = atomic_load_explicit(&n_known, memory_order_acquire);
    bool newest = number == DSO_GAP;
    if (number != DSO_FIRST && !newest)
        return number <= n ? &known[number - 1].object : NULL;
    for (unsigned i = 0; i < n; i++) {
        const struct known *k = &known[newest ? n - 1 - i : i];
        if (address - k->object.start < k->object.end - k->object.start &&
            (!newest || atomic_load_explicit(&k->loaded, memory_order_relaxed)))
            return &k->object;
    }
    return NULL;
}

unsigned dso_table_index(const struct elf_object *object)
{
    return index_of((const struct known *)object);
}
