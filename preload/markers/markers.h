/* SPDX-License-Identifier: Apache-2.0 */
/* The room's public header: markers, NVTX, ITT and trace handlers. */
#ifndef PRELOAD_MARKERS_MARKERS_H
#define PRELOAD_MARKERS_MARKERS_H

#include "preload/markers/handlers.h"
#include "preload/markers/nvtx.h"

#endif
