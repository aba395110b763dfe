/* SPDX-License-Identifier: Apache-2.0 */
/* A flush that an application thread waits for: writer_flush_now() of writer.h, as the cprof thread
 * sees it. */
#ifndef WRITER_WINDOW_FLUSH_NOW_H
#define WRITER_WINDOW_FLUSH_NOW_H

#include <stdint.h>

/* How often one was asked for, and up to which of these it is done. cprof thread. */
uint32_t flush_now_asked(void);
uint32_t flush_now_done(void); /* as above */

/* Up to there it is done; wakes who waits. cprof thread. */
void flush_now_set_done(uint32_t asked);

#endif
