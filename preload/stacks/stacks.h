/* SPDX-License-Identifier: Apache-2.0 */
/* The room's public header: Python and native stacks. */
#pragma once

#include "preload/stacks/pycheck.h"
#include "preload/stacks/pyend.h"
#include "preload/stacks/python.h"
#include "preload/stacks/pythreads.h"
#include "preload/stacks/stack_capture.h"
#include "preload/stacks/unwind.h"
