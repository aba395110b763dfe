/* SPDX-License-Identifier: Apache-2.0 */
/* writer_copy_trace(): copies a finished trace under another name, packs or unpacks it. Application
 * threads; no state.
 *
 * A regular file is replaced at once. The name may also be /dev/null, a FIFO, or a link to where
 * the user collects traces. These are kept and written into, or the copy is refused. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "writer/base/base.h"
#include "writer/os/os.h"
#include "writer/writer.h"

#define PIECE     4096 /* threads may have small stacks */
#define LINKS     40   /* as many in a row as the kernel follows */
#define STALL_S   5    /* longest time for which a FIFO or device may take nothing */
#define GZIP_BITS 31   /* 15 + 16: gzip's format instead of zlib's */
#define GZIP_ROOM 8    /* zlib's default memory level */

#define TEXT_OF_(number) #number
#define TEXT_OF(number)  TEXT_OF_(number)

/* ---- bytes ---- */

/* Waits until the file may take more. since: when it last took something. 0, or ETIME. */
static int wait_for_room(int fd, uint64_t since)
{
    uint64_t waited = (clock_monotonic_ns() - since) / 1000000;
    if (waited >= STALL_S * 1000)
        return ETIME;
    poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, STALL_S * 1000 - (int)waited);
    return 0;
}

