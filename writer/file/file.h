/* SPDX-License-Identifier: Apache-2.0 */
/* The room's public header: the way of bytes to disk. */
#ifndef WRITER_FILE_FILE_H
#define WRITER_FILE_FILE_H

#include "writer/file/pen.h"
#include "writer/file/sink.h"

#endif
