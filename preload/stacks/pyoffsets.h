/* SPDX-License-Identifier: Apache-2.0 */
/* The layout that CPython 3.13 and later publish: the _Py_DebugOffsets at the beginning of
 * _PyRuntime. */
#pragma once

#include "preload/stacks/pyframes.h"

/* Fills *out from `runtime`, the _PyRuntime of CPython 3.`minor`. Returns false, with a few words
 * in *why, if there are no offsets, implausible ones, or no GIL. co_traceable and co_version, which
 * are not published, become -1. Any thread. */
bool pyoffsets_read(int minor, const void *runtime, struct pyframes_layout *out, const char **why);

/* Whether the two agree in all that pyoffsets_read() can read. */
bool pyoffsets_agree(const struct pyframes_layout *published, const struct pyframes_layout *row);
