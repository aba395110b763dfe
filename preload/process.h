/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends of the process that run no exit handler: _exit and _Exit, which Python's os._exit calls; and kill, by which a program that has
 * cleaned up after a signal sends it to itself once more, so that who waits for it sees what ended it: CPython does so after ^C. The
 * wrappers finish the traces first, in the process that owns them only.
 */
#ifndef PRELOAD_PROCESS_H
#define PRELOAD_PROCESS_H

/* Looks up the next _exit, _Exit and kill (another preload's, or the C library's), because the wrappers
 * themselves may run in a vfork child, in the memory of its parent, where nothing should be looked
 * up. In the constructor; a few hundred nanoseconds. */
void process_start(void);

/* One line where the program lives on after a signal for which the traces were finished. At exit. */
void process_say_outlived(void);

#endif
