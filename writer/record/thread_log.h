/* SPDX-License-Identifier: Apache-2.0 */
/* What cprof keeps for each application thread: its ring, its stack of open spans, its loss
 * counters. Made at the thread's first event, kept after its end until the cprof thread has emptied
 * the ring, then reused for a new thread. */
#ifndef WRITER_RECORD_THREAD_LOG_H
#define WRITER_RECORD_THREAD_LOG_H

#include <stdint.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "writer/record/ring.h"

#define SPAN_DEPTH 512u          /* open spans per thread; Perfetto draws no more either */
#define SPAN_TEXT  (64u * 1024u) /* bytes of the texts of names of the open spans of one thread */
#define SPAN_DATA  (32u * 1024u) /* bytes of their shapes and args */
#define OUTERMOST  256u          /* operators that may turn out to be inside another */
/* id = thread number << 36 | count: unique in the process, below 2^53 */
#define SPAN_ID_THREAD_SHIFT 36
#define THREADS_MAX          (1u << 16)

/* One open span. Its thread alone writes. The atomic fields are also read by the cprof thread,
 * which shows what is still open: all relaxed but `id`, which it checks before and after because
 * the owner does not wait for it. */
struct open_span {
    _Atomic uint64_t id;    /* 0 while the rest is written */
    _Atomic uint64_t start; /* ticks */
    /* who opened it, the RecordFunction, marker …; matched at the end, also by other threads
     * (cross_thread.c) */
    _Atomic(const void *) key;
    _Atomic int64_t sequence;        /* as in struct record */
    _Atomic uint64_t forward_thread; /* as in struct record */
    _Atomic uint32_t text_at;        /* first word of its text, if it has one, in thread_log.text */
    _Atomic uint32_t name;           /* as in struct record */
    uint16_t data_at, data_len;      /* owner only: bytes in thread_log.data */
    union {
        struct {
            _Atomic uint8_t category; /* enum category */
            uint8_t data_kind;        /* owner only: enum record_data */
            _Atomic uint8_t flags;    /* enum record_flags, for the record that it becomes */
            _Atomic uint8_t extras;   /* as in struct record; the values are in thread_log.extras */
        };
        _Atomic uint32_t kinds; /* all four, the first in the lowest byte; the owner only */
    };
    _Atomic uint64_t parent; /* as in struct record */
};
_Static_assert(sizeof(struct open_span) == 64, "an open span is one cache line");
#define KINDS_FLAGS  16 /* where they begin in `kinds` */
#define KINDS_EXTRAS 24

/* The end of a span of this thread, told by the thread on which it came (cross_thread.c). */
struct ended_span {
    _Atomic uint64_t id; /* of the span; written last (release), cleared by the owner; 0 = free */
    _Atomic uint64_t ticks; /* relaxed */
};

/* The last stack of Python that was read for an operator inside no other one: operators inside it
 * for which the interpreter is in the same frame have the same stack, because that frame waits for
 * the outer one. */
struct stack_memo {
    const void *frame;
    uint64_t span; /* id */
    uint32_t at;   /* place of the span on the stack of open spans */
    uint32_t stack;
};

/* Operators of one window, by number, directly inside one span, by id (0: none): the first one's
 * start, and the time of all. */
struct outermost {
    int64_t start_ns, ran_ns;
    uint64_t window, inside;
};

/* An operator that asks torch.distributed for a transfer, or the one inside of it in which c10d
 * says what it asks NCCL for. */
enum about_c10d { C10D_NONE, C10D_TRANSFER, C10D_COMMS };

/* A name that torch keeps in one place, and what is known of it (preload/torch/torch_names.h). */
#define KNOWN_BITS 9u
#define KNOWN_TEXT 40u /* bytes with the terminator */
struct known_name {
    const char *at;     /* where it stands; NULL: nothing is known here */
    const void *about;  /* its row in the table of FLOPs, NULL = none */
    uint32_t name;      /* as spans hold it */
    uint8_t len;        /* bytes of `text` without the terminator */
    uint8_t about_c10d; /* enum about_c10d */
    char text[KNOWN_TEXT];
};
_Static_assert(sizeof(struct known_name) == 64, "a known name is one cache line");

/* What is known of a name wherever it stands, found by its hash (preload/torch/torch_names.c). */
#define TEXT_BITS 8u
struct known_text {
    uint64_t hash;
    const void *about;  /* as in known_name */
    uint32_t name;      /* as spans hold it; 0: it came once */
    uint8_t about_c10d; /* enum about_c10d */
};

