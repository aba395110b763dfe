/* SPDX-License-Identifier: Apache-2.0 */
/* Switches recording at the edge between two steps. */
#pragma once

#include "preload/settings/settings.h"
#include "preload/steps/requests.h"

/* Crosses the edge that r asks for, and sends it to the cprof thread. Switches sources on before
 * the next step's first instant, so that it is whole, and off after its last one. outside: the
 * next step is in no region. Sets edge->ticks. Under the edge's lock. */
void edge_cross(struct step_edge *edge, const struct request *r, const struct config *c,
                bool outside);

/* Whether the flight recorder keeps kernels, so that CUPTI records in all steps. */
static inline bool edge_keeps_kernels(const struct config *c)
{
    return c->flight && c->flight_what & FLIGHT_KERNELS;
}
