/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks gzip files with zlib, as readers of traces do. */
#pragma once

#include "writer/base/buf.h"

/* The data of all members of the file; NULL if a member is not whole or anything but zeros follows
 * the last member. Valid until the next call. */
struct buf *unpacked(const struct buf *file);
