/* SPDX-License-Identifier: Apache-2.0 */
/* Where the bytes of one trace go. A sink is a small struct of function pointers, so that tests
 * inject failure. The file sink keeps "the open file is a whole, valid trace after every flush"
 * (design.md section 5):
 *
 *     [ head, fixed size ][ body: grows ][ trailer: replaced by each flush ]
 *
 * Plain: head padded with blanks. Gzip: the head is one stored member of fixed size, rewritten in
 * place; the body is whole deflate members, one per flush; the trailer is a member of its own.
 * Everything here runs on the cprof thread. */
#ifndef WRITER_FILE_SINK_H
#define WRITER_FILE_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/os/os.h"

struct sink {
    /* Adds `body` and puts `trailer` in place of the old trailer: first what lies behind the old
     * end of the file, then one write over the old trailer (sink_file.c says what a kill leaves),
     * then a cut when the file got shorter. head (NULL = unchanged) is rewritten in place; its
     * length must be the same each time (EINVAL). Returns 0 or an errno value: EEXIST, ELOOP when
     * the name is taken at the first flush, ESTALE when the file is no longer ours, EBADF after
     * finish or discard. After an error the file is as the last successful flush left it, as far as
     * the file system allows (a rewritten head stays), and the same body may be given again. */
    int (*flush)(struct sink *, const char *head, size_t head_len, const char *body,
                 size_t body_len, const char *trailer, size_t trailer_len);
    /* Gives the finished file its final name: link + unlink, never replacing unless `replace`, and
     * then a regular file only. EEXIST is returned when the name is taken otherwise, ENOENT when
     * there was no flush yet. 0 or errno; after an error it may be called again with another
     * name. */
    int (*finish)(struct sink *, const char *final_path, bool replace);
    /* Removes the first `bytes` of the body, as flushes left them, with a copy of the rest that
     * takes the file's place in one moment. The file is whole at any time. 0 or errno; after an
     * error it is as before. */
    int (*drop)(struct sink *, uint64_t bytes);
    /* Removes the unfinished file (a window that turned out not to be wanted). */
    void (*discard)(struct sink *);
    /* Frees the sink. The file stays as it is. NULL is allowed for the sink itself via
     * sink_free(). */
    void (*free)(struct sink *);
    uint64_t bytes_written;    /* size of the file after the last flush, for the trace's own cost */
    uint64_t body_size;        /* bytes of body on disk (compressed when gzip) */
    uint64_t memory;           /* bytes that it holds between flushes */
    struct file_identity file; /* from the first flush on, and once more after finish */
};

/* A file sink. part_path: name while it grows (copied). Nothing is created before the first flush;
 * missing folders are made (0777 & ~umask) at that time. Opens by path at each flush with
 * O_NOFOLLOW|O_CLOEXEC, checks device and inode against the first time, writes with pwrite (short
 * writes and EINTR handled), closes. Folders made, files 0666 & ~umask. NULL when there is no
 * memory. */
struct sink *sink_file(const char *part_path, bool gzip, int level);

/* Level 1 of gzip is igzip's from here on, where cprof was built with ISA-L's header, libisal.so.2
 * can be opened, and what it makes is what zlib reads. Any thread, before the first sink; it opens
 * a library. */
void sink_use_igzip(void);

/* Frees a sink; NULL is allowed. */
void sink_free(struct sink *s);

/* Free bytes rule of design.md section 3: true when the file system that holds `path` (or its
 * nearest existing parent) has less free than 1 GB or 5 % of its size, whichever is smaller. */
bool sink_disk_low(const char *path);

#endif
