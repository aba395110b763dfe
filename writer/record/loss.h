/* SPDX-License-Identifier: Apache-2.0 */
/* What was lost so far, over all threads. */
#ifndef WRITER_RECORD_LOSS_H
#define WRITER_RECORD_LOSS_H

struct losses;

/* Sum of the losses of all application threads. Any thread. */
void loss_sum(struct losses *out);

#endif
