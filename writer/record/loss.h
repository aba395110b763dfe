/* SPDX-License-Identifier: Apache-2.0 */
/* The losses so far of all threads together. */
#pragma once

struct losses;

/* Sums the losses of all threads, and those outside thread logs, into *out. Any thread. */
void loss_sum(struct losses *out);
