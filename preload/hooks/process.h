/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends of the process that run no exit handler: _exit and _Exit, which Python's os._exit calls;
 * abort; and a signal that the program sends to itself (kill, killpg, raise, tgkill, pthread_kill,
 * sigqueue), as CPython does after ^C. The wrappers finish the traces first, in the process that
 * owns them only.
 */
#ifndef PRELOAD_HOOKS_PROCESS_H
#define PRELOAD_HOOKS_PROCESS_H

/* Looks up the next definition of each (another preload's, or the C library's), because the
 * wrappers themselves may run in a vfork child, in the memory of its parent, where nothing should
 * be looked up. In the constructor; about a microsecond. */
void process_start(void);

/* One line where the program lives on after a signal for which the traces were finished. At
 * exit. */
void process_say_outlived(void);

#endif
