/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a regular file, gzip (any number of members) or plain, in pieces. cprof thread. */
#ifndef WRITER_IMPORT_UNPACK_H
#define WRITER_IMPORT_UNPACK_H

#include <stddef.h>
#include <stdint.h>

struct unpack;

/* Begins at the file's first byte. NULL: no memory. */
struct unpack *unpack_new(void);

/* The next piece of the file that fd is now: at most about 128 KB at *text, valid until the next
 * call. Returns its bytes, 0 at the end, -1 and *why (static, or an error's text) on a failure.
 * fd's own position is not touched. */
long unpack_next(struct unpack *u, int fd, const char **text, const char **why);

/* Back to the beginning. */
void unpack_reset(struct unpack *u);

/* Frees it; NULL is allowed. */
void unpack_free(struct unpack *u);

#endif
