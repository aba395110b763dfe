/* SPDX-License-Identifier: Apache-2.0 */
/* Waits (GPU_SYNC) that have come before the recording of the event that they wait for, which may
 * lie in a buffer still to come. cprof thread. */
#ifndef WRITER_JOIN_SYNC_WAITS_H
#define WRITER_JOIN_SYNC_WAITS_H

#include <stdbool.h>

#include "writer/record/record.h"

/* Keeps a copy until a batch later. False: no memory. */
bool sync_waits_put(const struct gpu_record *r);

/* A batch of records has come: gives take() the waits that were there before it, but those whose
 * recording is still not known. */
void sync_waits_batch(void (*take)(const struct gpu_record *r, void *arg), void *arg);

/* Gives take() those of which last() says that they cannot be kept any longer. */
void sync_waits_settle(bool (*last)(const struct gpu_record *r, void *arg),
                       void (*take)(const struct gpu_record *r, void *arg), void *arg);

#endif
