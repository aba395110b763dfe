/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: any sequence of NVTX calls, with attributes of any version and size, payloads
 * and messages of any type. Every record must be whole and become strict JSON, and calls must
 * return the levels that NVTX promises. Pointers are valid or NULL, and attributes have their
 * claimed size, as the interface demands. Input: calls one after the other; a byte chooses the
 * function, arguments follow. The file under test is included with renamed functions, so that this
 * file can replace steps and settings. */
#define cprof_life       fuzz_nvtx_life
#define steps_mark       fuzz_nvtx_steps_mark
#define trigger_region   fuzz_nvtx_trigger_region
#define config_get       fuzz_nvtx_config_get
#define config_step_name fuzz_nvtx_config_step_name
#define nvtx_attach      fuzz_nvtx_attach
#define nvtx_take_key    fuzz_nvtx_take_key
#include "preload/markers/nvtx.c"

#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

_Atomic int fuzz_nvtx_life = LIFE_AWAKE;
static struct config fuzz_config;

void fuzz_nvtx_steps_mark(enum step_source source, uint64_t ticks)
{
    (void)source;
    (void)ticks;
}

void fuzz_nvtx_trigger_region(bool begins)
{
    (void)begins;
}

const struct config *fuzz_nvtx_config_get(void)
{
    fuzz_config.step = CONFIG_STEP_NVTX;
    return &fuzz_config;
}

const char *fuzz_nvtx_config_step_name(enum config_step kind)
{
    (void)kind;
    return "*s[t-u]*p*";
}

enum { FUNCTIONS = 20, FUZZ_DOMAINS = 4, FUZZ_RANGES = 8 };

static nvtx_function fuzz_core[FUNCTIONS], fuzz_core2[FUNCTIONS];
static nvtx_function *fuzz_core_table[FUNCTIONS], *fuzz_core2_table[FUNCTIONS];

static int fuzz_module_table(int module, nvtx_function ***table, unsigned *n)
{
    *table = module == NVTX_CORE ? fuzz_core_table : fuzz_core2_table;
    *n = FUNCTIONS;
    return module == NVTX_CORE || module == NVTX_CORE2;
}

static const void *fuzz_export_table(uint32_t id)
{
    static const struct nvtx_callbacks callbacks = {sizeof callbacks, fuzz_module_table};
    return id == NVTX_CALLBACKS ? &callbacks : NULL;
}

static void attach_once(void)
{
    static bool attached;
    if (attached)
        return;
    attached = true;
    for (int i = 0; i < FUNCTIONS; i++) {
        fuzz_core_table[i] = &fuzz_core[i];
        fuzz_core2_table[i] = &fuzz_core2[i];
    }
    REQUIRE(thread_log_start(1u << 20));
    fuzz_nvtx_attach(fuzz_export_table);
    atomic_store(&writer_gate, GATE_SPANS | GATE_MARKERS);
}

/* Strings that this run registered. They live as long as the process. */
static struct nvtx_string *fuzz_strings[4];
static unsigned n_fuzz_strings;

static void read_message(struct input *in, int32_t *type, union nvtx_message *message)
{
    *type = (int32_t)(input_byte(in) % 6) - 1;
    message->ascii = NULL;
    if (*type == NVTX_ASCII)
        message->ascii = input_text(in);
    else if (*type == NVTX_UNICODE)
        message->unicode = input_wide(in);
    else if (*type == NVTX_REGISTERED && n_fuzz_strings != 0)
        message->registered = fuzz_strings[input_byte(in) % n_fuzz_strings];
}

/* NULL, or attributes of exactly their claimed size, at least the 4 bytes with that size. */
static attributes read_attributes(struct input *in)
{
    struct nvtx_attributes a = {.version = 3, .size = sizeof a};
    uint8_t how = input_byte(in);
    if (how == 0xff)
        return NULL;
    if (how & 1) {
        a.version = (uint16_t)input_number(in, 2);
        a.size = (uint16_t)(4 + input_number(in, 2) % 300);
    }
    if (how & 2)
        a.category = (uint32_t)input_number(in, 1 + how % 4);
    if (how & 4) {
        a.payload_type = (int32_t)input_number(in, how & 8 ? 4 : 1);
        a.payload.u64 = input_number(in, 8);
    }
    read_message(in, &a.message_type, &a.message);
    uint8_t *given = input_room(in, a.size);
    if (given)
        memcpy(given, &a, a.size < sizeof a ? a.size : sizeof a);
    return (attributes)(void *)given;
}

static const struct nvtx_resource *read_resource(struct input *in)
{
    struct nvtx_resource r = {.version = 3, .size = sizeof r};
    uint8_t how = input_byte(in);
    if (how == 0xff)
        return NULL;
    if (how & 1)
        r.size = (uint16_t)(4 + input_byte(in));
    r.type = (int32_t)(0x10000 + how % 8);
    r.identifier = how & 8 ? (uint64_t)pthread_self() : input_number(in, 8);
    read_message(in, &r.message_type, &r.message);
    uint8_t *given = input_room(in, r.size);
    if (given)
        memcpy(given, &r, r.size < sizeof r ? r.size : sizeof r);
    return (const struct nvtx_resource *)(void *)given;
}

