/* SPDX-License-Identifier: Apache-2.0 */
/* The room's public header: cprof's state, the recursion guard, and helpers for all rooms. */
#pragma once

#include "preload/core/forked.h"
#include "preload/core/glob.h"
#include "preload/core/guard.h"
#include "preload/core/hook_params.h"
#include "preload/core/life.h"
#include "preload/core/parse.h"
#include "preload/core/program_time.h"
#include "preload/core/torch_api.h"
#include "preload/core/torch_values.h"
