/* SPDX-License-Identifier: Apache-2.0 */
/* The metadata and notes from writer_metadata() and writer_note(), as a trace has them. */
#pragma once

#include <stdint.h>

/* Returns the metadata as `"key": value,\n` lines and the notes as `"…", "…"`; "" if there are none
 * or no memory. Valid until the next call. cprof thread. */
void metadata_collect(const char **user_json, const char **notes_json);

/* Returns the last words that writer_record_path() got before `until` (ticks), or the oldest ones
 * still known. NULL: none. cprof thread. */
const char *metadata_record_path(uint64_t until);

/* Returns the text of writer_gap() if a gap overlaps the time from..to (ticks), else NULL. cprof
 * thread. */
const char *metadata_gap(uint64_t from, uint64_t to);
