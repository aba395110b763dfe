/* SPDX-License-Identifier: Apache-2.0 */
/* The client's buffers.
 *
 *     application thread: takes a slot in the lane's open buffer;
 *                         without room, calls bufferRequested inside the API call
 *     stream's thread:    fills the slot when the work is done
 *     worker thread:      delivers buffers that are full and complete
 *     FlushAll's thread:  delivers other complete buffers (forced: all buffers)
 *
 * A slot is taken at the launch. So one unfinished record holds back its whole buffer, as in the
 * real CUPTI. */
#include "tests/sim/cupti_sim.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* An unfinished record. */
struct slot {
    struct slot *next, *previous; /* in the buffer's list */
    struct lane *lane;
    struct buffer *buffer; /* NULL once the buffer was delivered without the record */
    size_t offset;
    uint8_t *copy; /* the record's bytes, for a later buffer */
    uint64_t reserved;
};

struct buffer {
    struct buffer *next, *previous;
    struct lane *lane;
    uint8_t *memory;
    size_t size, used, records, most; /* most: 0 for no limit */
    struct slot *unfinished;
    uint64_t due; /* CLOCK_MONOTONIC; the buffer is not delivered earlier */
    bool is_closed;
    bool has_device; /* contains a DEVICE record */
};

static _Atomic(CUpti_BuffersCallbackRequestFunc) client_request;
static _Atomic(CUpti_BuffersCallbackCompleteFunc) client_complete;

static pthread_mutex_t lanes_lock = PTHREAD_MUTEX_INITIALIZER;
static struct lane *lanes;
static struct lane whole_process = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_changed = PTHREAD_COND_INITIALIZER;
static struct buffer *queue_head, **queue_tail = &queue_head;
static unsigned in_flight; /* deliveries in progress on the worker */
/* The process that has the worker. Written under the queue's lock, read by any thread. */
static _Atomic pid_t worker_pid;
static uint64_t flush_period_ns;

static _Atomic uint64_t dropped;

uint64_t sim_take_dropped(void)
{
    return atomic_exchange(&dropped, 0);
}

static void drop(void)
{
    atomic_fetch_add(&dropped, 1);
    COUNT(dropped);
}

/* Fault drop=N. */
bool sim_drop_this(void)
{
    static _Atomic uint64_t n;
    long every = 0;
    if (!sim_fault("drop", &every) || every <= 0 || ++n % (uint64_t)every)
        return false;
    drop();
    return true;
}

/* ---- delivery ---- */

static void deliver(struct buffer *b)
{
    CUpti_BuffersCallbackCompleteFunc complete = atomic_load(&client_complete);
    if (b->used && sim_fault_on("shuffle", false))
        sim_shuffle(b->memory, b->used);
    COUNT(completed);
    if (!b->used)
        COUNT(completed_empty);
    atomic_fetch_add(&sim_counters.bytes, b->used);
    if (complete) {
        struct thread *self = sim_self();
        enum inside before = self->inside;
        self->inside = IN_COMPLETED;
        complete(NULL, 0, b->memory, b->size, b->used);
        self->inside = before;
    }
    free(b);
}

static struct timespec at_time(uint64_t monotonic_ns)
{
    return (struct timespec){(time_t)(monotonic_ns / 1000000000u),
                             (long)(monotonic_ns % 1000000000u)};
}

/* Takes the first buffer that is due. The caller holds the queue's lock. */
static struct buffer *take_due(uint64_t now)
{
    for (struct buffer **at = &queue_head; *at; at = &(*at)->next) {
        struct buffer *b = *at;
        if (b->due > now)
            continue;
        *at = b->next;
        if (queue_tail == &b->next)
            queue_tail = at;
        return b;
    }
    return NULL;
}

static void *worker(void *unused)
{
    (void)unused;
    uint64_t next_round = 0;
    pthread_mutex_lock(&queue_lock);
    for (;;) {
        uint64_t now = sim_monotonic();
        struct buffer *b = now >= next_round ? take_due(now) : NULL;
        if (b) {
            long slow = 0;
            in_flight++;
            pthread_mutex_unlock(&queue_lock);
            if (sim_fault("slow_worker_ms", &slow))
                sim_sleep_ms(slow);
            COUNT(worker_deliveries);
            deliver(b);
            pthread_mutex_lock(&queue_lock);
            in_flight--;
            pthread_cond_broadcast(&queue_changed);
            continue;
        }
        if (now >= next_round)
            next_round = now + flush_period_ns;
        uint64_t until = next_round > now ? next_round : now + 1000000000u;
        for (struct buffer *q = queue_head; q; q = q->next)
            if (q->due > now && q->due < until && next_round <= now)
                until = q->due;
        struct timespec t = at_time(until);
        pthread_cond_timedwait(&queue_changed, &queue_lock, &t);
        if (!flush_period_ns)
            next_round = 0;
    }
    return NULL;
}

