/* SPDX-License-Identifier: Apache-2.0 */
/* The room's public header: settings, rank, run name and trace names. */
#pragma once

#include "preload/settings/config.h"
#include "preload/settings/demands.h"
#include "preload/settings/identity.h"
#include "preload/settings/peaks.h"
#include "preload/settings/product_names.h"
#include "preload/settings/remote_names.h"
#include "preload/settings/run_names.h"
#include "preload/settings/schedule.h"
#include "preload/settings/step_ranges.h"
