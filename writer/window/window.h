/* SPDX-License-Identifier: Apache-2.0 */
/* One schedule window and its file: collects events as JSON while it is open, is flushed so that
 * the file is whole at any time, is finished and named when complete. Everything here runs on the
 * cprof thread. */
#ifndef WRITER_WINDOW_WINDOW_H
#define WRITER_WINDOW_WINDOW_H

#include <limits.h>

#include "writer/base/base.h"
#include "writer/sums/sums.h"
#include "writer/file/file.h"
#include "writer/stack/stack.h"
#include "writer/window/process_use.h"
#include "writer/writer.h"

struct lanes;
struct memory_owners;
struct top;

#define RESERVED 128u /* GPUs with a counter of what the caching allocator holds */

/* What a window knows of the GPU side. */
struct window_gpu {
    struct lanes *lanes;       /* rows; made at the first one */
    uint64_t records;          /* taken into it */
    uint64_t calls_waiting;    /* hooked calls without CUPTI's record */
    uint64_t launches_waiting; /* launches without their kernel */
    uint64_t first_call;       /* the smallest id of its calls; 0: none yet */
    uint64_t last; /* ticks of the cprof thread's clock when a record last came for it */
    uint64_t kernels, copies, fills, syncs; /* rows */
    uint64_t before_call; /* device records that seem to begin before their call */
    uint64_t graphs,
        /* launches of graphs; those of which nothing came, when the window is settled */
        graphs_silent;
    struct gpu_memory memory; /* of the driver, that was allocated in it */
};

struct window {
    struct window *next; /* later window */
    uint64_t serial;     /* 1, 2 … */
    /* ticks: takes spans that start in [from, end); before `start` when it has marks of steps to
     * skip or of warmup */
    uint64_t from;
    uint64_t warm_from;            /* ticks of the first warmup step's edge, or `start` */
    uint64_t start;                /* ticks of its first step's edge */
    uint64_t end;                  /* ticks; UINT64_MAX while open */
    uint64_t latest;               /* ticks: the latest end of a record in it */
    uint64_t closed_at;            /* ticks when the end became known */
    int64_t first_step, last_step; /* last_step: the last whole one; first - 1 = none */
    uint64_t steps_end;            /* ticks: the end of the last whole step */
    struct train_time time;        /* at the end */
    bool partial;                  /* cut short by exit */
    bool held;                     /* before the first step mark: it may not be wanted */
    bool markless;                 /* a program without step marks */
    bool region;                   /* a part of a program, without step marks */
    bool full;                     /* reached max_trace_bytes */
    bool unwanted;                 /* thrown away when it is complete */
    uint64_t closed_pass;          /* number of the writer's pass in which the end became known */
    int64_t base_ns;               /* baseTimeNanoseconds */
    struct sink *sink;
    struct buf body;     /* not yet flushed */
    struct buf backward; /* operators whose arrow waits for another thread's records (flows.h) */
    /* the spans that were open when last looked: their events, their ids */
    struct buf open, open_ids;
    bool settled; /* `open` is final */
    uint64_t events, records, unfinished;
    /* what application threads had lost at its start, and at its end once it has one */
    struct losses before, at_end;
    struct losses lost;  /* what the writer itself left out of it */
    uint64_t lost_total; /* as the trailer made last says */
    uint64_t naming;     /* rows named under an earlier number are named again */
    /* while held: the older half of the file's body, which is dropped when the file is full */
    struct {
        uint64_t bytes, events;
    } half;
    uint64_t flushed; /* of `events`, those that stand in the file */
    struct window_gpu gpu;
    struct memory_owners *memory; /* who holds tensor memory; made at the first record of it */
    int64_t reserved[RESERVED];   /* as its counter last said, by number of the GPU */
    struct flop_stats *flops;     /* NULL: not counted */
    struct top *top;              /* its table; NULL: none yet, or none wanted */
    bool flops_tried, top_tried;  /* one that is made later would lack what came before */
    struct {
        uint64_t files, events, left_out;
    } merged;                    /* foreign traces */
    struct stacks_used stacks;   /* that its events name */
    uint64_t frames_credit;      /* bytes that their frames may take in trailers of the open file */
    uint64_t cpu_before_ns;      /* CPU time of the cprof thread at the start */
    uint64_t handlers_before_ns; /* writer_listener_ns() then */
    struct process_use use_before, use; /* at its start and at its end */
    char part_path[PATH_MAX];
};

