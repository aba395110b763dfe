/* SPDX-License-Identifier: Apache-2.0 */
/* Structures of ITT clients, as their static part (intel/ittapi: ittnotify_config.h, ittnotify.h)
 * lays them out, and cprof's tables of names. Each client library has its own static part, with
 * objects that it made before it called __itt_api_init(). Of domains, strings and counters cprof
 * reads only the fields below and writes none. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One row of a client's table of functions (__itt_api_info). */
struct itt_function {
    const char *name;
    void **pointer;
    void *init;
    void *null; /* used without a collector; NULL: the client skips the call */
    int group;
};

#define ITT_MAGIC "\xED\xAB\xAB\xEC\x0D\xEE\xDA\x30"

/* The beginning of __itt_global. */
struct itt_global {
    char magic[8]; /* ITT_MAGIC, not terminated */
    unsigned long version[3];
    volatile long state[3];
    pthread_mutex_t mutex;
    void *library, *error_handler, *path;
    struct itt_function *functions; /* ends with a row without a name */
};

/* __itt_id, by value. */
struct itt_id {
    unsigned long long d1, d2, d3;
};

/* __itt_domain. */
struct itt_domain {
    volatile int flags; /* 0: the client skips its calls */
    const char *name;
    void *wide_name;
    int extra1;
    void *extra2;
    struct itt_domain *next;
};

/* __itt_string_handle. */
struct itt_string {
    const char *text;
    void *wide_text;
    int extra1;
    void *extra2;
    struct itt_string *next;
};

/* __itt_counter_info. */
struct itt_counter {
    const char *name;
    void *wide_name;
    const char *domain;
    void *wide_domain;
    int type; /* enum itt_type */
    long index;
    int extra1;
    void *extra2;
    struct itt_counter *next;
};

/* __itt_metadata_type. */
enum itt_type {
    ITT_UNKNOWN,
    ITT_U64,
    ITT_S64,
    ITT_U32,
    ITT_S32,
    ITT_U16,
    ITT_S16,
    ITT_FLOAT,
    ITT_DOUBLE
};

_Static_assert(offsetof(struct itt_domain, name) == 8 && sizeof(struct itt_domain) == 48 &&
                   sizeof(struct itt_string) == 40 && offsetof(struct itt_counter, type) == 32,
               "ITT's own layout");

#define ITT_NAME_MOST (1u << 16) /* most bytes of a name */

/* Reads number `i` of an array of this type into 8 bytes. Returns its item's type; -1: unknown type
 * or not finite. Any thread. */
int itt_number_at(int type, const void *data, size_t i, uint64_t *bits);

struct itt_running;

/* Adds a task that begins. marks: its end ends a step. Returns NULL when too many run. Any thread;
 * no lock, no allocation. */
struct itt_running *itt_running_add(const struct itt_domain *domain, struct itt_id id, bool marks);

/* Sets the task's range from async_open(); 0: not recorded. Called by the thread that added the
 * task. */
void itt_running_set_range(struct itt_running *task, uint64_t range);

/* Removes a task of this domain and id. Returns false if none runs. Any thread; no lock. */
bool itt_running_take(const struct itt_domain *domain, struct itt_id id, uint64_t *range,
                      bool *marks);

/* The domain of this name; the same name gives the same domain. NULL: no memory. Allocates for a
 * new name. Any thread; no lock. */
struct itt_domain *itt_domain_of(const char *name);

/* The string of this name, as itt_domain_of(). When there are too many, all new names share one
 * string (logged once, counted). */
struct itt_string *itt_string_of(const char *text, size_t len);

/* What cprof keeps about a counter, besides the client's struct. */
struct itt_cell {
    struct itt_cell *next;
    struct itt_cell *next_named; /* next in the bucket of its name, for a counter that cprof made */
    const void *a, *b;           /* key: the client's counter and NULL, or a domain and a string */
    struct itt_counter own;      /* the client's view of a counter that cprof made */
    _Atomic uint64_t value;      /* its bits, by type; any thread, relaxed */
    int type;                    /* enum itt_type */
    uint32_t text_len;
    char text[]; /* the name in traces */
};

/* The cell of a counter that itt_counter_make() or a client's static part made. NULL: no memory, or
 * too many. Any thread; no lock. */
struct itt_cell *itt_cell_of(const struct itt_counter *counter);

/* The cell of the 64-bit counter that a domain and a string name; as itt_cell_of(). */
struct itt_cell *itt_cell_named(const struct itt_domain *domain, const struct itt_string *name);

/* The counter of this name and domain (may be NULL), made if new; as itt_cell_of(). */
struct itt_counter *itt_counter_make(const char *name, const char *domain, int type);

/* The number (from 1) of the event of this name; the same name gives the same number. 0: too many.
 * Any thread; no lock. */
int itt_event_make(const char *name, size_t len);

/* The name of an event; NULL: no such event. Any thread. */
const struct itt_string *itt_event_name(int event);
