/* SPDX-License-Identifier: Apache-2.0 */
/* Copies the environment for the programs that cprof starts. */
#include "preload/delivery/child_env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A copy: pointers, then their texts. Never freed; at most a few are made. */
struct copy {
    struct copy *older;    /* may still be read, so never freed */
    size_t n, odd;         /* odd: number of entries without '=', which are left out */
    const char *entries[]; /* NULL after the last */
};

static struct copy *_Atomic newest; /* application threads replace it, any thread reads */

static const char *base_of(const char *path, size_t len, size_t *base_len)
{
    const char *slash = memrchr(path, '/', len);
    const char *base = slash ? slash + 1 : path;
    *base_len = len - (size_t)(base - path);
    return base;
}

static bool is_own(const char *item, size_t len, const char *own_path)
{
    size_t item_base, own_base;
    const char *a = base_of(item, len, &item_base);
    const char *b = base_of(own_path, strlen(own_path), &own_base);
    return item_base == own_base && memcmp(a, b, own_base) == 0;
}

size_t child_env_preload(const char *value, const char *own_path, char *out)
{
    size_t used = 0;
    while (*value) {
        size_t len = strcspn(value, ": ");
        if (len > 0 && !is_own(value, len, own_path)) {
            if (used)
                out[used++] = ':';
            memcpy(out + used, value, len);
            used += len;
        }
        value += len + (value[len] != '\0');
    }
    out[used] = '\0';
    return used;
}

/* Copies an entry to `out`, without cprof. Returns the size with its NUL; 0: the entry is left
 * out. */
static size_t put_entry(const char *entry, const char *own_path, char *out)
{
    static const char preload[] = "LD_PRELOAD=";
    const char *value = strchr(entry, '=');
    size_t size = strlen(entry) + 1;
    if (!value || strcmp(value + 1, own_path) == 0)
        return 0;
    memcpy(out, entry, size);
    if (strncmp(entry, preload, sizeof preload - 1) != 0)
        return size;
    size_t left = child_env_preload(value + 1, own_path, out + sizeof preload - 1);
    return left ? sizeof preload + left : 0;
}

/* ---- reading what another thread may change -----------------------------------------------------
 *
 * setenv() on another thread may move the array and free its old memory at any moment, so a plain
 * read may follow a dangling pointer. A read through /proc/self/mem fails instead. Without that
 * file, cprof reads as getenv() does. setenv() may be interrupted after it has freed the old array
 * and before it publishes the new one; the read is then repeated after a pause.
 */

enum {
    MOST_ENTRIES = 1 << 16,
    MOST_TEXT = 128 << 10, /* of one entry; exec takes no longer ones */
    TEXT_AT_ONCE = 256,
    TRIES = 6,
    FIRST_PAUSE_NS = 100000, /* each pause is four times longer: 34 ms in all */
};

/* State of one read of the environment. */
struct reading {
    int memory; /* /proc/self/mem; -1: not open */
    const char *own_path;
    uintptr_t *pointers; /* of the entries */
    size_t n_pointers, room_pointers;
    char *entry; /* the current entry; MOST_TEXT bytes */
    char *texts; /* the entries kept so far, each with its NUL */
    size_t used, room, n, odd;
    bool moved, no_memory;
};

/* Reads up to `size` bytes; returns how many were readable. */
static size_t read_memory(const struct reading *reading, uintptr_t from, void *to, size_t size)
{
    ssize_t n = pread(reading->memory, to, size, (off_t)from);
    return n > 0 ? (size_t)n : 0;
}

static bool make_reading_room(struct reading *reading)
{
    size_t room = reading->room_pointers ? 2 * reading->room_pointers : 1024;
    uintptr_t *more = realloc(reading->pointers, room * sizeof *more);
    if (!more) {
        reading->no_memory = true;
        return false;
    }
    reading->pointers = more;
    reading->room_pointers = room;
    return true;
}

/* Reads the array of pointers in one go, to leave setenv() little time. Returns false if the array
 * moved meanwhile or memory is short. */
static bool read_array(struct reading *reading)
{
    char *const *all = __atomic_load_n(&environ, __ATOMIC_RELAXED);
    size_t n = 0;
    while (all && n < MOST_ENTRIES) {
        if (n == reading->room_pointers && !make_reading_room(reading))
            return false;
        uintptr_t *to = reading->pointers + n;
        size_t more = 1;
        if (reading->memory >= 0)
            more = read_memory(reading, (uintptr_t)(all + n), to,
                               (reading->room_pointers - n) * sizeof *to) /
                   sizeof *to;
        else
            *to = (uintptr_t)__atomic_load_n(all + n, __ATOMIC_RELAXED);
        if (more == 0)
            return false;
        while (more > 0 && reading->pointers[n])
            n++, more--;
        if (more > 0)
            break;
    }
    reading->n_pointers = n;
    return __atomic_load_n(&environ, __ATOMIC_RELAXED) == all;
}

