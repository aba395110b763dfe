/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPROF_STEP=symbol:NAME: each call of loaded objects to the exported function NAME ends a step.
 * The objects' GOT entries for NAME are redirected to a stub that calls the real function and then
 * marks the step; calls that pass no GOT entry (inlined, inside one object, through dlsym()) are
 * not seen.
 */
#ifndef PRELOAD_LINK_SYMBOL_H
#define PRELOAD_LINK_SYMBOL_H

#include <stdatomic.h>
#include <stdbool.h>

/* True when CPROF_STEP names a function. Set by the constructor. */
extern _Atomic bool symbol_wanted __attribute__((visibility("hidden")));

/* Redirects what is loaded so far, if CPROF_STEP names a function: a program that does nothing but
 * call it wakes cprof in no other way. `mark` is called on the calling thread when a call of that
 * function is over. Constructor. */
void symbol_start(void (*mark)(void));

/* Redirects what was loaded since; at most every few milliseconds, and neither while another thread
 * does nor where cprof is over, as in forked children. Keeps errno. Any application thread, outside
 * the loader's callbacks. */
void symbol_look_now(void);

/* symbol_look_now() behind one load and one test, for hooks. */
static inline void symbol_look(void)
{
    if (__builtin_expect(atomic_load_explicit(&symbol_wanted, memory_order_relaxed), 0))
        symbol_look_now();
}

/* Says why where no call of the function was seen, if that is known. At exit. */
void symbol_finish(void);

/* ---- symbol_stub.c ---- */

/* different functions of the name: libraries opened RTLD_LOCAL may each have their own */
#define SYMBOL_STUBS 8u

/* The real functions, by stub; NULL: free. Written under symbol.c's lock before the stub is in
 * use. */
extern void *_Atomic symbol_reals[SYMBOL_STUBS] __attribute__((visibility("hidden")));

/* What symbol_start() was given. */
extern void (*symbol_mark)(void) __attribute__((visibility("hidden")));

/* A call came back. Any thread writes. */
extern _Atomic bool symbol_called __attribute__((visibility("hidden")));

/* The stub that calls symbol_reals[i]; NULL where there is none for this processor. */
void *symbol_stub(unsigned i);

#endif
