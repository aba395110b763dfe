/* SPDX-License-Identifier: Apache-2.0 */
/* Sorted lists of intervals in gap buffers, with lists inside intervals where events nest. cprof
 * thread. */
#include "writer/sums/intervals.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAP 8u /* intervals of a list's first allocation; doubled when full */

/* cost of an inner list in intervals of the budget, besides its own intervals */
#define LIST_COST 2u

void intervals_init(struct intervals *v)
{
    *v = (struct intervals){.height = 1, .horizon = INT64_MIN};
}

static inline struct interval *item(const struct intervals *v, uint32_t i)
{
    return &v->at[i < v->gap ? i : i + (v->cap - v->len)];
}

/* Moves the gap to before the i-th interval. */
static void move_gap(struct intervals *v, uint32_t i)
{
    uint32_t room = v->cap - v->len;
    if (i < v->gap)
        memmove(v->at + i + room, v->at + i, (v->gap - i) * sizeof(*v->at));
    else if (i > v->gap)
        memmove(v->at + v->gap, v->at + v->gap + room, (i - v->gap) * sizeof(*v->at));
    v->gap = i;
}

/* Frees a list and its inner lists, at most INTERVALS_DEPTH deep. */
static void free_list(struct intervals *v, uint64_t *used)
{
    for (uint32_t i = 0; i < v->len; i++) {
        struct intervals *inside = item(v, i)->inside;
        if (inside) {
            free_list(inside, used);
            free(inside);
            *used -= LIST_COST;
        }
    }
    *used -= v->cap;
    free(v->at);
    v->at = NULL;
    v->len = v->cap = v->gap = 0;
}

void intervals_forget(struct intervals *v, int64_t until, uint64_t *used)
{
    if (v->len != 0 && item(v, v->len - 1)->end > until)
        until = item(v, v->len - 1)->end;
    free_list(v, used);
    v->height = 1;
    if (until > v->horizon)
        v->horizon = until;
}

/* Forgets the older half. */
static void forget_half(struct intervals *v, uint64_t *used)
{
    uint32_t n = v->len / 2;
    move_gap(v, v->len);
    for (uint32_t i = 0; i < n; i++) {
        struct intervals *inside = v->at[i].inside;
        if (inside) {
            free_list(inside, used);
            free(inside);
            *used -= LIST_COST;
        }
    }
    v->horizon = v->at[n - 1].end;
    v->len -= n;
    v->gap = v->len;
    memmove(v->at, v->at + n, v->len * sizeof(*v->at));
}

/* Makes room for one more interval. False: no room. */
static bool reserve(struct intervals *v, uint64_t *used, uint64_t budget)
{
    if (v->len < v->cap)
        return true;
    if (v->cap >= INTERVALS_MOST) {
        forget_half(v, used);
        return true;
    }
    uint32_t cap = v->cap != 0 ? 2 * v->cap : FIRST_CAP;
    if (*used + (cap - v->cap) > budget)
        return false;
    move_gap(v, v->len);
    struct interval *at = realloc(v->at, cap * sizeof(*at));
    if (!at)
        return false;
    *used += cap - v->cap;
    v->at = at;
    v->cap = cap;
    return true;
}

/* Inserts an interval before the i-th. There must be room. */
static void insert(struct intervals *v, uint32_t i, struct interval in)
{
    move_gap(v, i);
    v->at[v->gap++] = in;
    v->len++;
}

/* Removes the intervals [i, j). */
static void take_out_intervals(struct intervals *v, uint32_t i, uint32_t j)
{
    move_gap(v, j);
    v->gap = i;
    v->len -= j - i;
}

