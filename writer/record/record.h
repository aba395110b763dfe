/* SPDX-License-Identifier: Apache-2.0 */
/* The room's public header: records, and their way from a thread to the cprof thread. */
#pragma once

#include "writer/record/async.h"
#include "writer/record/edges.h"
#include "writer/record/gpu_record.h"
#include "writer/record/gpu_state.h"
#include "writer/record/hold.h"
#include "writer/record/listener.h"
#include "writer/record/loss.h"
#include "writer/record/memory_held.h"
#include "writer/record/modules.h"
#include "writer/record/numbered.h"
#include "writer/record/open_copy.h"
#include "writer/record/optimizers.h"
#include "writer/record/record_types.h"
#include "writer/record/thread_log.h"
#include "writer/record/thread_names.h"
#include "writer/record/trace_metadata.h"
