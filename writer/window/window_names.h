/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the rows and events in a window's file. cprof thread. */
#pragma once

#include "writer/json/json.h"
#include "writer/window/window.h"

/* Names all rows of the file again, because a part of it with names is dropped. */
void window_rename_rows(struct window *w);

/* Names the row of a thread of this process at its first event. *named: where that is remembered,
 * one per thread. */
void window_name_thread(struct window *w, const struct window_shared *shared, uint32_t tid,
                        uint64_t *named);

/* Where it is remembered that the row of the log's thread was named. */
uint64_t *window_named(const struct window *w, struct thread_log *log);

/* The row of a record: the modules of a thread have a row of their own. */
uint32_t window_row(const struct record *r, uint32_t tid);

/* Names the row of the thread's modules at its first event. */
void window_name_modules(struct window *w, const struct window_shared *shared,
                         const struct record_owner *owner);

/* Appends the names that the program gave to threads after their rows were named. */
void window_name_threads_again(struct window *w, const struct window_shared *shared, struct buf *b);

/* The name of the process, as its row shows it. */
const char *window_process_name(void);

/* Appends the name of the process's row. complete: reads it again first, since programs rename
 * themselves; else at most every NAME_NS. */
void window_name_process(const struct window_shared *shared, bool complete, struct buf *b);

/* The name of a record's event. Renames the program's step ranges, where cprof has step rows of its
 * own. */
struct text window_shown_name(const struct window *w, const struct record *r,
                              char room[RANGE_NAME_ROOM]);
