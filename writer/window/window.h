/* SPDX-License-Identifier: Apache-2.0 */
/* One window of the schedule. Collects events as JSON while open; trace_file.h writes them.
 * Everything here runs on the cprof thread. */
#pragma once

#include <limits.h>

#include "writer/base/base.h"
#include "writer/sums/sums.h"
#include "writer/file/file.h"
#include "writer/stack/stack.h"
#include "writer/window/process_use.h"
#include "writer/window/window_states.h"
#include "writer/writer.h"

struct lanes;
struct memory_owners;
struct summary;

#define RESERVED 128u /* GPUs with a counter of the memory that the caching allocator holds */

/* GPU rows, counts and waits of a window. */
struct window_gpu {
    struct lanes *lanes;       /* rows of the streams; NULL: none yet */
    uint64_t records;          /* GPU records in it */
    uint64_t calls_waiting;    /* hooked calls that wait for CUPTI's record */
    uint64_t launches_waiting; /* launches that wait for their kernel */
    uint64_t first_call;       /* smallest id of its calls; 0: none yet */
    uint64_t last;             /* ticks when its last record arrived, on the cprof thread's clock */
    uint64_t kernels, copies, fills, syncs; /* events written */
    uint64_t before_call; /* device records that seem to begin before their call */
    uint64_t graphs,
        /* launches of graphs; those without any work at settlement */
        graphs_silent;
    struct gpu_memory memory; /* of the driver, allocated in the window */
};

struct window {
    struct window *next; /* later window */
    uint64_t serial;     /* from 1, in this process */
    /* ticks: takes records that start in [from, end); before `start` when it has markers of warmup
     * steps or of steps to skip */
    uint64_t from;
    uint64_t warm_from;            /* ticks of the first warmup step's edge, or `start` */
    uint64_t start;                /* ticks of its first step's edge */
    uint64_t end;                  /* ticks; UINT64_MAX while open */
    uint64_t latest;               /* ticks: the latest end of a record in it */
    uint64_t closed_at;            /* ticks when the end became known */
    int64_t first_step, last_step; /* last_step: the last whole step; first_step - 1: none */
    uint64_t steps_end;            /* ticks: the end of the last whole step */
    struct train_time time;        /* where training stood at the end */
    bool partial;                  /* cut short by exit or cprof_stop() */
    bool held;                     /* before the first step mark; discarded when a step is marked */
    bool markless;                 /* of a program without step marks */
    /* of a part of a program, between cprof_start() and cprof_stop(), without step marks */
    bool region;
    bool flight;               /* the flight recorder's; also held */
    const char *reason;        /* of the flight recorder's: why it is saved; NULL: it is not */
    const struct buf *threads; /* of the flight recorder's: what the threads did; NULL: unknown */
    bool full;                 /* the file has reached max_trace_bytes */
    bool unwanted;             /* discarded when complete */
    uint64_t closed_pass;      /* number of the pass in which the end became known */
    int64_t base_ns;           /* baseTimeNanoseconds */
    struct sink *sink;
    struct buf body; /* events not yet flushed */
    /* backward operators whose arrow waits for another thread's records (flows.h) */
    struct buf backward;
    /* spans that were open at the last look: their events, their ids (8 bytes each) */
    struct buf open, open_ids;
    bool settled; /* `open` is final */
    uint64_t events, records, unfinished;
    /* losses of application threads at its start, and at its end once it is closed */
    struct losses before, at_end;
    struct losses lost;  /* what the writer itself did not put into it */
    uint64_t lost_total; /* as in the latest trailer */
    uint64_t naming;     /* rows that were named under a smaller number are named again */
    /* While held: size of the older half of the file's body, which is dropped when the file is
     * full. The newer half began at `ticks`, in step `step`. */
    struct {
        uint64_t bytes, events, ticks;
        int64_t step;
    } half;
    uint64_t dropped;      /* events of the flight recorder's that were dropped */
    uint64_t steps_naming; /* `naming` when the row of the steps was named */
    uint64_t flushed;      /* how many of `events` are in the file */
    struct window_gpu gpu;
    struct window_state states[GPU_STATES]; /* by CUDA ordinal */
    struct memory_owners *memory;           /* holders of tensor memory; NULL: no record yet */
    int64_t reserved[RESERVED];             /* last value of each GPU's counter, by ordinal */
    struct flop_stats *flops;               /* NULL: not counted */
    /* NULL: none yet, none wanted, or no memory */
    struct summary *summary;
    bool flops_tried, summary_tried; /* made once: a later one would lack the earlier events */
    struct {
        uint64_t files, events, left_out;
    } merged;                  /* foreign traces */
    struct stacks_used stacks; /* stacks that its events name */
    uint64_t frames_allowed;   /* bytes of frames that the next trailer of the open file may hold */
    uint64_t cpu_before_ns;    /* CPU time of the cprof thread at the start */
    uint64_t handlers_before_ns; /* writer_listener_ns() at the start */
    struct process_use use[USE_COUNT];
    char part_path[PATH_MAX];
};

