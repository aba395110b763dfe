/* SPDX-License-Identifier: Apache-2.0 */
/* Turns torch's RecordFunction callbacks into spans, and marks steps at the ranges of optimizers
 * and DataLoaders. Application threads, inside torch; no lock, no allocation. Nothing here may
 * throw or keep a pointer into torch. */
#include "preload/torch/torch.h"

#include <string.h>

#include "preload/collectives/collectives.h"
#include "preload/flops/flops.h"
#include "preload/core/core.h"
#include "preload/stacks/stacks.h"
#include "preload/steps/steps.h"
#include "preload/link/link.h"
#include "preload/torch/torch_modules.h"
#include "preload/torch/torch_names.h"
#include "writer/writer.h"

#define CHECKS      64    /* callbacks checked before the layout is trusted */
#define SHAPES_MAX  4096u /* bytes of shapes of one operator */
#define STEP_RANGE  "Optimizer.step#"
#define BATCH_RANGE "enumerate(DataLoader)#"
#define EVALUATE    "autograd::engine::evaluate_function: "

static _Atomic int checks_left = CHECKS;

/* Optimizer ranges open on this thread: a step() that calls super().step() is one step. */
static __thread uint32_t optimizer_depth;
/* the range at this depth marks a step at its end; 0: none */
static __thread uint32_t marking_depth;

/* The optimizer that marks steps, unless CPROF_STEP chooses a class: the first one that steps.
 * Another one replaces it once it is freed, or has missed more than REST steps of others (REST_NEW
 * if the other is not its companion): the program has gone on to another model. Any thread. */
#define REST     100u
#define REST_NEW 10u
static const void *_Atomic counting_optimizer; /* identity of the optimizer, NULL: none yet */
static const void *_Atomic counting_type;      /* its type; NULL: the identity is no object */
static _Atomic unsigned resting;               /* steps of other optimizers since its last step */
static const void *_Atomic other_optimizer;    /* the last other optimizer that stepped */
static const void *_Atomic companion; /* another one that stepped between two of its steps */

static int64_t sequence_of(const struct torch_layout *l, const void *function)
{
    int64_t n;
    memcpy(&n, (const char *)function + l->rf_sequence_nr, sizeof n);
    return n;
}

static uint64_t function_number_at(const void *function, uint16_t offset)
{
    uint64_t n;
    memcpy(&n, (const char *)function + offset, sizeof n);
    return n;
}

static uint8_t scope_of(const struct torch_layout *l, const void *function)
{
    return ((const uint8_t *)function)[l->rf_scope];
}

/* Tests the layout on the first real callbacks: what it yields must be plausible, else operators
 * are off. cprof cannot run a test operator, because it would run inside torch's allocator. */
static bool fields_are_plausible(const void *function, const char *name)
{
    const struct torch_layout *l = torch_api.layout;
    size_t len = name ? strnlen(name, 4096) : 0;
    bool printable = len > 0;
    for (size_t i = 0; i < len && i < 64; i++)
        printable = printable && (unsigned char)name[i] >= 0x20;
    int64_t sequence = sequence_of(l, function);
    uint64_t inputs = function_number_at(function, l->rf_inputs_size);
    return printable && scope_of(l, function) < TORCH_SCOPE_COUNT &&
           scope_of(l, function) != TORCH_SCOPE_USER_SCOPE && sequence >= -1 &&
           sequence < INT64_C(1) << 48 &&
           function_number_at(function, l->rf_fwd_thread_id) < 1u << 24 &&
           function_number_at(function, l->rf_thread_id) - 1 < 1u << 24 && inputs < 4096;
}

static bool layout_is_trusted(const void *function, const char *name)
{
    if (__builtin_expect(atomic_load_explicit(&checks_left, memory_order_relaxed) == 0, 1))
        return true;
    if (atomic_load(&checks_left) < 0)
        return false;
    if (fields_are_plausible(function, name)) {
        int left = atomic_load(&checks_left);
        if (left > 0)
            atomic_compare_exchange_strong(&checks_left, &left, left - 1);
        return true;
    }
    atomic_store(&checks_left, -1);
    torch_operators_broken("operators", "its operators do not match their layout");
    return false;
}

