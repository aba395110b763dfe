/* SPDX-License-Identifier: Apache-2.0 */
/* The room's public header: what happens to a whole trace file. */
#ifndef PRELOAD_DELIVERY_DELIVERY_H
#define PRELOAD_DELIVERY_DELIVERY_H

#include "preload/delivery/child_env.h"
#include "preload/delivery/post_save.h"
#include "preload/delivery/saved.h"
#include "preload/delivery/spawn.h"

#endif
