/* SPDX-License-Identifier: Apache-2.0 */
/* Ends of the process without exit handlers: _exit and _Exit (Python's os._exit), abort, and
 * signals that the program sends itself, as CPython does after ^C (kill, killpg, raise, tgkill,
 * pthread_kill, sigqueue). The wrappers finish the traces first, only in the process that owns
 * them. */
#pragma once

/* Looks up the next definition of each (another preload's or the C library's). In the constructor,
 * because wrappers may run in a vfork child, which must not do lookups in its parent's memory.
 * Takes about a microsecond. */
void process_start(void);

/* Warns at exit if the program lived on after a signal for which the traces were finished. */
void process_say_outlived(void);
