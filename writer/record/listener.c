/* SPDX-License-Identifier: Apache-2.0 */
/* The process's listener. */
#include "writer/record/listener.h"
#include "writer/writer.h"

const struct listener *_Atomic listener_told;

void writer_listen(const struct listener *listener)
{
    atomic_store_explicit(&listener_told, listener, memory_order_release);
}

bool writer_is_heard(void)
{
    return listening();
}
