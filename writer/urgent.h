/* SPDX-License-Identifier: Apache-2.0 */
/* A flush that an application thread waits for: writer_flush_now() of writer.h, as the cprof thread sees it. */
#ifndef WRITER_URGENT_H
#define WRITER_URGENT_H

#include <stdint.h>

/* How often one was asked for, and up to which of these it is done. cprof thread. */
uint32_t urgent_asked(void);
uint32_t urgent_done(void); /* as above */

/* Up to there it is done; wakes who waits. cprof thread. */
void urgent_set_done(uint32_t asked);

#endif
