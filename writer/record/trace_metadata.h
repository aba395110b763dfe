/* SPDX-License-Identifier: Apache-2.0 */
/* What writer_metadata() and writer_note() gathered, as it stands in a trace. */
#ifndef WRITER_RECORD_TRACE_METADATA_H
#define WRITER_RECORD_TRACE_METADATA_H

#include <stdint.h>

/* The metadata as `"key": value,\n` lines and the notes as `"…", "…"`; "" when there are none or
 * memory is short. Valid until the next call. cprof thread. */
void metadata_collect(const char **user_json, const char **notes_json);

/* What writer_record_path() was told last before these ticks, or the one after it where that is not
 * known any more; NULL: nothing. cprof thread. */
const char *metadata_record_path(uint64_t until);

/* The text of writer_gap() where one lies between these ticks; else NULL. */
const char *metadata_gap(uint64_t from, uint64_t to);

#endif
