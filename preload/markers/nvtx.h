/* SPDX-License-Identifier: Apache-2.0 */
/* cprof records NVTX ranges, marks and names from every library in the process. Application
 * threads. */
#pragma once

#include "preload/markers/nvtx_abi.h"

/* Puts cprof's functions into a client library's tables. Each client library calls this once, at
 * its first NVTX call. NULL does nothing. Handles and range ids are valid in every client of the
 * process. */
void nvtx_attach(nvtx_get_export_table *get_export_table);

/* Creates the pthread key of the thread-end hook early, for the reason of thread_log_take_key().
 * Constructor. Else nvtx_attach() creates it. */
void nvtx_take_key(void);
