/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a regular file, gzip (any number of members) or plain, in pieces. cprof thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct unpack;

/* Begins at the start of a file. NULL: no memory. */
struct unpack *unpack_new(void);

/* The next piece of file `fd`: at most about 128 KB at *text, valid until the next call. Returns
 * its length; 0: the end; -1: failure, *why (static, or of strerror()). Does not move fd's
 * offset. */
long unpack_next(struct unpack *u, int fd, const char **text, const char **why);

/* Back to the start of a file. */
void unpack_reset(struct unpack *u);

/* NULL is allowed. */
void unpack_free(struct unpack *u);
