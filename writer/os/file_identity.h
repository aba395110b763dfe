/* SPDX-License-Identifier: Apache-2.0 */
/* A file by what it is: whoever may write to its folder can give its name to another file. */
#ifndef WRITER_OS_FILE_IDENTITY_H
#define WRITER_OS_FILE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#define FILE_IDENTITY_MASK (STATX_BASIC_STATS | STATX_BTIME) /* what statx(2) is asked for */

struct file_identity {
    uint64_t device, inode; /* inode 0: no regular file */
    int64_t born_ns;        /* wall clock: an inode's number is used again; 0: unknown */
};

struct stat;
struct statx;

/* Of a file that was looked at. `stat` does not tell when the file was made. Pure. */
struct file_identity file_identity_of(const struct stat *st);

/* The same. Pure; also where writer/os/apart.h applies. */
struct file_identity file_identity_of_statx(const struct statx *st);

/* Whether both are the same regular file. Pure; also where writer/os/apart.h applies. */
bool file_identity_same(const struct file_identity *a, const struct file_identity *b);

/* Looks at what has this name: the regular file *identity, of *size bytes (may be NULL). False:
 * there is none. Then *identity is not written. Opens nothing, follows no link. Any thread. */
bool file_identity_look(const char *path, struct file_identity *identity, uint64_t *size);

/* Whether the name is still that of this file. Any thread. */
bool file_identity_has_name(const struct file_identity *identity, const char *path);

#endif
