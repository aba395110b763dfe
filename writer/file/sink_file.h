/* SPDX-License-Identifier: Apache-2.0 */
/* What sink_file.c, sink_gzip.c, sink_igzip.c and their test share: the system calls a file sink
 * makes (a test puts its own in place of one to make it fail) and the gzip encoder. Everybody else
 * uses sink.h. cprof thread. */
#ifndef WRITER_FILE_SINK_FILE_H
#define WRITER_FILE_SINK_FILE_H

#include "writer/base/base.h"
#include "writer/file/sink.h"

#include <sys/types.h>
#include <sys/uio.h>

/* Each as its manual page says: -1 and errno on failure. */
struct file_ops {
    ssize_t (*pwritev)(int fd, const struct iovec *parts, int n, off_t at);
    int (*ftruncate)(int fd, off_t size);
    int (*close)(int fd);
    int (*link)(const char *from, const char *to);
    int (*rename_new)(const char *from, const char *to); /* renameat2 with RENAME_NOREPLACE */
    int (*rename)(const char *from, const char *to);
};

/* The operating system's own calls. */
extern const struct file_ops sink_file_system;

/* sink_file() over other system calls. ops must live as long as the sink. */
struct sink *sink_file_with(const struct file_ops *ops, const char *part_path, bool gzip,
                            int level);

/* What zlib and igzip are given at a time: room for output, and at most so many bytes, because
 * their counters are 32 bits wide. */
#define GZIP_OUT_STEP 65536u
#define GZIP_IN_STEP  (1u << 30)

/* A deflate state that is kept from member to member. */
struct gzip;

/* NULL when there is no memory. level 1 (fast) to 9; others are moved to the nearest. */
struct gzip *gzip_new(int level);

/* Appends one whole gzip member that holds the n bytes. 0 or ENOMEM. */
int gzip_member(struct gzip *g, struct buf *out, const char *bytes, size_t n);

/* Appends one whole gzip member that holds the n bytes uncompressed: its size depends on n alone. 0
 * or ENOMEM. */
int gzip_stored(struct buf *out, const char *bytes, size_t n);

/* Frees it; NULL is allowed. */
void gzip_free(struct gzip *g);

/* For sink_gzip.c: as gzip_new(1), gzip_member() and gzip_free(). NULL also when sink_use_igzip()
 * found none. igzip_member() has an error for what igzip refuses, too, and may then have appended a
 * part. */
struct igzip;
struct igzip *igzip_new(void);
int igzip_member(struct igzip *g, struct buf *out, const char *bytes, size_t n);
void igzip_free(struct igzip *g);

#endif
