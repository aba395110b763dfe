/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of trace handlers, and their calls. Any thread may add a handler, without a lock,
 * in a place of its own; none is removed. The cprof thread makes all calls, in order of places.
 *
 *   CPROF_TRACE_HANDLERS       place taken at wake-up; dlopen(), cprof_trace_handler_open() and
 *                              init right before the first event for it
 *   cprof_add_trace_handler()  place taken by the caller; init in the cprof thread's next pass */
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
#define SIZE_MOST       4096u /* largest size of a handler's struct, later versions included */

enum state {
    HANDLER_NEW,     /* init is to be called */
    HANDLER_ACTIVE,  /* gets all calls */
    HANDLER_REFUSED, /* it refused, or cannot be loaded */
};

struct entry {
    struct cprof_trace_handler h; /* cprof thread, once published */
    const char *_Atomic name;     /* a copy that is never freed; cprof thread writes, any reads */
    const char *path, *argument;  /* of a shared object to open; else NULL */
    _Atomic int state;            /* enum state; cprof thread writes, any reads */
};

/* Filled in order; NULL: not yet. Any thread publishes its own entry (release), all read. */
static struct entry *_Atomic entries[HANDLERS_MOST];
static _Atomic unsigned places; /* taken so far; any thread adds */
static _Atomic bool abandoned;  /* in a forked child, which writes and reads */

/* Some of CPROF_TRACE_HANDLERS are not loaded yet. The waking thread writes before the cprof thread
 * exists, then the cprof thread. */
static bool has_unloaded;
static bool is_helper; /* see handlers_start(); cprof thread */
/* Places that begin_new() has visited; cprof thread. */
static unsigned visited;

/* The callback that the cprof thread is in, or NULL, and its handler. cprof thread writes, exiting
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
        log_warn("trace handler %s is left out: there are %u already, the most", e->name,
                 HANDLERS_MOST);
        return false;
    }
    atomic_store_explicit(&entries[at], e, memory_order_release);
    return true;
}

/* Copies the handler into this version's struct. Returns false, with a line, if it cannot be used.
 * who: its path or name. */
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

/* A copy of the text without blanks around it; NULL: no memory. */
static char *trimmed(const char *text, size_t len)
{
    while (len && (*text == ' ' || *text == '\t'))
        text++, len--;
    while (len && (text[len - 1] == ' ' || text[len - 1] == '\t'))
        len--;
    return strndup(text, len);
}

/* item: PATH or PATH=ARGUMENT. Makes a relative path absolute, because the program may change its
 * directory. */
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
    has_unloaded |= put_entry(e);
}

static const struct listener listener;

void handlers_start(const struct config *config, bool helper)
{
    is_helper = helper;
    for (const char *at = config->trace_handlers; *at;) {
        size_t len = strcspn(at, ",");
        char *item = trimmed(at, len); /* never freed: the entry points into it */
        if (item && *item)
            note_object(item);
        else
            free(item);
        at += len + (at[len] == ',');
    }
    if (has_unloaded)
        writer_listen(&listener);
}

typedef const struct cprof_trace_handler *(*open_function)(const char *argument);

/* Loads the shared object. Returns its cprof_trace_handler_open(); NULL, with a line, on
 * failure. */
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

/* Opens the shared object and copies its handler. Returns false, with a line, on failure. */
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
        atomic_store(&e->name, own); /* the former name stays valid: it is the path */
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
            if (atomic_load_explicit(&e_->state, memory_order_relaxed) == HANDLER_ACTIVE)          \
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
    atomic_store(&e->state, there && !refused ? HANDLER_ACTIVE : HANDLER_REFUSED);
}

/* Calls init of new handlers. objects: also loads those of CPROF_TRACE_HANDLERS. */
static void begin_new(bool objects)
{
    struct entry *e;
    for (unsigned i = objects ? 0 : visited; (e = entry_at(i)) != NULL; i++) {
        visited = i + 1 > visited ? i + 1 : visited;
        if (atomic_load_explicit(&e->state, memory_order_relaxed) == HANDLER_NEW &&
            (objects || !e->path))
            begin_one(e);
    }
}

