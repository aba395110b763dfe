/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cprof for programs: marks for steps, ranges, moments and counters, in C99 and C++11. Include it and call; there is
 * nothing to link. Started plainly, every call does nothing; started under LD_PRELOAD=libcprof.so, the library answers.
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
 * All calls may be made from any thread; none fails, blocks or prints. Names are any bytes up to the NUL.
 */
#ifndef CPROF_H
#define CPROF_H

#include <stddef.h>
#include <stdint.h>

/* The version of this header. cprof_version() is that of the library, which may be newer. */
#define CPROF_VERSION_MAJOR 0
#define CPROF_VERSION_MINOR 1
#define CPROF_VERSION_PATCH 0

/* ---- how a call finds the library -------------------------------------------------------------------------
 *
 * CPROF_LOOKUP_ sets a pointer to the function that the dynamic linker found, NULL when there is none: a weak symbol
 * read through the GOT. The compiler's own weak references will not do: in a program built without -fPIE the link
 * editor settles them as 0 for good. The calls are static functions under assembler names of their own, because a
 * local function called cprof_step would satisfy the reference to cprof_step.
 */
#ifdef CPROF_IMPLEMENTATION /* the library itself (preload/markers.c) */
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

/* In the rows below: result, name, parameters, the same as arguments, and what the call returns without the library. */

/* ---- library ---------------------------------------------------------------------------------------------- */

/* The library's version, "0.1.0"; "" without the library. Static. */
CPROF_FUNCTION_(const char *, cprof_version, (void), (), "");

/* ---- steps ------------------------------------------------------------------------------------------------ */

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

/* cprof_step() with what the step took in, for the format variables of file names and for schedules; what is not above 0 is
 * not counted. */
CPROF_PROCEDURE_(cprof_step_samples, (int64_t samples, int64_t tokens), (samples, tokens));

/* Marks the end of an epoch: the steps since the last call. Call it behind the epoch's last cprof_step(). With
 * CPROF_SCHEDULE_SCOPE=epoch what is active is saved, and the schedule begins anew. The epochs that are seen without it
 * (exhausted DataLoaders of PyTorch) count only until the first call. */
CPROF_PROCEDURE_(cprof_epoch, (void), ());

/* The action of the step being run (enum cprof_action); CPROF_SKIP without the library. */
CPROF_FUNCTION_(int, cprof_action, (void), (), CPROF_SKIP);

/* The number of the step being run, from 0; 0 without the library. */
CPROF_FUNCTION_(int64_t, cprof_step_number, (void), (), 0);

/* 1 when a range begun now would be recorded, else 0: for names that cost something to make. */
CPROF_FUNCTION_(int, cprof_is_recording, (void), (), 0);

/* ---- when to record --------------------------------------------------------------------------------------- */

/* Recording is wanted from here to cprof_stop() and nowhere else: the schedule begins here with its step 0, and what has not
 * been saved before the first call is thrown away. A stop saves what is active; a region without a step mark is saved as a
 * whole, as a program without one is. Regions may be repeated. They are the process's, not a thread's; inside one a further
 * start only wants a further stop, and a stop without a start does nothing. */
CPROF_PROCEDURE_(cprof_start, (void), ());
CPROF_PROCEDURE_(cprof_stop, (void), ());

/* Where training stands when a step begins. Counts are of what is complete; seconds are of the wall clock. */
struct cprof_time {
    size_t size; /* bytes that the library filled in: later versions append fields */
    int64_t
        step; /* the step that begins, from 0 at cprof_start(), else at the program's beginning */
    int64_t epoch, batch, batch_in_epoch, sample, sample_in_epoch, token, token_in_epoch;
    double total_wct, epoch_wct,
        batch_wct; /* of the run, of the epoch being run, of the last batch */
};

/* A schedule: returns the enum cprof_action of the step that begins. */
typedef int (*cprof_schedule)(const struct cprof_time *time, void *arg);

/* From now on `choose` decides instead of the settings, first about the rest of the current step; NULL gives the settings
 * back. It is called once a step, where it begins, again where an epoch ends, by the thread that marks the step or the
 * epoch, with no lock held. It may call cprof.h, but steps, epochs and regions that it marks do not count. What it returns
 * besides an action is CPROF_SKIP, with one line. */
CPROF_PROCEDURE_(cprof_set_schedule, (cprof_schedule choose, void *arg), (choose, arg));

/* ---- markers ---------------------------------------------------------------------------------------------- */

