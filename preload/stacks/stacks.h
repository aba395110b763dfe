/* SPDX-License-Identifier: Apache-2.0 */
/* The room's public header: who called, in Python and native frames. */
#ifndef PRELOAD_STACKS_STACKS_H
#define PRELOAD_STACKS_STACKS_H

#include "preload/stacks/pyend.h"
#include "preload/stacks/python.h"
#include "preload/stacks/stack_capture.h"
#include "preload/stacks/unwind.h"

#endif
