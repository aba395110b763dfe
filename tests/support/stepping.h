/* SPDX-License-Identifier: Apache-2.0 */
/* A recording driven through preload/steps/steps.h, for tests of steps: without torch and without
 * the library's constructor. Files go to the session's folder. */
#pragma once

#include <check.h>
#include <stdio.h>

#include "preload/settings/identity.h"
#include "preload/core/life.h"
#include "preload/settings/schedule.h"
#include "preload/steps/steps.h"
#include "tests/support/session.h"

static struct config config;

static inline void setup(void)
{
    session_setup();
    config = (struct config){.wait = 1,
                             .warmup = 1,
                             .active = 2,
                             .repeat = 1,
                             .profile_memory = true,
                             .record_shapes = true,
                             .activities = CONFIG_ACTIVITY_CPU | CONFIG_ACTIVITY_CUDA,
                             .run_name = "unit",
                             .folder = session_folder,
                             .filename = "rank{rank}.json"};
    identity_start(&config);
    session_options.ranks_wrote = identity_ranks_wrote;
    atomic_store(&cprof_life, LIFE_AWAKE);
}

static inline void start(bool keep)
{
    ck_assert(writer_start(&session_options));
    steps_start(&config, keep);
}

static inline void finish(void)
{
    steps_finish();
    writer_finish();
}

#define ALL    (GATE_SPANS | GATE_MARKERS | GATE_MEMORY | GATE_SHAPES | GATE_CALLS)
#define MARK() steps_mark(STEP_CALL, 0)

/* bits: without those that follow from others. */
static inline void check_gate(uint32_t bits, const char *when)
{
    bits |= bits & GATE_SPANS ? GATE_RANGES : 0;
    bits |= bits & GATE_MARKERS ? GATE_WINDOW : 0;
    for (uint32_t bit = 1; bit < 1u << GATE_BITS; bit <<= 1)
        ck_assert_msg(gate_open(bit) == ((bits & bit) != 0), "gate bit %u is %d in %s", bit,
                      gate_open(bit), when);
}

static inline void check_step(int64_t step, enum action action, uint32_t gate)
{
    char when[32];
    snprintf(when, sizeof when, "step %lld", (long long)step);
    ck_assert_int_eq(steps_current(), step);
    ck_assert_int_eq(steps_action(), action);
    bool kept = gate & GATE_SPANS && action < ACTION_ACTIVE;
    check_gate(gate | (kept ? GATE_KEPT : 0), when);
}

static inline void name_files(const char *filename)
{
    config.filename = filename;
    session_options.trace_path = identity_trace_path;
}