static int write_all(int fd, const char *data, size_t len)
{
    uint64_t since = clock_monotonic_ns();
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        int error = n > 0 ? 0 : n == 0 ? EIO : errno == EAGAIN ? wait_for_room(fd, since) : errno;
        if (error && error != EINTR)
            return error;
        if (n > 0) {
            data += n;
            len -= (size_t)n;
            since = clock_monotonic_ns();
        }
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

/* zlib's own file functions give up on non-blocking descriptors. */
static int put_packed(z_stream *z, int to, int flush)
{
    unsigned char piece[PIECE];
    int error = 0;
    do {
        z->next_out = piece;
        z->avail_out = sizeof piece;
        if (deflate(z, flush) == Z_STREAM_ERROR)
            return EIO;
        error = write_all(to, (const char *)piece, sizeof piece - z->avail_out);
    } while (!error && z->avail_out == 0);
    return error;
}

static int pack(int from, z_stream *z, int to)
{
    unsigned char piece[PIECE];
    for (;;) {
        ssize_t n = read(from, piece, sizeof piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        z->next_in = piece;
        z->avail_in = (unsigned)n;
        int error = put_packed(z, to, n > 0 ? Z_NO_FLUSH : Z_FINISH);
        if (error || n == 0)
            return error;
    }
}

static int unpack_to(int from, int to)
{
    int own = fcntl(from, F_DUPFD_CLOEXEC, 3); /* zlib closes its descriptor */
    if (own < 0)
        return errno;
    gzFile packed = gzdopen(own, "rb");
    int error = packed ? unpack(packed, to) : ENOMEM;
    if (packed)
        gzclose_r(packed);
    else
        close(own);
    return error;
}

static int pack_to(int from, int to)
{
    z_stream z = {0};
    if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, GZIP_BITS, GZIP_ROOM, Z_DEFAULT_STRATEGY) !=
        Z_OK)
        return ENOMEM;
    int error = pack(from, &z, to);
    deflateEnd(&z);
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

static int close_written(int fd, int error)
{
    /* Network file systems report a full disk at close. After EINTR, Linux has closed the file. */
    return close(fd) != 0 && !error && errno != EINTR ? errno : error;
}

/* ---- links ---- */

/* The path's folder with its slash, or ".". Returns its length in the path. */
static size_t folder_of(const char *path, char folder[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    snprintf(folder, PATH_MAX, "%.*s", n ? (int)n : 1, n ? path : ".");
    return n;
}

/* True for a link in a folder where everybody may write, of neither this user nor the folder's
 * owner: it may lead anywhere. With fs.protected_symlinks the kernel does not follow such links. */
static bool is_untrusted_link(const char *path, uid_t owner)
{
    char folder[PATH_MAX];
    struct stat st;
    folder_of(path, folder);
    return owner != geteuid() && stat(folder, &st) == 0 && (st.st_mode & S_ISVTX) &&
           (st.st_mode & S_IWOTH) && owner != st.st_uid;
}

/* Reads the open link into text, terminated. "" when it is no link, or one of /proc, whose text is
 * no path. 0 or errno. */
static int read_link(int fd, const char *path, char text[PATH_MAX])
{
    struct stat st;
    struct statfs fs;
    text[0] = '\0';
    if (fstat(fd, &st) != 0 || fstatfs(fd, &fs) != 0)
        return errno;
    if (!S_ISLNK(st.st_mode) || fs.f_type == PROC_SUPER_MAGIC)
        return 0;
    if (is_untrusted_link(path, st.st_uid))
        return EACCES;
    ssize_t n = readlinkat(fd, "", text, PATH_MAX);
    if (n < 0 || n == PATH_MAX)
        return n < 0 ? errno : ENAMETOOLONG;
    text[n] = '\0';
    return 0;
}

/* Replaces `path` by the target of its link. */
static int replace_by_target(char path[PATH_MAX], const char *text)
{
    char folder[PATH_MAX], next[PATH_MAX];
    bool below = text[0] != '/' && folder_of(path, folder) > 0;
    int n = snprintf(next, sizeof next, "%s%s", below ? folder : "", text);
    if (n < 0 || (size_t)n >= sizeof next)
        return ENAMETOOLONG;
    memcpy(path, next, (size_t)n + 1);
    return 0;
}

/* Follows links as open(2) does, also to a file that does not exist yet. Each link is checked and
 * read by one descriptor. 0 or errno. */
static int follow_links(char path[PATH_MAX])
{
    for (int i = 0; i <= LINKS; i++) {
        char text[PATH_MAX];
        int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            return errno == ENOENT ? 0 : errno;
        int error = read_link(fd, path, text);
        close(fd);
        if (error || !text[0])
            return error;
        error = replace_by_target(path, text);
        if (error)
            return error;
    }
    return ELOOP;
}

/* ---- what the name is ---- */

/* The file type (S_IFMT) of the path; 0: nothing there yet. ETXTBSY for a regular file behind a
 * link of /proc (/dev/stdout): it is open in a program, which would go on writing into the replaced
 * file. 0 or errno. */
static int file_kind(const char *path, mode_t *kind)
{
    struct stat st;
    *kind = 0;
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? 0 : errno;
    bool open_already = S_ISLNK(st.st_mode);
    if (open_already && stat(path, &st) != 0)
        return errno;
    *kind = st.st_mode & S_IFMT;
    return open_already && *kind == S_IFREG ? ETXTBSY : 0;
}

/* Writes into a device or FIFO without blocking for ever. Checks the type again after open(), in
 * case it was exchanged. */
static int write_into(int in, const char *path, mode_t kind, const char *name)
{
    struct stat st;
    if (kind == S_IFDIR || kind == S_IFSOCK)
        return kind == S_IFDIR ? EISDIR : ESOCKTNOSUPPORT;
    int out = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (out < 0)
        return errno == ENXIO && kind == S_IFIFO ? EPIPE : errno;
    int error = fstat(out, &st) != 0            ? errno
                : (st.st_mode & S_IFMT) != kind ? ESTALE
                                                : copy_as_named(in, out, name);
    return close_written(out, error);
}

/* Writes a new file beside `path`, then renames it over `path`. */
static int replace_file(int in, const char *path, const char *name)
{
    char part[PATH_MAX];
    mode_t kind;
    uint64_t number = clock_monotonic_ns();
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number)
        number ^= (uint64_t)getpid() << 32;
    int n = snprintf(part, sizeof part, "%s.%016llx.part", path, (unsigned long long)number);
    if (n < 0 || (size_t)n >= sizeof part)
        return ENAMETOOLONG;
    int out = open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (out < 0)
        return errno;
    int error = close_written(out, copy_as_named(in, out, name));
    if (!error)
        error = file_kind(path, &kind); /* again, because copying takes time */
    if (!error && kind != 0 && kind != S_IFREG)
        error = EEXIST;
    if (!error && rename(part, path) != 0)
        error = errno;
    if (error)
        unlink(part);
    return error;
}

static int copy_to(int in, const char *name)
{
    char path[PATH_MAX];
    mode_t kind = 0;
    int n = snprintf(path, sizeof path, "%s", name);
    int error = n < 0 || (size_t)n >= sizeof path ? ENAMETOOLONG : follow_links(path);
    if (!error)
        error = file_kind(path, &kind);
    if (error)
        return error;
    return kind == 0 || kind == S_IFREG ? replace_file(in, path, name)
                                        : write_into(in, path, kind, name);
}

static int copy_without_signals(int in, const char *name)
{
    struct write_signals held;
    write_signals_hold(&held);
    int error = copy_to(in, name);
    write_signals_release(&held, error);
    return error;
}

int writer_copy_trace(const char *from, const struct file_identity *file, const char *to)
{
    struct stat opened_as; /* the trace may have been replaced by a FIFO */
    int in = open_foreign_in_program(from, O_NOFOLLOW, UINT64_MAX, &opened_as);
    if (in < 0)
        return errno == EINVAL ? ESTALE : errno;
    struct statx st;
    int error = statx(in, "", AT_EMPTY_PATH, FILE_IDENTITY_MASK, &st) ? errno : 0;
    const struct file_identity opened = file_identity_of_statx(&st);
    if (!error)
        error = file_identity_same(&opened, file) ? copy_without_signals(in, to) : ESTALE;
    close(in);
    return error;
}

const char *writer_copy_error(int error)
{
    switch (error) {
    case ESTALE:
        return "another file has its name";
    case EPIPE:
        return "nobody reads the FIFO";
    case ETIME:
        return "it took nothing for " TEXT_OF(STALL_S) " s";
    case ESOCKTNOSUPPORT:
        return "it is a socket";
    case ETXTBSY:
        return "it is a name in /proc of an open file";
    default:
        return strerror(error);
    }
}
