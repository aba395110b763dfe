/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of ITT's domains, strings, counters and events; see itt.h. Application threads. They have
 * no locks, because a fork may come at any time. Nothing is ever removed, because clients keep
 * pointers. */
#include <stdlib.h>
#include <string.h>

#include "preload/markers/itt.h"
#include "writer/writer.h"

#define BUCKETS       (1u << 16) /* of strings; 2^n. ITT programs put numbers into names */
#define CELL_BUCKETS  256u
#define NAMES_MOST    (1u << 20)
#define BYTES_MOST    (256u << 20)
#define COUNTERS_MOST (1u << 14)
#define EVENTS_MOST   4096u

struct name {
    struct name *next;
    uint32_t hash, len;
    bool is_domain;
    union {
        struct itt_domain domain;
        struct itt_string string;
    };
    char text[];
};

static struct name *_Atomic names[BUCKETS];
static struct itt_cell *_Atomic cells[CELL_BUCKETS];
static struct itt_cell *_Atomic counters[COUNTERS_MOST / 4]; /* counters that cprof made, by name */
static const struct itt_string *_Atomic events[EVENTS_MOST];
/* numbers made so far; any thread adds, relaxed */
static _Atomic uint64_t names_made, bytes_made, counters_made;

static struct name *search(struct name *n, const struct name *end, uint32_t hash, bool is_domain,
                           const char *text, size_t len)
{
    for (; n != end; n = n->next)
        if (n->hash == hash && n->len == len && n->is_domain == is_domain &&
            memcmp(n->text, text, len) == 0)
            return n;
    return NULL;
}

static struct name *make_entry(uint32_t hash, bool is_domain, const char *text, size_t len)
{
    struct name *n = calloc(1, sizeof *n + len + 1);
    if (!n) {
        thread_log_lost(NULL, LOSS_NO_MEMORY, 1);
        return NULL;
    }
    n->hash = hash;
    n->len = (uint32_t)len;
    n->is_domain = is_domain;
    memcpy(n->text, text, len);
    if (is_domain) {
        n->domain.flags = 1;
        n->domain.name = n->text;
    } else {
        n->string.text = n->text;
    }
    return n;
}

/* Adds a new name to its bucket, or frees it if another thread added the same name first. */
static struct name *publish(struct name *_Atomic *bucket, struct name *n, struct name *seen)
{
    n->next = seen;
    while (!atomic_compare_exchange_weak(bucket, &n->next, n)) {
        struct name *first = search(n->next, seen, n->hash, n->is_domain, n->text, n->len);
        if (first) {
            free(n);
            return first;
        }
        seen = n->next;
    }
    return n;
}

static struct name *intern(bool is_domain, const char *text, size_t len)
{
    uint32_t hash = (uint32_t)hash_text(text, len);
    struct name *_Atomic *bucket = &names[hash & (BUCKETS - 1)];
    struct name *seen = atomic_load_explicit(bucket, memory_order_acquire);
    struct name *n = search(seen, NULL, hash, is_domain, text, len);
    if (n)
        return n;
    if (atomic_fetch_add_explicit(&names_made, 1, memory_order_relaxed) >= NAMES_MOST ||
        atomic_fetch_add_explicit(&bytes_made, len, memory_order_relaxed) >= BYTES_MOST) {
        if (once_here())
            log_warn("more than %u ITT names or %u MiB of them: new names are not in the trace",
                     NAMES_MOST, BYTES_MOST >> 20);
        thread_log_lost(NULL, LOSS_TEXT, 1);
        return NULL;
    }
    n = make_entry(hash, is_domain, text, len);
    return n ? publish(bucket, n, seen) : NULL;
}

struct itt_domain *itt_domain_of(const char *name)
{
    struct name *n = name ? intern(true, name, strnlen(name, ITT_NAME_MOST)) : NULL;
    return n ? &n->domain : NULL;
}

struct itt_string *itt_string_of(const char *text, size_t len)
{
    static struct itt_string too_many = {.text = "(too many ITT names)"};
    struct name *n = text ? intern(false, text, len) : NULL;
    return n ? &n->string : text ? &too_many : NULL;
}

/* ---- counters -------------------------------------------------------------------------------- */

static struct itt_cell *_Atomic *bucket_of(const void *a, const void *b)
{
    uintptr_t key = (uintptr_t)a * 31 + (uintptr_t)b;
    return &cells[(key >> 4 ^ key >> 12) & (CELL_BUCKETS - 1)];
}

static struct itt_cell *find_cell(const void *a, const void *b)
{
    struct itt_cell *c = atomic_load_explicit(bucket_of(a, b), memory_order_acquire);
    while (c && (c->a != a || c->b != b))
        c = c->next;
    return c;
}

