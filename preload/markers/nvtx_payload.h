/* SPDX-License-Identifier: Apache-2.0 */
/* NVTX's structured payloads, as far as they tell where in the program's source some work comes
 * from. XLA gives each instruction such a payload. Application threads. No lock, no allocation. */
#pragma once

#include "preload/markers/nvtx_abi.h"

#define NVTX_SOURCE_MOST 288u /* bytes of a source line as a DATA_ARGS item */

/* Puts cprof's functions into the tables of an extension of NVTX. NULL does nothing. */
void nvtx_extend(const struct nvtx_extension *extension);

/* Writes the source line in the payload of an event of a domain (NULL: the default one) as a
 * DATA_ARGS item "source" to room[NVTX_SOURCE_MOST], such as `/home/me/train.py(12): step`. Returns
 * its length; 0: none. */
uint32_t nvtx_source_item(const void *domain, const struct nvtx_attributes *a, uint8_t *room);
