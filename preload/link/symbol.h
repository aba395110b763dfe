/* SPDX-License-Identifier: Apache-2.0 */
/* CPROF_STEP=symbol:NAME: each call of the exported function NAME by a loaded object ends a step.
 * The GOT entries for NAME lead to a stub that calls the real function and then marks the step.
 * Calls without a GOT entry are not seen: inlined, inside one object, or through dlsym(). */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

/* True when CPROF_STEP names a function. Set by the constructor. */
extern _Atomic bool symbol_wanted __attribute__((visibility("hidden")));

/* Redirects the objects loaded so far, if CPROF_STEP names a function. Such a call may be all that
 * wakes cprof. `mark` runs on the calling thread after each call of the function. Constructor. */
void symbol_start(void (*mark)(void));

/* Redirects objects loaded since, at most every few milliseconds. Does nothing while another thread
 * does so, or once cprof is over. Keeps errno. Any application thread, outside the loader's
 * callbacks. */
void symbol_look_now(void);

/* symbol_look_now() after one load and one test, for hooks. */
static inline void symbol_look(void)
{
    if (__builtin_expect(atomic_load_explicit(&symbol_wanted, memory_order_relaxed), 0))
        symbol_look_now();
}

/* Warns at exit when the function was never seen, with the reason if known. */
void symbol_finish(void);

/* ---- symbol_stub.c ---- */

/* functions of that name: libraries opened with RTLD_LOCAL may each have one */
#define SYMBOL_STUBS 8u

/* The real function of each stub; NULL: free. Written under symbol.c's lock before the stub is
 * used. */
extern void *_Atomic symbol_reals[SYMBOL_STUBS] __attribute__((visibility("hidden")));

/* The callback of symbol_start(). */
extern void (*symbol_mark)(void) __attribute__((visibility("hidden")));

/* A call has returned. Any thread writes. */
extern _Atomic bool symbol_called __attribute__((visibility("hidden")));

/* The stub that calls symbol_reals[i]; NULL: none on this processor. */
void *symbol_stub(unsigned i);
