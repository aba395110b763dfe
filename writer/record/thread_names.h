/* SPDX-License-Identifier: Apache-2.0 */
/* Names that the program gave to its threads (writer_name_thread()). cprof thread. */
#ifndef WRITER_RECORD_THREAD_NAMES_H
#define WRITER_RECORD_THREAD_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#define THREAD_NAME_MOST 255u   /* bytes of one */
#define THREAD_NAMES     16384u /* most that are kept; one more is counted */

struct thread_name {
    uint64_t ticks; /* when it was given */
    uint32_t tid;
    uint32_t len;
    char text[THREAD_NAME_MOST + 1]; /* not terminated */
};

/* Copies the name of a thread; false: it has none. */
bool thread_names_find(uint32_t tid, struct thread_name *out);

/* The thread has ended: another one may get its number, unless it was named again since. Its name
 * is kept until the next thread_names_forget(). */
void thread_names_ended(uint32_t tid);

/* Forgets the names of the threads that have ended. */
void thread_names_forget(void);

#endif
