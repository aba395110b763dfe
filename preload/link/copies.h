/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two copies of this library in one process, of the same build or of others: LD_PRELOAD of an image
 * names one, `cprof run` of a checkout another. The program is bound to the first, and only that
 * one records. The wrappers of the later ones must not be found either: the first would take them
 * for the real functions, and they would find the first. The later ones are therefore hidden from
 * the loader.
 */
#ifndef PRELOAD_LINK_COPIES_H
#define PRELOAD_LINK_COPIES_H

#include <stdbool.h>

/* Looks for copies that came with the program, and hides all but the first. True: this library is
 * the first, or there is none. Once, in the constructor. */
bool copies_hide(void);

/* The path of the first copy, as the loader knows it, where this one was hidden; else NULL. Any
 * thread. */
const char *copies_first(void);

/* The path of a copy that this one has hidden, because it is the first; else NULL. Any thread. */
const char *copies_hidden(void);

#endif
