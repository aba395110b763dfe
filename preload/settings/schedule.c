/* SPDX-License-Identifier: Apache-2.0 */
/* Computes each step's action. */
#include "preload/settings/schedule.h"

#include <inttypes.h>
#include <stdio.h>

bool schedule_is_valid(const struct schedule *schedule)
{
    return schedule->skip_first >= 0 && schedule->wait >= 0 && schedule->warmup >= 0 &&
           schedule->active >= 1 && schedule->repeat >= 0;
}

enum action schedule_action(const struct schedule *schedule, int64_t step)
{
    if (schedule->scope == SCHEDULE_NONE)
        return ACTION_ACTIVE;
    if (schedule->named)
        return step_ranges_action(schedule->named, step);
    if (!schedule_is_valid(schedule) || step < schedule->skip_first)
        return ACTION_SKIP;

    /* Each count is below 2^63, so two of them fit in 64 unsigned bits. A cycle that does not fit
     * never ends. */
    uint64_t position = (uint64_t)step - (uint64_t)schedule->skip_first;
    if (schedule->skip_first_wait)
        position += (uint64_t)schedule->wait;
    uint64_t idle = (uint64_t)schedule->wait;
    uint64_t before = idle + (uint64_t)schedule->warmup;
    uint64_t cycle;
    bool endless = __builtin_add_overflow(before, (uint64_t)schedule->active, &cycle);
    if (endless)
        cycle = UINT64_MAX;

    if (schedule->repeat > 0 && position / cycle >= (uint64_t)schedule->repeat)
        return ACTION_SKIP;
    position %= cycle;
    if (position < idle)
        return ACTION_SKIP;
    if (position < before)
        return ACTION_WARMUP;
    return position == cycle - 1 && !endless ? ACTION_ACTIVE_AND_SAVE : ACTION_ACTIVE;
}

enum action schedule_action_in_epoch(const struct schedule *schedule, int64_t batch_in_epoch,
                                     bool is_last)
{
    enum action action = schedule_action(schedule, batch_in_epoch);
    if (action == ACTION_ACTIVE && is_last && schedule->scope != SCHEDULE_NONE)
        return ACTION_ACTIVE_AND_SAVE;
    return action;
}

/* Appends to out[0..size) at *used, which stays below size. */
__attribute__((format(printf, 4, 5))) static void append(char *out, size_t size, size_t *used,
                                                         const char *format, ...)
{
    __builtin_va_list arguments;
    __builtin_va_start(arguments, format);
    int length = vsnprintf(out + *used, size - *used, format, arguments);
    __builtin_va_end(arguments);
    if (length > 0)
        *used = (size_t)length < size - *used ? *used + (size_t)length : size - 1;
}

static void describe_named(const struct step_ranges *named, char *out, size_t size, size_t *used)
{
    append(out, size, used, "record steps");
    for (unsigned i = 0; i < named->n; i++) {
        append(out, size, used, "%s %" PRId64, i ? "," : "", named->at[i].first);
        if (named->at[i].last > named->at[i].first)
            append(out, size, used, " to %" PRId64, named->at[i].last);
    }
}

size_t schedule_describe(const struct schedule *schedule, char *out, size_t size)
{
    size_t used = 0;
    if (size == 0)
        return 0;
    out[0] = '\0';
    if (schedule->scope == SCHEDULE_NONE) {
        append(out, size, &used, "record from start to exit");
        return used;
    }
    if (schedule->named) {
        describe_named(schedule->named, out, size, &used);
        return used;
    }
    if (!schedule_is_valid(schedule)) {
        append(out, size, &used, "not a schedule");
        return used;
    }
    const char *unit = schedule->scope == SCHEDULE_EPOCH ? "batches" : "steps";
    if (schedule->scope == SCHEDULE_EPOCH)
        append(out, size, &used, "in each epoch: ");
    if (schedule->skip_first > 0)
        append(out, size, &used, "skip %" PRId64 " %s, then ", schedule->skip_first, unit);
    if (schedule->repeat == 0)
        append(out, size, &used, "for ever: ");
    else
        append(out, size, &used, "%" PRId64 " %s: ", schedule->repeat,
               schedule->repeat == 1 ? "time" : "times");
    append(out, size, &used, "wait %" PRId64 "%s, warm up %" PRId64 ", record %" PRId64,
           schedule->wait, schedule->skip_first_wait ? " (not the first time)" : "",
           schedule->warmup, schedule->active);
    int64_t first, last;
    if (!__builtin_add_overflow(schedule->skip_first, schedule->warmup, &first) &&
        !__builtin_add_overflow(first, schedule->skip_first_wait ? 0 : schedule->wait, &first) &&
        !__builtin_add_overflow(first, schedule->active - 1, &last))
        append(out, size, &used, "; %s %" PRId64 " to %" PRId64 " are recorded first", unit, first,
               last);
    return used;
}