/* Data shared by all windows. Set up once by the cprof thread. */
struct window_shared {
    const struct writer_options *options;
    struct flows *flows;    /* forward operators that may get an arrow; NULL: no memory */
    uint32_t pid;           /* as written: window_pid() */
    double record_ns;       /* measured cost of one record on the application thread */
    const char *user_json;  /* `, "key": value` pairs of metadata, or ""; valid during a flush */
    const char *notes_json; /* `"…", "…"`, or "" */
};

/* The pid as written. Pids are small in containers; small ones are moved, because viewers take them
 * for GPU ordinals (T21). */
uint32_t window_pid(uint32_t pid);

/* CPU time of the cprof thread, with its helper (writer/base/io_thread.h). cprof thread. */
uint64_t window_cpu_ns(void);

/* The window's rates of at most `most` devices; returns their number. */
unsigned window_flop_rates(const struct window *w, const struct writer_options *options,
                           struct flop_rates *out, unsigned most);

/* Opens a window. before: loss_sum() at `from`. NULL, with a log line: no memory. */
struct window *window_open(uint64_t serial, uint64_t from, uint64_t start, int64_t first_step,
                           const struct losses *before);

/* True when a record with this start and these flags (enum record_flags) belongs to the window. */
bool window_takes(const struct window *w, uint64_t start, uint8_t flags);

/* Writes the event of a record, unless the settled window has it as unfinished. */
void window_add(struct window *w, const struct window_shared *shared,
                const struct record_owner *owner, const struct record *r);

/* The FLOP counts of the window, made at the first call. NULL: not wanted, or no memory
 * (logged). */
struct flop_stats *window_flops(struct window *w, const struct window_shared *shared);

/* The window's end; of an open window, the latest time known. Ticks. */
uint64_t window_end_known(const struct window *w);

/* Appends flop_stats_account() of the window so far. cprof thread. */
void window_flops_account(struct window *w, const struct window_shared *shared, struct buf *b);

/* The summary of the window, made at the first call. NULL: not wanted, or no memory. */
struct summary *window_summary(struct window *w, const struct window_shared *shared);

/* Adds the row of a whole step [start, end) in ticks. thread: tid that marked its end; 0:
 * unknown. */
void window_add_step(struct window *w, const struct window_shared *shared, int64_t step,
                     uint64_t start, uint64_t end, uint32_t thread);

/* True when the window takes one more event; false: it is full, and the event is counted as
 * lost. */
bool window_room(struct window *w, const struct window_shared *shared);

/* The place of [start, end), in ticks, in the window's file. */
struct json_place window_place(const struct window *w, const struct window_shared *shared,
                               uint32_t tid, uint64_t start, uint64_t end);

/* All records before `ticks` are taken: writes what waited for other threads' records. */
void window_taken_until(struct window *w, const struct window_shared *shared, uint64_t ticks);

/* True when the edge ends the window. */
bool window_ends(const struct window *w, const struct step_edge *edge);

/* Closes the window at the edge. Some of its records have not come yet. pass: see closed_pass. */
void window_close(struct window *w, const struct step_edge *edge, uint64_t pass);

/* Bytes of memory that the window takes, without small tables. */
uint64_t window_bytes(const struct window *w);

/* Frees the window; its file stays. NULL is allowed. */
void window_free(struct window *w);

/* The other headers of this room. */
#include "writer/window/backlog.h"
#include "writer/window/finished.h"
#include "writer/window/flush_now.h"
#include "writer/window/observers.h"
#include "writer/window/open_spans.h"
#include "writer/window/report.h"
#include "writer/window/save.h"
#include "writer/window/trace_file.h"
#include "writer/window/window_memory.h"
#include "writer/window/window_names.h"
