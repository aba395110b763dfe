/* SPDX-License-Identifier: Apache-2.0 */
/* Names that the program gave to its threads (writer_name_thread()). cprof thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define THREAD_NAME_MOST 255u   /* bytes of a name */
#define THREAD_NAMES     16384u /* most names; further ones are lost (counted) */

struct thread_name {
    uint64_t ticks; /* when the thread got the name */
    uint32_t tid;
    uint32_t len;
    char text[THREAD_NAME_MOST + 1]; /* not terminated */
};

/* Copies a thread's name. False: it has none. */
bool thread_names_find(uint32_t tid, struct thread_name *out);

/* Notes that the thread has ended, so another one may get its number. thread_names_forget() then
 * removes the name, unless the number was named again. */
void thread_names_ended(uint32_t tid);

/* Forgets the names of ended threads. */
void thread_names_forget(void);
