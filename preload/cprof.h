/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cprof for programs: marks for steps, ranges, moments and counters, in C99 and C++11. Include it
 * and call; there is nothing to link. Started plainly, every call does nothing; started under
 * LD_PRELOAD=libcprof.so, the library answers.
 *
 *     #include "cprof.h"
 *     struct cprof_marker *load = cprof_marker("load batch", NULL);
 *     for (...) {
 *         cprof_marker_start(load);
 *         ...
 *         cprof_marker_finish(load);
 *         cprof_step();
 *     }
 *
 * All calls may be made from any thread; none fails, blocks or prints, but where something else is
 * said. Names are any bytes up to the NUL.
 */
#ifndef CPROF_H
#define CPROF_H

#include <stddef.h>
#include <stdint.h>

/* The version of this header. cprof_version() is that of the library, which may be newer. */
#define CPROF_VERSION_MAJOR 0
#define CPROF_VERSION_MINOR 1
#define CPROF_VERSION_PATCH 0

/* ---- how a call finds the library ---------------------------------------------------------------
 *
 * CPROF_LOOKUP_ sets a pointer to the function that the dynamic linker found, NULL when there is
 * none: a weak symbol read through the GOT. The compiler's own weak references will not do: in a
 * program built without -fPIE the link editor settles them as 0 for good. The calls are static
 * functions under assembler names of their own, because a local function called cprof_step would
 * satisfy the reference to cprof_step.
 */
#ifdef CPROF_IMPLEMENTATION /* the library itself (preload/markers/markers.c) */
#define CPROF_FUNCTION_(result, name, parameters, arguments, otherwise)                            \
    __attribute__((visibility("default"))) result name parameters
#define CPROF_PROCEDURE_(name, parameters, arguments)                                              \
    __attribute__((visibility("default"))) void name parameters
#else
#if !defined(__ELF__) || !defined(__GNUC__)
#define CPROF_IMPORT_(result, name, parameters)
#define CPROF_LOOKUP_(pointer, name) ((pointer) = 0)
#elif defined(__x86_64__) && defined(__LP64__)
#define CPROF_IMPORT_(result, name, parameters)
#define CPROF_LOOKUP_(pointer, name)                                                               \
    __asm__(".weak " #name "\n\t"                                                                  \
            "{movq " #name "@GOTPCREL(%%rip), %0|mov %0, QWORD PTR " #name "@GOTPCREL[rip]}"       \
            : "=r"(pointer))
#elif defined(__aarch64__) && defined(__LP64__)
#define CPROF_IMPORT_(result, name, parameters)
#define CPROF_LOOKUP_(pointer, name)                                                               \
    __asm__(".weak " #name "\n\t"                                                                  \
            "adrp %0, :got:" #name "\n\t"                                                          \
            "ldr %0, [%0, :got_lo12:" #name "]"                                                    \
            : "=r"(pointer))
#else /* needs -fPIE or -fPIC */
#define CPROF_IMPORT_(result, name, parameters)                                                    \
    extern result name##_import parameters __asm__(#name) __attribute__((weak));
#define CPROF_LOOKUP_(pointer, name) ((pointer) = name##_import)
#endif

