/* SPDX-License-Identifier: Apache-2.0 */
/* The public header of writer/: recording on application threads, windows and files on the one
 * cprof thread.
 *
 *     application threads:  writer_gate -> span_open/span_close, emit_*  -> ring of the thread
 *     stepping thread:      writer_edge()                               -> edge queue
 *     cprof thread:         edges + rings -> window -> json -> sink -> file */
#pragma once

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/base/action.h"
#include "writer/os/apart.h"
#include "writer/base/arg_item.h"
#include "writer/base/clock.h"
#include "writer/os/close_range.h"
#include "writer/stack/demangle.h"
#include "writer/os/elf_loaded.h"
#include "writer/os/file_identity.h"
#include "writer/os/futex.h"
#include "writer/os/locks.h"
#include "writer/os/own_memory.h"
#include "writer/base/flop_class.h"
#include "writer/record/gpu_record.h"
#include "writer/record/gpu_state.h"
#include "writer/base/hash.h"
#include "writer/base/io_thread.h"
#include "writer/record/modules.h"
#include "writer/record/numbered.h"
#include "writer/stack/dso_table.h"
#include "writer/base/open_foreign.h"
#include "writer/base/path.h"
#include "writer/os/raw_syscall.h"
#include "writer/base/read_file.h"
#include "writer/record/record_types.h"
#include "writer/base/run_state.h"
#include "writer/stack/stack_table.h"
#include "writer/stack/stack_json.h"
#include "writer/stack/symbols.h"
#include "writer/record/thread_log.h"
#include "writer/base/train_time.h"
#include "writer/base/utf8.h"

#define CPROF_VERSION "0.1.0"

/* Ending of the summary beside a trace (writer/sums/summary.h). */
#define SUMMARY_SUFFIX ".summary"

/* ---- messages: one line each on stderr, prefix "cprof: ", rate limited, never on stdout ---- */

enum log_level { LOG_OFF, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Remembers the file of standard error, so that no line goes into another file that gets descriptor
 * 2. Constructor. */
void log_start(void);

/* True when descriptor 2 still takes log lines. Any thread with the program's descriptors. */
bool log_is_for_lines(void);

/* How long a line waits for a slow reader. Later lines do not wait until it reads again. */
enum { LOG_PATIENCE_MS = 100 };

/* Messages above `level` are not written. Default LOG_INFO. Any thread. */
void log_set_level(enum log_level level);

/* Writes one line with one write(2); keeps errno; allocates nothing. Any thread, not from signal
 * handlers. */
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));  /* as log_error */
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));  /* as log_error */
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2))); /* as log_error */

/* True the first time that this place is reached: `if (once_here()) log_warn(…);`. Any thread. */
#define once_here()                                                                                \
    ({                                                                                             \
        static _Atomic bool was_here_;                                                             \
        !atomic_exchange(&was_here_, true);                                                        \
    })

