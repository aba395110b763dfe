/* SPDX-License-Identifier: Apache-2.0 */
/* What a CPython of 3.13 or later says of its own layout: the _Py_DebugOffsets at the beginning of
 * _PyRuntime. */
#ifndef PRELOAD_STACKS_PYOFFSETS_H
#define PRELOAD_STACKS_PYOFFSETS_H

#include "preload/stacks/pyframes.h"

/* Fills *out for CPython 3.`minor` from what stands at `runtime`. false: it does not say, says that
 * it has no GIL, or says what makes no sense; a few words in *why. What it does not say
 * (co_traceable, co_version) is -1. Any thread. */
bool pyoffsets_read(int minor, const void *runtime, struct pyframes_layout *out, const char **why);

/* True when both say the same of all that pyoffsets_read() can tell. */
bool pyoffsets_agree(const struct pyframes_layout *told, const struct pyframes_layout *row);

#endif
