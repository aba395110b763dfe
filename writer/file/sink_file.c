/* SPDX-License-Identifier: Apache-2.0 */
/* A trace file that is valid after every flush. cprof thread.
 *
 * A flush replaces `old trailer` by `body, new trailer`. It writes back to front, so that the file
 * is not torn while the body is copied:
 *   1. head   in place, only when changed
 *   2. tail   everything after the old end of the file
 *   3. commit the place of the old trailer, by one write of its length
 *   4. cut    only when the new end is before the old one; step 3 filled the rest with blanks
 *
 * State after kill -9. Nothing is ever fsynced: the page cache outlives the process, and only a
 * crash of the machine can lose it.
 *   before 2            the trace as of the last flush
 *   inside or after 2   the same with bytes after its end: Perfetto reads it, strict readers need
 *                       `cprof recover`
 *   inside 3, or 1      torn if longer than a page (the kernel copies a page at once):
 *                       `cprof recover`
 *   after 3             the new trace; uncut bytes are blanks (zeros with gzip), which readers skip
 *
 * A full disk shows up in step 2, before old bytes are touched, and is undone by cutting. */
#include "writer/file/sink_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

/* O_NONBLOCK, O_NOCTTY: whatever replaced the file, open() neither blocks nor takes a terminal. */
#define OPEN_FLAGS (O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

#define COPY_BYTES ((size_t)1 << 20) /* per read, when a part of the file is copied */

struct file_sink {
    struct sink sink; /* first, so that a struct sink * points to a struct file_sink */
    const struct file_ops *ops;
    struct gzip *gzip;       /* NULL: plain; shared by all sinks */
    char *path;              /* of the .part file */
    bool made;               /* the file exists, and sink.file is set */
    bool dirty;              /* a failed flush is not undone yet */
    bool over;               /* finished or discarded */
    struct buf head;         /* as in the file */
    struct buf trailer;      /* as in the file */
    struct buf next_head;    /* of the current flush */
    struct buf next_body;    /* of the current flush; gzip only */
    struct buf next_trailer; /* of the current flush */
};

/* Consecutive bytes of the file from two buffers. */
struct pair {
    struct iovec part[2];
};

/* ---- system calls ---------------------------------------------------------------------------- */

static int rename_new(const char *from, const char *to)
{
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
}

const struct file_ops sink_file_system = {
    .pwritev = io_pwritev,
    .ftruncate = io_ftruncate,
    .close = io_close,
    .link = link,
    .rename_new = rename_new,
    .rename = rename,
};

/* Writes the bytes [from, to) of the pair at file offset `at`: one call, unless the system takes
 * less. 0 or errno. */
