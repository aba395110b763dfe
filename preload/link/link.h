/* SPDX-License-Identifier: Apache-2.0 */
/* The room's public header: the real function behind a hook. */
#pragma once

#include "preload/link/callee.h"
#include "preload/link/copies.h"
#include "preload/link/got.h"
#include "preload/link/lock_spy.h"
#include "preload/link/readable.h"
#include "preload/link/resolve.h"
#include "preload/link/symbol.h"
