/* SPDX-License-Identifier: Apache-2.0 */
/* Trace handlers whose calls are sent as messages. The cprof thread writes them, one other thread
 * reads them. A message without room is lost and counted; the next message tells how many were.
 * Marks leave 1/8 of the queue free, ends of steps 1/16, so that rare messages (traces, windows,
 * epochs) find room. Numbers have the machine's byte order and are not aligned:
 *
 *   uint32 bytes of the message, these included; uint8 enum message; then by message
 *   all but init, close, file, lost: struct cprof_time without its size (8 x int64, 3 x double),
 *       int64 wall-clock ns; then, where it applies:
 *   duration, instant, counter: uint8 is_start, uint8 is_cut, uint8 action, uint32 thread,
 *       uint64 id, text name, uint16 n, n texts (categories),
 *       uint16 n, n times: text name, uint8 is_real, 8 bytes of value
 *   trace_ready: text path, int64 first step, int64 last step, uint64 events, uint64 lost,
 *       uint8 is_partial
 *   file: text path
 *   lost: uint64 messages lost since the last such message
 *   text: uint32 length, bytes */
#define CPROF_IMPLEMENTATION
#include "preload/cprof.h"

#include "preload/markers/handler_queue.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "preload/settings/settings.h"
#include "preload/core/core.h"
#include "writer/writer.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#define LEAST_BYTES (64u << 10)
#define MOST_BYTES  (1u << 30)
#define KEPT_ROOM   256u /* reserved for the messages close and lost, which must arrive */
#define MARKS_KEEP  8u   /* size / this stays free of marks */
#define STEPS_KEEP  16u
#define SERIES_MOST 65535u

/* The Python module knows these numbers (cprof/_handlers.py). */
enum message {
    MESSAGE_INIT = 1,
    MESSAGE_DURATION,
    MESSAGE_INSTANT,
    MESSAGE_COUNTER,
    MESSAGE_FILE,
    MESSAGE_TRACE,
    MESSAGE_STEP,
    MESSAGE_EPOCH,
    MESSAGE_WINDOW_OPEN,
    MESSAGE_WINDOW_CLOSE,
    MESSAGE_LOST,
    MESSAGE_CLOSE,
};

#define BIT(kind) (1u << (kind))

struct cprof_trace_queue {
    char *bytes;   /* a ring */
    uint64_t size; /* a power of two */
    /* bytes written so far; cprof thread writes (release), reader reads (acquire) */
    _Atomic uint64_t head;
    /* bytes read so far; reader writes (release), cprof thread reads (acquire) */
    _Atomic uint64_t tail;
    _Atomic uint32_t word;   /* futex: counts messages; cprof thread adds */
    _Atomic uint32_t sleeps; /* the reader is about to wait; it writes, cprof thread reads */
    _Atomic uint64_t lost;   /* cprof thread and reader add, any reads */
    _Atomic bool abandoned;  /* see cprof_trace_queue_leave(); any writes, cprof thread reads */
    uint64_t lost_told;      /* cprof thread */
    bool closed;             /* close was read; reader */
};

/* ---- one message, cprof thread ---- */

static struct {
    char *bytes;
    size_t len, room;
    bool failed;
} message;

static void put_bytes(const void *from, size_t len)
{
    if (message.len + len > message.room) {
        size_t room = 2 * (message.len + len) + 512;
        char *more = realloc(message.bytes, room);
        message.failed |= !more;
        if (!more)
            return;
        message.bytes = more;
        message.room = room;
    }
    if (len)
        memcpy(message.bytes + message.len, from, len);
    message.len += len;
}

#define PUT(type, value) put_bytes(&(type){(type)(value)}, sizeof(type))

static void put_message_text(const char *text)
{
    size_t len = strlen(text);
    PUT(uint32_t, len);
    put_bytes(text, len);
}

static void begin_message(enum message kind)
{
    message.len = 0;
    message.failed = false;
    PUT(uint32_t, 0);
    PUT(uint8_t, kind);
}

static void put_time(const struct cprof_time *time, int64_t wall_ns)
{
    put_bytes(&time->step, sizeof *time - offsetof(struct cprof_time, step));
    PUT(int64_t, wall_ns);
}

/* ---- the ring ---- */

static void copy_in(struct cprof_trace_queue *q, uint64_t at, const char *from, size_t len)
{
    size_t offset = at & (q->size - 1), first = q->size - offset < len ? q->size - offset : len;
    memcpy(q->bytes + offset, from, first);
    memcpy(q->bytes, from + first, len - first);
}

static void copy_out(const struct cprof_trace_queue *q, uint64_t at, char *to, size_t len)
{
    size_t offset = at & (q->size - 1), first = q->size - offset < len ? q->size - offset : len;
    memcpy(to, q->bytes + offset, first);
    memcpy(to + first, q->bytes, len - first);
}

