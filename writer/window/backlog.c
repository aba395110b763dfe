/* SPDX-License-Identifier: Apache-2.0 */
/* Limits the memory of windows that wait for their files. */
#include "writer/window/backlog.h"

#include "writer/window/report.h"

#define BACKLOG_MB  32u
#define FILE_BYTES  (40u << 10) /* head and trailer of a file, once it is flushed */
#define BACKLOG_FEW 8u          /* fewer may be of any size: they wait for their kernels, say */

static bool left_out;
static struct losses before; /* losses when steps began to be left out, or at the last edge since */

static void warn_once(uint64_t n)
{
    if (once_here())
        log_error("%llu traces wait to be written and take more than %u MB of memory; steps are "
                  "not recorded until then (steps_behind), the program goes on",
                  (unsigned long long)n, BACKLOG_MB);
}

static bool is_full(const struct window *windows)
{
    uint64_t n = 0, bytes = 0;
    for (const struct window *w = windows; w; w = w->next) {
        n++;
        bytes += window_bytes(w) + (w->sink ? 0 : FILE_BYTES);
    }
    bool full = n >= BACKLOG_FEW && bytes > (uint64_t)BACKLOG_MB << 20;
    if (full)
        warn_once(n);
    return full;
}

bool backlog_takes_one(const struct window *windows, const struct step_edge *edge, bool without_end)
{
    bool goes_on = edge->kind != EDGE_EPOCH && edge->kind != EDGE_START && !without_end;
    bool in_the_middle = left_out && edge->ended == ACTION_ACTIVE && goes_on;
    left_out = in_the_middle || is_full(windows);
    before = edge->losses;
    return !left_out;
}

void backlog_count(struct window *to, uint64_t n)
{
    *(to ? &to->lost.n[LOSS_BEHIND] : &report.lost) += n;
    report.lost_more |= n > 0;
}

void backlog_count_losses(struct window *to, const struct step_edge *edge)
{
    if (!left_out || (edge->ended < ACTION_ACTIVE && !edge->kept))
        return;
    for (int i = 0; i < LOSS_COUNT; i++)
        *(to ? &to->lost.n[i] : &report.lost) += edge->losses.n[i] - before.n[i];
    before = edge->losses;
}

bool backlog_left_out(void)
{
    return left_out;
}
