/* SPDX-License-Identifier: Apache-2.0 */
/* See child_env.h. */
#include "preload/child_env.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A copy: the pointers, then the texts they point to. Never freed, made at most a few times. */
struct copy {
    size_t n;
    const char *entries[]; /* NULL behind the last */
};

static struct copy *_Atomic newest; /* application threads replace it, all read */

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

/* Puts the entry to `out`, as it is or changed; the bytes written with the NUL, 0: it is left out. */
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

/* NULL: there are no more. Where they are is asked each time: setenv() moves them. */
static const char *entry_at(size_t i)
{
    char *const *all = __atomic_load_n(&environ, __ATOMIC_RELAXED);
    return all ? __atomic_load_n(&all[i], __ATOMIC_RELAXED) : NULL;
}

void child_env_take(const char *own_path)
{
    /* Another thread may set variables meanwhile: what the first look did not see finds no room. */
    size_t n = 0, bytes = 0;
    const char *entry;
    for (; (entry = entry_at(n)); n++)
        bytes += strlen(entry) + 1;
    struct copy *copy = malloc(sizeof *copy + (n + 1) * sizeof copy->entries[0] + bytes);
    if (!copy)
        return;
    char *at = (char *)(copy->entries + n + 1), *end = at + bytes;
    copy->n = 0;
    for (size_t i = 0; i < n && (entry = entry_at(i)); i++) {
        size_t used = strlen(entry) < (size_t)(end - at) ? put_entry(entry, own_path, at) : 0;
        if (used)
            copy->entries[copy->n++] = at;
        at += used;
    }
    copy->entries[copy->n] = NULL;
    atomic_store(&newest, copy);
}

/* Whether the entry is of the variable whose name ends at '=' or at the end of `name`. */
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
