/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cprof for programs: marks for steps, ranges, moments and counters, in C99 and C++11. Include this
 * header and call; there is nothing to link. Without the library, every call does nothing. Under
 * LD_PRELOAD=libcprof.so the library answers.
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
 * Any thread may make any call. No call fails, blocks or prints unless its comment says so. Names
 * are any bytes up to the NUL.
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

/* Marks the end of a training step. From the first call on, only these calls count as steps. */
CPROF_PROCEDURE_(cprof_step, (void), ());

/* The same as cprof_step(), under the name that other profilers use. */
CPROF_PROCEDURE_(cprof_step_marker, (void), ());

/* cprof_step() with the samples and tokens of the step. The variables of file names and schedules
 * have their sums. Numbers of 0 or less are not added. */
CPROF_PROCEDURE_(cprof_step_samples, (int64_t samples, int64_t tokens), (samples, tokens));

/* Marks the end of an epoch, which has the steps since the last call. Call it after the epoch's
 * last cprof_step(). With CPROF_SCHEDULE_SCOPE=epoch, the call saves the active steps, and the
 * schedule starts again. cprof also sees an epoch end when a DataLoader of PyTorch is exhausted.
 * Those count only until the first call. */
CPROF_PROCEDURE_(cprof_epoch, (void), ());

/* The action of the current step (enum cprof_action). CPROF_SKIP without the library. */
CPROF_FUNCTION_(int, cprof_action, (void), (), CPROF_SKIP);

/* The number of the current step, from 0. 0 without the library. */
CPROF_FUNCTION_(int64_t, cprof_step_number, (void), (), 0);

/* Returns 1 if a range that begins now would be recorded, else 0. Ask before you make a name that
 * costs time. */
CPROF_FUNCTION_(int, cprof_is_recording, (void), (), 0);

/* ---- when to record -------------------------------------------------------------------------- */

/* Begin and end a region. Once a program has called cprof_start(), cprof records only in regions.
 * The first call discards records that are not saved yet. Each region starts the schedule with step
 * 0, and its end saves the active steps. A region without a step mark is saved as a whole. Regions
 * may be repeated. They belong to the process, not to a thread. Inside a region, a further
 * cprof_start() has no effect but still needs its cprof_stop(). A cprof_stop() outside a region
 * does nothing. */
CPROF_PROCEDURE_(cprof_start, (void), ());
CPROF_PROCEDURE_(cprof_stop, (void), ());

/* Where training stands when a step begins. Counts include completed steps only. Times are in
 * seconds of the wall clock. */
struct cprof_time {
    size_t size; /* bytes that the library filled in; later versions append fields */
    /* the step that begins; counts from 0 at cprof_start(), or else at the program's start */
    int64_t step;
    int64_t epoch, batch, batch_in_epoch, sample, sample_in_epoch, token, token_in_epoch;
    double total_wct, epoch_wct,
        batch_wct; /* of the run, of the current epoch, of the last batch */
};

/* A schedule: returns the enum cprof_action of the step that begins. */
typedef int (*cprof_schedule)(const struct cprof_time *time, void *arg);

/* `choose` replaces the schedule of the settings from now on, first for the rest of the current
 * step. NULL restores the settings. The thread that marks a step calls `choose` once, when the step
 * begins, without a lock. The thread that ends an epoch calls it again. A different answer then
 * ends the window, and the same answer continues it. With CPROF_SCHEDULE_SCOPE=epoch the window
 * always ends. `choose` may call cprof.h, but steps, epochs and regions that it marks do not count.
 * An invalid action counts as CPROF_SKIP, with one line on stderr. `choose` gets `arg`, which must
 * live as long as `choose` is in use. */
CPROF_PROCEDURE_(cprof_set_schedule, (cprof_schedule choose, void *arg), (choose, arg));

/* ---- markers --------------------------------------------------------------------------------- */

/* A named mark. Make it once and use it from any thread. It is opaque, belongs to the library and
 * is never freed. C++ must write `struct`, too, because the function below has the same name. */
struct cprof_marker;