/* Writes the message if at least `keep` bytes stay free. */
static bool push(struct cprof_trace_queue *q, size_t keep)
{
    uint64_t head = atomic_load_explicit(&q->head, memory_order_relaxed);
    uint64_t used = head - atomic_load_explicit(&q->tail, memory_order_acquire);
    uint32_t len = (uint32_t)message.len;
    if (message.failed || message.len + keep > q->size - used)
        return false;
    memcpy(message.bytes, &len, sizeof len);
    copy_in(q, head, message.bytes, len);
    atomic_store(&q->head, head + len);
    atomic_fetch_add(&q->word, 1);
    if (atomic_load(&q->sleeps))
        syscall(SYS_futex, &q->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return true;
}

/* Returns false if the message is lost; counts it. */
static bool send(struct cprof_trace_queue *q, size_t keep)
{
    if (atomic_load_explicit(&q->abandoned, memory_order_relaxed) || push(q, keep))
        return true;
    atomic_fetch_add(&q->lost, 1);
    return false;
}

/* Call before a message that leaves `keep` bytes free: tells how many messages were lost, if any.
 * May use KEPT_ROOM / 2 of `keep`. */
static void send_lost(struct cprof_trace_queue *q, size_t keep)
{
    uint64_t lost = atomic_load(&q->lost);
    if (lost == q->lost_told)
        return;
    begin_message(MESSAGE_LOST);
    PUT(uint64_t, lost - q->lost_told);
    if (push(q, keep - KEPT_ROOM / 2))
        q->lost_told = lost;
}

/* ---- callbacks ---- */

static int init(void *arg)
{
    begin_message(MESSAGE_INIT);
    send(arg, KEPT_ROOM);
    return 0;
}

static bool put_event(struct cprof_trace_queue *q, enum message kind, const struct cprof_event *e)
{
    send_lost(q, q->size / MARKS_KEEP);
    begin_message(kind);
    put_time(e->time, e->wall_clock_ns);
    PUT(uint8_t, e->is_start);
    PUT(uint8_t, e->is_cut);
    PUT(uint8_t, e->action);
    PUT(uint32_t, e->thread_id);
    PUT(uint64_t, e->id);
    put_message_text(e->name);
    PUT(uint16_t, e->n_categories);
    for (size_t i = 0; i < e->n_categories; i++)
        put_message_text(e->categories[i]);
    size_t n = e->n_values < SERIES_MOST ? e->n_values : SERIES_MOST;
    PUT(uint16_t, n);
    for (size_t i = 0; i < n; i++) {
        put_message_text(e->values[i].name);
        PUT(uint8_t, e->values[i].is_real);
        if (e->values[i].is_real)
            PUT(double, e->values[i].real);
        else
            PUT(int64_t, e->values[i].integer);
    }
    return send(q, q->size / MARKS_KEEP);
}

/* Sends both calls of a duration or none: a start without an end would be worse than a loss. */
static void duration(void *arg, const struct cprof_event *e)
{
    static bool start_lost; /* the second call follows at once */
    struct cprof_trace_queue *q = arg;
    uint64_t used = atomic_load(&q->head) - atomic_load(&q->tail);
    size_t about = strlen(e->name) + 256;
    for (size_t i = 0; i < e->n_categories; i++)
        about += strlen(e->categories[i]) + sizeof(uint32_t);
    bool no_room = e->is_start ? used + 2 * about + q->size / MARKS_KEEP > q->size : start_lost;
    if (no_room)
        atomic_fetch_add(&q->lost, 1);
    start_lost = no_room || !put_event(q, MESSAGE_DURATION, e);
}

static void instant(void *arg, const struct cprof_event *e)
{
    put_event(arg, MESSAGE_INSTANT, e);
}

static void counter(void *arg, const struct cprof_event *e)
{
    put_event(arg, MESSAGE_COUNTER, e);
}

static void chrome_json_file(void *arg, const char *path)
{
    send_lost(arg, KEPT_ROOM);
    begin_message(MESSAGE_FILE);
    put_message_text(path);
    send(arg, KEPT_ROOM);
}

static void trace_ready(void *arg, const struct cprof_trace_file *t)
{
    send_lost(arg, KEPT_ROOM);
    begin_message(MESSAGE_TRACE);
    put_time(t->time, t->wall_clock_ns);
    put_message_text(t->path);
    PUT(int64_t, t->first_step);
    PUT(int64_t, t->last_step);
    PUT(uint64_t, t->events);
    PUT(uint64_t, t->lost);
    PUT(uint8_t, t->is_partial);
    send(arg, KEPT_ROOM);
}

static void put_moment(struct cprof_trace_queue *q, enum message kind, size_t keep,
                       const struct cprof_time *time, int64_t wall_ns)
{
    send_lost(q, keep);
    begin_message(kind);
    put_time(time, wall_ns);
    send(q, keep);
}

static void step_end(void *arg, const struct cprof_time *time, int64_t wall_ns)
{
    struct cprof_trace_queue *q = arg;
    put_moment(q, MESSAGE_STEP, q->size / STEPS_KEEP, time, wall_ns);
}

static void epoch_end(void *arg, const struct cprof_time *time, int64_t wall_ns)
{
    put_moment(arg, MESSAGE_EPOCH, KEPT_ROOM, time, wall_ns);
}

static void window_open(void *arg, const struct cprof_time *time, int64_t wall_ns)
{
    put_moment(arg, MESSAGE_WINDOW_OPEN, KEPT_ROOM, time, wall_ns);
}

static void window_close(void *arg, const struct cprof_time *time, int64_t wall_ns)
{
    put_moment(arg, MESSAGE_WINDOW_CLOSE, KEPT_ROOM, time, wall_ns);
}

static void finish(void *arg)
{
    send_lost(arg, KEPT_ROOM);
    begin_message(MESSAGE_CLOSE);
    send(arg, 0);
}

/* ---- the module's calls ---- */

/* Unwanted callbacks stay NULL and cost the cprof thread nothing. */
static struct cprof_trace_handler handler_of(struct cprof_trace_queue *q, const char *name,
                                             unsigned kinds)
{
    struct cprof_trace_handler h = CPROF_TRACE_HANDLER_DEFAULTS;
    h.name = name;
    h.arg = q;
    h.init = init;
    h.duration = kinds & BIT(MESSAGE_DURATION) ? duration : NULL;
    h.instant = kinds & BIT(MESSAGE_INSTANT) ? instant : NULL;
    h.counter = kinds & BIT(MESSAGE_COUNTER) ? counter : NULL;
    h.chrome_json_file = kinds & BIT(MESSAGE_FILE) ? chrome_json_file : NULL;
    h.trace_ready = kinds & BIT(MESSAGE_TRACE) ? trace_ready : NULL;
    h.step_end = kinds & BIT(MESSAGE_STEP) ? step_end : NULL;
    h.epoch_end = kinds & BIT(MESSAGE_EPOCH) ? epoch_end : NULL;
    h.window_open = kinds & BIT(MESSAGE_WINDOW_OPEN) ? window_open : NULL;
    h.window_close = kinds & BIT(MESSAGE_WINDOW_CLOSE) ? window_close : NULL;
    h.close = finish;
    return h;
}

struct cprof_trace_queue *cprof_trace_queue_for(const char *name, size_t bytes, unsigned kinds)
{
    int saved = errno;
    struct cprof_trace_queue *q = calloc(1, sizeof *q);
    bool added = false;
    if (q) {
        q->size = LEAST_BYTES;
        while (q->size < bytes && q->size < MOST_BYTES)
            q->size *= 2;
        q->bytes = mmap(NULL, q->size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        struct cprof_trace_handler h = handler_of(q, name, kinds);
        added = q->bytes != MAP_FAILED && cprof_add_trace_handler(&h);
        if (!added && q->bytes != MAP_FAILED)
            munmap(q->bytes, q->size);
    }
    if (!added) {
        free(q);
        q = NULL;
    }
    errno = saved;
    return q;
}

/* Waits for a message, at most timeout_ms. */
static void wait_for_message(struct cprof_trace_queue *q, int timeout_ms)
{
    struct timespec most = {timeout_ms / 1000, timeout_ms % 1000 * 1000000};
    uint32_t word = atomic_load(&q->word);
    atomic_store(&q->sleeps, 1);
    if (atomic_load(&q->head) == atomic_load(&q->tail))
        syscall(SYS_futex, &q->word, FUTEX_WAIT_PRIVATE, word, &most, NULL, 0);
    atomic_store(&q->sleeps, 0);
}

int64_t cprof_trace_queue_read(struct cprof_trace_queue *q, void *buf, size_t size, int timeout_ms)
{
    uint64_t tail = atomic_load_explicit(&q->tail, memory_order_relaxed);
    size_t used = 0;
    int saved = errno;
    if (q->closed)
        return -1;
    if (atomic_load_explicit(&q->head, memory_order_acquire) == tail)
        wait_for_message(q, timeout_ms);
    uint64_t head = atomic_load_explicit(&q->head, memory_order_acquire);
    while (tail < head) {
        uint32_t len;
        copy_out(q, tail, (char *)&len, sizeof len);
        if (len > size) {
            atomic_fetch_add(&q->lost, 1);
        } else if (used + len > size) {
            break;
        } else {
            copy_out(q, tail, (char *)buf + used, len);
            q->closed = ((uint8_t *)buf)[used + sizeof len] == MESSAGE_CLOSE;
            used += len;
        }
        tail += len;
    }
    atomic_store_explicit(&q->tail, tail, memory_order_release);
    errno = saved;
    return (int64_t)used;
}

uint64_t cprof_trace_queue_lost(const struct cprof_trace_queue *q)
{
    return atomic_load(&q->lost);
}

void cprof_trace_queue_leave(struct cprof_trace_queue *q)
{
    atomic_store(&q->abandoned, true);
}

int64_t cprof_trace_queue_finish(void)
{
    if (atomic_load(&cprof_life) == LIFE_ASLEEP || (int)getpid() != cprof_owner_pid())
        return -1;
    cprof_at_exit();
    return config_get()->drain_deadline_ms;
}
