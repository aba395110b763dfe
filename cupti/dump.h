/* SPDX-License-Identifier: Apache-2.0 */
/* Writes CUPTI's raw buffers to files, for debugging and for tests that replay them without a GPU.
 * Little-endian, unpadded:
 *
 *     8   "CPROFGPU"
 *     4   format, 1
 *     4   cuptiGetVersion()
 *     4   flags: DUMP_FORCED
 *     8   address that the first byte of the records had
 *     8   V, bytes of records
 *     4   N, number of records
 *     V   the records as CUPTI wrote them
 *     4N  offset of each record among them
 *     then for each text that records point to: 8 its address, 4 its length, its bytes */
#pragma once

#include "cupti/buffers.h"

#define DUMP_FORCED 1u /* from a forced flush: records may be unfinished */

/* Begins the file of the next buffer. cprof thread, as dump_record() and dump_end(). */
void dump_begin(const struct buffer *b);

/* Notes a record of that buffer. */
void dump_record(const void *record);

/* Writes <folder>/cupti-<version>-<n>.bin. Warns once if a file cannot be written. */
void dump_end(const char *folder, uint32_t version, uint32_t flags);
