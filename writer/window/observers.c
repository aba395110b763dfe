/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the listener of steps, marks and windows. Rings are drained after edges are taken, so the
 * end of a step waits here until the marks before it are told. cprof thread. */
#include "writer/window/observers.h"

#include <stdlib.h>
#include <string.h>

#include "writer/json/json.h"

#define PAST_MOST 8192u /* edges whose training time is known; enough for 10^9 steps */
/* older edges are thinned out: the step of a time is known to 1/256 of its age */
#define PAST_SHARE 256

static _Atomic uint64_t taken_ns; /* cprof thread adds, any thread reads; relaxed */

/* Step, action and training time from an edge on. */
struct past {
    uint64_t ticks;
    int64_t step;
    enum action action;
    struct train_time time;
};
static struct past *past; /* PAST_MOST of them, oldest first */
static unsigned n_past;

/* A step end, epoch end or opened window that the listener is not told of yet. */
struct note {
    enum { NOTE_STEP, NOTE_EPOCH, NOTE_WINDOW } kind;
    uint64_t ticks, pass;
    struct train_moment at; /* wall_ns is filled in when it is told */
};
static struct note *notes; /* first_note .. n_notes are waiting */
static unsigned first_note, n_notes, room_notes;
/* thread that marked the last step; NULL: it has no log */
static const struct thread_log *stepping;

static struct mark_value *values;
static unsigned room_values;

/* ---- calling ---- */

uint64_t writer_listener_ns(void)
{
    return atomic_load_explicit(&taken_ns, memory_order_relaxed);
}

#define TELL(call, ...)                                                                            \
    do {                                                                                           \
        const struct listener *l_ = atomic_load_explicit(&listener_told, memory_order_acquire);    \
        uint64_t before_ = clock_monotonic_ns();                                                   \
        l_->call(__VA_ARGS__);                                                                     \
        atomic_fetch_add_explicit(&taken_ns, clock_monotonic_ns() - before_,                       \
                                  memory_order_relaxed);                                           \
    } while (0)

/* ---- where training stood ---- */

/* Makes room at the end. Drops an old edge when its two neighbours are close enough for their
 * age. */
static void thin_out(void)
{
    int64_t now = past[n_past - 1].step;
    unsigned kept = 1;
    for (unsigned i = 1; i < n_past; i++) {
        int64_t age = now - past[i].step;
        bool near = i + 1 < n_past && past[i + 1].step - past[kept - 1].step <= age / PAST_SHARE;
        if (!near)
            past[kept++] = past[i];
    }
    n_past = kept < n_past ? kept : n_past - 1;
}

static void remember_past(const struct past *p)
{
    if (!past && !(past = malloc(PAST_MOST * sizeof *past))) {
        if (once_here())
            log_error("no memory: trace handlers are not told of marks");
        return;
    }
    if (n_past == PAST_MOST)
        thin_out();
    past[n_past++] = *p;
}

/* The last edge at or before `ticks`; NULL: nobody listened then. */
static const struct past *past_at(uint64_t ticks)
{
    unsigned low = 0, high = n_past;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (past[middle].ticks <= ticks)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &past[low - 1] : NULL;
}

static struct train_moment moment_of(const struct past *p, uint64_t ticks)
{
    return (struct train_moment){p->step, p->action, p->time, clock_wall_ns(ticks)};
}

/* ---- notes ---- */

static void tell_note(struct note *n)
{
    n->at.wall_ns = clock_wall_ns(n->ticks);
    if (n->kind == NOTE_STEP)
        TELL(step_end, &n->at);
    else if (n->kind == NOTE_EPOCH)
        TELL(epoch_end, &n->at);
    else
        TELL(window_open, &n->at);
}

static void tell_notes_until(uint64_t ticks)
{
    while (first_note < n_notes && notes[first_note].ticks <= ticks) {
        struct note n = notes[first_note++];
        tell_note(&n);
    }
}

static void put_note(const struct note *n)
{
    if (first_note &&
        (first_note == n_notes || (n_notes == room_notes && first_note >= room_notes / 2))) {
        /* frees told entries: with steps in every pass the list is never empty */
        memmove(notes, notes + first_note, (n_notes - first_note) * sizeof *notes);
        n_notes -= first_note;
        first_note = 0;
    }
    if (n_notes == room_notes) {
        unsigned room = room_notes ? room_notes * 2 : 64;
        struct note *more = realloc(notes, room * sizeof *more);
        if (!more) { /* telling too early is better than never */
            struct note now = *n;
            tell_notes_until(n->ticks);
            tell_note(&now);
            return;
        }
        notes = more;
        room_notes = room;
    }
    notes[n_notes++] = *n;
}

void observers_begin(void)
{
    if (listening())
        TELL(look, );
}

void observers_drained(uint64_t pass)
{
    while (first_note < n_notes && notes[first_note].pass < pass) {
        struct note n = notes[first_note++];
        tell_note(&n);
    }
}

