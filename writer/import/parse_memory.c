/* SPDX-License-Identifier: Apache-2.0 */
/* Leaves json-c when memory is out. The functions below take the place of those of their names in
 * all that is linked into this library (ld: --wrap). */
#ifndef CPROF_NO_JSON_C
#include "writer/import/parse_memory.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stddef.h>

static jmp_buf left; /* cprof thread */
static _Atomic pthread_t parsing;
static _Atomic bool guarded; /* cprof thread sets, any thread without memory reads */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);

static void leave_if_parsing(void)
{
    if (atomic_load(&guarded) && pthread_equal(atomic_load(&parsing), pthread_self()))
        longjmp(left, 1);
}

void *__wrap_malloc(size_t size)
{
    void *memory = __real_malloc(size);
    if (__builtin_expect(!memory, 0))
        leave_if_parsing();
    return memory;
}

void *__wrap_calloc(size_t n, size_t size)
{
    void *memory = __real_calloc(n, size);
    if (__builtin_expect(!memory, 0))
        leave_if_parsing();
    return memory;
}

void *__wrap_realloc(void *old, size_t size)
{
    void *memory = __real_realloc(old, size);
    if (__builtin_expect(!memory, 0))
        leave_if_parsing();
    return memory;
}

char *__wrap_strdup(const char *text)
{
    char *copy = __real_strdup(text);
    if (__builtin_expect(!copy, 0))
        leave_if_parsing();
    return copy;
}

bool parse_guarded(void (*parse)(void *), void *arg)
{
    atomic_store(&parsing, pthread_self());
    if (setjmp(left) != 0) {
        atomic_store(&guarded, false);
        return false;
    }
    atomic_store(&guarded, true);
    parse(arg);
    atomic_store(&guarded, false);
    return true;
}
#endif