/* What all windows share: set up once by the cprof thread. */
struct window_shared {
    const struct writer_options *options;
    struct flows *flows;    /* forward operators that may get an arrow */
    uint32_t pid;           /* as written: moved out of the GPUs' numbers when small */
    double record_ns;       /* measured cost of one record on the application thread */
    const char *user_json;  /* `, "key": value` pairs of metadata, or ""; valid during a flush */
    const char *notes_json; /* `"…", "…"`, or "" */
};

/* The pid as written: in containers pids are small, and a CPU row must not be taken for a GPU's
 * (T21). */
uint32_t window_pid(uint32_t pid);

/* A new, open window; NULL: no memory, said in one line. before: loss_sum() at `from`. */
struct window *window_open(uint64_t serial, uint64_t from, uint64_t start, int64_t first_step,
                           const struct losses *before);

/* True when a record that starts then and has these flags (enum record_flags) belongs to the
 * window. */
bool window_takes(const struct window *w, uint64_t start, uint8_t flags);

/* Adds the event for a record, unless the settled window has it as unfinished. */
void window_add(struct window *w, const struct window_shared *shared,
                const struct record_owner *owner, const struct record *r);

/* The window's FLOPs; made at the first call. NULL: they are not counted, or there was no memory
 * then (one line says so). */
struct flop_stats *window_flops(struct window *w, const struct window_shared *shared);

/* Appends what flop_stats_account() says of the window so far. cprof thread. */
void window_flops_account(const struct window *w, const struct window_shared *shared,
                          struct buf *b);

/* The window's table; made at the first call. NULL: none is wanted, or there was no memory then. */
struct top *window_top(struct window *w, const struct window_shared *shared);

/* Adds the row of a completed step [start, end) in ticks. thread: tid of the one that marked its
 * end; 0: not known. */
void window_add_step(struct window *w, const struct window_shared *shared, int64_t step,
                     uint64_t start, uint64_t end, uint32_t thread);

/* True when the window can take one more event; counted when it is full. */
bool window_room(struct window *w, const struct window_shared *shared);

/* Names the row of a thread of this process when it is first used. log: NULL for a thread that
 * recorded nothing itself; *named is where that is remembered. */
void window_name_thread(struct window *w, const struct window_shared *shared, uint32_t tid,
                        uint64_t *named);

/* The program's name as its process row shows it. */
const char *window_process_name(void);

/* Where [start, end) in ticks stands in the window's file. */
struct json_place window_place(const struct window *w, const struct window_shared *shared,
                               uint32_t tid, uint64_t start, uint64_t end);

/* Everything recorded before `ticks` has been taken: what waited for other threads' records is
 * written. */
void window_taken_until(struct window *w, const struct window_shared *shared, uint64_t ticks);

/* Writes what has come since the last flush. 0 or an errno value; EFBIG-like limits are kept inside
 * (w->full). Makes the file at the first call. A held window's file is prestep.PID.part; at
 * options->held_bytes it loses its older half, which is counted. */
int window_flush(struct window *w, const struct window_shared *shared);

/* True when the edge ends the window. */
bool window_ends(const struct window *w, const struct step_edge *edge);

/* The window ends at the edge: its end is known, not all of its records have come. pass: see
 * closed_pass. */
void window_close(struct window *w, const struct step_edge *edge, uint64_t pass);

/* True while a span that began in the window is open on some thread. */
bool window_has_open_spans(const struct window *w);

/* Decides which spans stand in the file as unfinished: those that are open now. What closed before
 * this call is in the rings: drain them once more before window_finish(). */
void window_settle(struct window *w, const struct window_shared *shared);

/* True when a window was settled with this span open; open_ids is that window's. */
bool window_left_open(const struct buf *open_ids, uint64_t id);

/* Last flush, then the final name, which is written to `path` (PATH_MAX). 0 or errno; the .part
 * file stays after an error. */
int window_finish(struct window *w, const struct window_shared *shared, char *path);

/* Removes the unfinished file. */
void window_discard(struct window *w);

/* Memory that it takes, in bytes, but for small tables. */
uint64_t window_bytes(const struct window *w);

/* Frees; the file stays. NULL is allowed. */
void window_free(struct window *w);

/* What else the room offers. */
#include "writer/window/backlog.h"
#include "writer/window/finished.h"
#include "writer/window/flush_now.h"
#include "writer/window/observers.h"
#include "writer/window/report.h"
#include "writer/window/save.h"

#endif
