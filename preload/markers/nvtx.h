/* SPDX-License-Identifier: Apache-2.0 */
/* NVTX: ranges, marks and names of every library in the process that speaks it. Application
 * threads. */
#ifndef PRELOAD_MARKERS_NVTX_H
#define PRELOAD_MARKERS_NVTX_H

#include "preload/markers/nvtx_abi.h"

/* Puts cprof's functions into the tables of a client library, each of which calls once, at its
 * first NVTX call; NULL is allowed. Handles and range ids are good in every client of the
 * process. */
void nvtx_attach(nvtx_get_export_table *get_export_table);

/* Takes the key of its thread-end hook, for the reason of thread_log_take_key(). Constructor;
 * without it nvtx_attach() takes a key. */
void nvtx_take_key(void);

#endif
