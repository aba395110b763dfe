/* SPDX-License-Identifier: Apache-2.0 */
/* The one way to open what others may have written, and whose files and sockets are listened to. */
#ifndef WRITER_BASE_OPEN_FOREIGN_H
#define WRITER_BASE_OPEN_FOREIGN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* Opens a regular file to read: a descriptor for io_thread.h's calls on this thread, and *st. Does
 * not wait for a FIFO, opens no device. flags: O_NOFOLLOW, or 0. most: bytes; UINT64_MAX where the
 * caller reads no more than a part. -1 and errno: EINVAL for what is no regular file, EFBIG for
 * more than `most` bytes, ELOOP for a link. Any thread. */
int open_foreign(const char *path, int flags, uint64_t most, struct stat *st);

/* The same, with a descriptor in the program's table on every thread. */
int open_foreign_in_program(const char *path, int flags, uint64_t most, struct stat *st);

/* Whether the user is ours or root. In a user namespace all users that are not mapped there look
 * like the overflow user: that one is nobody's. Any thread. */
bool owner_is_trusted(uid_t uid);

/* The same of a number for "overflow", from /proc/sys/kernel/overflowuid, and the text of
 * /proc/self/uid_map. Pure. */
bool owner_is_mapped(uid_t uid, uid_t overflow, const char *uid_map);

/* Whether the name is that of a regular file of such a user. Follows no link. Any thread. */
bool owner_is_trusted_file(const char *path, struct stat *st);

#endif
