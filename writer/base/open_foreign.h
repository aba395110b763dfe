/* SPDX-License-Identifier: Apache-2.0 */
/* Opens files that others may have written, and decides whose files and sockets are trusted. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* Opens a regular file for reading: a descriptor for io_thread.h's calls on this thread, and *st.
 * Does not wait for a FIFO, opens no device. flags: O_NOFOLLOW or 0. most: bytes; UINT64_MAX when
 * the caller reads only a part. -1 and errno: EINVAL no regular file, EFBIG too large, ELOOP a
 * link. Any thread. */
int open_foreign(const char *path, int flags, uint64_t most, struct stat *st);

/* open_foreign(), but always with a descriptor in the program's table. */
int open_foreign_in_program(const char *path, int flags, uint64_t most, struct stat *st);

/* Whether the open file has this name and no other. With a second name it may be another user's
 * file, or one of this user's, that somebody has linked here. fd: of io_thread.h's calls on this
 * thread. */
bool has_one_name(int fd, const char *path);

/* True for this user and root. False for the overflow user of a user namespace, which stands for
 * all unmapped users. Any thread. */
bool owner_is_trusted(uid_t uid);

/* owner_is_trusted() without system calls. overflow: the number in /proc/sys/kernel/overflowuid.
 * uid_map: the text of /proc/self/uid_map. Pure. */
bool owner_is_mapped(uid_t uid, uid_t overflow, const char *uid_map);

/* True when path is a regular file of a trusted user. Follows no link. Any thread. */
bool owner_is_trusted_file(const char *path, struct stat *st);