struct thread_log {
    struct ring ring;
    _Atomic uint32_t depth; /* owner writes (release), cprof thread reads (acquire) */
    uint32_t text_used;     /* owner only: words of `text` in use */
    uint32_t data_used;     /* owner only: bytes of `data` in use */
    uint64_t next_id;       /* owner only */
    uint64_t last_end;      /* owner only: ticks at which the last span of its row ended */
    /* numbers of spans that ended elsewhere: told by any thread, taken by the owner (release) */
    _Atomic uint32_t ended_told, ended_taken;
    /* owner only: C++ exceptions on their way; &thread_log_not_asked: not looked up yet */
    const uint32_t *uncaught;
    uint32_t modules_times; /* owner only: torch_modules_times when last looked */
    /* torch's logical thread id, 0 = not known yet; owner writes, cprof thread reads; relaxed */
    _Atomic uint64_t torch_thread;
    /* the owner has ended spans of others; owner sets, the exiting thread reads; relaxed */
    _Atomic bool ended_others;
    uint32_t number;      /* 1, 2 … in order of making; constant */
    _Atomic uint32_t tid; /* gettid() of the owner; set at attach */
    /* enum thread_state; attach and thread end write, cprof thread reads and frees */
    _Atomic int state;
    _Atomic uint64_t losses[LOSS_COUNT]; /* owner adds (relaxed), cprof thread reads */
    /* owner adds (relaxed), cprof thread reads: spans without room behind the window in which they
     * began */
    _Atomic uint64_t refused_late;
    _Atomic uint64_t records;    /* owner adds (relaxed): records committed */
    _Atomic uint64_t lost_since; /* ticks of the owner's first loss, 0 = none; relaxed */
    struct thread_log *next;     /* all logs, newest first; constant once published */
    _Alignas(64) struct open_span spans[SPAN_DEPTH];
    _Atomic uint64_t text[SPAN_TEXT / 8];  /* of names; owner writes, cprof thread reads; relaxed */
    uint8_t data[SPAN_DATA + RECORD_SLOT]; /* owner only; the last slot is read, never written */
    /* of the open spans, by enum record_extra; owner writes, cprof thread reads; relaxed */
    _Atomic uint64_t extras[SPAN_DEPTH][EXTRA_COUNT];
    /* ended_told % SPAN_DEPTH: each open span ends once, so that there is room for all */
    struct ended_span ends[SPAN_DEPTH];
    _Alignas(64) struct known_name known[1u << KNOWN_BITS]; /* owner only; by address */
    struct known_text texts[1u << TEXT_BITS];               /* owner only; by hash */
    struct stack_memo stack_memo;                           /* owner only */
    /* true while the owner reads the interpreter's memory; owner writes, who waits for its end
     * reads (preload/stacks/stack_capture.c) */
    _Atomic bool reads_python;
    /* cprof thread, or the exiting one behind it: of losses, those that former owners of the log
     * had or that were thrown away; losses when something began that may be thrown away */
    uint64_t reported[LOSS_COUNT], at_hold[LOSS_COUNT];
    /* cprof thread only */
    uint64_t until; /* position up to which this pass drains */
    bool ended;     /* the thread had ended before `until` was read: nothing comes after it */
    uint64_t named; /* window serial << 32 | tid that last got a thread_name event */
    uint64_t modules_named; /* the same for the row of its modules */
    /* id of the last span taken out of the ring: its owner may not yet have popped it */
    uint64_t last_span;
    uint64_t populated; /* slots of the ring whose pages are present */
    /* operators that ended last and were not inside others so far; flop_stats.c */
    struct outermost outermost[OUTERMOST];
    uint32_t n_outermost;
    /* ticks: when the newest library call began that was a part of something counted, in TF32
     * units */
    uint64_t tf32_at;
    uint64_t product_at; /* the same of the newest product that was counted, or is unknown */
};

/* Who opened the span. Its own thread; of another one's, the answer may be that of the place's next
 * span. */
static inline const void *span_key(const struct open_span *span)
{
    return atomic_load_explicit(&span->key, memory_order_relaxed);
}

/* The name of an open span; valid until it closes. Its own thread. */
static inline struct text span_name(const struct thread_log *log, const struct open_span *span)
{
    uint32_t at = atomic_load_explicit(&span->text_at, memory_order_relaxed);
    return name_text(atomic_load_explicit(&span->name, memory_order_relaxed),
                     (const char *)&log->text[at]);
}

/* Numbers of the autograd node, once they are known. Its own thread. */
static inline void span_set_node(struct open_span *span, int64_t sequence, uint64_t forward_thread)
{
    atomic_store_explicit(&span->sequence, sequence, memory_order_relaxed);
    atomic_store_explicit(&span->forward_thread, forward_thread, memory_order_relaxed);
}

/* Adds enum record_flags. Its own thread. */
static inline void span_add_flags(struct open_span *span, uint8_t flags)
{
    uint8_t before = atomic_load_explicit(&span->flags, memory_order_relaxed);
    atomic_store_explicit(&span->flags, (uint8_t)(before | flags), memory_order_relaxed);
}

/* Gives the span a number, or another one. Its own thread. */
static inline void span_set_extra(struct thread_log *log, struct open_span *span,
                                  enum record_extra which, uint64_t value)
{
    uint8_t before = atomic_load_explicit(&span->extras, memory_order_relaxed);
    atomic_store_explicit(&log->extras[span - log->spans][which], value, memory_order_relaxed);
    atomic_store_explicit(&span->extras, (uint8_t)(before | 1u << which), memory_order_relaxed);
}

