/* SPDX-License-Identifier: Apache-2.0 */
/* The public header of writer/: recording on application threads, windows and files on the one
 * cprof thread.
 *
 *     application threads:  writer_gate -> span_open/span_close, emit_*  -> ring of the thread
 *     stepping thread:      writer_edge()                               -> edge queue
 *     cprof thread:         edges + rings -> window -> json -> sink -> file */
#ifndef WRITER_WRITER_H
#define WRITER_WRITER_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/base/action.h"
#include "writer/os/apart.h"
#include "writer/base/clock.h"
#include "writer/os/close_range.h"
#include "writer/stack/demangle.h"
#include "writer/os/elf_loaded.h"
#include "writer/os/file_identity.h"
#include "writer/os/futex.h"
#include "writer/os/locks.h"
#include "writer/base/flop_class.h"
#include "writer/record/gpu_record.h"
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
#include "writer/stack/stack_table.h"
#include "writer/stack/stack_json.h"
#include "writer/stack/symbols.h"
#include "writer/record/thread_log.h"
#include "writer/base/train_time.h"

#define CPROF_VERSION "0.1.0"

/* Behind the path of a trace: its table (writer/sums/top.h). */
#define TOP_SUFFIX ".top"

/* ---- messages: one line each on stderr, prefix "cprof: ", rate limited, never on stdout ---- */

enum log_level { LOG_OFF, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Remembers what standard error is, so that no line goes into another file that gets its number. In
 * the constructor. */
void log_start(void);

/* Whether it is for lines now. Any thread that has the program's descriptors. */
bool log_is_for_lines(void);

/* How long a line waits for a reader that is behind; those after it do not, until it reads
 * again. */
enum { LOG_PATIENCE_MS = 100 };

/* Messages above `level` are not written. Default LOG_INFO. Any thread. */
void log_set_level(enum log_level level);

/* Writes one line with one write(2); keeps errno; allocates nothing. Any thread, not from signal
 * handlers. */
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));  /* as log_error */
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));  /* as log_error */
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2))); /* as log_error */

