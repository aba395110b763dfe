/* SPDX-License-Identifier: Apache-2.0 */
/* The losses so far of all threads together. */
#ifndef WRITER_RECORD_LOSS_H
#define WRITER_RECORD_LOSS_H

struct losses;

/* Sums the losses of all threads, and those outside thread logs, into *out. Any thread. */
void loss_sum(struct losses *out);

#endif
