/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a few threads through every interleaving of their atomic operations, and through every value
 * that C11 allows an atomic load to return. The code under test is compiled with -fsanitize=thread
 * and linked to explore.c instead of the sanitizer's runtime, so that each of its accesses to
 * memory, plain or atomic, with its memory order, is a call into explore.c: what is explored is the
 * code itself, unchanged.
 *
 * The memory model is C11's without consume, load buffering and the total order of seq_cst, which
 * counts as acquire and release: a load may return any value that its thread has not yet seen to be
 * overwritten; an acquire load that reads from a release store (or from read-modify-writes after
 * it) sees all that the storing thread had seen. Two plain accesses to the same 8 bytes, one of
 * them a write, of which neither happens before the other, are a race. Threads are coroutines of
 * one thread, switched before each atomic operation. States that were met before are left at once.
 *
 * Stack addresses must not reach other threads. errno and thread-local variables: see
 * explore_ignore(). */
#ifndef TESTS_EXPLORE_EXPLORE_H
#define TESTS_EXPLORE_EXPLORE_H

#include <stddef.h>
#include <stdint.h>

enum { EXPLORE_THREADS = 4 };

struct scenario {
    const char *name;
    void (*reset)(void); /* before each run; not explored */
    void (*thread[EXPLORE_THREADS])(void);
    unsigned n_threads;
    void (*check)(void);          /* when all have ended, in their sight; not explored */
    void (*switched)(unsigned t); /* thread t runs from here on; NULL: nothing to do */
};

struct explored {
    uint64_t runs, states;
};

/* Explores it all. Ends the process with a message and the choices that led there when something is
 * wrong. */
struct explored explore(const struct scenario *s);

/* Something is wrong. */
__attribute__((noreturn, format(printf, 1, 2))) void explore_fail(const char *format, ...);

/* The running thread. */
unsigned explore_self(void);

/* Clearing zeroes what has been written of these pages since the last time, all within memory that
 * is told of first. Each thousandth time it looks whether the rest is zero. */
void explore_tracks(void *memory, size_t size);
void explore_clear(void *pages, size_t size);

/* Plain accesses there are each thread's own although they have one address here: errno,
 * thread-local variables. Up to 8 of them. */
void explore_ignore(const void *at, size_t size);

/* At most one thread at a time writes this location, handing it on by other means, so that a store
 * may as well be made at once: who is not to see it yet reads an older one. Those of the mask (1 <<
 * thread) never meet a store that is not their own. */
void explore_quiet(const void *at, unsigned mask);

/* Reads and updates of this location are made at once, and their order is not explored: nothing
 * that the threads do depends on it, or another scenario explores that. Up to 4 of them. */
void explore_pass_over(const void *at);

#endif
