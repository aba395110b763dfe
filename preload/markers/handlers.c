/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry of trace handlers and what they are told. Handlers are only ever added, from any
 * thread and without a lock, each in a place of its own; all their callbacks are called by the
 * cprof thread, place by place.
 *
 *   CPROF_TRACE_HANDLERS   a place is taken at wake-up; dlopen, cprof_trace_handler_open() and init
 *                          before the first thing that is told
 *   cprof_add_trace_handler()  a place is taken by the caller; init at the next pass of the cprof
 *                              thread
 */
#define CPROF_IMPLEMENTATION
#include "preload/cprof.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "preload/markers/handlers.h"
#include "preload/core/core.h"
#include "preload/steps/steps.h"

#define HANDLERS_MOST   64u
#define CATEGORIES_MOST 256u
#define SIZE_MOST       4096u /* of a struct from a later version; a larger one is none */

enum state {
    WAITING, /* init is still to be called */
    TOLD,    /* it is told of everything */
    OUT,     /* it refused, or is not there */
};

struct entry {
    struct cprof_trace_handler h; /* cprof thread, once it is in its place */
    const char *_Atomic name;     /* ours, and kept; cprof thread writes, any reads */
    const char *path, *argument;  /* of a shared object that is still to be opened; else NULL */
    _Atomic int state;            /* enum state; cprof thread writes, any reads */
};

/* Filled in order; NULL: not yet. Any thread writes its own (release), all read. */
static struct entry *_Atomic entries[HANDLERS_MOST];
static _Atomic unsigned places; /* given so far; any thread adds */
static _Atomic bool abandoned;  /* a forked child; it writes and reads */

/* cprof thread. */
/* CPROF_TRACE_HANDLERS names some that are not loaded; the waking thread writes before there is a
 * cprof thread */
static bool from_settings;
static bool is_helper; /* as handlers_start() says */
/* places whose init has been called, or that wait for something to tell */
static unsigned looked_at;

/* The callback that the cprof thread is in, and whose; NULL: none. cprof thread writes, exiting
 * thread reads. */
static const char *_Atomic inside;
static struct entry *_Atomic inside_of;

static struct entry *entry_at(unsigned i)
{
    return i < HANDLERS_MOST ? atomic_load_explicit(&entries[i], memory_order_acquire) : NULL;
}

/* ---- adding ---- */

static bool put_entry(struct entry *e)
{
    unsigned at = atomic_fetch_add(&places, 1);
    if (at >= HANDLERS_MOST) {
        atomic_fetch_sub(&places, 1);
        log_warn("trace handler %s: there are %u already; it is left out", e->name, HANDLERS_MOST);
        return false;
    }
    atomic_store_explicit(&entries[at], e, memory_order_release);
    return true;
}

/* The handler as this version knows it. False, with a line: it cannot be used. who: its path or
 * name. */
static bool take_handler(struct cprof_trace_handler *to, const struct cprof_trace_handler *from,
                         const char *who)
{
    static const struct cprof_trace_handler none = CPROF_TRACE_HANDLER_DEFAULTS;
    bool sized = from->size > offsetof(struct cprof_trace_handler, name) && from->size <= SIZE_MOST;
    if (sized && from->version != CPROF_TRACE_HANDLER_VERSION)
        log_error("trace handler %s is of version %u, this library knows %d; it is left out", who,
                  from->version, CPROF_TRACE_HANDLER_VERSION);
    else if (!sized)
        log_error("trace handler %s has no size: begin with CPROF_TRACE_HANDLER_DEFAULTS; it is "
                  "left out",
                  who);
    if (!sized || from->version != CPROF_TRACE_HANDLER_VERSION)
        return false;
    *to = none;
    memcpy(to, from, from->size < sizeof *to ? from->size : sizeof *to);
    return true;
}

static struct entry *new_entry(const struct cprof_trace_handler *h, const char *name)
{
    struct entry *e = calloc(1, sizeof *e);
    char *copy = e ? strdup(name) : NULL;
    if (!copy) {
        log_error("trace handler %s: no memory; it is left out", name);
        free(e);
        return NULL;
    }
    if (h)
        e->h = *h;
    atomic_store(&e->name, copy);
    return e;
}

