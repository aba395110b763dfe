/* SPDX-License-Identifier: Apache-2.0 */
/* Hides cprof's threads from CPython's warning after a fork. The wrappers of fopen run on any
 * application thread and cost one load unless the thread has just forked. */
#include "preload/hooks/thread_count.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/link/link.h"
#include "writer/writer.h"

#define EXPORT     __attribute__((visibility("default")))
#define STAT       "/proc/self/stat"
#define STAT_BYTES 2048 /* for 52 numbers and a name of 15 bytes */
#define AFTER_NAME 17   /* spaces from the name to the 20th field, see proc(5) */

typedef FILE *open_function(const char *path, const char *mode);

/* Written in the constructor, or by an earlier caller. */
static open_function *_Atomic next_fopen, *_Atomic next_fopen64;

static __thread bool forked;

static open_function *look_up(open_function *_Atomic *next, const char *name)
{
    open_function *found = atomic_load_explicit(next, memory_order_relaxed);
    if (__builtin_expect(!found, 0)) {
        *(void **)&found = resolve_behind(name);
        atomic_store_explicit(next, found, memory_order_relaxed);
    }
    return found;
}

void thread_count_start(void)
{
    look_up(&next_fopen, "fopen");
    look_up(&next_fopen64, "fopen64");
}

void thread_count_forked(void)
{
    forked = writer_threads() != 0;
}

/* Whether the address is in the interpreter's code. */
static bool is_interpreter(const void *place)
{
    const void *interpreter = loader_symbol(RTLD_DEFAULT, "PyOS_AfterFork_Parent");
    Dl_info its, callers;
    return interpreter && dladdr(interpreter, &its) && dladdr(place, &callers) &&
           its.dli_fbase == callers.dli_fbase;
}

/* Subtracts cprof's threads in the text of /proc/self/stat; leaves at least one. Returns false if
 * the text has another format. */
static bool subtract(char *text, size_t size, unsigned own_threads)
{
    char *field = strrchr(text, ')'), *rest;
    char copy[STAT_BYTES];
    for (int i = 0; field && i <= AFTER_NAME; i++)
        field = strchr(field + 1, ' ');
    long n = field ? strtol(field, &rest, 10) : 0;
    if (n <= 0 || *rest != ' ')
        return false;
    strcpy(copy, rest);
    snprintf(field, size - (size_t)(field - text), " %ld%s",
             n > (long)own_threads ? n - (long)own_threads : 1, copy);
    return true;
}

/* A copy of `file` without cprof's threads; on failure `file` itself, rewound. */
static FILE *without_ours(FILE *file)
{
    char text[STAT_BYTES];
    size_t n = fread(text, 1, sizeof text - 1, file);
    text[n] = '\0';
    FILE *copy = subtract(text, sizeof text, writer_threads()) ? fmemopen(NULL, n + 1, "w+") : NULL;
    n = strlen(text);
    if (copy && fwrite(text, 1, n, copy) == n && fflush(copy) == 0) {
        rewind(copy);
        fclose(file);
        return copy;
    }
    if (copy)
        fclose(copy);
    rewind(file);
    return file;
}

static FILE *open_for(open_function *next, const char *path, const char *mode, const void *caller)
{
    if (!next) {
        errno = ENOSYS;
        return NULL;
    }
    FILE *file = next(path, mode);
    if (__builtin_expect(!forked, 1) || !file || strcmp(path, STAT) != 0 || !is_interpreter(caller))
        return file;
    forked = false;
    return without_ours(file);
}

/* Unversioned; exports.map explains why. */
__asm__(".symver thread_count_fopen, fopen@@");
__asm__(".symver thread_count_fopen64, fopen64@@");

EXPORT FILE *thread_count_fopen(const char *path, const char *mode);
EXPORT FILE *thread_count_fopen64(const char *path, const char *mode);

EXPORT FILE *thread_count_fopen(const char *path, const char *mode)
{
    return open_for(look_up(&next_fopen, "fopen"), path, mode, __builtin_return_address(0));
}

EXPORT FILE *thread_count_fopen64(const char *path, const char *mode)
{
    return open_for(look_up(&next_fopen64, "fopen64"), path, mode, __builtin_return_address(0));
}
