/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the GPU and of overlapping events: ids, names, order, and the busy time of each row.
 * cprof thread. */
#include "writer/sums/lanes.h"
#include "writer/record/record.h"
#include "writer/sums/intervals.h"
#include "writer/json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Thread ids of a GPU's rows. Streams use their id, waits start at SYNC_TID, annotations at
 * ANNOTATION_TID. Rows without such an id (stream 0, overlaps, odd ids) start at EXTRA_TID, which
 * no Linux thread has: pid_max is at most 2^22. */
#define SYNC_TID       1000000u
#define ANNOTATION_TID 2000000u
#define EXTRA_TID      1000000000u

#define OVERHEAD_PID 4294967u /* above every Linux pid, too */

/* Kineto's order of processes: CPU by pid, then GPUs, then overhead. */
#define GPU_SORT      5000000
#define OVERHEAD_SORT 0x100000A

/* Positions that each stream has in the order of rows: its work, then its ranges, then its
 * waits. */
#define STREAM_SORT     32
#define ANNOTATION_SORT 15
#define SYNC_SORT       23

#define MOST_ROWS  (1u << 16)
#define BUDGET     (1u << 20) /* intervals in memory, for all rows: 24 MiB */
#define NAMED_PIDS 64u

struct lane {
    struct intervals busy;
    uint32_t tid;
    bool named; /* its M events are written */
};

/* The rows of one stream or thread. */
struct group {
    uint8_t kind; /* enum lane_kind */
    bool nest;
    uint32_t owner, id;
    uint32_t n;         /* lanes; the first is the plain row, the others are for overlaps */
    struct lane *lanes; /* owned */
};

struct lanes {
    struct group **table;           /* open addressing; owned, as are the groups */
    uint32_t capacity, n_groups;    /* capacity: 0 or a power of two, more than n_groups */
    struct group *last[LANE_KINDS]; /* most events have the same stream as the last */
    uint32_t n_rows;                /* lanes of all groups */
    uint32_t next_tid;              /* next id from EXTRA_TID on */
    uint64_t used;                  /* intervals in memory (intervals.h) */
    uint32_t pids[NAMED_PIDS];      /* processes whose names are written */
    uint32_t n_pids;
};

struct lanes *lanes_make(void)
{
    struct lanes *l = calloc(1, sizeof(*l));
    if (l)
        l->next_tid = EXTRA_TID;
    return l;
}

/* Forgets all busy time. Nothing fits any more that starts before it. */
static void forget_all(struct lanes *l)
{
    for (uint32_t i = 0; i < l->capacity; i++) {
        struct group *g = l->table[i];
        for (uint32_t k = 0; g && k < g->n; k++)
            intervals_forget(&g->lanes[k].busy, INT64_MIN, &l->used);
    }
}

uint64_t lanes_bytes(const struct lanes *l)
{
    return l ? l->used * sizeof(struct interval) : 0;
}

