/* SPDX-License-Identifier: Apache-2.0 */
/* One log per application thread: its ring, its stack of open spans, its loss counters. A log is
 * made at the thread's first event. After the thread's end, the cprof thread empties the ring and a
 * new thread reuses the log. */
#pragma once

#include <stdint.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "writer/record/ring.h"

#define SPAN_DEPTH 512u          /* open spans per thread; Perfetto draws no more */
#define SPAN_TEXT  (64u * 1024u) /* bytes for the names of one thread's open spans */
#define SPAN_DATA  (32u * 1024u) /* bytes for their shapes and args */
#define OUTERMOST  256u          /* ended operators that may still turn out to be inside another */
/* A span id is thread number << 36 | count: unique in the process, below 2^53. */
#define SPAN_ID_THREAD_SHIFT 36
#define THREADS_MAX          (1u << 16)

/* One open span. Only its thread writes. The cprof thread also reads the atomic fields, to show
 * what is still open. They are relaxed, except `id`: the owner does not wait, so the cprof thread
 * reads `id` before and after the others. */
struct open_span {
    _Atomic uint64_t id;    /* 0 while the other fields are written */
    _Atomic uint64_t start; /* ticks */
    /* identity of the opener (RecordFunction, marker …), by which the end finds the span; other
     * threads also read it (cross_thread.c) */
    _Atomic(const void *) key;
    _Atomic int64_t sequence;        /* as in struct record */
    _Atomic uint64_t forward_thread; /* as in struct record */
    _Atomic uint32_t text_at;        /* index in thread_log.text of its text, if the name has one */
    _Atomic uint32_t name;           /* as in struct record */
    /* bytes in thread_log.data; owner writes, cprof thread copies them (open_copy.c) */
    uint16_t data_at, data_len;
    union {
        struct {
            _Atomic uint8_t category; /* enum category */
            uint8_t data_kind;        /* as data_at: enum record_data */
            _Atomic uint8_t flags;    /* enum record_flags, for its record */
            _Atomic uint8_t extras;   /* as in struct record; the values are in thread_log.extras */
        };
        _Atomic uint32_t kinds; /* all four, the first in the lowest byte; the owner only */
    };
    _Atomic uint64_t parent; /* as in struct record */
};
_Static_assert(sizeof(struct open_span) == 64, "an open span is one cache line");
#define KINDS_FLAGS  16 /* first bit of `flags` and of `extras` in `kinds` */
#define KINDS_EXTRAS 24

/* The end of one of this thread's spans, reported by the thread where it ended (cross_thread.c). */
struct ended_span {
    /* of the span; reporter writes it last (release), owner clears it; 0: free */
    _Atomic uint64_t id;
    _Atomic uint64_t ticks; /* relaxed */
};

/* The last Python stack that was read for an outermost operator. Operators inside it that were
 * called from the same Python frame have the same stack, because the frame waits for the outermost
 * operator. */
struct stack_memo {
    const void *frame;
    uint64_t span; /* id */
    uint32_t at;   /* index of the span in thread_log.spans */
    uint32_t stack;
};

/* The operators of one window (its number) that ran directly inside one span (its id, 0: none):
 * start of the first one, and duration of all. */
struct outermost {
    int64_t start_ns, ran_ns;
    uint64_t window, inside;
};

/* What an operator is to torch.distributed. C10D_TRANSFER requests a transfer. C10D_COMMS runs
 * inside it, while c10d's description of its NCCL call can be read. */
enum about_c10d { C10D_NONE, C10D_TRANSFER, C10D_COMMS };

/* A name that torch keeps at one address, with its properties (preload/torch/torch_names.h). */
#define KNOWN_BITS 9u
#define KNOWN_TEXT 40u /* bytes with the terminator */
struct known_name {
    const char *at;     /* address of the text; NULL: free entry */
    const void *about;  /* its row in the table of FLOPs, NULL = none */
    uint32_t name;      /* as in struct open_span */
    uint8_t len;        /* bytes of `text` without the terminator */
    uint8_t about_c10d; /* enum about_c10d */
    char text[KNOWN_TEXT];
};
_Static_assert(sizeof(struct known_name) == 64, "a known name is one cache line");