/* Copies a backward node's numbers to the engine's range around it, as Kineto does. Skips spans
 * that emit_itt opened between the two. Returns the range, or NULL. */
static struct open_span *copy_node_to_engine_range(struct thread_log *log,
                                                   const struct open_span *node)
{
    uint32_t depth = atomic_load_explicit(&log->depth, memory_order_relaxed);
    uint32_t at = depth < 2 ? 0 : depth - 1;
    while (at > 0 && (log->spans[at - 1].flags & REC_ENDS_LATE))
        at--;
    if (at == 0)
        return NULL;
    struct open_span *range = &log->spans[at - 1];
    bool opened_just_before = atomic_load_explicit(&range->id, memory_order_relaxed) + depth - at ==
                              atomic_load_explicit(&node->id, memory_order_relaxed);
    struct text name = span_name(log, range);
    if (!opened_just_before || name.len < sizeof EVALUATE - 1 ||
        memcmp(name.at, EVALUATE, sizeof EVALUATE - 1) != 0)
        return NULL;
    span_set_node(range, node->sequence, node->forward_thread);
    span_add_flags(range, REC_BORROWED);
    return range;
}

/* Marks forward work that is repeated in the backward pass (torch.utils.checkpoint): an operator
 * with grad mode on, in a node that began with grad mode off. A node of a double backward begins
 * with grad mode on: its work is new. torch gives an operator a sequence number if grad mode is
 * on. */
static inline void note_recompute(struct open_span *span, int64_t sequence, bool is_node)
{
    if (is_node) {
        if (torch_api.grad_mode && !torch_api.grad_mode())
            span_add_context(span, EXTRAS_GRAD_OFF);
    } else if (sequence >= 0 &&
               atomic_load_explicit(&span->extras, memory_order_relaxed) & EXTRAS_GRAD_OFF) {
        span_add_context(span, EXTRAS_RECOMPUTE);
    }
}

/* The C++ library's count of uncaught exceptions on this thread. */
static __attribute__((noinline, cold)) const uint32_t *find_uncaught(void)
{
    static const uint32_t none;
    return torch_api.exceptions ? &torch_api.exceptions()->uncaught : &none;
}

/* Adds the count of uncaught exceptions to `where`. It may be above 0, because destructors run
 * operators during unwinding. */
static uint64_t add_uncaught(struct thread_log *log, uint64_t where)
{
    if (__builtin_expect(log->uncaught == &thread_log_not_asked, 0))
        log->uncaught = find_uncaught();
    return where | (uint64_t)(*log->uncaught & 0xffu) << WHERE_UNCAUGHT_SHIFT;
}

/* An uncaught exception exists as the operator ends. If it was thrown inside, the operator did not
 * finish, and its FLOPs are dropped. */
static __attribute__((noinline, cold)) void drop_flops_of_unfinished(struct thread_log *log,
                                                                     const void *function)
{
    uint32_t at = atomic_load_explicit(&log->depth, memory_order_relaxed);
    while (at > 0 && span_key(&log->spans[at - 1]) != function)
        at--;
    if (at == 0)
        return;
    struct open_span *span = &log->spans[at - 1];
    uint8_t extras = atomic_load_explicit(&span->extras, memory_order_relaxed);
    if (!(extras & 1u << EXTRA_DTYPE))
        return;
    uint64_t where = atomic_load_explicit(&log->extras[at - 1][EXTRA_DTYPE], memory_order_relaxed);
    if (*log->uncaught > where >> WHERE_UNCAUGHT_SHIFT) {
        uint8_t counts = 1u << EXTRA_FLOPS | 1u << EXTRA_BYTES | 1u << EXTRA_DTYPE;
        atomic_store_explicit(&span->extras, (uint8_t)(extras & ~counts), memory_order_relaxed);
        return;
    }
    span_set_extra(log, span, EXTRA_DTYPE, where & ((UINT64_C(1) << WHERE_UNCAUGHT_SHIFT) - 1));
}