/* Adds one of EXTRAS_INHERITED. Its own thread, before another span opens inside this one. */
static inline void span_add_context(struct open_span *span, uint8_t bit)
{
    uint8_t before = atomic_load_explicit(&span->extras, memory_order_relaxed);
    atomic_store_explicit(&span->extras, (uint8_t)(before | bit), memory_order_relaxed);
}

/* Gives the span its FLOPs, at once. where: as EXTRA_DTYPE; that they are done again is added. Its
 * own thread. */
static inline void span_set_flops(struct thread_log *log, struct open_span *span, uint64_t flops,
                                  uint64_t bytes, uint64_t where)
{
    _Atomic uint64_t *values = log->extras[span - log->spans];
    uint8_t before = atomic_load_explicit(&span->extras, memory_order_relaxed);
    uint8_t all = 1u << EXTRA_FLOPS | 1u << EXTRA_BYTES | 1u << EXTRA_DTYPE;
    if (__builtin_expect(before & EXTRAS_RECOMPUTE, 0))
        where |= WHERE_RECOMPUTE;
    atomic_store_explicit(&values[EXTRA_FLOPS], flops, memory_order_relaxed);
    atomic_store_explicit(&values[EXTRA_BYTES], bytes, memory_order_relaxed);
    atomic_store_explicit(&values[EXTRA_DTYPE], where, memory_order_relaxed);
    atomic_store_explicit(&span->extras, before | all, memory_order_relaxed);
}

/* Whose record it is: a log may have passed to another thread by the time that a held record is
 * used. */
struct record_owner {
    struct thread_log *log;
    uint64_t torch_thread;
    uint32_t tid;
};

/* The owner of what is in the log's ring now. cprof thread. */
static inline struct record_owner thread_log_owner(struct thread_log *log)
{
    return (struct record_owner){log,
                                 atomic_load_explicit(&log->torch_thread, memory_order_relaxed),
                                 atomic_load_explicit(&log->tid, memory_order_relaxed)};
}

enum thread_state { THREAD_FREE, THREAD_LIVE, THREAD_ENDED };

extern const uint32_t thread_log_not_asked __attribute__((visibility("hidden"))); /* 0 */

/* The calling thread's log; NULL before its first event. initial-exec: one load. */
extern __thread struct thread_log *thread_log_self
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The calling thread's log, made now if need be. NULL when that is not possible (no memory; too
 * many logs of threads that have ended wait for the cprof thread; the thread is past its end:
 * counted each time, so ask once for each event; or cprof is off). Slow path: maps memory, takes no
 * lock, keeps errno; calls calloc() only where thread_log_take_key() came too late. Any application
 * thread. */
struct thread_log *thread_log_attach(void);

/* Takes the key of the thread-end hook, before the program makes its own keys. glibc keeps the
 * values of the first 32 keys of a process in the thread's descriptor, and calls calloc() for those
 * of later ones: the program may have put a function of its own there, which holds a lock and comes
 * back. Constructor; without it thread_log_start() takes a key. */
void thread_log_take_key(void);

/* Makes the thread-end hook; ring_bytes is each ring's size. Once, at wake-up. false: no key to be
 * had. */
bool thread_log_start(uint64_t ring_bytes);

/* First of all logs, for walking by `next`. cprof thread; any thread for reading atomic fields. */
struct thread_log *thread_log_first(void);

/* Gives an ended, emptied log back for reuse. cprof thread. */
void thread_log_recycle(struct thread_log *log);

/* Makes the ring's next pages behind `head` present before the owner comes to them, so that it does
 * not fault them in one by one. An old kernel refuses; then it does. cprof thread. */
void thread_log_populate(struct thread_log *log, uint64_t head);

/* In a forked child: the logs belong to the parent; this thread and all later ones get none. */
void thread_log_abandon(void);

/* Notes when the thread's first loss was. Its own thread. */
void thread_log_note_loss(struct thread_log *log);

/* Adds one loss; log may be NULL (then it goes to a process-wide counter). Any thread. */
void thread_log_lost(struct thread_log *log, enum loss cause, uint64_t n);

/* Spans of all threads that found no room when they ended behind the window in which they began, so
 * far: in no `losses`. cprof thread. */
uint64_t thread_log_refused_late(void);

/* Losses that belong to no thread (writer's own, and threads without a log). cprof thread adds and
 * reads; others add. */
extern _Atomic uint64_t process_losses[LOSS_COUNT];

/* The calling thread's log for recording; NULL when there is none to be had. */
static inline struct thread_log *thread_log_get(void)
{
    struct thread_log *log = thread_log_self;
    return __builtin_expect(log != NULL, 1) ? log : thread_log_attach();
}

/* Notes how far each ring is filled, and which threads have ended, for the pass that begins. cprof
 * thread. */
void thread_log_look(void);

/* True when a ring may overflow in the time that CUPTI's buffers, which can wait, take. cprof
 * thread. */
bool thread_log_fills(void);

#endif