bool handlers_add(const struct cprof_trace_handler *h)
{
    struct entry *e = new_entry(h, h->name ? h->name : "without a name");
    if (!e)
        return false;
    if (!put_entry(e)) {
        free((char *)(uintptr_t)e->name);
        free(e);
        return false;
    }
    return true;
}

/* ---- CPROF_TRACE_HANDLERS ---- */

/* The text without blanks around it, as a copy; NULL: no memory. */
static char *trimmed(const char *text, size_t len)
{
    while (len && (*text == ' ' || *text == '\t'))
        text++, len--;
    while (len && (text[len - 1] == ' ' || text[len - 1] == '\t'))
        len--;
    return strndup(text, len);
}

/* PATH or PATH=ARGUMENT. A path that is relative to this folder is made absolute: the program may
 * go elsewhere. */
static void note_object(char *item)
{
    char *argument = strchr(item, '=');
    if (argument)
        *argument++ = '\0';
    char *whole = strchr(item, '/') && item[0] != '/' ? realpath(item, NULL) : NULL;
    struct entry *e = new_entry(NULL, item);
    if (!e)
        return;
    e->path = whole ? whole : e->name;
    e->argument = argument ? argument : "";
    from_settings |= put_entry(e);
}

static const struct listener listener;

void handlers_start(const struct config *config, bool helper)
{
    is_helper = helper;
    for (const char *at = config->trace_handlers; *at;) {
        size_t len = strcspn(at, ",");
        char *item = trimmed(at, len); /* kept: it holds the argument */
        if (item && *item)
            note_object(item);
        else
            free(item);
        at += len + (at[len] == ',');
    }
    if (from_settings)
        writer_listen(&listener);
}

typedef const struct cprof_trace_handler *(*open_function)(const char *argument);

/* Loads the shared object; its cprof_trace_handler_open(). NULL, with a line. */
static open_function load_object(const struct entry *e)
{
    open_function open = NULL;
    void *object = dlopen(e->path, RTLD_NOW | RTLD_LOCAL);
    if (!object) {
        const char *why = dlerror();
        log_error("trace handler %s cannot be loaded: %s; it is left out", e->path,
                  why ? why : "no reason given");
        return NULL;
    }
    *(void **)&open = loader_symbol(object, "cprof_trace_handler_open");
    if (!open)
        log_error("trace handler %s has no cprof_trace_handler_open(); it is left out", e->path);
    return open;
}

void handlers_try(const struct config *config)
{
    struct entry *e;
    handlers_start(config, true);
    for (unsigned i = 0; (e = entry_at(i)) != NULL; i++)
        load_object(e);
}

/* Opens the shared object and takes its handler. False, with a line. */
static bool open_object(struct entry *e)
{
    open_function open = load_object(e);
    if (!open)
        return false;
    const struct cprof_trace_handler *given = open(e->argument);
    if (!given)
        log_error("trace handler %s refuses: cprof_trace_handler_open(\"%s\") returned none; it is "
                  "left out",
                  e->path, e->argument);
    if (!given || !take_handler(&e->h, given, e->path))
        return false;
    char *own = e->h.name ? strdup(e->h.name) : NULL;
    if (own)
        atomic_store(&e->name, own); /* the one before is still read, and is the path */
    return true;
}

/* ---- calling ---- */