/* Sets the span's FLOPs, unless an operator around it already counts them. */
static void count_flops(struct thread_log *log, struct open_span *span, const void *function,
                        const struct flops_row *row)
{
    if (atomic_load_explicit(&span->flags, memory_order_relaxed) & REC_IN_COUNTED)
        return;
    struct flops_count n;
    enum flops_told told = flops_of(row, function, &n);
    if (told == FLOPS_UNKNOWN)
        span_set_extra(log, span, EXTRA_DTYPE,
                       add_uncaught(log, FLOPS_NOT_KNOWN | (n.product ? WHERE_PRODUCT : 0)));
    if (told != FLOPS_COUNTED)
        return;
    uint64_t where = record_where(n.dtype, (uint32_t)n.device_type, (uint32_t)n.device_index);
    span_set_flops(log, span, n.flops, n.bytes,
                   add_uncaught(log, where | (n.product ? WHERE_PRODUCT : 0)));
}

/* Stores c10d's description of the transfer, and the inputs if shapes are recorded. False: there is
 * no description. */
static bool store_comms(struct thread_log *log, struct open_span *span, const void *function)
{
    uint8_t shapes[COLLECTIVE_SHAPES], args[COLLECTIVE_ARGS];
    struct torch_comms comms;
    if (!torch_comms_read(&comms))
        return false;
    uint32_t n = gate_open(GATE_SHAPES) ? torch_shapes(function, shapes, sizeof shapes) : 0;
    n = collective_of_comms(&comms, shapes, n, args);
    uint8_t *room = span_data_room(log, span, n);
    if (room) {
        memcpy(room, args, n);
        span_data_done(log, span, DATA_ARGS, n);
    }
    return true;
}

/* Handles operators of torch.distributed. True: the span has its data. */
static __attribute__((noinline)) bool store_c10d(struct thread_log *log, struct open_span *span,
                                                 const void *function, const char *name,
                                                 uint8_t about)
{
    if (about == C10D_TRANSFER)
        torch_groups_note(function, name);
    return about == C10D_COMMS && store_comms(log, span, function);
}

static inline void open_operator(struct thread_log *log, const void *function, const char *name,
                                 uint32_t gate)
{
    torch_modules_enter(log);
    struct known_name unkept;
    const struct known_name *known = torch_name(log, name, &unkept);
    struct open_span *span = span_open(log, function, CAT_CPU_OP, name, known->name);
    if (!span)
        return;
    const struct torch_layout *l = torch_api.layout;
    int64_t sequence = sequence_of(l, function);
    uint64_t thread = function_number_at(function, l->rf_thread_id);
    span_set_node(span, sequence, function_number_at(function, l->rf_fwd_thread_id));
    atomic_store_explicit(&log->torch_thread, thread, memory_order_relaxed);
    struct open_span *engine_range = NULL;
    uint8_t scope = scope_of(l, function);
    if (scope == TORCH_SCOPE_BACKWARD_FUNCTION)
        engine_range = copy_node_to_engine_range(log, span);
    else if (__builtin_expect(scope != TORCH_SCOPE_FUNCTION, 0))
        span_add_flags(span, REC_LOOSE); /* TorchScript may end it on another thread, later */
    note_recompute(span, sequence, scope == TORCH_SCOPE_BACKWARD_FUNCTION);
    if (torch_modules_wanted)
        torch_modules_operator(log, span, engine_range, span->sequence, span->forward_thread,
                               thread);
    if (known->about && gate & GATE_FLOPS)
        count_flops(log, span, function, known->about);
    uint8_t about_c10d = known->about_c10d;
    if (__builtin_expect(gate & GATE_STACKS, 0))
        stacks_open_span(log, span);
    if (__builtin_expect(about_c10d != C10D_NONE, 0) &&
        store_c10d(log, span, function, name, about_c10d))
        return;
    if (!(gate & GATE_SHAPES) || function_number_at(function, l->rf_inputs_size) == 0)
        return;
    uint8_t *room = span_data_room(log, span, SHAPES_MAX);
    if (room)
        span_data_done(log, span, DATA_SHAPES, torch_shapes(function, room, SHAPES_MAX));
}

