/* SPDX-License-Identifier: Apache-2.0 */
/* The room's public header: markers, NVTX, ITT and trace handlers. */
#pragma once

#include "preload/markers/handlers.h"
#include "preload/markers/nvtx.h"
#include "preload/markers/nvtx_payload.h"
