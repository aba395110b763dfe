/* SPDX-License-Identifier: Apache-2.0 */
/* The room's public header: what the kernel and the loader offer. */
#pragma once

#include "writer/os/apart.h"
#include "writer/os/close_range.h"
#include "writer/os/elf_loaded.h"
#include "writer/os/file_identity.h"
#include "writer/os/futex.h"
#include "writer/os/locks.h"
#include "writer/os/monotonic.h"
#include "writer/os/own_memory.h"
#include "writer/os/raw_syscall.h"
#include "writer/os/write_signals.h"
