/* SPDX-License-Identifier: Apache-2.0 */
/* The destination of one trace's bytes. A sink is a struct of function pointers, so that tests can
 * inject failures. After every flush of a file sink, the open file is a whole, valid trace:
 *
 *     [ head, fixed size ][ body: grows ][ trailer: replaced by each flush ]
 *
 * Plain text: the head is padded with blanks. Gzip: the head is one stored member of fixed size,
 * rewritten in place; the body has one deflate member per flush; the trailer is one member.
 * Everything here runs on the cprof thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/os/os.h"

struct sink {
    /* Appends `body` and replaces the trailer. First writes what lies after the old end of the
     * file, then writes over the old trailer at once, then cuts a file that got shorter (see
     * sink_file.c for the state after a kill). head (NULL: unchanged) is rewritten in place; its
     * length must not change (EINVAL).
     * Returns 0 or errno: EEXIST or ELOOP when the name is taken at the first flush, ESTALE when
     * the file is no longer ours, EBADF after finish or discard. After an error the file is as
     * after the last successful flush, as far as the file system allows (a rewritten head stays).
     * The same body may be given again. */
    int (*flush)(struct sink *, const char *head, size_t head_len, const char *body,
                 size_t body_len, const char *trailer, size_t trailer_len);
    /* Gives the finished file its final name by link and unlink. `replace`: may replace a regular
     * file. 0 or errno: EEXIST when the name is taken, ENOENT before the first flush. After an
     * error, another name may be tried. */
    int (*finish)(struct sink *, const char *final_path, bool replace);
    /* Removes the first `bytes` of the body, by a copy of the rest that replaces the file at once.
     * The file is always valid. 0 or errno; after an error it is unchanged. */
    int (*drop)(struct sink *, uint64_t bytes);
    /* Removes the unfinished file of an unwanted window. */
    void (*discard)(struct sink *);
    /* Frees the sink; the file stays. Call it by sink_free(). */
    void (*free)(struct sink *);
    uint64_t bytes_written;    /* size of the file after the last flush */
    uint64_t body_size;        /* bytes of body on disk, compressed with gzip */
    uint64_t memory;           /* bytes held between flushes */
    struct file_identity file; /* set by the first flush, and again by finish */
};

/* Makes a file sink. part_path: name of the growing file, copied. The first flush makes the file
 * (0666 & ~umask) and missing folders (0777 & ~umask). Each flush opens it by path with
 * O_NOFOLLOW|O_CLOEXEC, checks device and inode, writes with pwritev (handles short writes and
 * EINTR) and closes it. NULL: no memory. */
struct sink *sink_file(const char *part_path, bool gzip, int level);

/* Uses igzip for gzip level 1 from now on, if cprof was built with ISA-L's header, libisal.so.2 can
 * be opened, and zlib can read its output. Before the first sink; opens a library. Any thread. */
void sink_use_igzip(void);

/* Frees a sink; NULL is allowed. */
void sink_free(struct sink *s);

/* True when little is free on the file system of `path`, or of its nearest existing parent: less
 * than 1 GB or 5 % of its size, whichever is less. */
bool sink_disk_low(const char *path);