/* Starts the worker. The caller holds the queue's lock. The real worker, too, exists only while
 * buffers do. */
static void start_worker(void)
{
    if (worker_pid == getpid())
        return;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&queue_changed, &attributes);
    pthread_t thread;
    if (pthread_create(&thread, NULL, worker, NULL) != 0)
        sim_die("no thread for the worker");
    pthread_setname_np(thread, "sim-cupti");
    pthread_detach(thread);
    worker_pid = getpid();
}

/* Faults late_ms and late_device_ms: the delay of the buffer's delivery in ns, 0 for none. */
static long late_ms(const struct buffer *b)
{
    long late = 0;
    if (!sim_fault("late_ms", &late) && b->has_device)
        sim_fault("late_device_ms", &late);
    return late;
}

static void enqueue_late(struct buffer *b, long late)
{
    b->due = late ? sim_monotonic() + (uint64_t)late * 1000000u : 0;
    b->next = NULL;
    pthread_mutex_lock(&queue_lock);
    start_worker();
    *queue_tail = b;
    queue_tail = &b->next;
    pthread_cond_broadcast(&queue_changed);
    pthread_mutex_unlock(&queue_lock);
}

static void enqueue(struct buffer *b)
{
    enqueue_late(b, late_ms(b));
}

/* ---- room ---- */

static struct lane *new_lane(void)
{
    pthread_mutex_lock(&lanes_lock);
    struct lane *l = lanes;
    while (l && !l->orphan)
        l = l->next;
    if (!l) {
        l = calloc(1, sizeof *l);
        if (!l)
            sim_die("no memory");
        pthread_mutex_init(&l->lock, NULL);
        l->next = lanes;
        lanes = l;
    }
    l->orphan = false;
    pthread_mutex_unlock(&lanes_lock);
    return l;
}

static struct lane *lane_of(struct thread *self)
{
    if (!atomic_load_explicit(&sim_settings.per_thread, memory_order_relaxed))
        return &whole_process;
    if (!self->lane)
        self->lane = new_lane();
    return self->lane;
}

void sim_leave_thread(struct thread *self)
{
    if (!self->lane)
        return;
    pthread_mutex_lock(&lanes_lock);
    self->lane->orphan = true;
    pthread_mutex_unlock(&lanes_lock);
}

/* The reason why the client's buffer cannot be used, or NULL. */
static const char *unusable(const uint8_t *memory, size_t size)
{
    if ((uintptr_t)memory % 8)
        return "is not aligned to 8 bytes";
    if (size < sim_record_size(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL))
        return "is smaller than one kernel record";
    return NULL;
}

static struct buffer *request(struct lane *l)
{
    CUpti_BuffersCallbackRequestFunc function = atomic_load(&client_request);
    if (!function)
        return NULL;
    uint8_t *memory = NULL;
    size_t size = 0, most = 0;
    struct thread *self = sim_self();
    enum inside before = self->inside;
    if (before == IN_REQUESTED || before == IN_COMPLETED)
        sim_die("a record was made inside a buffer callback");
    self->inside = IN_REQUESTED;
    function(&memory, &size, &most);
    self->inside = before;
    COUNT(requested);
    const char *why = memory ? unusable(memory, size) : NULL;
    if (!memory || why) {
        COUNT(refused);
        if (why)
            sim_misuse("the buffer %p of %zu bytes %s", (void *)memory, size, why);
        else if (sim_version() < 27 && !sim_fault_on("refuse_ok", false))
            sim_die("NULL buffer: before 12.9 the real CUPTI may crash here");
        return NULL;
    }
    if (!atomic_load(&sim_settings.zeroed))
        memset(memory, 0, size);
    struct buffer *b = calloc(1, sizeof *b);
    if (!b)
        sim_die("no memory");
    *b = (struct buffer){.lane = l, .memory = memory, .size = size, .most = most};
    return b;
}