/* A named mark, made once and used from any thread. Opaque, owned by the library, never freed. */
struct cprof_marker;

/* The bit of an action in cprof_marker_options.actions. */
#define CPROF_ACTION_BIT(action) (1u << (action))

/* Begin with `struct cprof_marker_options o = CPROF_MARKER_DEFAULTS;` and change what is to differ. */
struct cprof_marker_options {
    /* sizeof(struct cprof_marker_options): later versions append fields. */
    size_t size;
    /* Steps in which it records: bits of CPROF_ACTION_BIT(). No file is written about steps to skip. */
    unsigned actions;
    /* Not 0: an instant of the same name at each start, and at each finish of a start that was recorded. */
    int record_instant_on_start;
    int record_instant_on_finish;
    /* The events' `cat`, joined by ','; "user_annotation" when there are none. Copied. */
    const char *const *categories;
    size_t n_categories;
};

#define CPROF_MARKER_DEFAULTS                                                                      \
    {                                                                                              \
        sizeof(struct cprof_marker_options),                                                       \
            CPROF_ACTION_BIT(CPROF_WARMUP) | CPROF_ACTION_BIT(CPROF_ACTIVE) |                      \
                CPROF_ACTION_BIT(CPROF_ACTIVE_AND_SAVE),                                           \
            0, 0, NULL, 0                                                                          \
    }

/* The marker of this name, made now if there is none yet; options of the first call count, NULL = the defaults. Keep
 * the pointer: this call searches by name and may allocate. NULL without the library or when memory is short; every
 * call below accepts that and does nothing. */
CPROF_FUNCTION_(struct cprof_marker *, cprof_marker,
                (const char *name, const struct cprof_marker_options *options), (name, options),
                NULL);

/* Begins a duration on this thread. A marker that this thread has started already is not started again. */
CPROF_PROCEDURE_(cprof_marker_start, (struct cprof_marker * marker), (marker));

/* Ends the duration that this thread began. Without a start on this thread it does nothing. What was started after it
 * on this thread and is still open is cut here: durations of one thread nest. The duration belongs to the step in which
 * it began. */
CPROF_PROCEDURE_(cprof_marker_finish, (struct cprof_marker * marker), (marker));

/* Marks a moment. */
CPROF_PROCEDURE_(cprof_marker_instant, (struct cprof_marker * marker), (marker));

/* Samples a counter: n named values, in the order of `series`. An only value needs no name: series may be NULL when n
 * is 1. NaN and infinities are left out. Nothing is kept of the arrays. */
CPROF_PROCEDURE_(cprof_marker_counter,
                 (struct cprof_marker * marker, size_t n, const char *const *series,
                  const double *values),
                 (marker, n, series, values));

/* cprof_marker_counter() for integers; all 64 bits arrive. */
CPROF_PROCEDURE_(cprof_marker_counter_int,
                 (struct cprof_marker * marker, size_t n, const char *const *series,
                  const int64_t *values),
                 (marker, n, series, values));

/* ---- ranges ----------------------------------------------------------------------------------------------- */

/* Begins a range on this thread and returns its zero-based depth, whether recorded or not; 0 without the library. The
 * name is copied. */
CPROF_FUNCTION_(int, cprof_range_push, (const char *name), (name), 0);

/* Ends the innermost range of this thread and returns its zero-based depth; -1 when there is none, and without the
 * library. */
CPROF_FUNCTION_(int, cprof_range_pop, (void), (), -1);

/* Marks a moment. The name is copied. */
CPROF_PROCEDURE_(cprof_mark, (const char *name), (name));

/* ---- metadata --------------------------------------------------------------------------------------------- */

/* A key of the trace's top level with a text for its value, in the open file and every later one; the last value of a key
 * wins. Bytes that are no UTF-8 are replaced. At most 64 keys, 256 bytes of key, 256 KiB of value, 1 MiB in all; a key of
 * cprof's own ("traceEvents", "distributedInfo" ...) is refused. 1 when it was taken; else 0, one line on stderr that says
 * why, and nothing is changed. 0 without the library. */
CPROF_FUNCTION_(int, cprof_add_metadata, (const char *key, const char *text), (key, text), 0);

/* The same with a JSON value of any kind, checked strictly: what is no JSON (NaN too) is refused, with its position. */
CPROF_FUNCTION_(int, cprof_add_metadata_json, (const char *key, const char *json), (key, json), 0);

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif
