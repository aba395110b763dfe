/* SPDX-License-Identifier: Apache-2.0 */
/* A hand-written ITT client (tests/e2e/test_itt.py). Its static part works like intel/ittapi's:
 * calls go through pointers. The first call of a task loads the library that
 * INTEL_LIBITTNOTIFY64 names and passes it the table. The static part makes the domain and the
 * first string before that. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/cprof.h"
#include "preload/markers/itt.h"

typedef struct itt_domain *make_domain(const char *);
typedef struct itt_string *make_string(const char *);
typedef void begin_task(const struct itt_domain *, struct itt_id, struct itt_id,
                        const struct itt_string *);
typedef void end_task(const struct itt_domain *);
typedef void put_marker(const struct itt_domain *, struct itt_id, const struct itt_string *, int);
typedef void put_text(const struct itt_domain *, struct itt_id, const struct itt_string *,
                      const char *, size_t);
typedef struct itt_counter *make_counter(const char *, const char *);
typedef void count(struct itt_counter *, unsigned long long);
typedef void name_thread(const char *);
typedef void nothing(void);

static make_domain own_domain;
static make_string own_string;
static begin_task first_task;

static make_domain *domain_create = own_domain;
static make_string *string_create = own_string;
static begin_task *task_begin = first_task;
static end_task *task_end;
static put_marker *marker;
static put_text *metadata_str_add;
static make_counter *counter_create;
static count *counter_inc_delta;
static name_thread *thread_set_name;
static nothing *pause_itt, *resume_itt;

static struct itt_domain first_domain = {.flags = 1};
static struct itt_string first_string;
static const struct itt_id none;

static struct itt_function functions[] = {
    {"__itt_domain_create", (void **)&domain_create, NULL, (void *)own_domain, 0},
    {"__itt_string_handle_create", (void **)&string_create, NULL, (void *)own_string, 0},
    {"__itt_task_begin", (void **)&task_begin, NULL, NULL, 0},
    {"__itt_task_end", (void **)&task_end, NULL, NULL, 0},
    {"__itt_marker", (void **)&marker, NULL, NULL, 0},
    {"__itt_metadata_str_add", (void **)&metadata_str_add, NULL, NULL, 0},
    {"__itt_counter_create", (void **)&counter_create, NULL, NULL, 0},
    {"__itt_counter_inc_delta", (void **)&counter_inc_delta, NULL, NULL, 0},
    {"__itt_thread_set_name", (void **)&thread_set_name, NULL, NULL, 0},
    {"__itt_pause", (void **)&pause_itt, NULL, NULL, 0},
    {"__itt_resume", (void **)&resume_itt, NULL, NULL, 0},
    {NULL, NULL, NULL, NULL, 0},
};

static struct itt_domain *own_domain(const char *name)
{
    first_domain.name = strdup(name);
    return &first_domain;
}

static struct itt_string *own_string(const char *text)
{
    first_string.text = strdup(text);
    return &first_string;
}

static void first_task(const struct itt_domain *domain, struct itt_id id, struct itt_id parent,
                       const struct itt_string *name)
{
    static struct itt_global global = {
        .magic = {'\xED', '\xAB', '\xAB', '\xEC', '\x0D', '\xEE', '\xDA', '\x30'},
        .functions = functions};
    const char *path = getenv("INTEL_LIBITTNOTIFY64");
    void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
    void (*init)(void *, int) =
        library ? (void (*)(void *, int))dlsym(library, "__itt_api_init") : NULL;
    task_begin = NULL;
    if (init)
        init(&global, -1);
    if (task_begin)
        task_begin(domain, id, parent, name);
}

static struct itt_domain *domain;

static void task(const char *name)
{
    if (!task_begin || !task_end)
        return;
    task_begin(domain, none, none, string_create(name));
    task_end(domain);
}

static void *in_thread(void *arg)
{
    char name[32];
    snprintf(name, sizeof name, "worker %d", *(int *)arg);
    if (thread_set_name)
        thread_set_name(name);
    for (int i = 0; i < 1000; i++)
        task(name);
    return NULL;
}

static void threads(void)
{
    pthread_t thread[64];
    int number[64];
    for (int i = 0; i < 64; i++) {
        number[i] = i;
        pthread_create(&thread[i], NULL, in_thread, &number[i]);
    }
    for (int i = 0; i < 64; i++)
        pthread_join(thread[i], NULL);
}

/* A loop with a task "step N" around each iteration. */
static void rounds(struct itt_counter *counter)
{
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "step %d", i);
        task_begin(domain, none, none, string_create(name));
        metadata_str_add(domain, none, string_create("note"), "a \"note\" \x01", 0);
        task("quote \" and \\ \n\x01 bad \xff utf8");
        marker(domain, none, string_create("moment"), 3);
        counter_inc_delta(counter, 5);
        pause_itt();
        task("paused");
        resume_itt();
        task_end(domain);
    }
}

int main(int argc, char **argv)
{
    domain = domain_create("client");
    struct itt_string *name = string_create("the first");
    task_begin(domain, none, none, name);
    if (!task_end) {
        puts("no collector");
        return 0;
    }
    task_end(domain);
    thread_set_name("the main one");
    if (argc > 1 && strcmp(argv[1], "threads") == 0)
        threads();
    else
        rounds(counter_create("items", "client"));
    puts("collected");
    return 0;
}