static bool has_room(const struct buffer *b, size_t size)
{
    return b->used + size <= b->size && (!b->most || b->records < b->most);
}

/* Closes the open buffer. The caller holds the lane's lock. */
static void close_open(struct lane *l)
{
    struct buffer *b = l->open;
    l->open = NULL;
    b->is_closed = true;
    if (!b->unfinished) {
        enqueue(b);
        return;
    }
    b->previous = NULL;
    b->next = l->closed;
    if (b->next)
        b->next->previous = b;
    l->closed = b;
}

static void check_zeroed(const struct buffer *b, size_t size)
{
    static _Atomic bool said;
    for (size_t i = 0; i < size / 8; i++) {
        uint64_t word;
        memcpy(&word, b->memory + b->used + i * 8, sizeof word);
        if (!word)
            continue;
        if (!atomic_exchange(&said, true))
            sim_misuse("ZEROED_OUT_ACTIVITY_BUFFER is set, but a buffer is not zeroed");
        else
            COUNT(misuse);
        return;
    }
}

/* Makes room for one record in the lane's open buffer. The caller holds the lane's lock, which
 * is released during the client's callback. */
static struct buffer *make_room(struct lane *l, size_t size)
{
    while (!l->open || !has_room(l->open, size)) {
        if (l->open) {
            if (!l->open->used) /* an empty buffer that is too small */
                return NULL;
            close_open(l);
        }
        if (l->spare) {
            l->open = l->spare;
            l->spare = NULL;
            continue;
        }
        pthread_mutex_unlock(&l->lock);
        struct buffer *b = request(l);
        pthread_mutex_lock(&l->lock);
        if (!b)
            return NULL;
        if (!l->open)
            l->open = b;
        else if (!l->spare)
            l->spare = b; /* two threads requested at the same time */
        else
            enqueue(b);
    }
    if (atomic_load_explicit(&sim_settings.zeroed, memory_order_relaxed))
        check_zeroed(l->open, size);
    return l->open;
}

static uint8_t *append(struct lane *l, const void *record, uint32_t kind, size_t size)
{
    struct buffer *b = make_room(l, size);
    if (!b) {
        drop();
        return NULL;
    }
    uint8_t *at = b->memory + b->used;
    sim_copy_record(at, record, kind, size);
    b->used += size;
    b->records++;
    b->has_device |= kind == CUPTI_ACTIVITY_KIND_DEVICE;
    COUNT(records);
    atomic_fetch_add_explicit(&sim_counters.kind[kind], 1, memory_order_relaxed);
    return at;
}

void sim_put(void *record)
{
    uint32_t kind;
    memcpy(&kind, record, sizeof kind);
    size_t size = sim_record_size(kind);
    struct lane *l = lane_of(sim_self());
    pthread_mutex_lock(&l->lock);
    append(l, record, kind, size);
    pthread_mutex_unlock(&l->lock);
}

struct slot *sim_reserve(void *record)
{
    uint32_t kind;
    memcpy(&kind, record, sizeof kind);
    size_t size = sim_record_size(kind);
    struct lane *l = lane_of(sim_self());
    pthread_mutex_lock(&l->lock);
    uint8_t *at = append(l, record, kind, size);
    struct slot *slot = NULL;
    if (at) {
        slot = l->free_slots;
        if (slot)
            l->free_slots = slot->next;
        else if (!(slot = malloc(sizeof *slot)))
            sim_die("no memory");
        struct buffer *b = l->open;
        *slot = (struct slot){.lane = l, .buffer = b, .offset = (size_t)(at - b->memory)};
        slot->reserved = sim_device_now();
        slot->next = b->unfinished;
        if (slot->next)
            slot->next->previous = slot;
        b->unfinished = slot;
    }
    pthread_mutex_unlock(&l->lock);
    return slot;
}

static void put_times(uint8_t *record, uint64_t start, uint64_t end)
{
    uint32_t kind;
    memcpy(&kind, record, sizeof kind);
    uint8_t *at = record + sim_start_offset(kind);
    memcpy(at, &start, sizeof start);
    memcpy(at + sizeof start, &end, sizeof end);
}

static void unlink_slot(struct slot *slot)
{
    if (slot->previous)
        slot->previous->next = slot->next;
    else
        slot->buffer->unfinished = slot->next;
    if (slot->next)
        slot->next->previous = slot->previous;
    slot->next = slot->previous = NULL;
    slot->buffer = NULL;
}