/* The bit of an action in cprof_marker_options.actions. */
#define CPROF_ACTION_BIT(action) (1u << (action))

/* Begin with `struct cprof_marker_options o = CPROF_MARKER_DEFAULTS;` and change single fields. */
struct cprof_marker_options {
    /* sizeof(struct cprof_marker_options); later versions append fields. */
    size_t size;
    /* Steps in which the marker records: bits of CPROF_ACTION_BIT(). Marks of warmup steps, and of
     * skipped steps if these are asked for, go to the trace handlers and to the start of the next
     * file, if there is one. */
    unsigned actions;
    /* Not 0: also record an instant of the same name at each start, or at each finish of a recorded
     * start. */
    int record_instant_on_start;
    int record_instant_on_finish;
    /* The events' `cat`, joined by ','. "user_annotation" if there are none. Copied. */
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

/* Returns the marker of this name, and makes it at the first call, whose options count. NULL
 * options: the defaults. Keep the pointer, because this call searches by name and may allocate.
 * Returns NULL without the library or without memory. Every call below accepts NULL and then does
 * nothing. */
CPROF_FUNCTION_(struct cprof_marker *, cprof_marker,
                (const char *name, const struct cprof_marker_options *options), (name, options),
                NULL);

/* Begins a duration on this thread. Does nothing if this thread has already started the marker. */
CPROF_PROCEDURE_(cprof_marker_start, (struct cprof_marker * marker), (marker));

/* Ends the duration that this thread began. Does nothing without a start on this thread. Durations
 * of one thread nest: those that began later on this thread and are still open end here, too. The
 * duration belongs to the step in which it began. */
CPROF_PROCEDURE_(cprof_marker_finish, (struct cprof_marker * marker), (marker));

/* Marks a moment. */
CPROF_PROCEDURE_(cprof_marker_instant, (struct cprof_marker * marker), (marker));

/* Samples a counter: n values with the names in `series`. A single value needs no name: `series`
 * may be NULL if n is 1. NaN and infinities are left out. The arrays are copied. */
CPROF_PROCEDURE_(cprof_marker_counter,
                 (struct cprof_marker * marker, size_t n, const char *const *series,
                  const double *values),
                 (marker, n, series, values));

/* cprof_marker_counter() for integers. All 64 bits are kept. */
CPROF_PROCEDURE_(cprof_marker_counter_int,
                 (struct cprof_marker * marker, size_t n, const char *const *series,
                  const int64_t *values),
                 (marker, n, series, values));

/* ---- ranges ---------------------------------------------------------------------------------- */

/* Begins a range on this thread. Returns its depth from 0, whether it is recorded or not. 0 without
 * the library. The name is copied. */
CPROF_FUNCTION_(int, cprof_range_push, (const char *name), (name), 0);

/* Ends the innermost range of this thread. Returns its depth from 0. -1 if there is none, or
 * without the library. */
CPROF_FUNCTION_(int, cprof_range_pop, (void), (), -1);

/* Marks a moment. The name is copied. */
CPROF_PROCEDURE_(cprof_mark, (const char *name), (name));

/* ---- trace handlers -------------------------------------------------------------------------- */

/* A trace handler receives events while the program runs. The traces are written as well. A handler
 * is a shared object that CPROF_TRACE_HANDLERS names (see cprof_trace_handler_open() below), or one
 * that the program gives to cprof_add_trace_handler(). There may be several. cprof calls those of
 * CPROF_TRACE_HANDLERS first, in the order of the list, and then the others in the order in which
 * they were added.
 *
 * Every call comes from cprof's own thread, some 10 ms after the event, never from a thread of the
 * program. That thread also empties the event buffers and writes the files. A slow handler delays
 * it. Events that then find no room in the buffers are counted as lost; CPROF_RING_KB makes the
 * buffers larger. Each trace tells the time that handlers took ("cprof", "handlers_ns"). After
 * recording was turned off, because the disk is full for example, only close is called. The thread
 * blocks all signals and has a stack of one megabyte.
 *
 * Callbacks must not throw, fork or end the process. From this header they may call functions that
 * ask, add metadata or add a handler. Steps and marks that they make are not recorded. */

/* Increases when handlers for the previous version would misunderstand the library. */
#define CPROF_TRACE_HANDLER_VERSION 1

/* One named value of a counter. */
struct cprof_value {
    const char *name; /* "" for a single value without a name */
    int is_real;      /* not 0: `real` is the value, else `integer` */
    int64_t integer;
    double real;
};

/* An event. Its pointers are valid during the call. */
struct cprof_event {
    size_t size; /* bytes that the library filled in; later versions append fields */
    const char *name;
    const char *const *categories; /* of the marker; a comma in a category separates two */
    size_t n_categories;
    uint32_t thread_id; /* as gettid(); of a range that ends on another thread: where it began */
    int is_start;       /* durations: 1 in the first of the two calls */
    /* durations: 1 if the end of its thread or of an outer range ended it */
    int is_cut;
    int action;            /* enum cprof_action of the step */
    uint64_t id;           /* of a duration: "External id" in the trace; else 0 */
    int64_t wall_clock_ns; /* since 1970 */
    /* at the start of the step; `step` is as in cprof_step_number() */
    const struct cprof_time *time;
    /* of a counter; more than 2 KiB come in several calls */
    const struct cprof_value *values;
    size_t n_values;
};

/* A complete trace under its final name. */
struct cprof_trace_file {
    size_t size;                   /* as above */
    const char *path;              /* absolute */
    const struct cprof_time *time; /* at its end */
    int64_t wall_clock_ns;         /* of the call */
    int64_t first_step, last_step; /* last_step: the last whole step, or first_step - 1 */
    uint64_t events, lost;
    /* not 0: the program ended, or called cprof_stop(), before the schedule ended the window */
    int is_partial;
};

/* A handler. Each callback gets `arg`; callbacks may be NULL. Begin with
 * `struct cprof_trace_handler h = CPROF_TRACE_HANDLER_DEFAULTS;` */
struct cprof_trace_handler {
    size_t size;      /* sizeof(struct cprof_trace_handler); later versions append fields */
    unsigned version; /* CPROF_TRACE_HANDLER_VERSION */
    const char *name; /* for messages and cprof_trace_handlers() */
    void *arg;

