/* SPDX-License-Identifier: Apache-2.0 */
/* Opens files that others may have written. */
#define _GNU_SOURCE
#include "writer/base/open_foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "writer/base/io_thread.h"
#include "writer/base/read_file.h"

#define OVERFLOW_UID 65534 /* the kernel's default */
#define ALL_USERS    UINT32_MAX
#define NAME_LOOKS   16

static int refusal(const struct stat *st, uint64_t most)
{
    return S_ISLNK(st->st_mode)           ? ELOOP
           : !S_ISREG(st->st_mode)        ? EINVAL
           : (uint64_t)st->st_size > most ? EFBIG
                                          : 0;
}

/* The system calls of a descriptor table. */
struct table {
    int (*open)(const char *path, int flags, mode_t mode);
    int (*fstat)(int fd, struct stat *st);
    int (*close)(int fd);
};

static int program_open(const char *path, int flags, mode_t mode)
{
    return open(path, flags, mode);
}

static int open_regular(const struct table *table, const char *path, int flags, uint64_t most,
                        struct stat *st)
{
    /* first the type: opening a device may have effects */
    if (((flags & O_NOFOLLOW) ? lstat(path, st) : stat(path, st)) != 0)
        return -1;
    int error = refusal(st, most), fd = -1;
    if (!error) {
        fd = table->open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY | flags, 0);
        error = fd < 0 || table->fstat(fd, st) != 0 ? errno : refusal(st, most);
    }
    if (error && fd >= 0)
        table->close(fd);
    errno = error;
    return error ? -1 : fd;
}

int open_foreign(const char *path, int flags, uint64_t most, struct stat *st)
{
    static const struct table ours = {io_open, io_fstat, io_close};
    return open_regular(&ours, path, flags, most, st);
}

int open_foreign_in_program(const char *path, int flags, uint64_t most, struct stat *st)
{
    static const struct table programs = {program_open, fstat, close};
    return open_regular(&programs, path, flags, most, st);
}

/* While another process removes a name, the file's count is lower before the name is gone. So each
 * look first waits for that: rename() of a name to itself changes nothing, but takes the folder's
 * lock, which the removal holds. Several looks, since a name may come and go between two calls. */
bool has_one_name(int fd, const char *path)
{
    struct stat opened, named;
    bool one = io_fstat(fd, &opened) == 0 && S_ISREG(opened.st_mode);
    for (int i = 0; one && i < NAME_LOOKS; i++)
        one = (rename(path, path) == 0 || errno == EROFS) && lstat(path, &named) == 0 &&
              named.st_dev == opened.st_dev && named.st_ino == opened.st_ino && named.st_nlink == 1;
    return one;
}

bool owner_is_mapped(uid_t uid, uid_t overflow, const char *uid_map)
{
    uint64_t mapped = 0;
    char *end;
    for (const char *at = uid_map; *at; at = *end ? end + 1 : end) {
        strtoull(at, &end, 10);
        strtoull(end, &end, 10);
        mapped += strtoull(end, &end, 10);
        if (*end && *end != '\n')
            break;
    }
    return uid != overflow || mapped >= ALL_USERS;
}

bool owner_is_trusted(uid_t uid)
{
    char overflow[24], map[4096];
    if (uid == 0 || uid != geteuid())
        return uid == 0;
    /* without /proc only the default is known */
    bool known = read_file("/proc/sys/kernel/overflowuid", overflow, sizeof overflow) > 0;
    read_file("/proc/self/uid_map", map, sizeof map);
    return owner_is_mapped(uid, known ? (uid_t)strtoul(overflow, NULL, 10) : OVERFLOW_UID, map);
}

bool owner_is_trusted_file(const char *path, struct stat *st)
{
    return lstat(path, st) == 0 && S_ISREG(st->st_mode) && owner_is_trusted(st->st_uid);
}