/* name: the operator's; NULL: torch is asked. */
static inline void start_operator(const void *function, const char *name)
{
    uint32_t gate = atomic_load_explicit(&writer_gate, memory_order_relaxed);
    if (!(gate & GATE_SPANS) || !guard_enter_event())
        return;
    struct thread_log *log = thread_log_get();
    if (log && !name)
        name = torch_api.name(function);
    if (log && layout_is_trusted(function, name))
        open_operator(log, function, name, gate);
    guard_leave();
}

/* flatten: gcc calls functions that have a second caller, here torch_operator_begin(). */
__attribute__((flatten)) void **torch_operator_start(void **context, const void *function)
{
    *context = NULL;
    start_operator(function, NULL);
    return context;
}

void torch_operator_begin(const void *function, const char *name)
{
    start_operator(function, name);
}

static inline uint64_t close_span(const void *function)
{
    struct thread_log *log = thread_log_self;
    if (!log || !guard_enter())
        return 0;
    uint64_t ticks = span_close(log, function);
    guard_leave();
    return ticks;
}

/* The rare end of an operator: no log, inside cprof, or an uncaught exception. */
static __attribute__((noinline, cold)) uint64_t close_rare_span(const void *function)
{
    struct thread_log *log = thread_log_self;
    if (log && *log->uncaught)
        drop_flops_of_unfinished(log, function);
    return close_span(function);
}

void torch_operator_end(const void *function, void *context)
{
    (void)context;
    struct thread_log *log = thread_log_self;
    uint64_t ticks;
    if (__builtin_expect(log && !*log->uncaught && guard_enter(), 1)) {
        ticks = span_close(log, function);
        guard_leave();
    } else {
        ticks = close_rare_span(function);
    }
    if (__builtin_expect(ticks == 0, 0) && !torch_stopped())
        span_ended_elsewhere(function);
}

static bool starts_with(const char *text, const char *prefix, size_t len)
{
    return strncmp(text, prefix, len) == 0;
}

/* The optimizer object, if the interpreter's frames can be read. Else a hash of the range's name,
 * which is odd and so no object's address. */
static const void *optimizer_identity(const char *name)
{
    const void *object = python_first_argument("wrapper", "optimizer.py");
    if (object)
        return object;
    return (const void *)(uintptr_t)(hash_text(name, strlen(name)) | 1);
}

static bool is_gone(const void *optimizer)
{
    const void *type = atomic_load(&counting_type);
    return type && python_is_gone(optimizer, type);
}

/* Counts a step of another optimizer. True: it may take over. */
static bool has_rested(const void *optimizer)
{
    unsigned most = optimizer == atomic_load(&companion) ? REST : REST_NEW;
    atomic_store(&other_optimizer, optimizer);
    return atomic_fetch_add(&resting, 1) >= most;
}

static bool marks_steps(const void *optimizer)
{
    const void *counting = atomic_load(&counting_optimizer);
    if (counting && counting != optimizer && !is_gone(counting) && !has_rested(optimizer))
        return false;
    if (counting != optimizer) {
        atomic_store(&counting_type, (uintptr_t)optimizer & 1 ? NULL : python_type_of(optimizer));
        if (!atomic_compare_exchange_strong(&counting_optimizer, &counting, optimizer))
            return false; /* another thread was first */
    }
    if (atomic_exchange(&resting, 0))
        atomic_store(&companion, atomic_load(&other_optimizer));
    return true;
}

static void optimizer_began(const char *name)
{
    static const char end[] = ".step";
    const char *class = name + sizeof STEP_RANGE - 1;
    size_t len = strlen(class), tail = sizeof end - 1;
    if (len > tail && memcmp(class + len - tail, end, tail) == 0)
        len -= tail;
    bool outermost = optimizer_depth++ == 0;
    if (outermost)
        writer_optimizer_steps(class, len);
    if (marking_depth || !steps_listen_to(STEP_OPTIMIZER))
        return;
    const char *glob = config_step_name(CONFIG_STEP_OPTIMIZER);
    if (*glob ? glob_match(glob, class, len) : outermost && marks_steps(optimizer_identity(name)))
        marking_depth = optimizer_depth;
}

