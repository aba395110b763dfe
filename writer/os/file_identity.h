/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of a file, because whoever may write to its folder can give its name to another
 * file. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define FILE_IDENTITY_MASK (STATX_BASIC_STATS | STATX_BTIME) /* for statx(2) */

struct file_identity {
    uint64_t device, inode; /* inode 0: not a regular file */
    int64_t born_ns;        /* wall clock, because inode numbers are reused; 0: unknown */
};

struct stat;
struct statx;

/* From stat(2), which lacks the time of birth. Pure. */
struct file_identity file_identity_of(const struct stat *st);

/* From statx(2). Pure; may run where writer/os/apart.h applies. */
struct file_identity file_identity_of_statx(const struct statx *st);

/* True for the same regular file. Pure; may run where writer/os/apart.h applies. */
bool file_identity_same(const struct file_identity *a, const struct file_identity *b);

/* The identity of the regular file with this name, and its *size (may be NULL). False: none,
 * *identity is not written. Opens nothing, follows no link. Any thread. */
bool file_identity_look(const char *path, struct file_identity *identity, uint64_t *size);

/* True when path still names this file. Any thread. */
bool file_identity_has_name(const struct file_identity *identity, const char *path);
