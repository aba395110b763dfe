/* SPDX-License-Identifier: Apache-2.0 */
/* Identifies files by device, inode and time of birth. */
#define _GNU_SOURCE
#include "writer/os/file_identity.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "writer/os/apart.h"

APART static uint64_t device_of(uint32_t major_number, uint32_t minor_number)
{
    return (uint64_t)major_number << 32 | minor_number;
}

struct file_identity file_identity_of(const struct stat *st)
{
    return (struct file_identity){
        .device = device_of(major(st->st_dev), minor(st->st_dev)),
        .inode = S_ISREG(st->st_mode) ? st->st_ino : 0,
    };
}

APART struct file_identity file_identity_of_statx(const struct statx *st)
{
    struct file_identity identity = {
        .device = device_of(st->stx_dev_major, st->stx_dev_minor),
        .inode = S_ISREG(st->stx_mode) ? st->stx_ino : 0,
    };
    if (st->stx_mask & STATX_BTIME)
        identity.born_ns = (int64_t)st->stx_btime.tv_sec * 1000000000 + st->stx_btime.tv_nsec;
    return identity;
}

APART bool file_identity_same(const struct file_identity *a, const struct file_identity *b)
{
    return a->inode && a->inode == b->inode && a->device == b->device &&
           (a->born_ns == b->born_ns || !a->born_ns || !b->born_ns);
}

bool file_identity_look(const char *path, struct file_identity *identity, uint64_t *size)
{
    struct statx st;
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, FILE_IDENTITY_MASK, &st) != 0 ||
        !S_ISREG(st.stx_mode))
        return false;
    *identity = file_identity_of_statx(&st);
    if (size)
        *size = st.stx_size;
    return true;
}

bool file_identity_has_name(const struct file_identity *identity, const char *path)
{
    struct file_identity now;
    return file_identity_look(path, &now, NULL) && file_identity_same(identity, &now);
}