void lanes_free(struct lanes *l)
{
    if (!l)
        return;
    forget_all(l);
    for (uint32_t i = 0; i < l->capacity; i++) {
        if (l->table[i]) {
            free(l->table[i]->lanes);
            free(l->table[i]);
        }
    }
    free(l->table);
    free(l);
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* The slot of a group, or the empty slot for it. */
static uint32_t find_lane(const struct lanes *l, enum lane_kind kind, uint32_t owner, uint32_t id)
{
    uint64_t key = ((uint64_t)owner << 32 | id) + (uint64_t)kind * 0x2545f4914f6cdd1du;
    uint32_t i = (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 32) & (l->capacity - 1);
    for (;; i = (i + 1) & (l->capacity - 1)) {
        const struct group *g = l->table[i];
        if (!g || (g->id == id && g->owner == owner && g->kind == kind))
            return i;
    }
}

/* Makes room for one more group. */
static bool grow_lanes(struct lanes *l)
{
    if (l->n_groups < l->capacity / 2)
        return true;
    uint32_t old_capacity = l->capacity;
    struct group **old = l->table;
    uint32_t capacity = old_capacity != 0 ? 2 * old_capacity : 32;
    struct group **table = calloc(capacity, sizeof(struct group *));
    if (!table)
        return false;
    l->table = table;
    l->capacity = capacity;
    for (uint32_t i = 0; i < old_capacity; i++) {
        if (old[i])
            l->table[find_lane(l, old[i]->kind, old[i]->owner, old[i]->id)] = old[i];
    }
    free(old);
    return true;
}

/* The group of a stream or thread, made when it is new. NULL: no memory. */
static struct group *group_of(struct lanes *l, enum lane_kind kind, uint32_t owner, uint32_t id,
                              bool nest)
{
    struct group *g = l->last[kind];
    if (g && g->owner == owner && g->id == id)
        return g;
    g = l->capacity != 0 ? l->table[find_lane(l, kind, owner, id)] : NULL;
    if (!g) {
        g = l->n_rows < MOST_ROWS && grow_lanes(l) ? calloc(1, sizeof(*g)) : NULL;
        if (!g)
            return NULL;
        g->kind = (uint8_t)kind;
        g->nest = nest;
        g->owner = owner;
        g->id = id;
        l->table[find_lane(l, kind, owner, id)] = g;
        l->n_groups++;
    }
    l->last[kind] = g;
    return g;
}

/* The thread id of a group's plain row; 0: it needs one from EXTRA_TID on. */
static uint32_t plain_tid(enum lane_kind kind, uint32_t id)
{
    switch (kind) {
    case LANE_WORK:
        return id < SYNC_TID ? id : 0;
    case LANE_SYNC:
        return id < ANNOTATION_TID - SYNC_TID ? SYNC_TID + id : 0;
    case LANE_ANNOTATION:
        return id < SYNC_TID ? ANNOTATION_TID + id : 0;
    case LANE_OVERHEAD:
        return id < EXTRA_TID ? id : 0;
    case LANE_KINDS:
        break;
    }
    return 0;
}

/* Adds a row to a group. NULL: too many rows, or no memory. */
static struct lane *add_lane(struct lanes *l, struct group *g)
{
    if (g->n == LANES_OVERLAPS || l->n_rows == MOST_ROWS)
        return NULL;
    struct lane *all = realloc(g->lanes, (g->n + 1) * sizeof(*all));
    if (!all)
        return NULL;
    g->lanes = all;
    struct lane *lane = &all[g->n];
    *lane = (struct lane){0};
    intervals_init(&lane->busy);
    lane->tid = g->n == 0 ? plain_tid((enum lane_kind)g->kind, g->id) : 0;
    if (lane->tid == 0)
        lane->tid = l->next_tid++;
    g->n++;
    l->n_rows++;
    return lane;
}

/* Reserves the time on a row. False: it overlaps. */
static bool take_lane(struct lanes *l, const struct group *g, struct lane *lane, int64_t start,
                      int64_t end)
{
    enum interval_fit fit = intervals_add(&lane->busy, start, end, g->nest, &l->used, BUDGET);
    if (fit == INTERVAL_NO_ROOM) {
        forget_all(l);
        fit = intervals_add(&lane->busy, start, end, g->nest, &l->used, BUDGET);
    }
    if (fit == INTERVAL_NO_ROOM)
        /* no memory at all: from now on only later events fit */
        intervals_forget(&lane->busy, end, &l->used);
    return fit != INTERVAL_OVERLAPS;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* The name of the k-th row of a group. */
static void name_row(char *to, size_t room, const struct group *g, uint32_t k)
{
    char overlap[24] = "";
    if (k > 0)
        snprintf(overlap, sizeof(overlap), "overlap %u", k);
    switch ((enum lane_kind)g->kind) {
    case LANE_WORK:
        snprintf(to, room, k > 0 ? "stream %u (%s)" : "stream %u", g->id, overlap);
        return;
    case LANE_SYNC:
        if (g->id == GPU_NONE)
            snprintf(to, room, k > 0 ? "waits (%s)" : "waits", overlap);
        else
            snprintf(to, room, k > 0 ? "waits on stream %u (%s)" : "waits on stream %u", g->id,
                     overlap);
        return;
    case LANE_ANNOTATION:
        snprintf(to, room, k > 0 ? "ranges on stream %u (%s)" : "ranges on stream %u", g->id,
                 overlap);
        return;
    case LANE_OVERHEAD:
        if (g->id == 0)
            snprintf(to, room, k > 0 ? "unknown thread (%s)" : "unknown thread", overlap);
        else
            snprintf(to, room, k > 0 ? "thread %u (%s)" : "thread %u", g->id, overlap);
        return;
    case LANE_KINDS:
        break;
    }
}

/* The position of a row in its process: streams by id, each with its work, overlaps, ranges and
 * waits; waits without a stream last. */
static int64_t row_sort(const struct group *g, uint32_t k)
{
    uint32_t first = 0;
    uint32_t most = ANNOTATION_SORT - 1;
    switch ((enum lane_kind)g->kind) {
    case LANE_WORK:
        break;
    case LANE_SYNC:
        first = SYNC_SORT;
        most = STREAM_SORT - 1 - SYNC_SORT;
        break;
    case LANE_ANNOTATION:
        first = ANNOTATION_SORT;
        most = SYNC_SORT - 1 - ANNOTATION_SORT;
        break;
    case LANE_OVERHEAD:
    case LANE_KINDS:
        return g->id < INT32_MAX ? g->id : INT32_MAX;
    }
    int64_t sort = (int64_t)g->id * STREAM_SORT + first + (k < most ? k : most);
    return sort < INT32_MAX ? sort : INT32_MAX;
}

/* The process of a group's rows. */
static uint32_t pid_of(enum lane_kind kind, uint32_t owner)
{
    return kind == LANE_OVERHEAD ? OVERHEAD_PID : owner;
}

/* Appends the M events of a process, with a tid that has rows anyway: viewers would show another
 * thread. */
static void put_process(enum lane_kind kind, uint32_t pid, uint32_t tid, const char *process,
                        struct buf *b)
{
    if (kind == LANE_OVERHEAD) {
        json_meta_text(b, "process_name", pid, tid, "name", "overhead", 8);
        json_meta_number(b, "process_sort_index", pid, tid, OVERHEAD_SORT);
        return;
    }
    char label[24];
    int64_t sort = GPU_SORT + (int64_t)pid;
    int n = snprintf(label, sizeof(label), pid != GPU_NONE ? "GPU %u" : "GPU", pid);
    json_meta_text(b, "process_name", pid, tid, "name", process, strlen(process));
    json_meta_text(b, "process_labels", pid, tid, "labels", label, (size_t)n);
    json_meta_number(b, "process_sort_index", pid, tid, sort < INT32_MAX ? sort : INT32_MAX);
}

/* True when the process has its M events. */
static bool process_named(const struct lanes *l, uint32_t pid)
{
    for (uint32_t i = 0; i < l->n_pids; i++) {
        if (l->pids[i] == pid)
            return true;
    }
    return false;
}

void lanes_rename(struct lanes *l)
{
    if (!l)
        return;
    l->n_pids = 0;
    for (uint32_t i = 0; i < l->capacity; i++) {
        struct group *g = l->table[i];
        for (uint32_t k = 0; g && k < g->n; k++)
            g->lanes[k].named = false;
    }
}

bool lanes_have_process(const struct lanes *l, enum lane_kind kind, uint32_t owner)
{
    return process_named(l, pid_of(kind, owner));
}

/* Appends the M events of a new row, all or none. */
static void put_names(struct lanes *l, const struct group *g, struct lane *lane,
                      const char *process, struct buf *b)
{
    char name[64];
    uint32_t k = (uint32_t)(lane - g->lanes);
    uint32_t pid = pid_of((enum lane_kind)g->kind, g->owner);
    size_t start = b->len;
    bool new_process = !process_named(l, pid);
    if (new_process)
        put_process((enum lane_kind)g->kind, pid, lane->tid, process, b);
    name_row(name, sizeof(name), g, k);
    json_meta_text(b, "thread_name", pid, lane->tid, "name", name, strlen(name));
    json_meta_number(b, "thread_sort_index", pid, lane->tid, row_sort(g, k));
    if (b->failed) {
        b->len = start;
        return;
    }
    lane->named = true;
    if (new_process && l->n_pids < NAMED_PIDS)
        l->pids[l->n_pids++] = pid;
}

void lanes_name_process(struct lanes *l, uint32_t device, const char *process, struct buf *b)
{
    size_t start = b->len;
    put_process(LANE_WORK, device, LANES_STATE_TID, process, b);
    if (b->failed)
        b->len = start;
    else if (l->n_pids < NAMED_PIDS)
        l->pids[l->n_pids++] = device;
}

/* ---- placing --------------------------------------------------------------------------------- */

bool lanes_place(struct lanes *l, enum lane_kind kind, uint32_t owner, uint32_t id, int64_t start,
                 int64_t end, bool nest, const char *process, struct buf *b, uint32_t *pid,
                 uint32_t *tid)
{
    struct group *g = group_of(l, kind, owner, id, nest);
    struct lane *lane = NULL;
    bool fits = false;
    *pid = pid_of(kind, owner);
    for (uint32_t k = 0; g && !fits && k < LANES_OVERLAPS; k++) {
        lane = k < g->n ? &g->lanes[k] : add_lane(l, g);
        if (!lane)
            break;
        fits = take_lane(l, g, lane, start, end);
    }
    if (!lane) {
        /* not even memory for a row: an id without a name */
        *tid = plain_tid(kind, id);
        *tid = *tid != 0 ? *tid : EXTRA_TID - 1;
        return !g || g->n == 0;
    }
    *tid = lane->tid;
    if (fits && !lane->named)
        put_names(l, g, lane, process, b);
    return fits;
}
