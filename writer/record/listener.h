/* SPDX-License-Identifier: Apache-2.0 */
/* The listener, which gets steps, marks and windows (struct listener in writer.h). */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct listener;

/* NULL: no listener. writer_listen() writes, any thread reads. */
extern const struct listener *_Atomic listener_told;

/* True when there is a listener. One load. Any thread. */
static inline bool listening(void)
{
    return atomic_load_explicit(&listener_told, memory_order_acquire) != NULL;
}
