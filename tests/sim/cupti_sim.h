/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by the files of the simulated CUPTI.
 *
 *     cupti.c            loading, versions, errors, counters, queries
 *     cupti_activity.c   the activity API: kinds, attributes, external ids
 *     cupti_buffers.c    the client's buffers: slots, worker, flushes
 *     cupti_records.c    record layouts of each version, GetNextRecord
 *     cupti_tap.c        events of the core, made into records
 *     cupti_callbacks.c  subscribers and the callback API
 *     cupti_clock.c      time as the client sees it */
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#define CUPTI_LIB 1 /* the headers then give their prototypes default visibility */
#include <cuda.h>
#include <cupti.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tests/sim/sim.h"

#pragma GCC visibility push(hidden) /* the core has functions with the same names */

#define EXPORTED   __attribute__((visibility("default")))
#define INVALID    CUPTI_ERROR_INVALID_PARAMETER
#define KINDS      64   /* upper bound of the activity kinds */
#define CALLS      2048 /* upper bound of the call ids of a domain */
#define EXTERNALS  16   /* kinds of external correlation */
#define EXTERNAL_N 64   /* depth of the stack of ids of one kind */
#define DEPTH      8    /* nested API calls of a thread */

/* The client's function that this thread is inside. A CUDA call made there is a bug of the
 * client. */
enum inside {
    IN_NOTHING,
    IN_REQUESTED,
    IN_COMPLETED,
    IN_TIMESTAMP,
    IN_API_CALLBACK,
    IN_RESOURCE_CALLBACK,
};

struct slot;
struct buffer;

/* A lane owns the buffers of one thread, or those of the whole process. */
struct lane {
    pthread_mutex_t lock;
    struct buffer *open, *spare;
    struct buffer *closed; /* full, but with unfinished records */
    struct slot *free_slots;
    struct lane *next;
    bool orphan; /* its thread has ended; the next new thread takes it over */
};

struct thread {
    struct lane *lane;
    enum inside inside;
    uint32_t pthread_id, system_id;
    unsigned depth;
    uint64_t correlation_data[DEPTH];
    const char *symbol; /* kernel launched last */
    bool cut_off;       /* recording stopped during a call, whose id is cut_correlation */
    unsigned cut_correlation;
    uint32_t context; /* the context it used last */
    unsigned external_n[EXTERNALS];
    uint64_t external[EXTERNALS][EXTERNAL_N];
    uint64_t clock_generation; /* the segment of the clock that it used last */
    double clock_slope;
    uint64_t clock_mono[2], clock_tap;
};
struct thread *sim_self(void);

/* cupti.c */
#define SIM_COUNTERS(X)                                                                            \
    X(enables, "enables")                                                                          \
    X(disables, "disables")                                                                        \
    X(flushes, "flushes")                                                                          \
    X(forced_flushes, "forced_flushes")                                                            \
    X(forced_while_on, "forced_while_on")                                                          \
    X(concurrent_flushes, "concurrent_flushes")                                                    \
    X(finalizes, "finalizes")                                                                      \
    X(subscribes, "subscribes")                                                                    \
    X(unsubscribes, "unsubscribes")                                                                \
    X(refused_subscribes, "refused_subscribes")                                                    \
    X(register_callbacks, "register_callbacks")                                                    \
    X(register_timestamp, "register_timestamp")                                                    \
    X(kind_kernel, "kind_kernel")                                                                  \
    X(callbacks, "callbacks")                                                                      \
    X(requested, "buffers.requested")                                                              \
    X(completed, "buffers.completed")                                                              \
    X(completed_empty, "buffers.completed_empty")                                                  \
    X(refused, "buffers.refused")                                                                  \
    X(worker_deliveries, "buffers.by_worker")                                                      \
    X(withheld, "buffers.withheld")                                                                \
    X(bytes, "bytes")                                                                              \
    X(records, "records")                                                                          \
    X(dropped, "dropped")                                                                          \
    X(unfinished, "records.unfinished")                                                            \
    X(read, "records.read")                                                                        \
    X(zero_time, "records.zero_time")                                                              \
    X(overhead_data, "overhead_data")                                                              \
    X(misuse, "misuse")
struct counters {
#define X(field, name) _Atomic uint64_t field;
    SIM_COUNTERS(X)
#undef X
    _Atomic uint64_t kind[KINDS];
};
extern struct counters sim_counters;
#define COUNT(field) atomic_fetch_add_explicit(&sim_counters.field, 1, memory_order_relaxed)

