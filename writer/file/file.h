/* SPDX-License-Identifier: Apache-2.0 */
/* The room's public header: the way of bytes to disk. */
#pragma once

#include "writer/file/pen.h"
#include "writer/file/sink.h"
