/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by sink_file.c, sink_gzip.c, sink_igzip.c and their test: the system calls of a file sink,
 * which a test replaces to make them fail, and the gzip encoder. Others use sink.h. cprof
 * thread. */
#pragma once

#include "writer/base/base.h"
#include "writer/file/sink.h"

#include <sys/types.h>
#include <sys/uio.h>

/* As their manual pages: -1 and errno on failure. */
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

/* sink_file() with other system calls. ops must live as long as the sink. */
struct sink *sink_file_with(const struct file_ops *ops, const char *part_path, bool gzip,
                            int level);

/* Output room per step of zlib and igzip, and their most input per step, because their counters
 * have 32 bits. */
#define GZIP_OUT_STEP 65536u
#define GZIP_IN_STEP  (1u << 30)

/* A deflate state, reused for each member. */
struct gzip;

/* level: 1 (fast) to 9, others are clamped. NULL: no memory. */
struct gzip *gzip_new(int level);

/* Appends a whole gzip member with the n bytes. 0 or ENOMEM. */
int gzip_member(struct gzip *g, struct buf *out, const char *bytes, size_t n);

/* Appends a whole gzip member with the n bytes uncompressed; its size depends only on n. 0 or
 * ENOMEM. */
int gzip_stored(struct buf *out, const char *bytes, size_t n);

/* NULL is allowed. */
void gzip_free(struct gzip *g);

/* For sink_gzip.c: as gzip_new(1), gzip_member() and gzip_free(). NULL also when sink_use_igzip()
 * found no usable library. On an error, igzip_member() may have appended a part. */
struct igzip;
struct igzip *igzip_new(void);
int igzip_member(struct igzip *g, struct buf *out, const char *bytes, size_t n);
void igzip_free(struct igzip *g);