/* Loads the handlers of CPROF_TRACE_HANDLERS before the first event. of_rank: an event that only a
 * rank has. */
static void begin_objects(bool of_rank)
{
    is_helper &= !of_rank;
    if (!has_unloaded || is_helper)
        return;
    has_unloaded = false;
    begin_new(true);
}

/* ---- events, cprof thread ---- */

static void begin_added(void)
{
    static bool ignored;
    if (!ignored)
        steps_ignore_thread();
    ignored = true;
    begin_new(false);
}

/* Texts of the current event, each with its NUL. */
static struct {
    char *bytes;
    size_t used, room;
    const char *categories[CATEGORIES_MOST];
    struct cprof_value *values;
    size_t values_room;
} event_texts;

static bool make_mark_room(const struct mark *m)
{
    size_t bytes = (size_t)m->name_len + m->categories_len + 2;
    for (unsigned i = 0; i < m->n_values; i++)
        bytes += m->values[i].name_len + 1;
    if (bytes > event_texts.room) {
        char *more = realloc(event_texts.bytes, 2 * bytes);
        if (!more)
            return false;
        event_texts.bytes = more;
        event_texts.room = 2 * bytes;
    }
    if (m->n_values > event_texts.values_room) {
        struct cprof_value *more = realloc(event_texts.values, 2 * m->n_values * sizeof *more);
        if (!more)
            return false;
        event_texts.values = more;
        event_texts.values_room = 2 * (size_t)m->n_values;
    }
    event_texts.used = 0;
    return true;
}

static const char *put_mark_text(const char *text, size_t len)
{
    char *to = event_texts.bytes + event_texts.used;
    if (len)
        memcpy(to, text, len);
    to[len] = '\0';
    event_texts.used += len + 1;
    return to;
}

/* Splits the joined categories. Returns their number. */
static size_t put_categories(const struct mark *m)
{
    size_t n = 0;
    if (!m->categories_len)
        return 0;
    char *at = event_texts.bytes + event_texts.used;
    put_mark_text(m->categories, m->categories_len);
    while (at && n < CATEGORIES_MOST) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma++ = '\0';
        event_texts.categories[n++] = at;
        at = comma;
    }
    return n;
}

static void put_values(const struct mark *m)
{
    for (unsigned i = 0; i < m->n_values; i++) {
        const struct mark_value *v = &m->values[i];
        event_texts.values[i] =
            (struct cprof_value){.name = put_mark_text(v->name, v->name_len),
                                 .is_real = v->is_real,
                                 .integer = v->is_real ? 0 : v->whole,
                                 .real = v->is_real ? v->real : (double)v->whole};
    }
}

static void mark(const struct mark *m)
{
    begin_objects(false);
    if (!make_mark_room(m)) {
        if (once_here())
            log_error("trace handlers: no memory; they miss some markers");
        return;
    }
    struct cprof_time start = program_time(&m->start.time, m->start.step), end;
    struct cprof_event event = {.size = sizeof event,
                                .name = put_mark_text(m->name, m->name_len),
                                .categories = event_texts.categories,
                                .thread_id = m->tid,
                                .is_start = m->kind == REC_SPAN,
                                .is_cut = m->unfinished,
                                .action = (int)m->start.action,
                                .id = m->id,
                                .wall_clock_ns = m->start.wall_ns,
                                .time = &start};
    event.n_categories = put_categories(m);
    put_values(m);
    event.values = event_texts.values;
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
            if (atomic_load_explicit(&e->state, memory_order_relaxed) != HANDLER_ACTIVE)
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
    .look = begin_added,
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
        log_warn("trace handler %s has not returned from its %s()", e->name, callback);
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
        /* registered now, cprof_at_exit() runs before what the handler may use is destroyed */
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
        if (atomic_load(&e->state) == HANDLER_REFUSED)
            continue;
        if (names && n < room)
            names[n] = atomic_load(&e->name);
        n++;
    }
    return n;
}
