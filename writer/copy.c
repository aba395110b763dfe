/* SPDX-License-Identifier: Apache-2.0 */
/* writer_copy_trace(): a whole trace under another name, packed or unpacked on the way. Application threads; no state. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "writer/path.h"
#include "writer/writer.h"

#define PIECE 65536

static int write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno != EINTR)
            return errno;
        data += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int copy_bytes(int from, int to)
{
    char piece[PIECE];
    for (;;) {
        ssize_t n = read(from, piece, sizeof piece);
        if (n == 0)
            return 0;
        int error = n > 0 ? write_all(to, piece, (size_t)n) : errno == EINTR ? 0 : errno;
        if (error)
            return error;
    }
}

static int zlib_error(gzFile file)
{
    int number = Z_OK;
    gzerror(file, &number);
    return number == Z_ERRNO ? errno : number == Z_MEM_ERROR ? ENOMEM : number < 0 ? EIO : 0;
}

static int unpack(gzFile from, int to)
{
    char piece[PIECE];
    int n, error = 0;
    while (!error && (n = gzread(from, piece, sizeof piece)) > 0)
        error = write_all(to, piece, (size_t)n);
    return error ? error : zlib_error(from);
}

static int pack(int from, gzFile to)
{
    char piece[PIECE];
    for (;;) {
        ssize_t n = read(from, piece, sizeof piece);
        if (n == 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return errno;
        if (n > 0 && gzwrite(to, piece, (unsigned)n) != n)
            return zlib_error(to);
    }
}

/* zlib closes what it is given: a copy. */
static gzFile open_gzip(int fd, const char *mode)
{
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    gzFile file = own >= 0 ? gzdopen(own, mode) : NULL;
    if (!file && own >= 0)
        close(own);
    return file;
}

static int unpack_to(int from, int to)
{
    gzFile packed = open_gzip(from, "rb");
    int error = packed ? unpack(packed, to) : ENOMEM;
    if (packed)
        gzclose_r(packed);
    return error;
}

static int pack_to(int from, int to)
{
    gzFile packed = open_gzip(to, "wb1");
    int error = packed ? pack(from, packed) : ENOMEM;
    if (packed && gzclose_w(packed) != Z_OK && !error)
        error = EIO;
    return error;
}

static int copy_as_named(int from, int to, const char *name)
{
    unsigned char magic[2] = {0, 0};
    bool is_gzip = pread(from, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
    bool wanted = path_is_gzip(name);
    return is_gzip == wanted ? copy_bytes(from, to)
           : wanted          ? pack_to(from, to)
                             : unpack_to(from, to);
}

int writer_copy_trace(const char *from, const char *to)
{
    char part[PATH_MAX];
    uint64_t number = clock_monotonic_ns();
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number)
        number ^= (uint64_t)getpid() << 32;
    int n = snprintf(part, sizeof part, "%s.%016llx.part", to, (unsigned long long)number);
    if (n < 0 || (size_t)n >= sizeof part)
        return ENAMETOOLONG;
    /* Not blocking: somebody may have put a FIFO in the trace's place. */
    int in = open(from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (in < 0)
        return errno;
    struct stat st;
    if (fstat(in, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(in);
        return EINVAL;
    }
    int out = open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    int error = out < 0 ? errno : copy_as_named(in, out, to);
    close(in);
    if (out < 0)
        return error;
    if (close(out) != 0 && !error && errno != EINTR)
        error = errno;
    if (!error && rename(part, to) != 0)
        error = errno;
    if (error)
        unlink(part);
    return error;
}