struct nvtx_state {
    domain domains[FUZZ_DOMAINS];
    int levels[FUZZ_DOMAINS];
    uint64_t ranges[FUZZ_RANGES];
};

#define CORE(type, number)  ((type)fuzz_core[number])
#define CORE2(type, number) ((type)fuzz_core2[number])

typedef uint64_t start_text(const char *), start_wide(const wchar_t *);
typedef uint64_t start_in_domain(domain, attributes);
typedef void name_wide(uint32_t, const wchar_t *);
typedef domain make_domain(const char *);

static void pushed(struct nvtx_state *p, unsigned d, int level)
{
    REQUIRE(level == p->levels[d]);
    p->levels[d]++;
}

static void popped(struct nvtx_state *p, unsigned d, int level)
{
    REQUIRE(p->levels[d] > 0 ? level == p->levels[d] - 1 : level < 0);
    p->levels[d] -= p->levels[d] > 0;
}

static void ranges(struct input *in, struct nvtx_state *p, uint8_t which, unsigned d)
{
    uint64_t *range = &p->ranges[input_byte(in) % FUZZ_RANGES];
    switch (which) {
    case 0:
        pushed(p, 0, CORE(int (*)(const char *), 9)(input_text(in)));
        break;
    case 1:
        pushed(p, 0, CORE(int (*)(const wchar_t *), 10)(input_wide(in)));
        break;
    case 2:
        pushed(p, 0, CORE(int (*)(attributes), 8)(read_attributes(in)));
        break;
    case 3:
        popped(p, 0, CORE(int (*)(void), 11)());
        break;
    case 4:
        pushed(p, d, CORE2(int (*)(domain, attributes), 4)(p->domains[d], read_attributes(in)));
        break;
    case 5:
        popped(p, d, CORE2(int (*)(domain), 5)(p->domains[d]));
        break;
    case 6:
        *range = CORE(start_text *, 5)(input_text(in));
        break;
    case 7:
        *range = CORE(start_wide *, 6)(input_wide(in));
        break;
    case 8:
        *range = CORE2(start_in_domain *, 2)(p->domains[d], read_attributes(in));
        break;
    default: /* also ends a range twice, or an id that was never a range */
        CORE2(void (*)(domain, uint64_t), 3)
        (p->domains[d], which == 9 ? *range : input_number(in, 8));
        break;
    }
}

static void names_and_marks(struct input *in, struct nvtx_state *p, uint8_t which, unsigned d)
{
    switch (which) {
    case 11:
        CORE(void (*)(const char *), 2)(input_text(in));
        break;
    case 12:
        CORE(void (*)(const wchar_t *), 3)(input_wide(in));
        break;
    case 13:
        CORE2(void (*)(domain, attributes), 1)(p->domains[d], read_attributes(in));
        break;
    case 14:
        CORE2(void (*)(domain, uint32_t, const char *), 8)
        (p->domains[d], (uint32_t)input_number(in, 1), input_text(in));
        break;
    case 15:
        CORE2(void (*)(domain, uint32_t, const wchar_t *), 9)
        (p->domains[d], (uint32_t)input_number(in, 4), input_wide(in));
        break;
    case 16:
        CORE(void (*)(uint32_t, const char *), 14)((uint32_t)input_number(in, 1), input_text(in));
        break;
    case 17:
        CORE(name_wide *, 15)((uint32_t)input_number(in, 1), input_wide(in));
        break;
    case 18:
        CORE2(const void *(*)(domain, const struct nvtx_resource *), 6)
        (p->domains[d], read_resource(in));
        break;
    case 19:
        fuzz_strings[n_fuzz_strings % 4] = CORE2(struct nvtx_string * (*)(domain, const char *),
                                                 10)(p->domains[d], input_text(in));
        n_fuzz_strings += n_fuzz_strings < 4;
        break;
    default:
        atomic_store(&writer_gate, input_byte(in) & 1 ? 0 : GATE_SPANS | GATE_MARKERS);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct input in = {.at = bytes, .end = bytes + size};
    struct nvtx_state p = {.domains = {NULL}};
    attach_once();
    n_fuzz_strings = 0;
    /* Few names: the tables live as long as the process, and would fill up. */
    static const char *const names[] = {"a", "step", "\xff\"\n"};
    for (unsigned i = 1; i < FUZZ_DOMAINS; i++)
        p.domains[i] = CORE2(make_domain *, 12)(names[i - 1]);
    while (in.at < in.end) {
        uint8_t which = input_byte(&in) % 21;
        unsigned d = input_byte(&in) % FUZZ_DOMAINS;
        (which < 11 ? ranges : names_and_marks)(&in, &p, which, d);
    }
    atomic_store(&writer_gate, GATE_SPANS | GATE_MARKERS);
    for (unsigned d = 0; d < FUZZ_DOMAINS; d++)
        while (p.levels[d] > 0)
            popped(&p, d, CORE2(int (*)(domain), 5)(p.domains[d]));
    for (unsigned i = 0; i < FUZZ_RANGES; i++)
        CORE(void (*)(uint64_t), 7)(p.ranges[i]);
    REQUIRE(atomic_load(&thread_log_get()->depth) == 0);
    input_drain_as_json();
    input_free(&in);
    return 0;
}
