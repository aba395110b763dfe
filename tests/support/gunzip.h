/* SPDX-License-Identifier: Apache-2.0 */
/* Gzip files taken apart by zlib, as its readers do. */
#ifndef TESTS_SUPPORT_GUNZIP_H
#define TESTS_SUPPORT_GUNZIP_H

#include "writer/base/buf.h"

/* What the members of the file hold together; NULL when they are not whole or something but zeros
 * follows them. Good until the next call. */
struct buf *unpacked(const struct buf *file);

#endif