static int write_range(const struct file_sink *s, int fd, const struct pair *bytes, size_t from,
                       size_t to, uint64_t at)
{
    while (from < to) {
        struct iovec parts[2];
        int n = 0;
        size_t begin = 0;
        for (int i = 0; i < 2; i++) {
            size_t end = begin + bytes->part[i].iov_len;
            size_t first = from > begin ? from : begin;
            size_t last = to < end ? to : end;
            if (first < last) {
                parts[n].iov_base = (char *)bytes->part[i].iov_base + (first - begin);
                parts[n++].iov_len = last - first;
            }
            begin = end;
        }
        ssize_t done = s->ops->pwritev(fd, parts, n, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? errno : EIO;
        from += (size_t)done;
        at += (uint64_t)done;
    }
    return 0;
}

/* Writes a whole buffer. 0 or errno. */
static int write_buf(const struct file_sink *s, int fd, const struct buf *b, uint64_t at)
{
    struct pair bytes = {{{b->data, b->len}, {NULL, 0}}};
    return write_range(s, fd, &bytes, 0, b->len, at);
}

/* Truncates the file. 0 or errno. */
static int truncate_part(const struct file_sink *s, int fd, uint64_t size)
{
    int rc;
    do {
        rc = s->ops->ftruncate(fd, (off_t)size);
    } while (rc != 0 && errno == EINTR);
    return rc != 0 ? errno : 0;
}

/* Makes the folders of `path`. 0 or errno. */
static int make_folders(const char *path)
{
    char *copy = strdup(path);
    if (!copy)
        return ENOMEM;
    int error = 0;
    for (char *p = copy + 1; error == 0 && *copy != '\0' && *p != '\0'; p++) {
        if (*p != '/' || p[-1] == '/')
            continue;
        *p = '\0';
        struct stat st;
        /* for an existing folder, mkdir() may fail with EROFS or EACCES */
        if (mkdir(copy, 0777) != 0 && errno != EEXIST) {
            error = errno;
            if (stat(copy, &st) == 0 && S_ISDIR(st.st_mode))
                error = 0;
        }
        *p = '/';
    }
    free(copy);
    return error;
}

/* ---- the open file --------------------------------------------------------------------------- */

/* Size of the file after the last flush. */
static uint64_t size_of(const struct file_sink *s)
{
    return s->head.len + s->sink.body_size + s->trailer.len;
}

/* Opens the .part file, at first as a new file. Returns 0 with *fd open, or errno. */
static int open_part(struct file_sink *s, int *fd)
{
    int flags = OPEN_FLAGS | (s->made ? 0 : O_CREAT | O_EXCL);
    *fd = io_open(s->path, flags, 0666);
    if (*fd < 0 && errno == ENOENT && !s->made) {
        int error = make_folders(s->path);
        if (error != 0)
            return error;
        *fd = io_open(s->path, flags, 0666);
    }
    if (*fd < 0) {
        int error = errno;
        struct stat st;
        bool symlink = error == EEXIST && lstat(s->path, &st) == 0 && S_ISLNK(st.st_mode);
        return symlink ? ELOOP : error;
    }
    return 0;
}

/* Undoes a failed flush: restores head and trailer and cuts the rest. 0 or errno; dirty until it
 * succeeds. */
static int restore(struct file_sink *s, int fd)
{
    int error = write_buf(s, fd, &s->head, 0);
    if (error == 0)
        error = write_buf(s, fd, &s->trailer, s->head.len + s->sink.body_size);
    if (error == 0)
        error = truncate_part(s, fd, size_of(s));
    s->dirty = error != 0;
    return error;
}

/* Checks that the open file is ours and still has the body, and restores the state of the last
 * successful flush. 0 or errno; ESTALE: another file. */
static int check_part(struct file_sink *s, int fd)
{
    struct file_identity now;
    uint64_t size;
    if (io_look(fd, &now, &size) != 0) {
        int error = errno;
        if (!s->made)
            unlink(s->path); /* just made, empty */
        return error;
    }
    if (!s->made) {
        s->sink.file = now;
        return 0;
    }
    if (!file_identity_same(&now, &s->sink.file) || size < s->head.len + s->sink.body_size)
        return ESTALE;
    return s->dirty || size != size_of(s) ? restore(s, fd) : 0;
}

static void swap(struct buf *a, struct buf *b)
{
    struct buf c = *a;
    *a = *b;
    *b = c;
}

/* The first flush: a small valid trace without body. Removes the file on failure. 0 or errno. */
static int write_first(struct file_sink *s, int fd)
{
    struct pair bytes = {
        {{s->next_head.data, s->next_head.len}, {s->next_trailer.data, s->next_trailer.len}}};
    int error = write_range(s, fd, &bytes, 0, s->next_head.len + s->next_trailer.len, 0);
    if (error != 0) {
        if (file_identity_has_name(&s->sink.file, s->path))
            unlink(s->path);
        return error;
    }
    s->made = true;
    swap(&s->head, &s->next_head);
    buf_reset(&s->trailer);
    buf_put(&s->trailer, s->next_trailer.data, s->next_trailer.len);
    return 0;
}

/* Step 1. 0 or errno; on failure restores the old head as far as possible. */
static int write_head(struct file_sink *s, int fd)
{
    if (s->next_head.len == 0 || memcmp(s->head.data, s->next_head.data, s->head.len) == 0)
        return 0;
    int error = write_buf(s, fd, &s->next_head, 0);
    if (error != 0) {
        restore(s, fd);
        return error;
    }
    swap(&s->head, &s->next_head);
    return 0;
}

/* Steps 2 to 4. 0 or errno; on failure restores the old trailer as far as possible. */
static int write_body(struct file_sink *s, int fd, const char *body, size_t body_len)
{
    uint64_t at = s->head.len + s->sink.body_size;
    size_t old = s->trailer.len;
    size_t length = body_len + s->next_trailer.len;
    if (length < old) {
        char *blank = buf_room(&s->next_trailer, old - length);
        if (!blank)
            return ENOMEM;
        memset(blank, s->gzip ? 0 : ' ', old - length);
        s->next_trailer.len += old - length;
    }
    struct pair bytes = {
        {{(void *)(uintptr_t)body, body_len}, {s->next_trailer.data, s->next_trailer.len}}};
    int error = 0;
    if (length > old) {
        error = write_range(s, fd, &bytes, old, length, at + old);
        if (error != 0) {
            s->dirty = truncate_part(s, fd, at + old) != 0;
            return error;
        }
    }
    error = write_range(s, fd, &bytes, 0, old, at);
    if (error != 0) {
        restore(s, fd);
        return error;
    }
    if (length < old) {
        s->next_trailer.len -= old - length;
        truncate_part(s, fd,
                      at + length); /* if it fails, the blanks are harmless until the next flush */
    }
    return 0;
}

/* Encodes head, body and trailer as they are in the file. 0 or errno. */
static int encode(struct file_sink *s, const char *head, size_t head_len, const char **body,
                  size_t *body_len, const char *trailer, size_t trailer_len)
{
    buf_reset(&s->next_head);
    buf_reset(&s->next_body);
    buf_reset(&s->next_trailer);
    if (!s->gzip) {
        buf_put(&s->next_head, head, head ? head_len : 0);
        buf_put(&s->next_trailer, trailer, trailer_len);
        return s->next_head.failed || s->next_trailer.failed ? ENOMEM : 0;
    }
    int error = 0;
    if (head)
        error = gzip_stored(&s->next_head, head, head_len);
    if (error == 0 && *body_len != 0)
        error = gzip_member(s->gzip, &s->next_body, *body, *body_len);
    if (error == 0 && trailer_len != 0)
        error = gzip_member(s->gzip, &s->next_trailer, trailer, trailer_len);
    *body = s->next_body.data;
    *body_len = s->next_body.len;
    return error;
}

/* Writes a flush; body is encoded. 0 or errno. */
static int write_flush(struct file_sink *s, const char *body, size_t body_len)
{
    int fd, error = open_part(s, &fd);
    if (error != 0)
        return error;
    error = check_part(s, fd);
    if (error == 0)
        error = s->made ? write_head(s, fd) : write_first(s, fd);
    if (error == 0)
        error = write_body(s, fd, body, body_len);
    /* Network file systems report a full disk at close. After EINTR, Linux has closed the file. */
    if (s->ops->close(fd) != 0 && error == 0 && errno != EINTR) {
        error = errno;
        s->dirty = true;
    }
    return error;
}

/* Tries again to undo a failed flush. */
static void restore_part(struct file_sink *s)
{
    int fd;
    if (open_part(s, &fd) == 0) {
        check_part(s, fd);
        s->ops->close(fd);
    }
}

/* ---- struct sink ----------------------------------------------------------------------------- */

/* Frees what the next flush makes again: hundreds of windows may wait. */
static void release_scratch(struct file_sink *s)
{
    struct buf *scratch[] = {&s->next_head, &s->next_body, &s->next_trailer};
    for (size_t i = 0; i < sizeof scratch / sizeof scratch[0]; i++)
        buf_free(scratch[i]);
    buf_trim(&s->head);
    buf_trim(&s->trailer);
    s->sink.memory = sizeof *s + s->head.cap + s->trailer.cap;
}

static int file_flush(struct sink *sink, const char *head, size_t head_len, const char *body,
                      size_t body_len, const char *trailer, size_t trailer_len)
{
    struct file_sink *s = (struct file_sink *)sink;
    if (s->over)
        return EBADF;
    int error = encode(s, head, head_len, &body, &body_len, trailer, trailer_len);
    if (error != 0)
        return error;
    if (s->made && head && s->next_head.len != s->head.len)
        return EINVAL;
    error = write_flush(s, body, body_len);
    if (error == 0) {
        swap(&s->trailer, &s->next_trailer);
        s->sink.body_size += body_len;
    }
    s->sink.bytes_written = s->made ? size_of(s) : 0;
    release_scratch(s);
    return error;
}

/* Gives the file its name by link() and unlink(). 0 or errno. */
static int link_new(const struct file_sink *s, const char *to)
{
    struct stat st;
    if (s->ops->link(s->path, to) != 0) {
        int error = errno;
        /* NFS repeats a request whose answer was lost, and then finds its own link */
        if (error != EEXIST || !file_identity_has_name(&s->sink.file, to) || lstat(to, &st) != 0 ||
            st.st_nlink < 2)
            return error;
    }
    /* if unlink() fails, the old name is a second name of the same file */
    unlink(s->path);
    return 0;
}

/* True when the error of link() is about the file system, not about the name. */
static bool no_links_here(int error)
{
    return error == EPERM || error == ENOTSUP || error == EMLINK || error == ENOSYS;
}

/* Gives the file an unused name: by link(), else by an exclusive rename, else by check and rename.
 * 0 or errno. */
static int name_new(const struct file_sink *s, const char *to)
{
    int error = link_new(s, to);
    if (!no_links_here(error))
        return error;
    if (s->ops->rename_new(s->path, to) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP && errno != EPERM)
        return errno;
    struct stat st;
    if (lstat(to, &st) == 0)
        return EEXIST;
    if (errno != ENOENT)
        return errno;
    return s->ops->rename(s->path, to) != 0 ? errno : 0;
}

/* Gives the file its final name. Replaces only a regular file: rename() would also replace a
 * device, a FIFO or a link. 0 or errno. */
static int name_final(const struct file_sink *s, const char *to, bool replace)
{
    struct stat st;
    if (!replace || lstat(to, &st) != 0)
        return name_new(s, to);
    if (!S_ISREG(st.st_mode))
        return EEXIST;
    return s->ops->rename(s->path, to) != 0 ? errno : 0;
}

/* Updates the identity after finish: a user-space file system may make a new file at a rename.
 * Accepts a file of the same owner and size with one link. */
static void update_identity(struct file_sink *s, const char *path)
{
    struct stat st;
    struct file_identity now;
    uint64_t size;
    if (file_identity_look(path, &now, &size) && !file_identity_same(&now, &s->sink.file) &&
        size == size_of(s) && lstat(path, &st) == 0 && st.st_ino == now.inode &&
        st.st_uid == geteuid() && st.st_nlink == 1)
        s->sink.file = now;
}

static int file_finish(struct sink *sink, const char *final_path, bool replace)
{
    struct file_sink *s = (struct file_sink *)sink;
    if (s->over)
        return EBADF;
    if (!s->made)
        return ENOENT;
    if (!file_identity_has_name(&s->sink.file, s->path))
        return ESTALE;
    if (s->dirty)
        restore_part(s);
    int error = name_final(s, final_path, replace);
    if (error == ENOENT) {
        error = make_folders(final_path);
        error = error != 0 ? error : name_final(s, final_path, replace);
    }
    s->over = error == 0;
    if (s->over)
        update_identity(s, final_path);
    return error;
}

/* Copies the body from byte `at` of the file on, into the new file `to` after its head. 0 or
 * errno. */
static int copy_rest(const struct file_sink *s, int from, int to, uint64_t at)
{
    char *bytes = malloc(COPY_BYTES);
    int error = !bytes ? ENOMEM : 0;
    uint64_t end = s->head.len + s->sink.body_size;
    for (uint64_t new_at = s->head.len; error == 0 && at < end;) {
        size_t most = end - at < COPY_BYTES ? end - at : COPY_BYTES;
        ssize_t n = io_pread(from, bytes, most, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        struct pair some = {{{bytes, n > 0 ? (size_t)n : 0}, {NULL, 0}}};
        error = n < 0 ? errno : n == 0 ? ESTALE : write_range(s, to, &some, 0, (size_t)n, new_at);
        at += n > 0 ? (uint64_t)n : 0;
        new_at += n > 0 ? (uint64_t)n : 0;
    }
    free(bytes);
    return error;
}

/* Writes the whole new file. 0 or errno. */
static int copy_without(const struct file_sink *s, int from, int to, uint64_t drop)
{
    int error = write_buf(s, to, &s->head, 0);
    if (error == 0)
        error = copy_rest(s, from, to, s->head.len + drop);
    if (error == 0)
        error = write_buf(s, to, &s->trailer, s->head.len + s->sink.body_size - drop);
    return error;
}

/* Makes the file for the copy. Replaces one of this user that a killed process left. A descriptor,
 * or -1 and errno. */
static int open_copy(const char *path)
{
    struct stat st;
    int fd = io_open(path, OPEN_FLAGS | O_CREAT | O_EXCL, 0666);
    if (fd >= 0 || errno != EEXIST)
        return fd;
    if (lstat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        unlink(path) != 0) {
        errno = EEXIST;
        return -1;
    }
    return io_open(path, OPEN_FLAGS | O_CREAT | O_EXCL, 0666);
}

/* Replaces the .part file by a copy without the first `drop` bytes of the body. 0 or errno. */
static int replace_part(struct file_sink *s, uint64_t drop)
{
    char path[PATH_MAX];
    struct file_identity copy;
    uint64_t size;
    int n = snprintf(path, sizeof(path), "%s.new", s->path);
    if (n < 0 || (size_t)n >= sizeof(path))
        return ENAMETOOLONG;
    int from = io_open(s->path, (OPEN_FLAGS & ~O_WRONLY) | O_RDWR, 0);
    if (from < 0)
        return errno;
    int error = check_part(s, from);
    int to = error == 0 ? open_copy(path) : -1;
    if (error == 0 && (to < 0 || io_look(to, &copy, &size) != 0))
        error = errno;
    if (error == 0)
        error = copy_without(s, from, to, drop);
    if (to >= 0 && s->ops->close(to) != 0 && error == 0 && errno != EINTR)
        error = errno;
    s->ops->close(from);
    if (error == 0 && s->ops->rename(path, s->path) != 0)
        error = errno;
    if (error != 0 && to >= 0)
        unlink(path);
    else if (error == 0)
        s->sink.file = copy;
    return error;
}

static int file_drop(struct sink *sink, uint64_t bytes)
{
    struct file_sink *s = (struct file_sink *)sink;
    if (s->over || !s->made || bytes > s->sink.body_size)
        return EBADF;
    int error = replace_part(s, bytes);
    if (error == 0) {
        s->sink.body_size -= bytes;
        s->sink.bytes_written = size_of(s);
    }
    return error;
}

static void file_discard(struct sink *sink)
{
    struct file_sink *s = (struct file_sink *)sink;
    if (s->made && !s->over && file_identity_has_name(&s->sink.file, s->path))
        unlink(s->path);
    s->over = true;
}

/* One encoder for all sinks: 330 KB, without state between members. */
static struct gzip *encoder;
static int encoder_level;
static unsigned encoder_users;

static struct gzip *share_encoder(int level)
{
    if (encoder_users != 0 && level != encoder_level)
        return gzip_new(level);
    if (!encoder) {
        encoder = gzip_new(level);
        encoder_level = level;
    }
    encoder_users += encoder != NULL;
    return encoder;
}

static void release_encoder(struct gzip *g)
{
    if (g != encoder) {
        gzip_free(g);
    } else if (g && --encoder_users == 0) {
        gzip_free(g);
        encoder = NULL;
    }
}

static void file_free(struct sink *sink)
{
    struct file_sink *s = (struct file_sink *)sink;
    release_encoder(s->gzip);
    buf_free(&s->head);
    buf_free(&s->trailer);
    buf_free(&s->next_head);
    buf_free(&s->next_body);
    buf_free(&s->next_trailer);
    free(s->path);
    free(s);
}

struct sink *sink_file_with(const struct file_ops *ops, const char *part_path, bool gzip, int level)
{
    struct file_sink *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->sink.flush = file_flush;
    s->sink.finish = file_finish;
    s->sink.drop = file_drop;
    s->sink.discard = file_discard;
    s->sink.free = file_free;
    s->ops = ops;
    s->path = strdup(part_path);
    s->gzip = gzip ? share_encoder(level) : NULL;
    if (!s->path || (gzip && !s->gzip)) {
        file_free(&s->sink);
        return NULL;
    }
    return &s->sink;
}

struct sink *sink_file(const char *part_path, bool gzip, int level)
{
    return sink_file_with(&sink_file_system, part_path, gzip, level);
}

void sink_free(struct sink *s)
{
    if (s)
        s->free(s);
}

bool sink_disk_low(const char *path)
{
    char *folder = strdup(path);
    if (!folder)
        return false;
    struct statvfs fs;
    int rc = statvfs(folder, &fs);
    while (rc != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        char *slash = strrchr(folder, '/');
        if (!slash) {
            rc = statvfs(".", &fs);
            break;
        }
        slash[slash == folder ? 1 : 0] = '\0';
        rc = statvfs(folder, &fs);
        if (slash == folder)
            break;
    }
    free(folder);
    if (rc != 0)
        return false;
    uint64_t unit = fs.f_frsize;
    uint64_t twentieth = fs.f_blocks * unit / 20;
    uint64_t least = twentieth < 1000000000u ? twentieth : 1000000000u;
    return fs.f_bavail * unit < least;
}
