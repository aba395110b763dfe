/* SPDX-License-Identifier: Apache-2.0 */
/* The room's public header: buffers, clock, log, paths, files apart from the program's
 * descriptors. */
#pragma once

#include "writer/base/action.h"
#include "writer/base/arg_item.h"
#include "writer/base/buf.h"
#include "writer/base/clock.h"
#include "writer/base/flop_class.h"
#include "writer/base/hash.h"
#include "writer/base/io_thread.h"
#include "writer/base/json_text.h"
#include "writer/base/kept_names.h"
#include "writer/base/open_foreign.h"
#include "writer/base/path.h"
#include "writer/base/read_file.h"
#include "writer/base/run_state.h"
#include "writer/base/space.h"
#include "writer/base/train_time.h"
#include "writer/base/utf8.h"
#include "writer/base/wake.h"