    /* The first call. Not 0: the handler refuses, is reported in one line and is not called again.
     * A handler of CPROF_TRACE_HANDLERS is loaded and called when the first event comes, so that
     * processes without events do not load it. */
    int (*init)(void *arg);
    /* A duration of a marker, range, NVTX range or ITT task has ended. Called twice in a row, with
     * is_start 1 and 0. Durations of one thread come in the order of their ends, and before the
     * step_end of the step in which they end. Durations that are open when the program ends do not
     * come. */
    void (*duration)(void *arg, const struct cprof_event *event);
    /* A moment. */
    void (*instant)(void *arg, const struct cprof_event *event);
    /* A sample of a counter. */
    void (*counter)(void *arg, const struct cprof_event *event);
    /* There is a trace in Chrome's JSON format: one of cprof, before trace_ready, or one of another
     * tool that was handed in. */
    void (*chrome_json_file)(void *arg, const char *path);
    /* A trace of cprof is complete. */
    void (*trace_ready)(void *arg, const struct cprof_trace_file *trace);
    /* A step has ended, recorded or not. `step` is its number, and `batch` includes it. */
    void (*step_end)(void *arg, const struct cprof_time *time, int64_t wall_clock_ns);
    /* An epoch has ended. `epoch` includes it. */
    void (*epoch_end)(void *arg, const struct cprof_time *time, int64_t wall_clock_ns);
    /* A window begins, which is one trace file; and: all events of the window were passed on. In a
     * program without step marks both calls come at its end. */
    void (*window_open)(void *arg, const struct cprof_time *time, int64_t wall_clock_ns);
    void (*window_close)(void *arg, const struct cprof_time *time, int64_t wall_clock_ns);
    /* The last call, because the process ends. It must return within CPROF_DRAIN_DEADLINE_MS, which
     * includes the calls before it. */
    void (*close)(void *arg);
};

/* clang-format off */
#define CPROF_TRACE_HANDLER_DEFAULTS                                                               \
    {                                                                                              \
        sizeof(struct cprof_trace_handler), CPROF_TRACE_HANDLER_VERSION, NULL, NULL, NULL, NULL,   \
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL                                       \
    }
/* clang-format on */

/* Adds a handler of the program. It cannot be removed: `arg` must live until close. The struct is
 * copied. The handler receives the events from now on, and recent ones that were not passed on yet.
 * Returns 1 if it was added. Returns 0, with one line on stderr, if it has another version or there
 * are already 64. 0 without the library and in a forked child. */
CPROF_FUNCTION_(int, cprof_add_trace_handler, (const struct cprof_trace_handler *handler),
                (handler), 0);

/* Writes the names of the first `room` handlers to names[], in the order of their calls. Returns
 * the number of handlers. The first is "json", which writes the traces. The texts are static. 0
 * without the library and in a forked child. */
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

/* A shared object of CPROF_TRACE_HANDLERS=PATH[=ARGUMENT],... defines this function. It returns its
 * handler, which is copied, or NULL to refuse. argument: "" if none is given. cprof's thread calls
 * it once. */
CPROF_EXPORTED_ const struct cprof_trace_handler *cprof_trace_handler_open(const char *argument);

/* ---- metadata -------------------------------------------------------------------------------- */

/* Adds a key with a text value to the top level of the open trace and of every later one. A later
 * value of a key replaces the earlier one. Bytes that are not UTF-8 are replaced. At most 64 keys,
 * 256 bytes for a key, 256 KiB for a value and 1 MiB in all. cprof's own keys ("traceEvents",
 * "distributedInfo" ...) are refused. Returns 1 if the key was added. Otherwise returns 0, changes
 * nothing and gives the reason in one line on stderr. 0 without the library. */
CPROF_FUNCTION_(int, cprof_add_metadata, (const char *key, const char *text), (key, text), 0);

/* The same with a JSON value of any kind. Text that is not strict JSON (NaN, for example) is
 * refused, with its position. */
CPROF_FUNCTION_(int, cprof_add_metadata_json, (const char *key, const char *json), (key, json), 0);

/* ---- traces of other tools ------------------------------------------------------------------- */

/* Hands in a Chrome JSON trace of another tool ({"traceEvents": [...]} or [...], also gzip). Its
 * events go into the open trace, or else into the next one, on rows of their own. Their times count
 * from "baseTimeNanoseconds" if the trace has it. Otherwise they are microseconds since 1970, or of
 * CLOCK_MONOTONIC if they fall into this run. Any other times are shifted so that they end now. The
 * call opens the file, and the library's own thread reads it later: you may remove the file after
 * the call, but not change it. Returns 1 if the file was accepted. Otherwise returns 0 and gives
 * the reason in one line on stderr. A file that turns out not to be a trace is reported later and
 * not merged. 0 without the library. */
CPROF_FUNCTION_(int, cprof_record_chrome_json_trace_file, (const char *path), (path), 0);

/* ---- traces ---------------------------------------------------------------------------------- */

/* Copies the last complete trace to `path`, whose folder must exist. The copy is gzip if the name
 * ends in .gz, else plain. It appears at once and replaces a file of that name. The call follows a
 * symbolic link, but not another user's link in a folder like /tmp. It writes into a device or a
 * FIFO, and gives up if nothing is read for 5 s.
 *
 * The call blocks: it waits for a window that has just ended, at most CPROF_DRAIN_DEADLINE_MS, and
 * the calling thread makes the copy. You may also call it from trace_ready, where it copies that
 * trace or a later one, and while the program ends.
 *
 * Returns 1 if the copy exists on return. Otherwise returns 0 and gives the reason in one line on
 * stderr: no trace is complete yet, the last one was removed, nobody reads the FIFO, a folder or
 * socket has that name, or this is a forked child. 0 without the library, or if cprof is off. */
CPROF_FUNCTION_(int, cprof_export_chrome_trace, (const char *path), (path), 0);

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif
