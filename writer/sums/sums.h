/* SPDX-License-Identifier: Apache-2.0 */
/* The room's public header: FLOPs, memory, the summary, rows of streams. */
#pragma once

#include "writer/sums/energy.h"
#include "writer/sums/flop_stats.h"
#include "writer/sums/flows.h"
#include "writer/sums/gpu_memory.h"
#include "writer/sums/lanes.h"
#include "writer/sums/memory_owners.h"
#include "writer/sums/summary.h"
#include "writer/sums/top.h"