static void optimizer_ended(uint64_t ticks)
{
    if (optimizer_depth-- != marking_depth)
        return;
    marking_depth = 0;
    steps_mark(STEP_OPTIMIZER, ticks);
}

/* Called by the glue in torch_glue.c, if ranges cannot be recorded. With the GIL held. */
__attribute__((visibility("default"))) void cprof_optimizer_ended(const void *optimizer,
                                                                  const char *class);
void cprof_optimizer_ended(const void *optimizer, const char *class)
{
    if (torch_stopped())
        return;
    size_t len = strlen(class);
    writer_optimizer_steps(class, len);
    const char *glob = config_step_name(CONFIG_STEP_OPTIMIZER);
    if (steps_listen_to(STEP_OPTIMIZER) &&
        (*glob ? glob_match(glob, class, len) : marks_steps(optimizer)))
        steps_mark(STEP_OPTIMIZER, 0);
}

/* A batch was fetched, and the next fetch ends its step. Any thread. */
static _Atomic bool batch_in_work;

/* This thread's epochs. An epoch ends with StopIteration of an iterator whose batches were followed
 * by steps; validation loops have no steps, so they end no epoch. If batches are fetched ahead, by
 * Accelerate or the program, the last step comes after the StopIteration. Iterators are identities,
 * never dereferenced. */
static __thread struct {
    const void *range;   /* torch's range of the current fetch */
    const void *fetched; /* iterator of the last batch; NULL: it ended */
    const void *trained; /* last iterator with a batch that a step followed */
    uint32_t marks;      /* steps_marked_here() when the last batch came */
    const void *counted; /* iterator that the following fields describe */
    uint64_t batches;    /* its batches so far */
    uint64_t stepless;   /* batches that a fetch followed without a step in between */
    bool first_stepless; /* its first batch was one of them */
} epoch;

static const void *dataloader_iterator(void)
{
    return python_first_local("__next__", "dataloader.py");
}

/* The next fetch begins: notes whether a step followed the last batch. */
static void note_step_after_batch(void)
{
    if (epoch.marks != steps_marked_here()) {
        epoch.trained = epoch.fetched;
        return;
    }
    epoch.stepless++;
    epoch.first_stepless = epoch.first_stepless || epoch.batches == 1;
}

static void count_batch(const void *iterator)
{
    if (iterator != epoch.counted) {
        epoch.counted = iterator;
        epoch.batches = epoch.stepless = 0;
        epoch.first_stepless = false;
    }
    epoch.batches++;
}

/* Whether the last batch's step is still to come: only the first batch was followed by a fetch
 * without a step. Accelerate may make one step of several batches, so it is recognized by its
 * frame. */
static bool fetches_ahead(void)
{
    return (epoch.batches > 1 && epoch.stepless == 1 && epoch.first_stepless) ||
           python_first_local("__iter__", "accelerate/data_loader.py");
}

static void fetch_began(const void *range)
{
    steps_end_pending_epoch();
    epoch.range = range;
    if (steps_listen_to(STEP_DATALOADER) && atomic_exchange(&batch_in_work, false))
        steps_mark(STEP_DATALOADER, 0);
    if (epoch.fetched)
        note_step_after_batch();
}

/* An epoch's last fetch ends in StopIteration without a batch, so the next epoch's first fetch ends
 * no step. */
static void fetch_ended(void)
{
    enum python_exit how = python_left("profiler.py");
    const void *iterator = dataloader_iterator();
    epoch.range = NULL;
    if (how == PYTHON_LEFT) {
        if (steps_listen_to(STEP_DATALOADER))
            atomic_store(&batch_in_work, true);
        epoch.fetched = iterator;
        epoch.marks = steps_marked_here();
        count_batch(iterator);
        return;
    }
    bool trained = iterator && iterator == epoch.trained;
    epoch.fetched = NULL;
    if (how == PYTHON_STOPPED && trained) {
        epoch.trained = NULL;
        if (fetches_ahead())
            steps_end_epoch_next();
        else
            steps_end_epoch(false);
    }
    epoch.counted = NULL;
}