#if defined(__ELF__) && defined(__GNUC__)
#define CPROF_DECLARE_(result, name, parameters)                                                   \
    CPROF_IMPORT_(result, name, parameters)                                                        \
    static inline result name parameters __asm__(#name "_inline");
#else
#define CPROF_DECLARE_(result, name, parameters)
#endif

#define CPROF_FUNCTION_(result, name, parameters, arguments, otherwise)                            \
    CPROF_DECLARE_(result, name, parameters)                                                       \
    static inline result name parameters                                                           \
    {                                                                                              \
        result(*call_) parameters;                                                                 \
        CPROF_LOOKUP_(call_, name);                                                                \
        return call_ ? call_ arguments : otherwise;                                                \
    }                                                                                              \
    struct cprof_marker /* takes the semicolon */
#define CPROF_PROCEDURE_(name, parameters, arguments)                                              \
    CPROF_DECLARE_(void, name, parameters)                                                         \
    static inline void name parameters                                                             \
    {                                                                                              \
        void(*call_) parameters;                                                                   \
        CPROF_LOOKUP_(call_, name);                                                                \
        if (call_)                                                                                 \
            call_ arguments;                                                                       \
    }                                                                                              \
    struct cprof_marker /* takes the semicolon */
#endif

#if defined(__cplusplus) &&                                                                        \
    defined(__GNUC__) /* a struct and a function of one name, as the rows below have */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

/* In the rows below: result, name, parameters, the same as arguments, and what the call returns
 * without the library. */

/* ---- library --------------------------------------------------------------------------------- */

/* The library's version, "0.1.0"; "" without the library. Static. */
CPROF_FUNCTION_(const char *, cprof_version, (void), (), "");

/* ---- steps ----------------------------------------------------------------------------------- */

/* What the schedule (CPROF_WAIT, CPROF_WARMUP, CPROF_ACTIVE ...) says about a step. */
enum cprof_action {
    CPROF_SKIP = 0,            /* nothing is recorded */
    CPROF_WARMUP = 1,          /* only markers are recorded, for the head of the next file */
    CPROF_ACTIVE = 2,          /* recorded */
    CPROF_ACTIVE_AND_SAVE = 3, /* recorded; the trace is complete when this step ends */
};

/* Marks the end of a training step. From the first call on only these calls count steps. */
CPROF_PROCEDURE_(cprof_step, (void), ());

/* The same under the name that other profilers' users know. */
CPROF_PROCEDURE_(cprof_step_marker, (void), ());

/* cprof_step() with what the step took in, for the format variables of file names and for
 * schedules; what is not above 0 is not counted. */
CPROF_PROCEDURE_(cprof_step_samples, (int64_t samples, int64_t tokens), (samples, tokens));

/* Marks the end of an epoch: the steps since the last call. Call it behind the epoch's last
 * cprof_step(). With CPROF_SCHEDULE_SCOPE=epoch what is active is saved, and the schedule begins
 * anew. The epochs that are seen without it (exhausted DataLoaders of PyTorch) count only until the
 * first call. */
CPROF_PROCEDURE_(cprof_epoch, (void), ());

/* The action of the step being run (enum cprof_action); CPROF_SKIP without the library. */
CPROF_FUNCTION_(int, cprof_action, (void), (), CPROF_SKIP);

/* The number of the step being run, from 0; 0 without the library. */
CPROF_FUNCTION_(int64_t, cprof_step_number, (void), (), 0);

/* 1 when a range begun now would be recorded, else 0: for names that cost something to make. */
CPROF_FUNCTION_(int, cprof_is_recording, (void), (), 0);

/* ---- when to record -------------------------------------------------------------------------- */

/* Begin and end a region. Once a program has called cprof_start(), it is recorded in regions only.
 * The schedule begins at the start with its step 0. What was not saved before the first start is
 * discarded. A stop saves what is active. A region without a step mark is saved as a whole, as a
 * program without one is. Regions may be repeated, and belong to the process, not to a thread.
 * Inside a region, a further cprof_start() has no effect but still needs its cprof_stop(). A stop
 * without a start does nothing. */
CPROF_PROCEDURE_(cprof_start, (void), ());
CPROF_PROCEDURE_(cprof_stop, (void), ());

/* Where training stands when a step begins. Counts are of what is complete; seconds are of the wall
 * clock. */
struct cprof_time {
    size_t size; /* bytes that the library filled in: later versions append fields */
    /* the step that begins, from 0 at cprof_start(), else at the program's beginning */
    int64_t step;
    int64_t epoch, batch, batch_in_epoch, sample, sample_in_epoch, token, token_in_epoch;
    double total_wct, epoch_wct,
        batch_wct; /* of the run, of the epoch being run, of the last batch */
};

/* A schedule: returns the enum cprof_action of the step that begins. */
typedef int (*cprof_schedule)(const struct cprof_time *time, void *arg);

/* From now on `choose` decides instead of the settings, first about the rest of the current step.
 * NULL restores the settings. The thread that marks a step calls it once, where the step begins,
 * with no lock held. The thread that ends an epoch calls it again there: a different answer ends
 * what is recorded, the same answer lets it go on. (With CPROF_SCHEDULE_SCOPE=epoch it always
 * ends.) The schedule may call cprof.h, but steps, epochs and regions that it marks do not count.
 * A value that is no action counts as CPROF_SKIP, with one line. */
CPROF_PROCEDURE_(cprof_set_schedule, (cprof_schedule choose, void *arg), (choose, arg));

/* ---- markers --------------------------------------------------------------------------------- */

/* A named mark, made once and used from any thread. Opaque, owned by the library, never freed. With
 * `struct` in C++, too: the function below has the same name, as stat() has. */
struct cprof_marker;

/* The bit of an action in cprof_marker_options.actions. */
#define CPROF_ACTION_BIT(action) (1u << (action))

/* Begin with `struct cprof_marker_options o = CPROF_MARKER_DEFAULTS;` and change what is to
 * differ. */
struct cprof_marker_options {
    /* sizeof(struct cprof_marker_options): later versions append fields. */
    size_t size;
    /* Steps in which it records: bits of CPROF_ACTION_BIT(). What it records in warmup steps, and
     * in steps to skip if it asks for these, goes to the trace handlers, and to the head of the
     * next file if one follows. */
    unsigned actions;
    /* Not 0: an instant of the same name at each start, and at each finish of a start that was
     * recorded. */
    int record_instant_on_start;
    int record_instant_on_finish;
    /* The events' `cat`, joined by ','; "user_annotation" when there are none. Copied. */
    const char *const *categories;
    size_t n_categories;
};

/* clang-format off */
#define CPROF_MARKER_DEFAULTS                                                                      \
    {                                                                                              \
        sizeof(struct cprof_marker_options),                                                       \
        CPROF_ACTION_BIT(CPROF_WARMUP) | CPROF_ACTION_BIT(CPROF_ACTIVE) |                          \
            CPROF_ACTION_BIT(CPROF_ACTIVE_AND_SAVE),                                               \
        0, 0, NULL, 0                                                                              \
    }
/* clang-format on */

/* The marker of this name, made now if there is none yet; options of the first call count, NULL =
 * the defaults. Keep the pointer: this call searches by name and may allocate. NULL without the
 * library or when memory is short; every call below accepts that and does nothing. */
CPROF_FUNCTION_(struct cprof_marker *, cprof_marker,
                (const char *name, const struct cprof_marker_options *options), (name, options),
                NULL);

/* Begins a duration on this thread. A marker that this thread has started already is not started
 * again. */
CPROF_PROCEDURE_(cprof_marker_start, (struct cprof_marker * marker), (marker));

/* Ends the duration that this thread began. Without a start on this thread it does nothing. What
 * was started after it on this thread and is still open is cut here: durations of one thread nest.
 * The duration belongs to the step in which it began. */
CPROF_PROCEDURE_(cprof_marker_finish, (struct cprof_marker * marker), (marker));

/* Marks a moment. */
CPROF_PROCEDURE_(cprof_marker_instant, (struct cprof_marker * marker), (marker));

/* Samples a counter: n named values, in the order of `series`. An only value needs no name: series
 * may be NULL when n is 1. NaN and infinities are left out. Nothing is kept of the arrays. */
CPROF_PROCEDURE_(cprof_marker_counter,
                 (struct cprof_marker * marker, size_t n, const char *const *series,
                  const double *values),
                 (marker, n, series, values));

/* cprof_marker_counter() for integers; all 64 bits arrive. */
CPROF_PROCEDURE_(cprof_marker_counter_int,
                 (struct cprof_marker * marker, size_t n, const char *const *series,
                  const int64_t *values),
                 (marker, n, series, values));

/* ---- ranges ---------------------------------------------------------------------------------- */

/* Begins a range on this thread and returns its zero-based depth, whether recorded or not; 0
 * without the library. The name is copied. */
CPROF_FUNCTION_(int, cprof_range_push, (const char *name), (name), 0);

/* Ends the innermost range of this thread and returns its zero-based depth; -1 when there is none,
 * and without the library. */
CPROF_FUNCTION_(int, cprof_range_pop, (void), (), -1);

/* Marks a moment. The name is copied. */
CPROF_PROCEDURE_(cprof_mark, (const char *name), (name));

/* ---- trace handlers -------------------------------------------------------------------------- */

/* A trace handler gets what is recorded while it happens; the traces are written all the same. A
 * handler is a shared object that CPROF_TRACE_HANDLERS names (see cprof_trace_handler_open()
 * below), or a program's own, given to cprof_add_trace_handler(). Several may be there at once.
 * They are called one after the other: those of CPROF_TRACE_HANDLERS first, in the order of the
 * list, then the others in the order in which they were added.
 *
 * Every call comes from cprof's own thread, never from one of the program's, some 10 ms after the
 * event. That thread also empties the event buffers and writes the files. A slow handler makes it
 * fall behind; what then finds no room in the buffers is counted as lost (CPROF_RING_KB makes them
 * larger). Each trace has the time that handlers took ("cprof", "handlers_ns"). When recording is
 * turned off (the disk is full ...), only close is still called. The thread blocks all signals and
 * has a stack of one megabyte. Callbacks must not throw, fork or end the process. Of this header
 * they may call what asks, adds metadata or adds a handler. Steps and marks that they make are not
 * recorded. */

/* Raised when handlers made for the version before would misunderstand the library. */
#define CPROF_TRACE_HANDLER_VERSION 1

/* One named value of a counter. */
struct cprof_value {
    const char *name; /* "" when it is the only one and has none */
    int is_real;      /* which of the two it is */
    int64_t integer;
    double real;
};

/* What happened. All that it points to is valid during the call. */
struct cprof_event {
    size_t size; /* bytes that the library filled in: later versions append fields */
    const char *name;
    const char *const *categories; /* of the marker; a comma in one separates two */
    size_t n_categories;
    uint32_t thread_id; /* as gettid(); of a range that ends on another thread: where it began */
    int is_start;       /* durations: 1 in the first of the two calls */
    /* durations: 1 when it did not end by itself: its thread ended, or a range around it */
    int is_cut;
    int action;            /* enum cprof_action of the step */
    uint64_t id;           /* of a duration: "External id" of the trace; else 0 */
    int64_t wall_clock_ns; /* since 1970 */
    /* at the beginning of the step; `step` counts as cprof_step_number() does */
    const struct cprof_time *time;
    /* of a counter; one of more than 2 KiB comes in several calls */
    const struct cprof_value *values;
    size_t n_values;
};

/* A trace that is whole and has its name. */
struct cprof_trace_file {
    size_t size;                   /* as above */
    const char *path;              /* absolute */
    const struct cprof_time *time; /* at its end */
    int64_t wall_clock_ns;         /* of the call */
    int64_t first_step, last_step; /* last_step: the last whole one; first_step - 1 when none is */
    uint64_t events, lost;
    /* the program ended, or cprof_stop() was called, before the schedule's end of it */
    int is_partial;
};

/* A handler: callbacks that are NULL are left out; each gets `arg`. Begin with
 * `struct cprof_trace_handler h = CPROF_TRACE_HANDLER_DEFAULTS;` */
struct cprof_trace_handler {
    size_t size;      /* sizeof(struct cprof_trace_handler): later versions append fields */
    unsigned version; /* CPROF_TRACE_HANDLER_VERSION */
    const char *name; /* for messages and cprof_trace_handlers() */
    void *arg;

    /* The first call. Not 0: the handler refuses; one line says so, and it is left out. For a
     * handler of CPROF_TRACE_HANDLERS it comes before the first thing that there is to tell, so
     * that processes in which there is nothing to tell do not load it. */
    int (*init)(void *arg);
    /* A duration of a marker, range, NVTX range or ITT task, when it has ended: called twice, with
     * is_start 1 and 0, and with nothing between the two. Those of one thread come in the order in
     * which they end; all that ended in a step come before its step_end. Durations still open when
     * the program ends do not come. */
    void (*duration)(void *arg, const struct cprof_event *event);
    /* A moment. */
    void (*instant)(void *arg, const struct cprof_event *event);
    /* A sample of a counter. */
    void (*counter)(void *arg, const struct cprof_event *event);
    /* A trace in Chrome's JSON format is there: one of ours, before trace_ready, or a foreign one
     * that was handed in. */
    void (*chrome_json_file)(void *arg, const char *path);
    /* A trace of ours is whole. */
    void (*trace_ready)(void *arg, const struct cprof_trace_file *trace);
    /* A step has ended, recorded or not: step is its number, batch counts it. */
    void (*step_end)(void *arg, const struct cprof_time *time, int64_t wall_clock_ns);
    /* An epoch has ended: epoch counts it. */
    void (*epoch_end)(void *arg, const struct cprof_time *time, int64_t wall_clock_ns);
    /* What is recorded of the steps from here on goes into one file; and: all of it has been told.
     * In a program without step marks both come at its end. */
    void (*window_open)(void *arg, const struct cprof_time *time, int64_t wall_clock_ns);
    void (*window_close)(void *arg, const struct cprof_time *time, int64_t wall_clock_ns);
    /* The last call: the process ends. It has to be done within CPROF_DRAIN_DEADLINE_MS, together
     * with all before it. */
    void (*close)(void *arg);
};

/* clang-format off */
#define CPROF_TRACE_HANDLER_DEFAULTS                                                               \
    {                                                                                              \
        sizeof(struct cprof_trace_handler), CPROF_TRACE_HANDLER_VERSION, NULL, NULL, NULL, NULL,   \
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL                                       \
    }
/* clang-format on */

/* Adds a handler of the program's, for good: `arg` must live until its close. The struct is copied.
 * It is told what happens from now on, and what happened just before and has not been told yet. 1
 * when it was taken; 0, with one line, when it is of another version or there are 64 already; 0
 * without the library and in a forked child. */
CPROF_FUNCTION_(int, cprof_add_trace_handler, (const struct cprof_trace_handler *handler),
                (handler), 0);

/* Writes the names of the first `room` handlers to names[], in the order in which they are called,
 * and returns how many there are. The first one is "json", which writes the traces. The texts are
 * static. 0 without the library and in a forked child. */
CPROF_FUNCTION_(size_t, cprof_trace_handlers, (const char **names, size_t room), (names, room), 0);

#if defined(__cplusplus) && defined(__GNUC__)
#define CPROF_EXPORTED_ extern "C" __attribute__((visibility("default")))
#elif defined(__cplusplus)
#define CPROF_EXPORTED_ extern "C"
#elif defined(__GNUC__)
#define CPROF_EXPORTED_ extern __attribute__((visibility("default")))
#else
#define CPROF_EXPORTED_ extern
#endif

/* What a shared object of CPROF_TRACE_HANDLERS=PATH[=ARGUMENT],... defines: returns its handler,
 * which is copied, or NULL to refuse. argument: "" when there is none. Called once, by cprof's
 * thread. */
CPROF_EXPORTED_ const struct cprof_trace_handler *cprof_trace_handler_open(const char *argument);

/* ---- metadata -------------------------------------------------------------------------------- */

/* A key of the trace's top level with a text for its value, in the open file and every later one;
 * the last value of a key wins. Bytes that are no UTF-8 are replaced. At most 64 keys, 256 bytes of
 * key, 256 KiB of value, 1 MiB in all; a key of cprof's own ("traceEvents", "distributedInfo" ...)
 * is refused. 1 when it was taken; else 0, one line on stderr that says why, and nothing is
 * changed. 0 without the library. */
CPROF_FUNCTION_(int, cprof_add_metadata, (const char *key, const char *text), (key, text), 0);

/* The same with a JSON value of any kind, checked strictly: what is no JSON (NaN too) is refused,
 * with its position. */
CPROF_FUNCTION_(int, cprof_add_metadata_json, (const char *key, const char *json), (key, json), 0);

/* ---- traces of other tools ------------------------------------------------------------------- */

/* Hands in a Chrome JSON trace that another tool wrote ({"traceEvents": [...]} or [...], also
 * gzip): its events go into the trace that is open now, else into the next one, on rows of their
 * own. Their times: from "baseTimeNanoseconds" where it has one; else microseconds since 1970, or
 * of CLOCK_MONOTONIC when they fall into this run; any other times are taken to end now. The file
 * is opened here and read later by the library's own thread: it may be removed after the call, but
 * not changed. 1 when it was taken; else 0 and one line on stderr that says why; a file that turns
 * out to be no trace gets its line later, and is not merged. 0 without the library. */
CPROF_FUNCTION_(int, cprof_record_chrome_json_trace_file, (const char *path), (path), 0);

/* ---- traces ---------------------------------------------------------------------------------- */

/* Copies the last whole trace to `path`, whose folder must be there: packed when the name ends in
 * .gz, unpacked when not, in one moment, also over a file of that name. A symbolic link is followed
 * (but somebody else's in a folder like /tmp); a device or a FIFO is written into, and given up
 * when it takes nothing for 5 s. A window that has just ended (a stop, the step that saves) is
 * waited for, at most CPROF_DRAIN_DEADLINE_MS; the copy is made by the calling thread, so call it
 * where training may wait for the disk. Also from trace_ready, where it is the trace that this
 * tells of or a later one, and while the program ends. 1 when the trace is there on return; else 0
 * and one line on stderr that says why (no trace is whole yet, the last one was removed, nobody
 * reads the FIFO, a folder or socket has that name, a forked child). 0 without the library and
 * where it is off. */
CPROF_FUNCTION_(int, cprof_export_chrome_trace, (const char *path), (path), 0);

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif
