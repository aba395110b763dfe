/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fork handlers: nobody calls into torch, walks the loader's list or is in a flush of CUPTI while
 * the kernel copies the process, and the child is made inert. A fork while some thread is inside
 * torch's callback lock would leave that lock locked in the child for ever.
 */
#ifndef PRELOAD_HOOKS_FORK_H
#define PRELOAD_HOOKS_FORK_H

#include <stdbool.h>

/* Registers the fork handlers. Once, at wake-up. false: the C library had no memory, so forked
 * children would not be made inert and nothing may be recorded. */
bool fork_start(void);

#endif