#define CALL(e, callback, ...)                                                                     \
    do {                                                                                           \
        if ((e)->h.callback) {                                                                     \
            atomic_store(&inside_of, e);                                                           \
            atomic_store(&inside, #callback);                                                      \
            (e)->h.callback((e)->h.arg, ##__VA_ARGS__);                                            \
            atomic_store(&inside, NULL);                                                           \
        }                                                                                          \
    } while (0)

#define CALL_ALL(callback, ...)                                                                    \
    do {                                                                                           \
        struct entry *e_;                                                                          \
        for (unsigned i_ = 0; (e_ = entry_at(i_)) != NULL; i_++)                                   \
            if (atomic_load_explicit(&e_->state, memory_order_relaxed) == TOLD)                    \
                CALL(e_, callback, ##__VA_ARGS__);                                                 \
    } while (0)

static void begin_one(struct entry *e)
{
    atomic_store(&inside_of, e);
    atomic_store(&inside, "cprof_trace_handler_open");
    bool there = !e->path || open_object(e);
    atomic_store(&inside, "init");
    int refused = there && e->h.init ? e->h.init(e->h.arg) : 0;
    atomic_store(&inside, NULL);
    if (refused)
        log_error("trace handler %s refuses: its init returned %d; it is left out", e->name,
                  refused);
    atomic_store(&e->state, there && !refused ? TOLD : OUT);
}

/* Calls init of those that are new. objects: also of those that only come when there is something
 * to tell. */
static void begin_new(bool objects)
{
    struct entry *e;
    for (unsigned i = objects ? 0 : looked_at; (e = entry_at(i)) != NULL; i++) {
        looked_at = i + 1 > looked_at ? i + 1 : looked_at;
        if (atomic_load_explicit(&e->state, memory_order_relaxed) == WAITING &&
            (objects || !e->path))
            begin_one(e);
    }
}

/* There is something to tell. of_rank: that only a rank has. */
static void begin_objects(bool of_rank)
{
    is_helper &= !of_rank;
    if (!from_settings || is_helper)
        return;
    from_settings = false;
    begin_new(true);
}

/* ---- what the cprof thread tells ---- */

static void look_for_new(void)
{
    static bool ignored;
    if (!ignored)
        steps_ignore_thread();
    ignored = true;
    begin_new(false);
}

/* Texts of the event being told, each with its NUL. */
static struct {
    char *bytes;
    size_t used, room;
    const char *categories[CATEGORIES_MOST];
    struct cprof_value *values;
    size_t values_room;
} told;

static bool make_mark_room(const struct mark *m)
{
    size_t bytes = (size_t)m->name_len + m->categories_len + 2;
    for (unsigned i = 0; i < m->n_values; i++)
        bytes += m->values[i].name_len + 1;
    if (bytes > told.room) {
        char *more = realloc(told.bytes, 2 * bytes);
        if (!more)
            return false;
        told.bytes = more;
        told.room = 2 * bytes;
    }
    if (m->n_values > told.values_room) {
        struct cprof_value *more = realloc(told.values, 2 * m->n_values * sizeof *more);
        if (!more)
            return false;
        told.values = more;
        told.values_room = 2 * (size_t)m->n_values;
    }
    told.used = 0;
    return true;
}

static const char *put_mark_text(const char *text, size_t len)
{
    char *to = told.bytes + told.used;
    if (len)
        memcpy(to, text, len);
    to[len] = '\0';
    told.used += len + 1;
    return to;
}

/* Splits the joined categories. Returns how many there are. */
static size_t put_categories(const struct mark *m)
{
    size_t n = 0;
    if (!m->categories_len)
        return 0;
    char *at = told.bytes + told.used;
    put_mark_text(m->categories, m->categories_len);
    while (at && n < CATEGORIES_MOST) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma++ = '\0';
        told.categories[n++] = at;
        at = comma;
    }
    return n;
}

static void put_values(const struct mark *m)
{
    for (unsigned i = 0; i < m->n_values; i++) {
        const struct mark_value *v = &m->values[i];
        told.values[i] = (struct cprof_value){.name = put_mark_text(v->name, v->name_len),
                                              .is_real = v->is_real,
                                              .integer = v->is_real ? 0 : v->whole,
                                              .real = v->is_real ? v->real : (double)v->whole};
    }
}

static void mark(const struct mark *m)
{
    static bool said;
    begin_objects(false);
    if (!make_mark_room(m)) {
        if (!said)
            log_error("trace handlers: no memory; they are not told of all marks");
        said = true;
        return;
    }
    struct cprof_time start = program_time(&m->start.time, m->start.step), end;
    struct cprof_event event = {.size = sizeof event,
                                .name = put_mark_text(m->name, m->name_len),
                                .categories = told.categories,
                                .thread_id = m->tid,
                                .is_start = m->kind == REC_SPAN,
                                .is_cut = m->unfinished,
                                .action = (int)m->start.action,
                                .id = m->id,
                                .wall_clock_ns = m->start.wall_ns,
                                .time = &start};
    event.n_categories = put_categories(m);
    put_values(m);
    event.values = told.values;
    event.n_values = m->n_values;
    if (m->kind == REC_INSTANT) {
        CALL_ALL(instant, &event);
    } else if (m->kind == REC_COUNTER) {
        CALL_ALL(counter, &event);
    } else {
        struct cprof_event second = event;
        end = program_time(&m->end.time, m->end.step);
        second.is_start = 0;
        second.action = (int)m->end.action;
        second.wall_clock_ns = m->end.wall_ns;
        second.time = &end;
        struct entry *e;
        for (unsigned i = 0; (e = entry_at(i)) != NULL; i++) {
            if (atomic_load_explicit(&e->state, memory_order_relaxed) != TOLD)
                continue;
            CALL(e, duration, &event);
            CALL(e, duration, &second);
        }
    }
}

static void step_end(const struct train_moment *at)
{
    begin_objects(true);
    struct cprof_time time = program_time(&at->time, at->step);
    CALL_ALL(step_end, &time, at->wall_ns);
}

static void epoch_end(const struct train_moment *at)
{
    begin_objects(true);
    struct cprof_time time = program_time(&at->time, at->step);
    CALL_ALL(epoch_end, &time, at->wall_ns);
}

static void window_open(const struct train_moment *at)
{
    begin_objects(true);
    struct cprof_time time = program_time(&at->time, at->step);
    CALL_ALL(window_open, &time, at->wall_ns);
}

static void window_close(const struct train_moment *at)
{
    struct cprof_time time = program_time(&at->time, at->step);
    CALL_ALL(window_close, &time, at->wall_ns);
}

static void file(const char *path)
{
    begin_objects(true);
    CALL_ALL(chrome_json_file, path);
}

static void end(void)
{
    CALL_ALL(close);
}

static const struct listener listener = {
    .look = look_for_new,
    .mark = mark,
    .step_end = step_end,
    .epoch_end = epoch_end,
    .window_open = window_open,
    .window_close = window_close,
    .file = file,
    .end = end,
};

void handlers_trace_ready(const struct saved_trace *trace)
{
    struct cprof_time time = program_time(&trace->time, trace->last_step);
    struct cprof_trace_file given = {.size = sizeof given,
                                     .path = trace->path,
                                     .time = &time,
                                     .wall_clock_ns = clock_wall_now(),
                                     .first_step = trace->first_step,
                                     .last_step = trace->last_step,
                                     .events = trace->events,
                                     .lost = trace->lost,
                                     .is_partial = trace->partial};
    begin_objects(true);
    CALL_ALL(chrome_json_file, trace->path);
    CALL_ALL(trace_ready, &given);
}

/* ---- life ---- */

void handlers_say_stuck(void)
{
    const char *callback = atomic_load(&inside);
    const struct entry *e = atomic_load(&inside_of);
    if (callback)
        log_warn("trace handler %s has not come back from its %s()", e->name, callback);
}

void handlers_abandon(void)
{
    atomic_store(&abandoned, true);
}

/* ---- calls of cprof.h ---- */

int cprof_add_trace_handler(const struct cprof_trace_handler *handler)
{
    struct cprof_trace_handler h;
    int saved = errno;
    bool added = handler && cprof_awake() &&
                 take_handler(&h, handler, "of cprof_add_trace_handler()") && handlers_add(&h);
    if (added) {
        /* before what the program made until now, and the handler may use, is gone */
        atexit(cprof_at_exit);
        writer_listen(&listener);
        writer_run();
        steps_tell();
    }
    errno = saved;
    return added;
}

size_t cprof_trace_handlers(const char **names, size_t room)
{
    if (atomic_load_explicit(&cprof_life, memory_order_acquire) == LIFE_ASLEEP)
        cprof_wake(WAKE_MARKER);
    if (atomic_load(&abandoned) || !config_enabled())
        return 0;
    size_t n = 0;
    struct entry *e;
    if (names && n < room)
        names[n] = "json";
    n++;
    for (unsigned i = 0; (e = entry_at(i)) != NULL; i++) {
        if (atomic_load(&e->state) == OUT)
            continue;
        if (names && n < room)
            names[n] = atomic_load(&e->name);
        n++;
    }
    return n;
}