/* A name's properties, found by the hash of its text (preload/torch/torch_names.c). */
#define TEXT_BITS 8u
struct known_text {
    uint64_t hash;
    const void *about;  /* as in known_name */
    uint32_t name;      /* as in struct open_span; 0: seen once */
    uint8_t about_c10d; /* enum about_c10d */
};

struct thread_log {
    struct ring ring;
    _Atomic uint32_t depth; /* owner writes (release), cprof thread reads (acquire) */
    uint32_t text_used;     /* owner only: words of `text` in use */
    uint32_t data_used;     /* owner only: bytes of `data` in use */
    uint64_t next_id;       /* owner only */
    uint64_t last_end;      /* owner only: ticks at which the last span of its row ended */
    /* numbers of ends on other threads: any thread reports, the owner takes (release) */
    _Atomic uint32_t ended_told, ended_taken;
    /* owner only: the thread's count of uncaught C++ exceptions; &thread_log_not_asked: not looked
     * up */
    const uint32_t *uncaught;
    uint32_t modules_times; /* owner only: torch_modules_times at the last check */
    /* torch's logical thread id, 0 = not known yet; owner writes, cprof thread reads; relaxed */
    _Atomic uint64_t torch_thread;
    uint32_t number;      /* 1, 2 … in order of creation; constant */
    _Atomic uint32_t tid; /* gettid() of the owner; set at attach */
    /* enum thread_state; attach and thread end write, cprof thread reads and frees */
    _Atomic int state;
    _Atomic uint64_t losses[LOSS_COUNT]; /* owner adds (relaxed), cprof thread reads */
    /* spans that found no room after the end of the window in which they began; owner adds
     * (relaxed), cprof thread reads */
    _Atomic uint64_t refused_late;
    _Atomic uint64_t records;    /* records committed; owner adds (relaxed) */
    _Atomic uint64_t lost_since; /* ticks of the owner's first loss, 0 = none; relaxed */
    struct thread_log *next;     /* the next older log; constant once published */
    _Alignas(64) struct open_span spans[SPAN_DEPTH];
    _Atomic uint64_t text[SPAN_TEXT / 8]; /* of names; owner writes, cprof thread reads; relaxed */
    /* as open_span.data_at; the last slot is only read, by copies of whole slots */
    uint8_t data[SPAN_DATA + RECORD_SLOT];
    /* of the open spans, by enum record_extra; owner writes, cprof thread reads; relaxed */
    _Atomic uint64_t extras[SPAN_DEPTH][EXTRA_COUNT];
    /* index: ended_told % SPAN_DEPTH */
    struct ended_span ends[SPAN_DEPTH];
    _Alignas(64) struct known_name known[1u << KNOWN_BITS]; /* owner only; by address */
    struct known_text texts[1u << TEXT_BITS];               /* owner only; by hash */
    struct stack_memo stack_memo;                           /* owner only */
    /* true while the owner reads the interpreter's memory; owner writes, the thread that waits for
     * that reads (preload/stacks/stack_capture.c) */
    _Atomic bool reads_python;
    /* Cprof thread, at exit the exiting thread. reported: losses that the exit line leaves out,
     * those of former owners and of discarded records. at_hold: `losses` when records were first
     * held that may be discarded. */
    uint64_t reported[LOSS_COUNT], at_hold[LOSS_COUNT];
    /* cprof thread only */
    uint64_t until;           /* position up to which this pass drains */
    bool ended;               /* the thread had ended before `until` was read: no record follows */
    uint64_t named;           /* window.naming << 32 | tid of the last thread_name event */
    uint64_t named_in_flight; /* as `named`, for the flight recorder's file */
    uint64_t modules_named;   /* as `named`, for the row of the thread's modules */
    /* id of the last span taken out of the ring; its owner may not have popped it yet */
    uint64_t last_span;
    uint64_t populated; /* slots of the ring whose pages are present */
    /* the newest ended operators that are inside no other one so far (flop_stats.c) */
    struct outermost outermost[OUTERMOST];
    uint32_t n_outermost;
    /* start (ticks) of the newest library call in TF32 inside a counted span */
    uint64_t tf32_at;
    /* start (ticks) of the newest product whose FLOPs were counted or are unknown */
    uint64_t product_at;
};