static void unlink_closed(struct lane *l, struct buffer *b)
{
    if (b->previous)
        b->previous->next = b->next;
    else
        l->closed = b->next;
    if (b->next)
        b->next->previous = b->previous;
    b->next = b->previous = NULL;
}

void sim_finish(struct slot *slot, uint64_t start, uint64_t end)
{
    struct lane *l = slot->lane;
    pthread_mutex_lock(&l->lock);
    struct buffer *b = slot->buffer;
    if (b) {
        put_times(b->memory + slot->offset, start, end);
        unlink_slot(slot);
        if (b->is_closed && !b->unfinished) {
            unlink_closed(l, b);
            enqueue(b);
        }
    } else if (slot->copy) {
        uint32_t kind;
        put_times(slot->copy, start, end);
        memcpy(&kind, slot->copy, sizeof kind);
        append(l, slot->copy, kind, sim_record_size(kind));
        /* The record was counted when it was first written. */
        atomic_fetch_sub(&sim_counters.records, 1);
        atomic_fetch_sub(&sim_counters.kind[kind], 1);
        free(slot->copy);
    }
    slot->next = l->free_slots;
    l->free_slots = slot;
    pthread_mutex_unlock(&l->lock);
}

/* ---- flushes ---- */

/* For a forced flush: unfinished records are delivered as they are and never again. */
static void give_up_unfinished(struct buffer *b)
{
    bool with_start = sim_fault_on("forced_unfinished", true);
    while (b->unfinished) {
        struct slot *slot = b->unfinished;
        uint8_t *record = b->memory + slot->offset;
        if (with_start)
            put_times(record, sim_on_clock(slot->reserved), 0);
        else
            memset(record, 0, sizeof(uint32_t)); /* kind 0: a slot that was never filled */
        unlink_slot(slot);
        COUNT(unfinished);
    }
}

/* For a plain flush with withhold=0: finished records stay in the buffer, the others move to a
 * later one. */
static void keep_unfinished(struct buffer *b)
{
    size_t to = 0;
    for (size_t at = 0, size = 0; at < b->used; at += size) {
        uint32_t kind;
        memcpy(&kind, b->memory + at, sizeof kind);
        size = sim_record_size(kind);
        struct slot *slot = b->unfinished;
        while (slot && slot->offset != at)
            slot = slot->next;
        if (slot) {
            /* room for the newest struct, which a version's record is cut from */
            slot->copy = calloc(1, 1024);
            if (!slot->copy)
                sim_die("no memory");
            memcpy(slot->copy, b->memory + at, size);
            unlink_slot(slot);
        } else {
            memmove(b->memory + to, b->memory + at, size);
            to += size;
        }
    }
    b->used = to;
    if (!to) /* the moved records are counted again */
        b->records = 0;
}

struct list {
    struct buffer *head, **tail;
};

static void add(struct list *list, struct buffer *b)
{
    b->next = b->previous = NULL;
    *list->tail = b;
    list->tail = &b->next;
}

/* Whether the flush delivers this buffer. Settles its unfinished records. */
static bool takes(struct buffer *b, bool forced, bool withhold)
{
    if (forced) {
        give_up_unfinished(b);
        return true;
    }
    if (!b->used)
        return false;
    if (b->unfinished) {
        if (withhold) {
            COUNT(withheld);
            return false;
        }
        keep_unfinished(b);
        return b->used > 0 || b->is_closed;
    }
    return true;
}

static void collect(struct lane *l, bool forced, bool withhold, struct list *list)
{
    pthread_mutex_lock(&l->lock);
    for (struct buffer *b = l->closed, *next; b; b = next) {
        next = b->next;
        if (takes(b, forced, withhold)) {
            unlink_closed(l, b);
            add(list, b);
        }
    }
    if (l->open && takes(l->open, forced, withhold)) {
        l->open->is_closed = true;
        add(list, l->open);
        l->open = NULL;
    }
    if (forced && l->spare) {
        add(list, l->spare);
        l->spare = NULL;
    }
    pthread_mutex_unlock(&l->lock);
}

