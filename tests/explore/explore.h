/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a few threads through every interleaving of their atomic operations, and through every value
 * that C11 allows an atomic load to return. The code under test is compiled with -fsanitize=thread
 * and linked to explore.c instead of the sanitizer's runtime. So each memory access of the
 * unchanged code, plain or atomic with its memory order, calls explore.c.
 *
 * The memory model is C11's, with three differences: consume and load buffering are missing, and
 * seq_cst counts as acquire and release. A load may return any value unless its thread has seen a
 * newer one. An acquire load that reads from a release store (or from read-modify-writes after the
 * store) sees everything that the storing thread had seen. Two plain accesses to the same 8 bytes
 * are a race if one is a write and neither happens before the other.
 *
 * Threads are coroutines of one thread, switched before each atomic operation. A run ends when it
 * reaches a known state. Stack addresses must not reach other threads. For errno and thread-local
 * variables see explore_ignore(). */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { EXPLORE_THREADS = 4 };

struct scenario {
    const char *name;
    void (*reset)(void); /* before each run; not explored */
    void (*thread[EXPLORE_THREADS])(void);
    unsigned n_threads;
    void (*check)(void); /* after all threads have ended; sees all their stores; not explored */
    void (*switched)(unsigned t); /* called when thread t continues; may be NULL */
};

struct explored {
    uint64_t runs, states;
};

/* Explores the scenario. On a fault, prints a message and the choices that led to the fault, and
 * ends the process. */
struct explored explore(const struct scenario *s);

/* Reports a fault and ends the process. */
__attribute__((noreturn, format(printf, 1, 2))) void explore_fail(const char *format, ...);

/* The number of the running thread. */
unsigned explore_self(void);

/* explore_clear() zeroes those of the pages that were written since the last call. The pages must
 * lie within memory given to explore_tracks() before. Every thousandth call checks that the rest is
 * zero. */
void explore_tracks(void *memory, size_t size);
void explore_clear(void *pages, size_t size);

/* Ignores plain accesses to a variable that real threads would not share, but coroutines do: errno
 * or a thread-local variable. At most 8 variables. */
void explore_ignore(const void *at, size_t size);

/* At most one thread at a time writes this location, and another variable hands the location over.
 * So a store needs no switch before it: threads that must not see it yet read an older store.
 * Threads in the mask (1 << thread) only read stores of their own. */
void explore_quiet(const void *at, unsigned mask);

/* Does not explore the order of accesses to this location. Either no thread depends on the order,
 * or another scenario explores it. At most 4 locations. */
void explore_pass_over(const void *at);
