/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends of the process that run no exit handler: _exit and _Exit, which Python's os._exit calls. The
 * wrappers finish the traces first, in the process that owns them only.
 */
#ifndef PRELOAD_PROCESS_H
#define PRELOAD_PROCESS_H

/* Looks up the next _exit and _Exit (another preload's, or the C library's), because the wrappers
 * themselves may run in a vfork child, in the memory of its parent, where nothing should be looked
 * up. In the constructor; a few hundred nanoseconds. */
void process_start(void);

#endif
