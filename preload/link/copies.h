/* SPDX-License-Identifier: Apache-2.0 */
/* Handles two copies of this library in one process, for example from LD_PRELOAD of an image and
 * `cprof run` of a checkout. The program is bound to the first copy, which alone records. Later
 * copies are hidden from the loader. Otherwise the first would take their wrappers for the real
 * functions, and they would call the first. */
#pragma once

#include <stdbool.h>

/* Finds the copies that were loaded with the program, and hides all but the first. True: this one
 * is the first, or none was found. Once, in the constructor. */
bool copies_hide(void);

/* The first copy's path as the loader knows it, if this copy is hidden; else NULL. Any thread. */
const char *copies_first(void);

/* The path of a copy that this first copy has hidden, else NULL. Any thread. */
const char *copies_hidden(void);
