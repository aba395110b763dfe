/* SPDX-License-Identifier: Apache-2.0 */
/* Describes torch's own ranges around transfers, with the args that Kineto writes for them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "preload/collectives/torch_comms.h"
#include "preload/collectives/torch_groups.h"

/* True for the name of torch's range around a transfer of gloo, MPI or UCC. Any thread. */
bool collective_is_range(const char *name);

/* Most bytes of shapes that collective_of_shapes() reads, and most bytes that it writes. */
#define COLLECTIVE_SHAPES 1024u
#define COLLECTIVE_ARGS   (1536u + COLLECTIVE_SHAPES)

/* Describes torch's range around a transfer of gloo, MPI or UCC ("gloo:all_reduce"). Writes
 * DATA_ARGS into `out` (COLLECTIVE_ARGS bytes), including the shapes. shapes: DATA_SHAPES, n bytes,
 * at most COLLECTIVE_SHAPES. of: its group, or NULL. Returns the number of bytes.
 * collective_is_range(name) must hold. */
uint32_t collective_of_shapes(const char *name, const uint8_t *shapes, uint32_t n,
                              const struct torch_group *of, uint8_t *out);

/* Describes record_param_comms as Kineto does, except `Comms Id`, Kineto's hash of the rest. Writes
 * DATA_ARGS into `out` (COLLECTIVE_ARGS bytes). shapes: DATA_SHAPES of its inputs, n bytes; n is 0
 * unless shapes are recorded. Returns the number of bytes. */
uint32_t collective_of_comms(const struct torch_comms *comms, const uint8_t *shapes, uint32_t n,
                             uint8_t *out);