static void too_many_counters(void)
{
    if (once_here())
        log_warn("more than %u ITT counters: new ones are not in the trace", COUNTERS_MOST);
    thread_log_lost(NULL, LOSS_MARKER, 1);
}

/* Makes a cell named "domain: name" for the key (a, b); a NULL: the key is its own counter. */
static struct itt_cell *make_cell(const void *a, const void *b, const char *name,
                                  const char *domain, int type)
{
    if (atomic_load_explicit(&counters_made, memory_order_relaxed) >= COUNTERS_MOST) {
        too_many_counters();
        return NULL;
    }
    atomic_fetch_add_explicit(&counters_made, 1, memory_order_relaxed);
    size_t len = name ? strnlen(name, ITT_NAME_MOST) : 0;
    size_t before = domain && *domain ? strnlen(domain, ITT_NAME_MOST) : 0;
    struct itt_cell *c = calloc(1, sizeof *c + before + 2 + len + 1);
    if (!c)
        return NULL;
    char *to = c->text;
    if (before) {
        memcpy(to, domain, before);
        memcpy(to + before, ": ", 2);
        to += before + 2;
    }
    if (len)
        memcpy(to, name, len);
    c->text_len = (uint32_t)(to + len - c->text);
    c->type = type == ITT_UNKNOWN ? ITT_U64 : type;
    c->own = (struct itt_counter){.name = to, .type = c->type};
    c->a = a ? a : &c->own;
    c->b = b;
    struct itt_cell *_Atomic *bucket = bucket_of(c->a, c->b);
    c->next = atomic_load(bucket);
    while (!atomic_compare_exchange_weak(bucket, &c->next, c))
        ; /* a race may add two; later searches find the newer one */
    return c;
}

struct itt_cell *itt_cell_of(const struct itt_counter *counter)
{
    if (!counter)
        return NULL;
    struct itt_cell *c = find_cell(counter, NULL);
    return c ? c : make_cell(counter, NULL, counter->name, counter->domain, counter->type);
}

struct itt_cell *itt_cell_named(const struct itt_domain *domain, const struct itt_string *name)
{
    if (!domain || !name)
        return NULL;
    struct itt_cell *c = find_cell(domain, name);
    return c ? c : make_cell(domain, name, name->text, domain->name, ITT_U64);
}

/* Whether cprof made this counter for this name, domain and type. */
static bool is_counter(const struct itt_cell *c, const char *name, const char *domain, int type)
{
    size_t before = domain ? strnlen(domain, ITT_NAME_MOST) : 0;
    size_t len = name ? strnlen(name, ITT_NAME_MOST) : 0;
    return c->type == type && c->text_len == before + (before ? 2 : 0) + len &&
           memcmp(c->text, domain ? domain : "", before) == 0 &&
           memcmp(c->own.name, name ? name : "", len) == 0;
}

struct itt_counter *itt_counter_make(const char *name, const char *domain, int type)
{
    int known = type == ITT_UNKNOWN ? ITT_U64 : type;
    uint32_t hash = name ? (uint32_t)hash_text(name, strnlen(name, ITT_NAME_MOST)) : 0;
    struct itt_cell *_Atomic *bucket = &counters[hash & (COUNTERS_MOST / 4 - 1)];
    struct itt_cell *first = atomic_load_explicit(bucket, memory_order_acquire);
    for (struct itt_cell *c = first; c; c = c->next_named)
        if (is_counter(c, name, domain, known))
            return &c->own;
    struct itt_cell *c = make_cell(NULL, NULL, name, domain, type);
    if (!c)
        return NULL;
    c->next_named = first;
    while (!atomic_compare_exchange_weak(bucket, &c->next_named, c))
        ; /* a race may add two; later searches find the newer one */
    return &c->own;
}

/* ---- events ---------------------------------------------------------------------------------- */

int itt_event_make(const char *name, size_t len)
{
    struct itt_string *string = itt_string_of(name, len);
    for (unsigned i = 0; string && i < EVENTS_MOST; i++) {
        const struct itt_string *there = NULL;
        if (atomic_compare_exchange_strong(&events[i], &there, string) || there == string)
            return (int)i + 1;
    }
    if (string && once_here())
        log_warn("more than %u ITT events: new ones are not in the trace", EVENTS_MOST);
    return 0;
}

const struct itt_string *itt_event_name(int event)
{
    return event > 0 && event <= (int)EVENTS_MOST ? atomic_load(&events[event - 1]) : NULL;
}
