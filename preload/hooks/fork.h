/* SPDX-License-Identifier: Apache-2.0 */
/* Fork handlers. While the kernel copies the process, no thread calls into torch, walks the
 * loader's list or flushes CUPTI. The child becomes inert. Otherwise torch's callback lock could
 * stay locked in the child for ever. */
#pragma once

#include <stdbool.h>

/* Registers the fork handlers. Once, at wake-up. Returns false when memory is short: then nothing
 * may be recorded, because forked children would not become inert. */
bool fork_start(void);