/* As log_info(), however many lines there were: the line at exit. */
void log_last(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- what is recorded now ---- */

enum gate {
    GATE_SPANS = 1u << 0,   /* operators, ranges: an active step, or step 0 that may be the trace */
    GATE_MARKERS = 1u << 1, /* markers: also in warmup steps */
    GATE_MEMORY = 1u << 2,  /* tensor allocations */
    GATE_SHAPES = 1u << 3,  /* operator inputs */
    GATE_CALLS = 1u << 4,   /* CUDA runtime and driver calls, as GATE_SPANS */
    GATE_SKIPPED = 1u << 5, /* markers that ask for steps to skip: such a step */
    GATE_STACKS = 1u << 6,  /* the stacks of all these */
    GATE_FLOPS = 1u << 7,   /* FLOPs of operators and of library calls, as GATE_SPANS */
    GATE_BITS = 8,
};

/* Bits of enum gate; 0 when none is on. Written by the stepping thread at an edge and by the cprof
 * thread when recording has failed (never set again then); read relaxed by every hook: 0 is the
 * idle path. */
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

/* Room for up to `most` data bytes of the span just opened; NULL when there is no room (counted as
 * text_cut). Finish with span_data_done(). */
uint8_t *span_data_room(struct thread_log *log, const struct open_span *span, uint32_t most);

/* Takes the first `used` bytes of the room as the span's data. */
void span_data_done(struct thread_log *log, struct open_span *span, enum record_data kind,
                    uint32_t used);

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

/* Has all that was recorded until now written, and waits for that at most `most_ms`: for what the
 * program may not survive. It wakes the cprof thread and takes no lock. Any thread but the cprof
 * thread. */
void writer_flush_now(unsigned most_ms);

/* Records that a node of a CUDA graph came into being on this thread: captured, added, or copied
 * from the node `original` (0: from none) when the graph was instantiated. The name of the
 * innermost open span goes with it. Also outside windows; no gate. */
void emit_graph_node(struct thread_log *log, uint64_t node, uint64_t original, bool is_kernel);

/* ---- steps ---- */

/* How much was lost, by enum loss. */
struct losses {
    uint64_t n[LOSS_COUNT];
};

/* What happens at an edge. At all but EDGE_STEP the step goes on, or was not over. */
enum edge_kind {
    EDGE_STEP,     /* a step ends, the next one begins */
    EDGE_FIRST,    /* waking up */
    EDGE_EPOCH,    /* an epoch ends and its schedule with it: what is active is saved */
    EDGE_SCHEDULE, /* another schedule decides from here on */
    EDGE_START,    /* the program says that recording begins here: what came before is not wanted */
    EDGE_STOP,     /* the program says that recording ends here: what is active is saved */
    EDGE_LAST,     /* exit */
    EDGE_NOTE,     /* nothing changes: where training stands, for who listens */
};

struct step_edge {
    uint64_t ticks; /* when; set by the caller, after writer_edge_begin() */
    int64_t step;   /* the step that begins here, or goes on */
    /* its action, or that of the step that ends, until here; ACTION_SKIP at the first edge */
    enum action ended;
    enum action begun; /* action of the step from here on; ACTION_SKIP at EDGE_STOP and EDGE_LAST */
    enum edge_kind kind;
    bool kept; /* what came before was held, as keep says */
    /* hold what comes, for a program that never marks a step; at EDGE_STOP and EDGE_LAST: it is the
     * trace */
    bool keep;
    bool unless_ranks;      /* EDGE_LAST: but not where writer_options.ranks_wrote() says so */
    struct train_time time; /* counters at the edge */
    bool epoch_over;        /* EDGE_NOTE: an epoch has ended; `time` is from before it counts */
    struct thread_log *by;  /* of the thread that marks it, or NULL; writer_edge() fills it in */
    uint32_t tid;           /* its number, 0: not known; writer_edge() fills it in */
    struct losses losses;   /* of all threads until here; writer_edge() fills it in */
};

/* Announces an edge before its time is read, so that the cprof thread does not overtake it. Pair
 * with writer_edge(). One thread at a time (the caller serialises). */
void writer_edge_begin(void);

/* Posts the edge: a copy into a queue, with the losses so far; where a window opens or closes also
 * a wake-up of the cprof thread. < 10 us. A full queue (steps come faster than they can be written)
 * turns recording off, with a line; what came before is finished, and recording goes on with the
 * edge behind that. */
void writer_edge(const struct step_edge *edge);

/* ---- life ---- */

struct trace_identity {
    int64_t rank, world_size, local_world_size, node_rank;
    int64_t local_rank;  /* -1: nobody says */
    const char *backend; /* of torch.distributed, or NULL */
    const char *source;  /* where the rank came from, for the trace: "torchrun", "default" … */
};

/* A trace that is whole and has its name. */
struct saved_trace {
    const char *path;              /* absolute; valid during the call */
    struct file_identity file;     /* that has been written; may have lost its name since */
    int64_t first_step, last_step; /* last_step: the last whole one; first_step - 1 when none is */
    struct train_time time;        /* at its end */
    /* Of this process' windows, in the order in which they began: 1, 2 … One that waits for spans
     * is whole after later ones. */
    uint64_t window;
    int64_t began_ns; /* wall clock */
    int64_t steps_ns; /* all its whole steps took; 0: there are none */
    uint64_t events, lost;
    bool partial;  /* cut short by exit */
    bool markless; /* of a program, or of a part of one, without step marks */
};

/* Peak rates in TFLOP/s, as the user gave them; 0 = not given. */
struct flop_peaks {
    double gpu[FLOP_OTHER]; /* of each GPU, by enum flop_class */
    double cpu;             /* of all processors that the program uses, for any class */
};

struct writer_options {
    bool gzip, overwrite;
    bool record_shapes, profile_memory, with_stack, with_modules,
        with_flops;           /* stand in the trace's head */
    struct flop_peaks peaks;  /* for with_flops */
    bool continuous;          /* CPROF_SCHEDULE_SCOPE=none: a full file is followed by another */
    int stacks_in_args;       /* enum stacks_in_args */
    uint64_t ring_bytes;      /* per thread */
    uint64_t max_trace_bytes; /* on disk per file */
    uint64_t top_bytes;       /* memory for a window's table; 0: none is made */
    uint64_t held_bytes;      /* on disk, for what comes before the first step mark */
    uint64_t hold_bytes;      /* in memory, for markers of steps that are not recorded */
    int64_t exit_deadline_ms; /* at exit, for all that is left to do */
    int64_t run_started_ns;   /* wall clock; this rank's files that are not older are of this run */
    const void *affinity;     /* cpu_set_t read in the constructor, or NULL; copied */
    unsigned long affinity_size;
    const struct gpu_source *gpu;   /* where GPU records come from, or NULL */
    const char *const *dtype_names; /* by c10::ScalarType; static */
    unsigned n_dtypes;
    void (*thread_began)(void); /* called first of all on the cprof thread; or NULL */
    /* Filled on the cprof thread when a file's head is written. */
    void (*identity)(struct trace_identity *out);
    /* Absolute final path of a trace that is saved at `time`; false: no path (said already). cprof
     * thread. */
    bool (*trace_path)(const struct train_time *time, char *path, unsigned long size);
    /* Absolute glob(7) pattern that this rank's traces match, whatever their batch or time; false:
     * none. cprof thread. */
    bool (*trace_pattern)(char *pattern, unsigned long size);
    const char *renamed_by; /* the setting that gives another run's traces other names; static */
    bool shares_second;     /* runs that begin in one second have one name: nobody gave it one */
    /* True when ranks of this launch have left traces, beside which that of a program without steps
     * is not wanted; or NULL. At exit; cprof thread. */
    bool (*ranks_wrote)(void);
    /* Called for each trace once it is whole; or NULL. cprof thread: what it does holds up the
     * rings. */
    void (*trace_ready)(const struct saved_trace *trace);
    /* Whether somebody else tells the user of the traces: the exit line names none then, and is
     * left out where nothing was lost. The exiting thread. */
    bool (*told_elsewhere)(void);
    /* Called at the end of each pass, and at exit, once all files are whole, until it answers -1;
     * or NULL. Returns the milliseconds after which it wants to be called again; -1: not before the
     * next pass. cprof thread; what it does holds up the rings. */
    int (*each_pass)(bool stopping);
    int64_t after_deadline_ms; /* at exit, for what each_pass does then */
};

/* CPROF_OVERWRITE=0: true, with a line, when traces of this rank from an earlier run are there;
 * files of this run do not count (an elastic restart finds its own), nor, with shares_second, those
 * of the second in which it began. Of the options: overwrite, run_started_ns, trace_pattern,
 * renamed_by. Asked once, before the first file is made; later calls answer false. cprof thread, or
 * the only one. */
bool earlier_run_in_the_way(const struct writer_options *options);

/* ---- optimizers: the trace and the exit line name the classes that have stepped ---- */

#define OPTIMIZERS_MOST 16  /* classes; further ones are not counted */
#define OPTIMIZERS_TEXT 512 /* bytes for writer_optimizers() */

/* An optimizer of this class steps; of a long name the first 63 bytes count. Any thread; no lock,
 * no allocation. */
void writer_optimizer_steps(const char *class, size_t len);

/* Writes "SGD (18), Adam (6)", in the order of their first steps, terminated; a name that does not
 * fit is left out. Returns the number of classes. Any thread. */
unsigned writer_optimizers(char *out, size_t size);

/* The steps were those of the first optimizer: the exit line names all if they are of several
 * classes. The exiting thread, before the line. */
void writer_tell_optimizers(void);

/* ---- listening: who is told of marks, steps and files while they come ---- */

/* A point in time. */
struct train_moment {
    int64_t step;
    enum action action; /* of the step */
    /* where training stood when the step began; behind the step, or the epoch, at its end */
    struct train_time time;
    int64_t wall_ns; /* since 1970 */
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

/* A duration, moment or counter of the program's. Texts are not terminated; all is valid during the
 * call. */
struct mark {
    /* REC_SPAN, also where its end is another thread's; REC_INSTANT, REC_COUNTER */
    enum record_kind kind;
    const char *name, *categories; /* joined by ','; NULL: none */
    uint32_t name_len, categories_len;
    const struct mark_value *values;
    unsigned n_values;
    uint32_t tid;    /* where it began */
    uint64_t id;     /* the trace's "External id"; 0: none */
    bool unfinished; /* a duration that was cut: its thread ended, or what is around it */
    struct train_moment start, end; /* the same but for durations */
};

/* Calls that the cprof thread makes; none may be NULL. What is told of the thread that marks the
 * steps comes in the order of time, a duration when it ends; of another thread in its own order,
 * and before the end of the step in which it ended. */
struct listener {
    void (*look)(void); /* each pass, before anything else */
    void (*mark)(const struct mark *mark);
    void (*step_end)(const struct train_moment *at); /* each step, recorded or not */
    void (*epoch_end)(const struct train_moment *at);
    void (*window_open)(const struct train_moment *at);  /* at its first step */
    void (*window_close)(const struct train_moment *at); /* all that is in it has been told */
    void (*file)(const char *path); /* a foreign trace that was handed in, absolute */
    void (*end)(void);              /* exit: the last call */
};

/* From now on `listener` is told; it stays for good. Starts no thread: the next step does, or
 * writer_run(). Any application thread. */
void writer_listen(const struct listener *listener);

/* True when somebody listens. Any thread. */
bool writer_is_heard(void);

/* Nanoseconds that the listener has taken so far, of the wall clock. Any thread. */
uint64_t writer_listener_ns(void);

/* From now on marks flagged REC_SKIPPED may come in steps to skip. Starts the cprof thread, after
 * writer_start(). Any application thread. */
void writer_want_skipped(void);

/* ---- starting and stopping ---- */

/* Takes the options, starts the clock and the thread-end hook. Once, at wake-up, before any
 * recording. false: recording is not possible (said). Starts no thread. */
bool writer_start(const struct writer_options *options);

/* Starts the cprof thread if it does not run yet. Called by the first writer_edge(); false: no
 * thread to be had (said). */
bool writer_run(void);

/* Exit: waits until the cprof thread has handled the last edge and finished its files, at most
 * exit_deadline_ms. The one line for the user is written here. Safe to call twice; later calls do
 * nothing. False: the thread is still at it. */
bool writer_finish(void);

/* Makes the cprof thread begin a pass now. Any thread, also in signal handlers. */
void writer_wake(void);

/* Bytes that the program may still map where its address space or its data is limited (ulimit -v,
 * -d); UINT64_MAX where neither is. Any thread; opens a file. */
uint64_t writer_space_left(void);

/* True when recording has been turned off for good (a full disk, a failed write). Any thread. */
bool writer_is_off(void);

/* Where the queue of edges ends now, for writer_saved(). Any thread. */
uint64_t writer_mark(void);

/* True when all windows that ended before writer_mark() gave `mark` are whole files, or will never
 * be. Any thread. */
bool writer_saved(uint64_t mark);

/* A finished trace was removed on purpose: the line at exit does not name it. cprof thread. */
void writer_trace_removed(const char *path);

/* Copies the whole trace `file` at `from`, packed or unpacked as the name `to` says (.gz). A file
 * `to` appears, or is replaced, in one moment when all is written; its folder must be there. Links
 * are followed as by open(2), but for somebody else's in a folder like /tmp; a device or FIFO is
 * written into, and given up when it takes nothing for 5 s; a folder or socket is refused. 0 or an
 * errno value. Blocks on the disk; any thread. ESTALE: `from` is another file by now. */
int writer_copy_trace(const char *from, const struct file_identity *file, const char *to);

/* What an error of writer_copy_trace() means, in words. Any thread. */
const char *writer_copy_error(int error);

/* dlsym() and dlvsym() of the C library, which are not to be called otherwise: another library may
 * export its own, see loader.c. RTLD_NEXT is what comes behind this library. They set what
 * dlerror() says. Any thread. */
void *loader_symbol(void *handle, const char *name);
void *loader_symbol_of(void *handle, const char *name, const char *version); /* as above */

/* dl_iterate_phdr(), which is not to be called otherwise: not while this process forks, see
 * loader.c. Any thread. */
int loader_walk(int (*look)(struct dl_phdr_info *info, size_t size, void *arg), void *arg);

/* The same from inside of such a look, with the list held all the time. */
int loader_walk_within(int (*look)(struct dl_phdr_info *info, size_t size, void *arg), void *arg);

/* Around what walks the loader's list itself, as unwinders do. Any thread; nest in no other lock
 * that a fork may wait for. */
void loader_enter(void);
void loader_leave(void); /* as above */

/* Before a fork: waits until nobody walks, at most a second, and lets nobody begin; and behind it,
 * in parent and child. The thread that forks, one at a time; errno may change. */
void loader_hold(void);
void loader_release(bool child); /* as above */

/* In a forked child: forgets the thread, the rings and the files; everything here becomes a no-op
 * for good. */
void writer_abandon(void);

/* How many threads of this process are ours, those that are just beginning included; 0 in a forked
 * child. Any thread. */
unsigned writer_threads(void);

/* Key and value of a metadata entry that stands in the open and every later trace; raw_json is
 * trusted JSON text. Copied. The last value of a key wins. Any thread; takes a lock; false, and
 * nothing is changed: no memory, more than 64 keys, or more than 1 MiB in all. */
bool writer_metadata(const char *key, const char *raw_json);

/* Why a text is no JSON. */
struct json_fault {
    size_t at;        /* byte of the text, from 0 */
    const char *what; /* in words; static */
};

/*
 * Takes exactly one JSON value as RFC 8259 has it: valid UTF-8, no NaN, no number beyond a double,
 * no half of a surrogate pair. Writes it into out[0..len), which takes any result, as traces hold
 * it: one line, no blanks, raw UTF-8 instead of \u from 0x20 on (Perfetto hangs on some). Returns
 * the bytes written, or 0 and *fault. Pure: no allocation, no output; any thread.
 */
size_t writer_check_json(const char *text, size_t len, char *out, struct json_fault *fault);

/* Hands in a Chrome JSON trace of another tool, gzip or plain: its events go into the trace that is
 * open now, or else into the next one, which is finished when they are in. Opened here, read by the
 * cprof thread. False, with a line: no such file, no regular one, or too many wait. Any thread;
 * takes a lock. */
bool writer_import(const char *path);

/* The name of a thread as its row shows it from now on, in the open trace too; any bytes, cut at
 * 255. Copied; at most 4096 threads have one. Any thread; takes a lock. */
void writer_name_thread(uint32_t tid, const char *text, size_t len);

/* The text as a JSON string, repaired to UTF-8; free() it. NULL: no memory. Any thread. */
char *writer_quote(const char *text);

/* A line of text that stands under "notes" of the `cprof` object of every later trace (a second
 * client took CUPTI over, operators are off …). Copied, at most 16. Any thread; takes a lock. */
void writer_note(const char *text);

/* How operators are recorded from now on, under "record_path" of the `cprof` object: plain words,
 * which stay. Any thread; takes a lock. */
void writer_record_path(const char *words);

/* Something that a note tells of begins, or is over: the note stands in the traces of windows that
 * it falls into, and in no others. Always with the same text, which stays. Any thread. */
void writer_gap(const char *text, bool begins);

#endif