/* Warns in a forked child, whose torch still has the callbacks. */
static void warn_not_traced(const char *name)
{
    if (starts_with(name, STEP_RANGE, sizeof STEP_RANGE - 1))
        forked_marks();
}

/* Stores what a range of c10d transfers. */
static void store_transfer(struct thread_log *log, struct open_span *span, const void *function,
                           const char *name)
{
    uint8_t shapes[COLLECTIVE_SHAPES], args[COLLECTIVE_ARGS];
    struct torch_group group;
    bool known = torch_groups_take(function, name, &group);
    uint32_t n = torch_shapes(function, shapes, sizeof shapes);
    n = collective_of_shapes(name, shapes, n, known ? &group : NULL, args);
    uint8_t *room = n ? span_data_room(log, span, n) : NULL;
    if (room) {
        memcpy(room, args, n);
        span_data_done(log, span, DATA_ARGS, n);
    }
}

/* The context of a recorded range, which torch deletes at the end. Its class therefore has
 * destructors, which do nothing. In the class's table, the complete and the deleting destructor
 * follow two words (Itanium C++ ABI, 2.5.2). */
static void destroy_nothing(void *object)
{
    (void)object;
}
static const struct {
    ptrdiff_t to_top;
    const void *type;
    void (*destructors[2])(void *);
} recorded_class = {0, NULL, {destroy_nothing, destroy_nothing}};
static const void *const recorded = recorded_class.destructors;

/* False: the range is not recorded. */
static bool open_range(const void *function, const char *name)
{
    struct thread_log *log = thread_log_get();
    if (log)
        torch_modules_enter(log);
    struct open_span *span =
        log ? span_open(log, function, CAT_USER_ANNOTATION, name, (uint32_t)strlen(name)) : NULL;
    stacks_open_span(log, span);
    /* profilers in Python may open and close ranges without nesting */
    if (span)
        span_add_flags(span, REC_LOOSE);
    if (span && collective_is_range(name) &&
        atomic_load_explicit(&checks_left, memory_order_relaxed) >= 0)
        store_transfer(log, span, function, name);
    return span;
}

/* This range is not recorded. Closes spans that ended on other threads, because they began while
 * recording and belong into that file. */
static void close_ended_elsewhere(void)
{
    struct thread_log *log = thread_log_self;
    if (log && guard_enter()) {
        spans_take_ended(log);
        guard_leave();
    }
}

void **torch_range_start(void **context, const void *function)
{
    *context = NULL;
    const char *name = torch_api.name(function);
    if (!name)
        return context;
    symbol_look();
    if (torch_stopped()) {
        warn_not_traced(name);
        return context;
    }
    if (starts_with(name, BATCH_RANGE, sizeof BATCH_RANGE - 1))
        fetch_began(function); /* first, because the fetch's range belongs to the new step */
    else if (starts_with(name, STEP_RANGE, sizeof STEP_RANGE - 1))
        optimizer_began(name);
    if (!gate_open(GATE_RANGES)) {
        close_ended_elsewhere();
    } else if (guard_enter_event()) {
        if (open_range(function, name))
            *context = (void *)(uintptr_t)&recorded;
        guard_leave();
    }
    return context;
}

void torch_range_end(const void *function, void *context)
{
    uint64_t ticks = close_span(function);
    if (torch_stopped())
        return;
    if (ticks == 0 && context)
        span_ended_elsewhere(function);
    if (function == epoch.range)
        fetch_ended();
    if (optimizer_depth == 0)
        return;
    const char *name = torch_api.name(function);
    if (name && starts_with(name, STEP_RANGE, sizeof STEP_RANGE - 1))
        optimizer_ended(ticks);
}
