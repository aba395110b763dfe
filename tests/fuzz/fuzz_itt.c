/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: any sequence of ITT calls through a client's table of functions, with metadata
 * of any type and length, counters of any type, and ends without begins. Every record must be whole
 * and become strict JSON. Pointers are valid or NULL, as the interface demands. Input: calls one
 * after the other; a byte chooses the function, arguments follow. The file under test is included
 * with renamed functions, so that this file can replace wake-up and steps. */
#define cprof_life       fuzz_itt_life
#define cprof_wake       fuzz_itt_wake
#define steps_mark       fuzz_itt_steps_mark
#define config_step_name fuzz_itt_step_name
#define __itt_api_init   fuzz_itt_api_init
#include "preload/markers/itt.c"

#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

_Atomic int fuzz_itt_life = LIFE_AWAKE;

void fuzz_itt_wake(enum wake_reason reason)
{
    (void)reason;
}

void fuzz_itt_steps_mark(enum step_source source, uint64_t ticks)
{
    (void)source;
    (void)ticks;
}

const char *fuzz_itt_step_name(enum config_step kind)
{
    return kind == CONFIG_STEP_ITT ? "*s[t-u]*p*" : "";
}

/* clang-format off */
#define CALL(name, type, args) type (*name) args;
static struct fuzz_client {
#include "tests/support/itt_calls.def"
} itt;
#undef CALL

#define CALL(name, type, args) {"__itt_" #name, (void **)(void *)&itt.name, NULL, NULL, 0},
static struct itt_function fuzz_functions[] = {
#include "tests/support/itt_calls.def"
    {NULL, NULL, NULL, NULL, 0}};
#undef CALL
/* clang-format on */

static void attach_once(void)
{
    static struct itt_global global = {.functions = fuzz_functions};
    static bool attached;
    if (attached)
        return;
    attached = true;
    memcpy(global.magic, ITT_MAGIC, sizeof global.magic);
    REQUIRE(thread_log_start(1u << 20));
    fuzz_itt_api_init(&global, 0);
    atomic_store(&writer_gate, GATE_SPANS | GATE_MARKERS);
}

enum { DOMAINS = 4, NAMES = 8, COUNTERS = 9 };

struct itt_state {
    struct itt_domain *domains[DOMAINS]; /* [0] is NULL */
    struct itt_string *names[NAMES];     /* as above; the last name comes from the input */
    struct itt_counter *counters[COUNTERS];
    int events[NAMES];
};

/* Few names and one from the input: the tables live as long as the process, and would fill up. */
static void make_names(struct input *in, struct itt_state *p)
{
    static const char *const texts[] = {"a",        "step", "PyTorch",
                                        "\xff\"\n", "",     "long name of a task"};
    for (int i = 1; i < DOMAINS; i++)
        p->domains[i] = itt.domain_create(texts[i - 1]);
    for (int i = 1; i < NAMES - 1; i++)
        p->names[i] = itt.string_handle_create(texts[i - 1]);
    const char *own = input_text(in);
    p->names[NAMES - 1] = itt.string_handle_create(own);
    for (int i = 0; i < COUNTERS; i++)
        p->counters[i] = itt.counter_create_typed(texts[i % 6], i % 2 ? "a" : NULL, i);
    for (int i = 0; i < NAMES - 2; i++)
        p->events[i] = itt.event_create(texts[i], i % 2 ? -1 : (int)strlen(texts[i]));
    p->events[NAMES - 1] = own ? itt.event_create(own, (int)strlen(own)) : 0;
}

static void tasks(struct input *in, struct itt_state *p, uint8_t which)
{
    static const struct itt_id none;
    struct itt_domain *d = p->domains[input_byte(in) % DOMAINS];
    struct itt_string *name = p->names[input_byte(in) % NAMES];
    struct itt_id id = {input_byte(in) % 4, 0, 0};
    switch (which) {
    case 0:
    case 1:
        itt.task_begin(d, id, none, name);
        break;
    case 2:
        itt.task_begin_fn(d, id, none, id.d1 ? (void *)(uintptr_t)input_number(in, 8) : NULL);
        break;
    case 3:
    case 4:
        itt.task_end(d);
        break;
    case 5:
        itt.task_begin_overlapped(d, id, none, name);
        break;
    case 6:
        itt.task_end_overlapped(d, id);
        break;
    case 7:
        itt.marker(d, id, name, input_byte(in));
        break;
    case 8:
        itt.frame_begin_v3(d, NULL);
        break;
    default:
        itt.frame_end_v3(d, NULL);
        break;
    }
}

static void metadata(struct input *in, struct itt_state *p, bool text)
{
    struct itt_domain *d = p->domains[input_byte(in) % DOMAINS];
    struct itt_string *key = p->names[input_byte(in) % NAMES];
    struct itt_id id = {input_byte(in) % 4, 0, 0};
    if (text) {
        const char *value = input_text(in);
        itt.metadata_str_add(d, id, key, value, value && input_byte(in) & 1 ? strlen(value) : 0);
        return;
    }
    int type = (int)input_byte(in) % 12 - 1;
    size_t count = input_byte(in) % 40;
    uint8_t *values = input_room(in, count * 8);
    for (size_t i = 0; values && i < count * 8; i++)
        values[i] = input_byte(in);
    itt.metadata_add(d, id, key, type, count, values);
}

static void others(struct input *in, struct itt_state *p, uint8_t which)
{
    uint8_t chosen = input_byte(in);
    struct itt_counter *counter = p->counters[chosen % COUNTERS];
    int event = chosen & 128 ? (int)input_number(in, 4) : p->events[chosen % NAMES];
    uint64_t value[1] = {0};
    switch (which) {
    case 12:
        itt.event_start(event);
        break;
    case 13:
        itt.event_end(event);
        break;
    case 14:
        itt.mark(event, input_text(in));
        break;
    case 15:
        itt.counter_inc_delta(counter, input_number(in, 8));
        break;
    case 16:
        itt.counter_dec(counter);
        break;
    case 17:
        value[0] = input_number(in, 8);
        itt.counter_set_value(counter, chosen & 64 ? NULL : value);
        break;
    case 18:
        itt.counter_inc_delta_v3(p->domains[chosen % DOMAINS], p->names[chosen % NAMES],
                                 input_number(in, 8));
        break;
    case 19: {
        const char *name = input_text(in);
        itt.thr_name_set(name, name && chosen & 1 ? (int)strlen(name) : -1);
        break;
    }
    default:
        (chosen & 1 ? itt.pause : itt.resume)();
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct input in = {.at = bytes, .end = bytes + size};
    struct itt_state p = {.domains = {NULL}};
    attach_once();
    make_names(&in, &p);
    while (in.at < in.end) {
        uint8_t which = input_byte(&in) % 21;
        if (which < 10)
            tasks(&in, &p, which);
        else if (which < 12)
            metadata(&in, &p, which & 1);
        else
            others(&in, &p, which);
    }
    itt.resume();
    while (per_thread.depth > 0)
        itt.task_end(p.domains[1]);
    for (int i = 0; i < DOMAINS; i++)
        itt.frame_end_v3(p.domains[i], NULL);
    for (int i = 0; i < NAMES; i++)
        itt.event_end(p.events[i]);
    for (int i = 0; i < DOMAINS; i++)
        for (uint64_t id = 0; id < 4; id++)
            while (itt_running_take(p.domains[i], (struct itt_id){id, 0, 0}, &(uint64_t){0},
                                    &(bool){false})) {
            }
    spans_abandon(thread_log_get());
    input_drain_as_json();
    input_free(&in);
    return 0;
}