/* The first interval that ends after `time`. */
static uint32_t first_ending_after(const struct intervals *v, int64_t time)
{
    if (v->len == 0 || item(v, v->len - 1)->end <= time)
        return v->len;
    uint32_t low = 0;
    uint32_t high = v->len - 1;
    /* mostly near the last insertion */
    if (v->gap > 0 && v->at[v->gap - 1].end <= time) {
        low = v->gap;
        if (item(v, low)->end > time)
            return low;
    } else if (v->gap > 0) {
        high = v->gap - 1;
    }
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (item(v, middle)->end > time)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The first interval, from the i-th on, that starts at `time` or later. */
static uint32_t first_starting_at(const struct intervals *v, uint32_t i, int64_t time)
{
    uint32_t low = i;
    uint32_t high = v->len;
    if (low == high || item(v, low)->start >= time)
        return low;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (item(v, middle)->start >= time)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Adds to a list without nesting. */
static enum interval_fit add_plain(struct intervals *v, int64_t start, int64_t end)
{
    uint32_t i = first_ending_after(v, start);
    struct interval *next = i < v->len ? item(v, i) : NULL;
    if (next && next->start < end)
        return INTERVAL_OVERLAPS;
    if (start == end)
        /* An event without duration takes no time; it must only not lie inside another event. */
        return next && next->start < start ? INTERVAL_OVERLAPS : INTERVAL_ADDED;
    struct interval *before = i > 0 ? item(v, i - 1) : NULL;
    bool joins_before = before && before->end == start;
    bool joins_next = next && next->start == end;
    if (joins_before && joins_next) {
        before->end = next->end;
        take_out_intervals(v, i, i + 1);
    } else if (joins_before) {
        before->end = end;
    } else if (joins_next) {
        next->start = start;
    } else {
        insert(v, i, (struct interval){start, end, NULL});
    }
    return INTERVAL_ADDED;
}

/* A new empty list with room for n. NULL: no room. */
static struct intervals *new_list(uint32_t n, uint64_t *used, uint64_t budget)
{
    struct intervals *list = *used + n + LIST_COST <= budget ? malloc(sizeof(*list)) : NULL;
    if (!list)
        return NULL;
    intervals_init(list);
    list->at = malloc(n * sizeof(*list->at));
    if (!list->at) {
        free(list);
        return NULL;
    }
    list->cap = n;
    *used += n + LIST_COST;
    return list;
}

/* Height of the highest list inside the intervals [i, j). */
static uint32_t height_inside(const struct intervals *v, uint32_t i, uint32_t j)
{
    uint32_t height = 0;
    for (; i < j; i++) {
        const struct intervals *inside = item(v, i)->inside;
        if (inside && inside->height > height)
            height = inside->height;
    }
    return height;
}

/* Puts [start, end) around the intervals [i, j), which it contains. */
static enum interval_fit add_around(struct intervals *v, uint32_t i, uint32_t j, int64_t start,
                                    int64_t end, uint64_t *used, uint64_t budget)
{
    struct intervals *list = new_list(j - i, used, budget);
    if (!list)
        return INTERVAL_NO_ROOM;
    list->height = height_inside(v, i, j) + 1;
    move_gap(v, j);
    memcpy(list->at, v->at + i, (j - i) * sizeof(*list->at));
    list->len = list->gap = j - i;
    take_out_intervals(v, i, j);
    insert(v, i, (struct interval){start, end, list});
    return INTERVAL_ADDED;
}

/* Updates the heights of the lists on a path, from list n up to the top. */
static void raise_heights(struct intervals *const *path, uint32_t n)
{
    while (n > 0) {
        struct intervals *above = path[n - 1];
        if (above->height < path[n]->height + 1)
            above->height = path[n]->height + 1;
        n--;
    }
}

/* Adds to a list with nesting: descends to the innermost event that contains it. */
static enum interval_fit add_nested(struct intervals *v, int64_t start, int64_t end, uint64_t *used,
                                    uint64_t budget)
{
    struct intervals *path[INTERVALS_DEPTH];
    if (start == end)
        return INTERVAL_ADDED; /* an event without duration nests everywhere */
    for (uint32_t depth = 0; depth < INTERVALS_DEPTH; depth++) {
        path[depth] = v;
        if (!reserve(v, used, budget))
            return INTERVAL_NO_ROOM;
        if (start < v->horizon)
            return INTERVAL_OVERLAPS;
        uint32_t i = first_ending_after(v, start);
        uint32_t j = first_starting_at(v, i, end);
        if (i == j) {
            insert(v, i, (struct interval){start, end, NULL});
            raise_heights(path, depth);
            return INTERVAL_ADDED;
        }
        struct interval *first = item(v, i);
        if (j - i == 1 && first->start <= start && first->end >= end) {
            if (!first->inside && depth + 1 < INTERVALS_DEPTH) {
                first->inside = new_list(FIRST_CAP, used, budget);
                if (!first->inside)
                    return INTERVAL_NO_ROOM;
            }
            v = first->inside;
            continue;
        }
        if (first->start < start || item(v, j - 1)->end > end ||
            depth + 2 + height_inside(v, i, j) > INTERVALS_DEPTH)
            return INTERVAL_OVERLAPS;
        enum interval_fit fit = add_around(v, i, j, start, end, used, budget);
        if (fit == INTERVAL_ADDED) {
            path[depth + 1] = item(v, i)->inside;
            raise_heights(path, depth + 1);
        }
        return fit;
    }
    return INTERVAL_OVERLAPS;
}

enum interval_fit intervals_add(struct intervals *v, int64_t start, int64_t end, bool nest,
                                uint64_t *used, uint64_t budget)
{
    if (nest)
        return start < v->horizon ? INTERVAL_OVERLAPS : add_nested(v, start, end, used, budget);
    if (!reserve(v, used, budget))
        return INTERVAL_NO_ROOM;
    return start < v->horizon ? INTERVAL_OVERLAPS : add_plain(v, start, end);
}