/* The training time after the end of an epoch. */
static struct train_time after_epoch(struct train_time t)
{
    t.epoch++;
    t.batch_in_epoch = t.sample_in_epoch = t.token_in_epoch = 0;
    t.epoch_wct_ns = 0;
    return t;
}

void observers_edge(const struct step_edge *e, uint64_t pass)
{
    if (!listening())
        return;
    struct past p = {e->ticks, e->step, e->begun, e->time};
    bool epoch = e->kind == EDGE_EPOCH || e->epoch_over;
    if (epoch)
        p.time = after_epoch(e->time);
    struct note n = {.ticks = e->ticks, .pass = pass};
    if (e->kind == EDGE_STEP) {
        stepping = e->by;
        n.kind = NOTE_STEP;
        n.at = (struct train_moment){e->step - 1, e->ended, e->time, 0};
        put_note(&n);
    } else if (epoch) {
        n.kind = NOTE_EPOCH;
        n.at = (struct train_moment){e->step, e->begun, p.time, 0};
        put_note(&n);
    }
    remember_past(&p);
}

/* ---- marks ---- */

static struct mark_value *value_room(unsigned n)
{
    if (n >= room_values) {
        unsigned room = room_values ? room_values * 2 : 64;
        struct mark_value *more = realloc(values, room * sizeof *more);
        if (!more)
            return NULL;
        values = more;
        room_values = room;
    }
    return &values[n];
}

static void read_args(const struct record *r, struct mark *m)
{
    const uint8_t *at = record_data(r), *end = at + r->data_len;
    struct json_arg a;
    while (r->data_kind == DATA_ARGS && json_next_arg(&at, end, &a)) {
        struct mark_value *v;
        if (json_arg_is_category(&a)) {
            m->categories = (const char *)a.value;
            m->categories_len = (uint32_t)a.value_len;
        } else if (m->kind == REC_COUNTER && a.type != ARG_TEXT &&
                   (v = value_room(m->n_values)) != NULL) {
            *v = (struct mark_value){a.key, (uint32_t)a.key_len, a.type == ARG_REAL, {0}};
            memcpy(&v->whole, a.value, sizeof v->whole);
            m->n_values++;
        }
    }
    m->values = values;
}

static bool is_mark(const struct record *r)
{
    return (r->flags & REC_MARKER) && (r->kind == REC_SPAN || r->kind == REC_ASYNC ||
                                       r->kind == REC_INSTANT || r->kind == REC_COUNTER);
}

static void tell_mark(const struct record_owner *owner, const struct record *r,
                      const struct past *start)
{
    struct text name = record_name(r);
    struct mark m = {.kind = r->kind == REC_ASYNC ? REC_SPAN : (enum record_kind)r->kind,
                     .name = name.at,
                     .name_len = name.len,
                     .tid =
                         r->kind == REC_ASYNC && r->async.tid ? (uint32_t)r->async.tid : owner->tid,
                     .id = r->id,
                     .unfinished = r->flags & REC_UNFINISHED,
                     .start = moment_of(start, r->start)};
    m.end = r->end == r->start ? m.start : moment_of(past_at(r->end), r->end);
    read_args(r, &m);
    TELL(mark, &m);
}

/* A step to skip may be held for a program without step marks. Everything in it is recorded, but
 * only marks that asked for such steps (REC_SKIPPED) are told at once. */
static bool told_at_once(const struct record *r, const struct past *start)
{
    return start && (start->action != ACTION_SKIP || (r->flags & REC_SKIPPED));
}

void observers_record(const struct record_owner *owner, const struct record *r)
{
    if (!listening() || !is_mark(r))
        return;
    const struct past *start = past_at(r->start);
    if (!told_at_once(r, start))
        return;
    /* !stepping: this may be the stepping thread's first mark */
    if (owner->log == stepping || !stepping)
        tell_notes_until(r->end);
    tell_mark(owner, r, start);
}

void observers_replay(const struct record_owner *owner, const struct record *r)
{
    if (!listening() || !is_mark(r))
        return;
    const struct past *start = past_at(r->start);
    tell_notes_until(r->end); /* includes the note that its window has opened */
    if (start && !told_at_once(r, start))
        tell_mark(owner, r, start);
}

/* ---- windows and files ---- */

void observers_window_open(const struct window *w, uint64_t pass)
{
    const struct past *p = listening() ? past_at(w->start) : NULL;
    struct note n = {.kind = NOTE_WINDOW, .ticks = w->start, .pass = pass};
    if (!p)
        return;
    n.at = moment_of(p, w->start);
    n.at.step = w->first_step;
    put_note(&n);
}

void observers_window_close(const struct window *w)
{
    const struct past *p = listening() ? past_at(w->start) : NULL;
    if (!p)
        return;
    tell_notes_until(w->end);
    struct train_moment at = {w->last_step, p->action, w->time, clock_wall_ns(w->end)};
    TELL(window_close, &at);
}

void observers_file(const char *path)
{
    if (listening())
        TELL(file, path);
}

void observers_end(void)
{
    if (!listening())
        return;
    observers_begin();
    tell_notes_until(UINT64_MAX);
    TELL(end, );
}
