/* SPDX-License-Identifier: Apache-2.0 */
/* What cprof keeps for each application thread: its ring, its stack of open spans, its loss counters. Made at the thread's
 * first event, kept after its end until the cprof thread has emptied the ring, then reused for a new thread. */
#ifndef WRITER_THREAD_LOG_H
#define WRITER_THREAD_LOG_H

#include <stdint.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "writer/ring.h"

#define SPAN_DEPTH 512u          /* open spans per thread; Perfetto draws no more either */
#define SPAN_TEXT  (64u * 1024u) /* bytes of names and shapes of the open spans of one thread */
#define SPAN_ID_THREAD_SHIFT                                                                       \
    36 /* id = thread number << 36 | count: unique in the process, below 2^53 */
#define THREADS_MAX (1u << 16)

/* One open span. Written by its thread only; the cprof thread reads it to show what is still open, and checks `id` before and
 * after because the owner does not wait for it. */
struct open_span {
    _Atomic uint64_t
        id; /* owner writes, cprof thread reads; 0 = not recorded (begun while nothing was recorded) */
    uint64_t start;  /* ticks */
    const void *key; /* who opened it: the RecordFunction, marker …; matched at the end */
    int64_t sequence;
    uint64_t forward_thread;
    uint32_t text_at; /* offset of text, then data, in thread_log.text */
    uint32_t text_len;
    uint32_t data_len;
    uint8_t category;
    uint8_t data_kind;
    uint8_t flags; /* enum record_flags, for the record that it becomes */
    uint8_t pad;
    uint64_t parent;
};
_Static_assert(sizeof(struct open_span) == 64, "an open span is one cache line");

struct thread_log {
    struct ring ring;
    _Atomic uint32_t depth; /* owner writes (release), cprof thread reads (acquire) */
    uint32_t text_used;     /* owner only: bytes of `text` in use */
    uint64_t next_id;       /* owner only */
    uint64_t torch_thread;  /* owner only: torch's logical thread id, 0 = not asked yet */
    uint32_t number;        /* 1, 2 … in order of making; constant */
    _Atomic uint32_t tid;   /* gettid() of the owner; set at attach */
    _Atomic int
        state; /* enum thread_state; attach and thread end write, cprof thread reads and frees */
    _Atomic uint64_t losses[LOSS_COUNT]; /* owner adds (relaxed), cprof thread reads */
    _Atomic uint64_t records;            /* owner adds (relaxed): records committed */
    struct thread_log *next;             /* all logs, newest first; constant once published */
    struct open_span spans[SPAN_DEPTH];
    char text[SPAN_TEXT];
    /* cprof thread only */
    uint64_t until; /* position up to which this pass drains */
    bool ended;     /* the thread had ended before `until` was read: nothing comes after it */
    uint64_t named; /* window serial << 32 | tid that last got a thread_name event */
    bool populated; /* the ring's first pages were touched for the owner */
};

enum thread_state { THREAD_FREE, THREAD_LIVE, THREAD_ENDED };

/* The calling thread's log; NULL before its first event. initial-exec: one load. */
extern __thread struct thread_log *thread_log_self
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The calling thread's log, made now if need be. NULL when that is not possible (no memory: counted; the thread is past its
 * end; cprof is off). Slow path: maps memory, takes no lock. Any application thread. */
struct thread_log *thread_log_attach(void);

/* Makes the thread-end hook; ring_bytes is each ring's size. Once, at wake-up. false: no key to be had. */
bool thread_log_start(uint64_t ring_bytes);

/* First of all logs, for walking by `next`. cprof thread. */
struct thread_log *thread_log_first(void);

/* Gives an ended, emptied log back for reuse. cprof thread. */
void thread_log_recycle(struct thread_log *log);

/* In a forked child: the logs belong to the parent; this thread and all later ones get none. */
void thread_log_abandon(void);

/* Adds one loss; log may be NULL (then it goes to a process-wide counter). Any thread. */
void thread_log_lost(struct thread_log *log, enum loss cause, uint64_t n);

/* Losses that belong to no thread (writer's own, and threads without a log). cprof thread adds and reads; others add. */
extern _Atomic uint64_t process_losses[LOSS_COUNT];

/* The calling thread's log for recording; NULL when there is none to be had. */
static inline struct thread_log *thread_log_get(void)
{
    struct thread_log *log = thread_log_self;
    return __builtin_expect(log != NULL, 1) ? log : thread_log_attach();
}

#endif
