/* SPDX-License-Identifier: Apache-2.0 */
/* The room's public header: what happens to a complete trace file. */
#pragma once

#include "preload/delivery/child_env.h"
#include "preload/delivery/post_save.h"
#include "preload/delivery/saved.h"
#include "preload/delivery/spawn.h"
