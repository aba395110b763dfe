/* SPDX-License-Identifier: Apache-2.0 */
/* Waits (GPU_SYNC) that came before the recording of their event, which may lie in a buffer still
 * to come. cprof thread. */
#pragma once

#include <stdbool.h>

#include "writer/record/record.h"

/* Keeps a copy of a wait for a batch. False: no memory. */
bool sync_waits_put(const struct gpu_record *r);

/* A batch of records has come: gives take() the waits from before it whose recording is known. */
void sync_waits_batch(void (*take)(const struct gpu_record *r, void *arg), void *arg);

/* Gives take() the waits for which last() is true: they can be kept no longer. */
void sync_waits_settle(bool (*last)(const struct gpu_record *r, void *arg),
                       void (*take)(const struct gpu_record *r, void *arg), void *arg);
