/* SPDX-License-Identifier: Apache-2.0 */
/* The room's public header: functions and libraries of the addresses in stacks. */
#pragma once

#include "writer/stack/cfi.h"
#include "writer/stack/demangle.h"
#include "writer/stack/dso_table.h"
#include "writer/stack/stack_json.h"
#include "writer/stack/stack_table.h"
#include "writer/stack/symbols.h"