void sim_deliver_all(bool forced)
{
    bool withhold = sim_fault_on("withhold", true);
    long late = 0, held = 0;
    struct list list = {NULL, &list.head};
    collect(&whole_process, forced, withhold, &list);
    pthread_mutex_lock(&lanes_lock);
    struct lane *first = lanes; /* lanes are never removed */
    if (sim_fault("flush_holds_ms", &held))
        sim_sleep_ms(held);
    pthread_mutex_unlock(&lanes_lock);
    for (struct lane *l = first; l; l = l->next)
        collect(l, forced, withhold, &list);
    bool after = forced && sim_fault("late_forced_ms", &late);
    bool is_late = after || (!forced && sim_fault("late_ms", &late));
    if (!is_late) {
        pthread_mutex_lock(&queue_lock);
        for (struct buffer *b; (b = take_due(forced ? UINT64_MAX : sim_monotonic()));)
            add(&list, b);
        pthread_mutex_unlock(&queue_lock);
    }
    for (struct buffer *b = list.head, *next; b; b = next) {
        next = b->next;
        if (after)
            enqueue_late(b, late);
        else if (!forced && late_ms(b))
            enqueue(b);
        else
            deliver(b);
    }
    /* Returns after the deliveries that the worker has begun. */
    pthread_mutex_lock(&queue_lock);
    if (in_flight && worker_pid != getpid())
        sim_die("a flush in a forked child: the real CUPTI waits for its lost worker for ever");
    while (in_flight && !is_late)
        pthread_cond_wait(&queue_changed, &queue_lock);
    pthread_mutex_unlock(&queue_lock);
}

void sim_end(void)
{
    pthread_mutex_lock(&lanes_lock);
    pthread_mutex_unlock(&lanes_lock);
}

void sim_forget_client(void)
{
    atomic_store(&client_request, NULL);
    atomic_store(&client_complete, NULL);
}

static CUptiResult flush(uint32_t flag)
{
    static _Atomic int flushing;
    enum inside inside = sim_self()->inside;
    if (inside == IN_REQUESTED || inside == IN_COMPLETED || inside == IN_TIMESTAMP)
        sim_die("a flush from a buffer or timestamp callback");
    if (inside == IN_RESOURCE_CALLBACK)
        sim_die("a flush from a resource, synchronize or graph callback");
    if (worker_pid && worker_pid != getpid())
        sim_die("a flush in a forked child: the real CUPTI waits for its lost worker for ever");
    bool forced = flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED;
    if (forced)
        COUNT(forced_flushes);
    else
        COUNT(flushes);
    for (uint32_t kind = 0; forced && kind < KINDS; kind++)
        if (atomic_load(&sim_settings.kind[kind])) {
            COUNT(forced_while_on);
            break;
        }
    while (sim_fault_on("hold_flush", false))
        sim_sleep_ms(50);
    if (atomic_fetch_add(&flushing, 1))
        COUNT(concurrent_flushes);
    uint64_t start = sim_now();
    sim_deliver_all(forced);
    if (sim_kind_on(CUPTI_ACTIVITY_KIND_OVERHEAD, 0))
        sim_overhead(CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH, start, sim_now(), NULL);
    atomic_fetch_sub(&flushing, 1);
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiActivityFlushAll(uint32_t flag)
{
    CALL(cuptiActivityFlushAll);
    return sim_result(flush(flag));
}

EXPORTED CUptiResult CUPTIAPI cuptiActivityFlush(CUcontext context, uint32_t stream, uint32_t flag)
{
    CALL(cuptiActivityFlush);
    (void)context, (void)stream;
    return sim_result(flush(flag));
}

EXPORTED CUptiResult CUPTIAPI cuptiActivityFlushPeriod(uint32_t milliseconds)
{
    CALL(cuptiActivityFlushPeriod);
    pthread_mutex_lock(&queue_lock);
    start_worker();
    flush_period_ns = (uint64_t)milliseconds * 1000000u;
    pthread_cond_broadcast(&queue_changed);
    pthread_mutex_unlock(&queue_lock);
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(
    CUpti_BuffersCallbackRequestFunc requested, CUpti_BuffersCallbackCompleteFunc completed)
{
    CALL_WITHOUT_DRIVER(cuptiActivityRegisterCallbacks);
    if (!requested || !completed)
        return sim_result(INVALID);
    COUNT(register_callbacks);
    /* The last caller wins: buffers of an earlier client are delivered to the new one. */
    atomic_store(&client_request, requested);
    atomic_store(&client_complete, completed);
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream,
                                                                size_t *count)
{
    CALL(cuptiActivityGetNumDroppedRecords);
    (void)context, (void)stream;
    if (!count)
        return sim_result(INVALID);
    *count = (size_t)sim_take_dropped();
    return CUPTI_SUCCESS;
}