/* As log_info(), but not limited in number: for the exit line. */
void log_last(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- what is recorded now ---- */

enum gate {
    /* operators and ranges: in active steps, and in step 0 while it may become the trace */
    GATE_SPANS = 1u << 0,
    GATE_MARKERS = 1u << 1, /* markers: in warmup steps, too */
    GATE_MEMORY = 1u << 2,  /* tensor allocations */
    GATE_SHAPES = 1u << 3,  /* operator inputs */
    GATE_CALLS = 1u << 4,   /* CUDA runtime and driver calls, in the same steps as GATE_SPANS */
    GATE_SKIPPED = 1u << 5, /* markers flagged REC_SKIPPED, in steps to skip */
    GATE_STACKS = 1u << 6,  /* stacks of everything that is recorded */
    /* FLOPs of operators and library calls, in the same steps as GATE_SPANS */
    GATE_FLOPS = 1u << 7,
    /* what is recorded may be discarded: it takes only half of each ring, so that a window that
     * begins now has the other half */
    GATE_KEPT = 1u << 8,
    /* torch's ranges, and calls of NCCL and MPI: in the steps of GATE_SPANS, and for the flight
     * recorder in all steps */
    GATE_RANGES = 1u << 9,
    GATE_WINDOW = 1u << 10, /* a window, or what may become one, takes what is recorded */
    GATE_BITS = 11,
};

/* Bits of enum gate; 0 is the idle path. Written by the thread that marks steps, at an edge. The
 * cprof thread clears it when recording has failed; then it stays 0. Every hook reads it,
 * relaxed. */
extern _Atomic uint32_t writer_gate __attribute__((visibility("hidden")));

/* True when any of `bits` is on. Any thread, no side effect. */
static inline bool gate_open(uint32_t bits)
{
    return (atomic_load_explicit(&writer_gate, memory_order_relaxed) & bits) != 0;
}

/* Sets the gate; does nothing once recording has failed. Stepping thread, between
 * writer_edge_begin() and writer_edge(). */
void writer_set_gate(uint32_t bits);

/* ---- recording: any application thread; no lock; a system call at a thread's first event ---- */

/* Opens a span on this thread at now. `key` finds it again for span_close(). name: what
 * numbered_name() gave, or the length of `text`, which is copied then and else not looked at.
 * Returns the open span so that data can be added, or NULL when it could not be kept (counted).
 * Call only with the gate open. */
struct open_span *span_open(struct thread_log *log, const void *key, enum category category,
                            const char *text, uint32_t name);

/* Counts a span without its data. NULL. */
uint8_t *span_data_refused(struct thread_log *log);

/* Room for up to `most` data bytes of the span just opened; NULL when there is no room (counted as
 * text_cut). Finish with span_data_done(). */
static inline uint8_t *span_data_room(struct thread_log *log, const struct open_span *span,
                                      uint32_t most)
{
    (void)span;
    if (__builtin_expect(most > SPAN_DATA - log->data_used, 0))
        return span_data_refused(log);
    return log->data + log->data_used;
}

/* Takes the first `used` bytes of the room as the span's data. */
static inline void span_data_done(struct thread_log *log, struct open_span *span,
                                  enum record_data kind, uint32_t used)
{
    span->data_kind = (uint8_t)kind;
    /* the cprof thread copies the data of open spans */
    __atomic_store_n(&span->data_len, (uint16_t)used, __ATOMIC_RELEASE);
    log->data_used += used;
}

/* Closes the span opened with `key` and puts it into the ring; spans above it that were never
 * closed are dropped and counted, but those flagged REC_ENDS_LATE, which end here. A span flagged
 * REC_LOOSE is neither dropped nor does it drop: of two such that cross each other, one becomes
 * asynchronous. A key that is not open is ignored: it began while nothing was recorded. Returns the
 * end stamp, 0 if not found. */
uint64_t span_close(struct thread_log *log, const void *key);

/* The span with this key ended now, and this thread has none with it: another one has begun it, or
 * it was not recorded. The one that began it closes it by spans_take_ended(). Looks at the open
 * spans of all threads: for the rare case. Any thread, also one without a log, and while nothing is
 * recorded. */
void span_ended_elsewhere(const void *key);

/* Closes the spans of this thread whose ends came on other threads, at the moments when they came.
 * An operator stays in its thread's row: it ends at the latest where its thread has begun another
 * span, because its caller went on then. A range becomes asynchronous. What is open inside goes on.
 * span_open() and span_close() do it; also to be called when a range begins that is not recorded,
 * and at the thread's end. */
void spans_take_ended(struct thread_log *log);

/* Id of the innermost open span of the thread; 0 = none. */
uint64_t span_top(const struct thread_log *log);

/* Id of the module inside which the innermost open span of the thread is (EXTRA_MODULE); 0 =
 * none. */
uint64_t span_module(const struct thread_log *log);

/* Writes every span that is still open as unfinished: the thread ends. From the thread-end hook. */
void spans_abandon(struct thread_log *log);

/* Opens a range that may end on any thread, at now; text and data (DATA_ARGS) are copied, what is
 * too long is left out (counted). flags: enum record_flags. Returns its id, below 2^53 and never
 * given twice; 0: too many are open (counted). Call only with the gate open. */
uint64_t async_open(struct thread_log *log, enum category category, uint8_t flags, const char *text,
                    uint32_t text_len, const void *data, uint32_t data_len);

/* Closes it, on any thread, whose log is given, and puts it into that one's ring; NULL: it has
 * none, and the range is lost (counted by thread_log_get()). False: there is no such range any
 * more. */
bool async_close(struct thread_log *log, uint64_t id);

/* Numbers for a record that is no span; NULL in the calls below means none. A span's are set by
 * span_set_extra(). */
struct extras {
    uint8_t mask; /* bits 1 << enum record_extra */
    uint64_t value[EXTRA_COUNT];
};

/* Records an instant. Its name as a span's. data as record.h; data may be NULL. flags: enum
 * record_flags. */
void emit_instant(struct thread_log *log, enum category category, uint8_t flags, const char *text,
                  uint32_t name, enum record_data data_kind, const void *data, uint32_t data_len,
                  const struct extras *extras);

/* Records one sample of a counter. Its name as a span's. data is DATA_ARGS, one item per series.
 * flags: enum record_flags. */
void emit_counter(struct thread_log *log, uint8_t flags, const char *text, uint32_t name,
                  const void *data, uint32_t data_len);

/* Records an allocation (bytes > 0) or a release (bytes < 0). The operator and the module that the
 * thread is in go with it. */
void emit_memory(struct thread_log *log, uint64_t address, int64_t bytes,
                 const struct record_memory *state, const struct extras *extras);

/* Records that an allocation of so many bytes failed; state: what its allocator held then. In a
 * call of the driver (MEMORY_OF_DRIVER) that call's span is still open. Follow it by
 * writer_flush_now(). */
void emit_out_of_memory(struct thread_log *log, int64_t bytes, const struct record_memory *state,
                        const struct extras *extras);

/* Has everything recorded so far written to disk, and waits at most `most_ms` for that: for events
 * that the program may not survive. Wakes the cprof thread, takes no lock. Any thread but the cprof
 * thread. */
void writer_flush_now(unsigned most_ms);

/* Records that a node of a CUDA graph came into being on this thread: captured, added, or copied
 * from the node `original` (0: from none) when the graph was instantiated. The name of the
 * innermost open span goes with it. Also outside windows; no gate. */
void emit_graph_node(struct thread_log *log, uint64_t node, uint64_t original, bool is_kernel);

/* ---- steps ---- */

/* Number of lost records by enum loss. */
struct losses {
    uint64_t n[LOSS_COUNT];
};

/* The kind of an edge. At all kinds but EDGE_STEP the step continues, or was not over. */
enum edge_kind {
    EDGE_STEP,     /* a step ends, the next begins */
    EDGE_FIRST,    /* cprof wakes up */
    EDGE_EPOCH,    /* an epoch and its schedule end: the open window is saved */
    EDGE_SCHEDULE, /* another schedule applies from here on */
    EDGE_START,    /* cprof_start(): earlier records are not wanted */
    EDGE_STOP,     /* cprof_stop(): the open window is saved */
    EDGE_LAST,     /* exit */
    EDGE_NOTE,     /* no change: tells the listener where training stands */
};

struct step_edge {
    uint64_t ticks; /* time; set by the caller after writer_edge_begin() */
    int64_t step;   /* the step that begins or continues here */
    /* action, until here, of the step that ends or continues; ACTION_SKIP at the first edge */
    enum action ended;
    enum action begun; /* action from here on; ACTION_SKIP at EDGE_STOP and EDGE_LAST */
    enum edge_kind kind;
    bool kept; /* records until here were held (see keep) */
    /* hold the records from here on, for a program without step marks; at EDGE_STOP and EDGE_LAST:
     * the held records become the trace */
    bool keep;
    bool unless_ranks;      /* EDGE_LAST: but not if writer_options.ranks_wrote() */
    struct train_time time; /* counters at the edge */
    bool epoch_over;        /* EDGE_NOTE: an epoch has ended that `time` does not count yet */
    struct thread_log *by;  /* log of the marking thread, or NULL; set by writer_edge() */
    uint32_t tid;           /* tid of the marking thread, 0: unknown; set by writer_edge() */
    struct losses losses;   /* of all threads until here; set by writer_edge() */
};

/* Announces an edge before its time is read, so that the cprof thread does not overtake it. Pair
 * with writer_edge(). The caller serialises. */
void writer_edge_begin(void);

/* Copies the edge into the queue, with the losses so far. Wakes the cprof thread when a window
 * opens or closes. Takes less than 10 us. When the queue is full because steps come too fast,
 * recording pauses, with a log line: earlier windows are finished, and recording continues with the
 * next edge. */
void writer_edge(const struct step_edge *edge);

/* ---- options and identity ---- */

struct trace_identity {
    int64_t rank, world_size, local_world_size, node_rank;
    int64_t local_rank;  /* -1: unknown */
    const char *backend; /* backend of torch.distributed, or NULL */
    const char *source;  /* where the rank comes from: "torchrun", "default" … */
};

/* A finished trace. */
struct saved_trace {
    const char *path;              /* absolute; valid during the call */
    struct file_identity file;     /* as written; its name may have changed since */
    struct file_identity summary;  /* likewise, PATH.summary; inode 0: none */
    int64_t first_step, last_step; /* last_step: the last whole step; first_step - 1: none */
    struct train_time time;        /* where training stood at the end */
    /* Number of the window in this process, in order of beginning, from 1. A window that waits for
     * spans is finished after later ones. */
    uint64_t window;
    int64_t began_ns; /* wall clock */
    int64_t steps_ns; /* duration of its whole steps together; 0: none */
    uint64_t events, lost;
    bool partial;  /* cut short by exit or cprof_stop() */
    bool markless; /* of a program, or a part of one, without step marks */
};

/* What the flight recorder keeps, in the order of CPROF_FLIGHT_WHAT's values in config.def. */
enum flight_what {
    FLIGHT_STEPS = 1u << 0,
    FLIGHT_COLLECTIVES = 1u << 1,
    FLIGHT_MARKERS = 1u << 2,
    FLIGHT_MEMORY = 1u << 3,
    FLIGHT_OPERATORS = 1u << 4,
    FLIGHT_CALLS = 1u << 5,
    FLIGHT_KERNELS = 1u << 6,
};

/* The flight recorder leaves out allocations of fewer bytes: they are many, and no memory is short
 * because of them. */
#define FLIGHT_LEAST 4096

static inline bool flight_wants_bytes(int64_t bytes)
{
    return bytes >= FLIGHT_LEAST || bytes <= -FLIGHT_LEAST;
}

struct flight_options {
    unsigned what;  /* enum flight_what; 0: there is no flight recorder */
    uint64_t bytes; /* most bytes of its file */
    /* 0, or this is dropped which is older than so many steps or so many ns; at most as much again
     * is kept */
    uint64_t steps, ns;
    double slow;      /* saved after a step of so many medians; 0: not */
    uint64_t hang_ns; /* saved when no step ends for so long; 0: not */
};

/* A frame of a thread that runs Python; the texts are valid during the call. */
struct python_line {
    uint32_t tid;
    const char *file, *name; /* UTF-8, not terminated */
    uint32_t file_len, name_len;
    int32_t line; /* 0: unknown */
};
typedef void python_line_taker(const struct python_line *line, void *to);

/* Peak rates in TFLOP/s from the user; 0: not given. */
struct flop_peaks {
    double gpu[FLOP_OTHER]; /* per GPU, by enum flop_class */
    double cpu;             /* of all processors together, for any class */
};

struct writer_options {
    bool gzip, overwrite;
    bool record_shapes, profile_memory, with_stack, with_modules,
        with_flops;          /* written into the trace's head */
    struct flop_peaks peaks; /* for with_flops */
    /* CPROF_SCHEDULE_SCOPE=none: when a file is full, the next one begins */
    bool continuous;
    int stacks_in_args;       /* enum stacks_in_args */
    uint64_t ring_bytes;      /* per thread */
    uint64_t max_trace_bytes; /* on disk per file */
    uint64_t summary_bytes;   /* memory for a window's summary; 0: none */
    uint64_t held_bytes;      /* on disk, for a held window */
    uint64_t hold_bytes;      /* memory for markers of steps that are not recorded */
    struct flight_options flight;
    int64_t exit_deadline_ms; /* for all work at exit */
    /* wall clock; files of this rank that are not older are of this run */
    int64_t run_started_ns;
    const void *affinity; /* cpu_set_t read in the constructor, or NULL; copied */
    unsigned long affinity_size;
    const struct gpu_source *gpu;    /* source of GPU records, or NULL */
    const struct gpu_states *states; /* source of the GPUs' state, or NULL; needs `gpu` */
    const char *const *dtype_names;  /* by c10::ScalarType; static */
    unsigned n_dtypes;
    void (*thread_began)(void); /* called first on the cprof thread; or NULL */
    /* Called on the cprof thread when a file's head is written. */
    void (*identity)(struct trace_identity *out);
    /* The absolute final path of a trace saved at `time`. False: no path (logged). cprof thread. */
    bool (*trace_path)(const struct train_time *time, char *path, unsigned long size);
    /* Writes the absolute path of the file for Prometheus. False: it does not fit. NULL: none is
     * wanted. cprof thread. */
    bool (*metrics_path)(char *path, unsigned long size);
    const char *run_name; /* for the labels of its metrics; static */
    /* An absolute glob(7) pattern for all traces of this rank, of any batch or time. False: none.
     * cprof thread. */
    bool (*trace_pattern)(char *pattern, unsigned long size);
    const char *renamed_by; /* the setting that gives the traces of a run other names; static */
    /* the run's name is the second of its start, which other runs may share */
    bool shares_second;
    /* True when ranks of this launch have left traces: then a program without steps leaves none. Or
     * NULL. At exit; cprof thread. */
    bool (*ranks_wrote)(void);
    /* Calls take() for each Python frame of each thread, the innermost of a thread first; or NULL.
     * Waits for no lock. cprof thread. */
    void (*python_lines)(python_line_taker *take, void *to);
    /* Called for each finished trace; or NULL. cprof thread: the rings wait meanwhile. */
    void (*trace_ready)(const struct saved_trace *trace);
    /* True when the traces are reported elsewhere (`cprof run` does). The exit line then names
     * none, and is omitted when nothing was lost. Or NULL. The exiting thread. */
    bool (*told_elsewhere)(void);
    /* Called at the end of each pass; and at exit, after all files are whole, until it returns -1.
     * Or NULL. Returns the ms until it wants the next call; -1: with the next pass. cprof thread:
     * the rings wait meanwhile. */
    int (*each_pass)(bool stopping);
    int64_t after_deadline_ms; /* at exit, for each_pass */
};

/* With CPROF_OVERWRITE=0: true, with a log line, when traces of this rank from an earlier run
 * exist. Traces of this run do not count, because an elastic restart finds its own. With
 * shares_second, nor do those of the run's first second. Uses the options overwrite,
 * run_started_ns, trace_pattern, renamed_by. Checks once, before the first file; later calls return
 * false. cprof thread, or the only thread. */
bool earlier_run_in_the_way(const struct writer_options *options);

/* Why the process ends, for the flight recorder: `what` (static) and a number, for example "exit
 * code" and 3; -1: without a number. Before writer_finish(); the first one counts. Any thread, also
 * in signal handlers. */
void writer_ends_by(const char *what, int number);

/* A communication library reported an error: the flight recorder is saved. call (static): what
 * reported it. code: what it returned; -1: unknown. Keeps errno. No lock. Any thread. */
void writer_transfer_failed(const char *call, int code);

/* Saves what the flight recorder holds, and writes the path of the trace. False: there is no
 * recorder, or it cannot (logged). cprof thread. */
bool writer_flight_save(char *path, size_t size);

/* ---- optimizers: their classes are in the trace and in the exit line ---- */

#define OPTIMIZERS_MOST 16  /* classes; further ones are not counted */
#define OPTIMIZERS_TEXT 512 /* bytes for writer_optimizers() */

/* An optimizer of this class has stepped; of a long name the first 63 bytes count. Any thread; no
 * lock, no allocation. */
void writer_optimizer_steps(const char *class, size_t len);

/* Writes "SGD (18), Adam (6)" in order of the first steps, terminated; a name that does not fit is
 * left out. Returns the number of classes. Any thread. */
unsigned writer_optimizers(char *out, size_t size);

/* The steps are those of the first optimizer: the exit line lists all classes if there are several.
 * The exiting thread, before that line. */
void writer_tell_optimizers(void);

/* ---- the listener, which gets marks, steps and files ---- */

/* A point in time. */
struct train_moment {
    int64_t step;
    enum action action; /* of the step */
    /* where training stood at the start of the step; at an end, after the step or epoch */
    struct train_time time;
    int64_t wall_ns; /* ns since 1970 */
};

/* One named value of a counter. */
struct mark_value {
    const char *name; /* not terminated */
    uint32_t name_len;
    bool is_real;
    union {
        int64_t whole;
        double real;
    };
};

/* A span, instant or counter of the program. Texts are not terminated. Valid during the call. */
struct mark {
    /* REC_SPAN, even if it ended on another thread; REC_INSTANT; REC_COUNTER */
    enum record_kind kind;
    const char *name, *categories; /* joined by ','; NULL: none */
    uint32_t name_len, categories_len;
    const struct mark_value *values;
    unsigned n_values;
    uint32_t tid;    /* thread where it began */
    uint64_t id;     /* "External id" in the trace; 0: none */
    bool unfinished; /* a span that was cut: its thread, or the span around it, ended */
    struct train_moment start, end; /* equal except for spans */
};

/* Calls made by the cprof thread; none may be NULL. Events of the thread that marks steps come in
 * time order, a span at its end. Events of another thread come in that thread's order, before the
 * end of the step in which they ended. */
struct listener {
    void (*look)(void); /* each pass, before all others */
    void (*mark)(const struct mark *mark);
    void (*step_end)(const struct train_moment *at); /* each step, recorded or not */
    void (*epoch_end)(const struct train_moment *at);
    void (*window_open)(const struct train_moment *at); /* at its first step */
    /* everything in the window has been told */
    void (*window_close)(const struct train_moment *at);
    void (*file)(const char *path); /* absolute path of a foreign trace that was handed in */
    void (*end)(void);              /* exit: the last call */
};

/* Sets the listener permanently. Starts no thread: the next step or writer_run() does. Any
 * application thread. */
void writer_listen(const struct listener *listener);

/* True when there is a listener. Any thread. */
bool writer_is_heard(void);

/* Wall-clock ns that the listener has taken. Any thread. */
uint64_t writer_listener_ns(void);

/* From now on, marks flagged REC_SKIPPED may come in steps to skip. Starts the cprof thread, after
 * writer_start(). Any application thread. */
void writer_want_skipped(void);

/* ---- starting and stopping ---- */

/* Takes the options, starts the clock and the thread-end hook; no thread. Once, at wake-up, before
 * any recording. False: recording is not possible (logged). */
bool writer_start(const struct writer_options *options);

/* Starts the cprof thread if it does not run. Called by the first writer_edge(). False: no thread
 * (logged). */
bool writer_run(void);

/* Exit: waits at most exit_deadline_ms until the cprof thread has taken the last edge and finished
 * its files, then writes the exit line. Later calls do nothing. False: the thread is still
 * working. */
bool writer_finish(void);

/* Makes the cprof thread begin a pass now. Any thread, also in signal handlers. */
void writer_wake(void);

/* Bytes that the program may still map under ulimit -v or -d; UINT64_MAX without a limit. Opens a
 * file. Any thread. */
uint64_t writer_space_left(void);

/* True when recording has stopped permanently (full disk, failed write). Any thread. */
bool writer_is_off(void);

/* The current end of the edge queue, for writer_saved(). Any thread. */
uint64_t writer_mark(void);

/* True when all windows that ended before writer_mark() returned `mark` are finished, or never will
 * be. Any thread. */
bool writer_saved(uint64_t mark);

/* A finished trace was removed on purpose: the exit line does not name it. cprof thread. */
void writer_trace_removed(const char *path);

/* Copies the finished trace `file` at `from` to `to`, packed or unpacked by the ending of `to`
 * (.gz). A file `to` appears, or is replaced, at once when everything is written; its folder must
 * exist. Follows links as open(2), except other users' links in a folder like /tmp. Writes into a
 * device or FIFO, and gives up when that takes nothing for 5 s; refuses a folder or socket. 0 or
 * errno; ESTALE: `from` is another file by now. Blocks on the disk; any thread. */
int writer_copy_trace(const char *from, const struct file_identity *file, const char *to);

/* Text for an error of writer_copy_trace(). Any thread. */
const char *writer_copy_error(int error);

/* dlsym() and dlvsym() of the C library. Use only these: another library may export its own
 * (loader.c). RTLD_NEXT means after this library. They set dlerror(). Any thread. */
void *loader_symbol(void *handle, const char *name);
void *loader_symbol_of(void *handle, const char *name, const char *version); /* as above */

/* dl_iterate_phdr(). Use only this: it waits while the process forks (loader.c). Any thread. */
int loader_walk(int (*look)(struct dl_phdr_info *info, size_t size, void *arg), void *arg);

/* loader_walk() from inside one of its callbacks, with the list's lock held throughout. */
int loader_walk_within(int (*look)(struct dl_phdr_info *info, size_t size, void *arg), void *arg);

/* Put these around code that walks the loader's list itself, such as unwinders. Do not nest in a
 * lock that a fork may wait for. Any thread. */
void loader_enter(void);
void loader_leave(void); /* as above */

/* loader_hold() before a fork: waits at most a second for walks to end, and holds up new ones.
 * loader_release() after it, in parent and child. The forking thread, one at a time; may change
 * errno. */
void loader_hold(void);
void loader_release(bool child); /* as above */

/* For a forked child: forgets the thread, the rings and the files. Everything here does nothing
 * from then on. */
void writer_abandon(void);

/* How many threads of this process are cprof's, with those that are starting; 0 in a forked child.
 * Any thread. */
unsigned writer_threads(void);

/* Sets a metadata entry of the open and all later traces, copied. raw_json is trusted JSON text;
 * the last value of a key counts. False, without change: no memory, more than 64 keys, or more than
 * 1 MiB in all. Any thread; takes a lock. */
bool writer_metadata(const char *key, const char *raw_json);

/* Why a text is not JSON. */
struct json_fault {
    size_t at;        /* byte of the text, from 0 */
    const char *what; /* static text */
};

/* Takes exactly one JSON value of RFC 8259: valid UTF-8, no NaN, no number beyond a double, no half
 * of a surrogate pair. Writes it into out[0..len), which any result fits, in the form for traces:
 * one line, no blanks, raw UTF-8 instead of \u from 0x20 on (Perfetto hangs on some escapes).
 * Returns the bytes written, or 0 and *fault. Pure: no allocation, no output; any thread. */
size_t writer_check_json(const char *text, size_t len, char *out, struct json_fault *fault);

/* Hands in a Chrome JSON trace of another tool, gzip or plain. Its events go into the open trace,
 * or else the next one, which waits for them. Opened here, read by the cprof thread. False, with a
 * log line: no such file, not a regular file, or too many wait. Any thread; takes a lock. */
bool writer_import(const char *path);

/* Names the row of a thread from now on, in the open trace too. Any bytes, cut at 255; copied.
 * Keeps the names of at most THREAD_NAMES threads. Any thread; takes a lock. */
void writer_name_thread(uint32_t tid, const char *text, size_t len);

/* The text as a JSON string, with invalid UTF-8 replaced; free() it. NULL: no memory. Any
 * thread. */
char *writer_quote(const char *text);

/* Adds a line to "notes" of the `cprof` object of all later traces, such as that a second client
 * took CUPTI over. Copied; at most 16. Any thread; takes a lock. */
void writer_note(const char *text);

/* Sets "record_path" of the `cprof` object: how operators are recorded from now on. Plain words;
 * must stay valid. Any thread; takes a lock. */
void writer_record_path(const char *words);

/* The state that a note tells of begins or ends. The note is in the traces of windows during that
 * state, and in no others. Always the same text, which must stay valid. Any thread. */
void writer_gap(const char *text, bool begins);