/* Reads a text into reading->entry, with its NUL. Returns false if it is unreadable or too long. */
static bool read_text(const struct reading *reading, uintptr_t from)
{
    char *to = reading->entry;
    if (reading->memory < 0) {
        size_t len = strnlen((const char *)from, MOST_TEXT);
        memcpy(to, (const char *)from, len);
        to[len < MOST_TEXT ? len : 0] = '\0';
        return len < MOST_TEXT;
    }
    for (size_t used = 0; used < MOST_TEXT;) {
        size_t wanted = MOST_TEXT - used < TEXT_AT_ONCE ? MOST_TEXT - used : TEXT_AT_ONCE;
        size_t n = read_memory(reading, from + used, to + used, wanted);
        if (memchr(to + used, '\0', n))
            return true;
        if (n == 0)
            return false;
        used += n;
    }
    return false;
}

static void keep_entry(struct reading *reading)
{
    size_t size = strlen(reading->entry) + 1;
    if (reading->room - reading->used < size) {
        size_t room = 2 * reading->room + size + 4096;
        char *more = realloc(reading->texts, room);
        if (!more) {
            reading->no_memory = true;
            return;
        }
        reading->texts = more;
        reading->room = room;
    }
    size_t used = put_entry(reading->entry, reading->own_path, reading->texts + reading->used);
    reading->used += used;
    reading->n += used > 0;
}

/* Reads all entries once, and keeps what is readable. */
static void read_entries(struct reading *reading)
{
    reading->moved = !read_array(reading);
    reading->used = reading->n = reading->odd = 0;
    for (size_t i = 0; i < reading->n_pointers; i++) {
        bool is_entry = read_text(reading, reading->pointers[i]) && strchr(reading->entry, '=');
        if (is_entry)
            keep_entry(reading);
        reading->odd += !is_entry;
    }
}

/* Repeats the read until all entries are whole. The program itself may have put entries without '='
 * there, so as many as in the previous copy are accepted. */
static void read_whole(struct reading *reading)
{
    const struct copy *before = atomic_load(&newest);
    struct timespec pause = {.tv_nsec = FIRST_PAUSE_NS};
    size_t known = before ? before->odd : 0;
    read_entries(reading);
    for (int i = 1; i < TRIES && (reading->moved || reading->odd > known) && !reading->no_memory;
         i++) {
        nanosleep(&pause, NULL);
        pause.tv_nsec *= 4;
        read_entries(reading);
    }
}

static struct copy *copy_of(const struct reading *reading)
{
    size_t pointers = (reading->n + 1) * sizeof(const char *);
    struct copy *copy = malloc(sizeof *copy + pointers + reading->used);
    if (!copy)
        return NULL;
    char *at = (char *)(copy->entries + reading->n + 1);
    if (reading->used)
        memcpy(at, reading->texts, reading->used);
    for (size_t i = 0; i < reading->n; i++, at += strlen(at) + 1)
        copy->entries[i] = at;
    copy->entries[reading->n] = NULL;
    copy->n = reading->n;
    copy->odd = reading->odd;
    return copy;
}

void child_env_take(const char *own_path)
{
    int before = errno;
    struct reading reading = {.own_path = own_path, .entry = malloc(MOST_TEXT)};
    if (reading.entry) {
        reading.memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
        read_whole(&reading);
        if (reading.memory >= 0)
            close(reading.memory);
        if (reading.memory >= 0 && reading.n == 0 && !reading.no_memory) {
            reading.memory = -1; /* /proc/self/mem opens but cannot be read */
            read_entries(&reading);
        }
        struct copy *copy = reading.no_memory ? NULL : copy_of(&reading);
        if (copy)
            copy->older = atomic_exchange(&newest, copy);
    }
    free(reading.texts);
    free(reading.entry);
    free(reading.pointers);
    errno = before;
}

/* Whether the entry sets the variable that `name` begins with, up to a '='. */
static bool names_same(const char *entry, const char *name)
{
    size_t len = strcspn(name, "=");
    return strncmp(entry, name, len) == 0 && entry[len] == '=';
}

const char *child_env_get(const char *name)
{
    const struct copy *copy = atomic_load(&newest);
    for (size_t i = 0; copy && i < copy->n; i++)
        if (names_same(copy->entries[i], name))
            return copy->entries[i] + strlen(name) + 1;
    return NULL;
}

static bool is_replaced(const char *entry, const char *const *entries, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (names_same(entry, entries[i]))
            return true;
    return false;
}

const char **child_env_with(const char *const *entries, size_t n)
{
    const struct copy *copy = atomic_load(&newest);
    size_t before = copy ? copy->n : 0, used = 0;
    const char **all = malloc((before + n + 1) * sizeof *all);
    if (!all)
        return NULL;
    for (size_t i = 0; i < before; i++)
        if (!is_replaced(copy->entries[i], entries, n))
            all[used++] = copy->entries[i];
    for (size_t i = 0; i < n; i++)
        if (strchr(entries[i], '='))
            all[used++] = entries[i];
    all[used] = NULL;
    return all;
}

static bool can_run(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

bool child_env_search(const char *program, char *out, size_t size)
{
    if (strchr(program, '/')) {
        int n = snprintf(out, size, "%s", program);
        if (n > 0 && (size_t)n < size && can_run(out))
            return true;
        program = "";
    }
    const char *path = child_env_get("PATH");
    if (!path)
        path = "/usr/local/bin:/usr/bin:/bin";
    while (*program && *path) {
        size_t len = strcspn(path, ":");
        int n = snprintf(out, size, "%.*s/%s", (int)len, path, program);
        if (len > 0 && n > 0 && (size_t)n < size && can_run(out))
            return true;
        path += len + (path[len] == ':');
    }
    *out = '\0';
    return false;
}