/* The span's key. Its own thread. Other threads may read the key of a later span at the same
 * index. */
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

/* Sets the numbers of the span's autograd node. Its own thread. */
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

/* Sets or replaces an extra of the span. Its own thread. */
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

/* Sets the span's FLOPs, bytes and place together. where: EXTRA_DTYPE, without WHERE_RECOMPUTE,
 * which is added if needed. Its own thread. */
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

/* The thread of a record. A held record needs its own copy, because its log may pass to another
 * thread. */
struct record_owner {
    struct thread_log *log;
    uint64_t torch_thread;
    uint32_t tid;
};

/* The owner of the records in the log's ring now. cprof thread. */
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

/* The calling thread's log, made if needed. NULL: cprof is off; or, counted as a loss, there is
 * no memory, too many logs of ended threads wait for the cprof thread, or the thread's end hook
 * has run. Call it once per event, so that a loss counts once. Slow path: maps memory, takes no
 * lock, keeps errno. Calls calloc() only if thread_log_take_key() came too late. Any application
 * thread. */
struct thread_log *thread_log_attach(void);

/* Takes the key of the thread-end hook before the program makes its own keys. glibc keeps the
 * values of a process's first 32 keys in the thread's descriptor, and calls calloc() for later
 * keys. The program's calloc() may hold a lock and call cprof again. Constructor; otherwise
 * thread_log_start() takes a key. */
void thread_log_take_key(void);

/* Sets up the thread-end hook. ring_bytes: size of each ring, rounded up to a power of two. False:
 * no key is left. Once, at wake-up. */
bool thread_log_start(uint64_t ring_bytes);

/* The newest log; `next` leads to the others. cprof thread; other threads may only read atomic
 * fields. */
struct thread_log *thread_log_first(void);

/* Frees the log of an ended thread for reuse, once its ring is empty. cprof thread. */
void thread_log_recycle(struct thread_log *log);

/* Populates pages of the ring after `head`, so that the owner takes no page fault for each. Does
 * nothing before Linux 5.14. cprof thread. */
void thread_log_populate(struct thread_log *log, uint64_t head);

/* In a forked child: this thread and later ones get no log, because the logs are the parent's. */
void thread_log_abandon(void);

/* Notes when the thread's first loss was. Its own thread. */
void thread_log_note_loss(struct thread_log *log);

/* Adds n losses. log: the calling thread's, or NULL for the process-wide counters. Any thread. */
void thread_log_lost(struct thread_log *log, enum loss cause, uint64_t n);

/* Sets how much of each ring may be in use: half of it, or all. Stepping thread. */
void thread_log_halve(bool halve);

/* How many spans of all threads found no room after the end of the window in which they began.
 * `losses` does not include them. cprof thread. */
uint64_t thread_log_refused_late(void);

/* Losses outside thread logs: the writer's own, and those of threads without a log. Any thread adds
 * and reads. */
extern _Atomic uint64_t process_losses[LOSS_COUNT];

/* thread_log_attach() after one load and one test. Any application thread. */
static inline struct thread_log *thread_log_get(void)
{
    struct thread_log *log = thread_log_self;
    return __builtin_expect(log != NULL, 1) ? log : thread_log_attach();
}

/* Begins a pass: notes each ring's end and which threads have ended. cprof thread. */
void thread_log_look(void);

/* True when a ring is over a quarter full, so that it may overflow while the cprof thread handles
 * CUPTI's buffers, which can wait. cprof thread. */
bool thread_log_fills(void);
