/* SPDX-License-Identifier: Apache-2.0 */
/* Messages about steps. */
#include "preload/steps/steps_say.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "writer/writer.h"

void steps_say_no_action(int answer)
{
    static _Atomic bool said;
    if (!atomic_exchange(&said, true))
        log_warn("the program's schedule returned %d, which is no action (0 to 3): cprof skips "
                 "such steps",
                 answer);
}

void steps_say_no_answer(void)
{
    static _Atomic bool said;
    if (!atomic_exchange(&said, true))
        log_warn("the program's schedule was left without an answer (an exception, longjmp, or its "
                 "thread ended): cprof treats that step like the one before it");
}

void steps_say_in_handler(void)
{
    static _Atomic bool said;
    if (!atomic_exchange(&said, true))
        log_warn("a signal handler marks a step, an epoch or a region while the interrupted thread "
                 "marks one: the handler's mark does not count");
}

void steps_say_too_many(unsigned most)
{
    static _Atomic bool said;
    if (!atomic_exchange(&said, true))
        log_warn("more than %u steps ended while the program's schedule decided about one; "
                 "the others do not count",
                 most);
}

void steps_say_unreached(const struct schedule *schedule, int64_t steps)
{
    char text[256];
    schedule_describe(schedule, text, sizeof text);
    log_info("nothing was recorded: the program ended after %lld step%s; the schedule: %s",
             (long long)steps, steps == 1 ? "" : "s", text);
}

void steps_say_no_optimizer(const char *glob)
{
    char seen[OPTIMIZERS_TEXT];
    if (writer_optimizers(seen, sizeof seen) > 0)
        log_warn(
            "CPROF_STEP=optimizer:%s: no optimizer of such a class stepped; those that did: %s; "
            "no step was marked",
            glob, seen);
}

void steps_say_no_epoch(const struct schedule *schedule, int64_t steps)
{
    log_info("no end of an epoch was seen in %lld step%s, and CPROF_%s counts in epochs: "
             "call cprof_epoch(), in Python cprof.epoch(), where an epoch ends (Lightning's and "
             "Composer's trainers leave a DataLoader before it is exhausted)",
             (long long)steps, steps == 1 ? "" : "s",
             schedule->scope == SCHEDULE_EPOCH ? "SCHEDULE_SCOPE=epoch" : "FILENAME");
}
