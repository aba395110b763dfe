/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A main thread may leave before the others, by pthread_exit() or cancelled. Then the C library
 * ends the process with the last thread, by exit(0) on it (start_thread() in
 * nptl/pthread_create.c), and counts cprof's threads, too: alone, they would be there for ever, and
 * take no signal. So once no other is left, one more thread of cprof's ends what is recorded, waits
 * for the rest of cprof's, and is the last.
 */
#ifndef PRELOAD_HOOKS_LAST_THREAD_H
#define PRELOAD_HOOKS_LAST_THREAD_H

#include <stdbool.h>

/* Asks to be told when this thread leaves. In the constructor, on the main thread. */
void last_thread_start(void);

/* Looks whether the program has a thread left. The milliseconds after which to look again; -1: not
 * again. The cprof thread, each pass. */
int last_thread_poll(bool stopping);

#endif
