/* SPDX-License-Identifier: Apache-2.0 */
/* Captures the stack of a span or instant. */
#define _GNU_SOURCE
#include "preload/stacks/stack_capture.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/core/core.h"
#include "preload/stacks/pycheck.h"
#include "preload/stacks/pyframes.h"
#include "preload/stacks/unwind.h"

#define FRAMES        256u /* Python frames that are kept, innermost first */
#define NATIVE_FRAMES 96u
#define CUT           "[outer frames left out]"

static _Atomic bool python_on; /* set by the interpreter's thread, read by all */
static _Atomic bool ready;     /* the table exists; written once */

void stack_capture_start(const struct config *config)
{
    if (!config->with_stack)
        return;
    if (!stack_table_start((uint32_t)config->max_stacks)) {
        log_warn("no memory for CPROF_MAX_STACKS=%lld stacks; stacks are not recorded",
                 (long long)config->max_stacks);
        return;
    }
    if (config->native_stack)
        unwind_start();
    pycheck_start();
    atomic_store_explicit(&ready, true, memory_order_release);
}

/* ---- Python ---- */

void stack_capture_python(bool on)
{
    atomic_store(&python_on, on);
    if (on || (int)getpid() != cprof_owner_pid())
        return; /* a forked child has no other thread */
    /* A thread that saw python_on finishes reading. It stored reads_python without a barrier, so
     * the kernel makes one here. If it cannot, the store is visible within a microsecond anyway. */
    struct timespec pause = {.tv_nsec = 100000};
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) != 0)
        nanosleep(&pause, NULL);
    for (int i = 0; i < 1000; i++) {
        struct thread_log *log = thread_log_first();
        while (log && !atomic_load_explicit(&log->reads_python, memory_order_acquire))
            log = log->next;
        if (!log)
            return;
        nanosleep(&pause, NULL);
    }
}

/* Adds a new sequence of frames to the table, outermost first; 0: no room. */
static __attribute__((noinline)) uint32_t add_python(const struct pyframe *frames, unsigned n,
                                                     bool more, uint64_t print)
{
    struct pyframe_text text;
    uint32_t node = more ? stack_table_python(0, "", 0, CUT, sizeof CUT - 1, 0) : 0;
    if (more && !node)
        return 0;
    while (n > 0) {
        pyframes_describe(&frames[--n], &text);
        node =
            stack_table_python(node, text.file, text.file_len, text.name, text.name_len, text.line);
        if (!node)
            return 0;
    }
    return stack_table_add(print, node);
}

static uint32_t read_python(const void *top)
{
    struct pyframe frames[FRAMES];
    bool more;
    unsigned n = pyframes_walk(top, frames, FRAMES, &more);
    uint64_t print = n + (more ? 0x10000u : 0);
    for (unsigned i = 0; i < n; i++)
        print = ((print << 7 | print >> 57) ^ frames[i].print) * 0x9e3779b97f4a7c15u;
    print ^= print >> 29;
    uint32_t node = stack_table_find(print);
    return node || stack_table_full() ? node : add_python(frames, n, more, print);
}

/* Whether the memo's span is still open. */
static inline bool in_memo(const struct thread_log *log, const struct stack_memo *m)
{
    return m->at < atomic_load_explicit(&log->depth, memory_order_relaxed) &&
           atomic_load_explicit(&log->spans[m->at].id, memory_order_relaxed) == m->span;
}

/* Whether the span begins and ends inside one call of the interpreter: while it is open, the
 * calling frame and its outer frames do not change. A user's range stays open while its frame goes
 * on. */
static bool is_one_call(const struct open_span *span)
{
    return atomic_load_explicit(&span->category, memory_order_relaxed) == CAT_CPU_OP;
}

/* Returned instead of a stack's id: no stack, or no room in the table. */
enum { NONE = 0, FULL = UINT32_MAX };

static void warn_subinterpreters(void)
{
    if (once_here())
        log_warn("this Python has subinterpreters; while they exist, stacks have no Python frames "
                 "(Python 3.12 and newer have no such limit)");
}

static uint32_t python_stack(struct thread_log *log, const struct open_span *span)
{
    const void *top = pyframes_top();
    if (!top)
        return NONE;
    if (__builtin_expect(!pyframes_alone(), 0)) {
        warn_subinterpreters();
        return NONE;
    }
    struct stack_memo *m = &log->stack_memo;
    bool inside = m->span && in_memo(log, m);
    if (inside && m->frame == top)
        return m->stack;
    uint32_t stack = read_python(top);
    if (!stack)
        return FULL;
    if (span && !inside && is_one_call(span)) {
        uint64_t id = atomic_load_explicit(&span->id, memory_order_relaxed);
        *m = (struct stack_memo){top, id, (uint32_t)(span - log->spans), stack};
    }
    return stack;
}

static uint32_t python_part(struct thread_log *log, const struct open_span *span)
{
    uint32_t stack = NONE;
    atomic_store_explicit(&log->reads_python, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* stack_capture_python() makes it a barrier */
    if (atomic_load_explicit(&python_on, memory_order_relaxed))
        stack = python_stack(log, span);
    else
        pycheck_missed();
    atomic_store_explicit(&log->reads_python, false, memory_order_release);
    return stack;
}

/* ---- both ---- */

/* Native frames, innermost first. */
struct native {
    void *pcs[NATIVE_FRAMES];
    uint32_t objects[NATIVE_FRAMES]; /* objects that contain `pcs` */
    unsigned n;
};

static __attribute__((noinline)) uint32_t add_native(uint32_t node, const struct native *f,
                                                     uint64_t print)
{
    for (unsigned i = f->n; i-- > 0;) {
        node = stack_table_native(node, (uint64_t)(uintptr_t)f->pcs[i], f->objects[i]);
        if (!node)
            return FULL;
    }
    node = stack_table_add(print, node);
    return node ? node : FULL;
}

static uint32_t native_part(uint32_t python)
{
    struct native f;
    f.n = unwind_frames(f.pcs, NATIVE_FRAMES, python != NONE);
    if (f.n == 0)
        return python;
    uint64_t print = (python + 1) * 0xd1b54a32d192ed03u;
    for (unsigned i = 0; i < f.n; i++) {
        f.objects[i] = unwind_object(f.pcs[i]);
        print = ((print << 7 | print >> 57) ^ (uintptr_t)f.pcs[i] ^
                 (f.objects[i] * 0xd1b54a32d192ed03u)) *
                0x9e3779b97f4a7c15u;
    }
    print ^= print >> 29;
    uint32_t node = stack_table_find(print);
    if (node)
        return node;
    return stack_table_full() ? FULL : add_native(python, &f, print);
}

static uint32_t take_stack(struct thread_log *log, const struct open_span *span)
{
    if (!atomic_load_explicit(&ready, memory_order_acquire))
        return NONE;
    uint32_t stack = python_part(log, span);
    if (stack != FULL && unwind_ready())
        stack = native_part(stack);
    if (stack != FULL)
        return stack;
    thread_log_lost(log, LOSS_STACKS, 1);
    return NONE;
}

void stack_capture_span(struct thread_log *log, struct open_span *span)
{
    uint32_t stack = take_stack(log, span);
    if (stack)
        span_set_extra(log, span, EXTRA_STACK, stack);
}

const struct extras *stack_capture_extras(struct thread_log *log, struct extras *out)
{
    uint32_t stack = take_stack(log, NULL);
    if (!stack)
        return NULL;
    out->mask = 1u << EXTRA_STACK;
    out->value[EXTRA_STACK] = stack;
    return out;
}