const struct sim_core *sim_driver(void); /* the core, or NULL without a driver */
extern const struct sim_core *_Atomic sim_the_core;
bool sim_fault(const char *name, long *value);
/* true or false by the fault, `otherwise` without it */
bool sim_fault_on(const char *name, bool otherwise);
uint32_t sim_version(void);
/* stores the result for cuptiGetLastError() */
CUptiResult sim_result(CUptiResult result);
/* the error that a call must return, or success */
CUptiResult sim_refusal(const char *fault, bool without_driver);
void sim_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void sim_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t sim_monotonic(void); /* for waits */
void sim_sleep_ms(long ms);

/* The first statement of each simulated function. */
#define CALL(name)                                                                                 \
    do {                                                                                           \
        CUptiResult refusal_ = sim_refusal("cupti_error:" #name, false);                           \
        if (refusal_ != CUPTI_SUCCESS)                                                             \
            return sim_result(refusal_);                                                           \
    } while (0)
#define CALL_WITHOUT_DRIVER(name)                                                                  \
    do {                                                                                           \
        CUptiResult refusal_ = sim_refusal("cupti_error:" #name, true);                            \
        if (refusal_ != CUPTI_SUCCESS)                                                             \
            return sim_result(refusal_);                                                           \
    } while (0)
#define SINCE(number)                                                                              \
    do {                                                                                           \
        if (sim_version() < (number))                                                              \
            return sim_result(CUPTI_ERROR_NOT_SUPPORTED);                                          \
    } while (0)

/* cupti_activity.c */
struct settings {
    _Atomic bool kind[KINDS];
    _Atomic uint64_t kind_of_context[KINDS]; /* a bit for each context */
    _Atomic bool call[2][CALLS];             /* by enum sim_domain: calls that are recorded */
    _Atomic bool armed;                      /* something is to be recorded or called back */
    _Atomic bool zeroed;                     /* the client's buffers are zeroed */
    _Atomic bool per_thread;
    _Atomic bool system_threads;
    _Atomic bool latency;
    _Atomic bool all_syncs;
    _Atomic bool event_times;
    _Atomic bool graphs_whole; /* GRAPH_TRACE was enabled at least once */
};
extern struct settings sim_settings;
bool sim_kind_on(uint32_t kind, uint32_t context);
void sim_rearm(void);

/* cupti_records.c */
size_t sim_record_size(uint32_t kind); /* 0: no such kind in this version */
void sim_copy_record(uint8_t *to, const void *newest, uint32_t kind, size_t size);
size_t sim_start_offset(uint32_t kind); /* of `start`; `end` follows */
const char *sim_intern(const char *name, bool *is_new);
void sim_shuffle(uint8_t *memory, size_t used);

/* cupti_buffers.c */
void sim_put(void *record);             /* adds a finished record, which begins with its kind */
struct slot *sim_reserve(void *record); /* a record that a stream finishes later; NULL: dropped */
void sim_finish(struct slot *slot, uint64_t start, uint64_t end);
void sim_deliver_all(bool forced);
void sim_forget_client(void);
void sim_end(void); /* at the library's end: waits for a flush in progress */
bool sim_drop_this(void);
uint64_t sim_take_dropped(void);
void sim_leave_thread(struct thread *thread);

/* cupti_tap.c */
extern const struct sim_tap sim_cupti_tap;
void sim_dump(uint32_t kind); /* adds records of the objects that exist */
bool sim_any_context(void);
bool sim_device_of_context(uint32_t context, uint32_t *device);
void sim_overhead(CUpti_ActivityOverheadKind kind, uint64_t start, uint64_t end, void *data);

/* cupti_callbacks.c */
bool sim_called_back(enum sim_domain domain, uint32_t cbid);
bool sim_any_subscriber(void);
void sim_callback_api(struct sim_call *call, bool leave, unsigned depth);
void sim_callback_resource(uint32_t cbid, const CUpti_ResourceData *data);
void sim_callback_sync(bool stream);
void sim_drop_subscriber(void);

/* cupti_clock.c */
uint64_t sim_now(void);
uint64_t sim_device_now(void);
uint64_t sim_on_clock(uint64_t device_ns); /* converts to the client's clock; 0 stays 0 */
uint64_t sim_on_system_clock(uint64_t device_ns);
void sim_clock_keep_fresh(void); /* samples a pair if the newest is old */
bool sim_clock_is_clients(void);
void sim_clock_set(CUpti_TimestampCallbackFunc function);
void sim_clock_subscribed(void); /* cuptiSubscribe()'s effect on the clock of device times */

#pragma GCC visibility pop
