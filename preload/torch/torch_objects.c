/* SPDX-License-Identifier: Apache-2.0 */
/* Makes at::RecordFunction objects in torch's place (torch_objects.h). Any thread of the program,
 * inside torch; no lock, no allocation. */
#include "preload/torch/torch_objects.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "preload/core/core.h"
#include "preload/link/link.h"
#include "writer/writer.h"

#if defined(__x86_64__)

#define OBJECT    "libtorch_cpu.so"
#define NAME_MOST 256u /* bytes of a node's name, with the terminator; torch handles longer ones */

/* at::StepCallbacks: the callbacks for one object. The vector is a c10::SmallVector with room for
 * four pairs of a start and an end function. */
struct callbacks {
    void *pairs; /* `here`, unless there are more than four */
    uint32_t size, capacity;
    void *here[8];
    uint64_t thread;
    uint8_t scope, needs_inputs, needs_outputs, needs_ids;
};

/* at::RecordFunction of 2.4 to 2.15 with libstdc++'s new strings. */
struct object {
    const void *class;
    struct callbacks callbacks;
    uint8_t started; /* the start functions were called */
    struct {
        void *contexts; /* `here`, unless there are more than four */
        uint32_t size, capacity;
        void *here[4];
    } contexts;
    union {
        struct torch_string text;
        const void *schema; /* of the operator */
    } name;
    uint8_t name_is; /* enum name_is */
    int64_t sequence;
    const void *inputs;
    uint64_t n_inputs;
    struct { /* std::unordered_map of named inputs */
        void *buckets;
        uint64_t n_buckets;
        void *first;
        uint64_t size;
        float most_load;
        uint64_t resize_at;
        void *bucket;
    } named;
    void *outputs[3]; /* std::vector */
    uint64_t forward_thread, handle;
    uint8_t is_async;
    int64_t debug_handle;
    uint8_t is_static_out, is_nccl;
};
_Static_assert(offsetof(struct object, started) == 104 && sizeof(struct callbacks) == 96, "");
_Static_assert(offsetof(struct object, name_is) == 192 && sizeof(struct object) == 344, "");

enum name_is { NAME_IS_TEXT, NAME_IS_SCHEMA };

/* std::variant of a std::string_view and a std::reference_wrapper<const FunctionSchema>. */
struct descriptor {
    union {
        struct {
            size_t len;
            const char *at; /* not terminated */
        } text;
        const char *const *schema; /* begins with the address of the operator's name */
    };
    uint8_t is; /* enum name_is */
};

/* torch's functions; constant after torch_objects_start(). */
static struct {
    void (*make)(struct object *, struct callbacks *);
    void (*callbacks_of)(struct callbacks *, uint8_t scope);
    void (*destroy)(struct object *);
    void (*before)(struct object *, struct descriptor, int64_t);
    void (*end)(struct object *);
    void (*run)(struct object *, const char *const *schema, uint16_t key, uint64_t keys);
    void (*run_with_inputs)(struct object *, const char *const *schema, uint16_t key, uint64_t keys,
                            const void *inputs, uint64_t n);
    void (*evaluate)(void *engine, void *task, const void *node, void *inputs, void *queue);
    int64_t (*sequence)(uint16_t key, uint64_t keys);
    void *_Atomic *free; /* libtorch_cpu's GOT entry of operator delete */
    unsigned node_name;  /* index of Node::name() in a node's class */
} torchs;

static struct operator_callbacks ours; /* constant after torch_objects_start() */

/* The class of the objects made here: a copy of torch's, so virtual calls reach torch's
 * destructors. Objects point behind its first two words (Itanium C++ ABI, 2.5.2). */
static const void *own_class[4];

/* The same for the engine's ranges. */
static const void *range_class[4];

static inline bool is_own(const struct object *o)
{
    return __builtin_expect(o->class == &own_class[2], 1);
}

/* Whether cprof alone listens, as operators and nodes need it. */
static inline bool are_ours(const struct callbacks *c)
{
    return __builtin_expect(
        c->size == 1 && c->here[0] == ours.start && c->pairs == c->here &&
            !(c->needs_outputs | c->needs_ids) &&
            (c->scope == TORCH_SCOPE_FUNCTION || c->scope == TORCH_SCOPE_BACKWARD_FUNCTION),
        1);
}

/* Makes the object with the callbacks, of which there is one pair. */
static inline void make_own(struct object *o, const struct callbacks *c)
{
    o->class = &own_class[2];
    o->callbacks.pairs = o->callbacks.here;
    o->callbacks.size = 1;
    o->callbacks.capacity = 4;
    o->callbacks.here[0] = c->here[0];
    o->callbacks.here[1] = c->here[1];
    o->callbacks.thread = c->thread;
    memcpy(&o->callbacks.scope, &c->scope, 4);
    o->started = false;
    o->contexts.contexts = o->contexts.here;
    o->contexts.size = 1;
    o->contexts.capacity = 4;
    o->contexts.here[0] = NULL;
    o->name.text.at = o->name.text.here;
    o->name.text.len = 0;
    o->name.text.here[0] = '\0';
    o->name_is = NAME_IS_TEXT;
    o->sequence = -1;
    o->inputs = NULL;
    o->n_inputs = 0;
    o->named.buckets = &o->named.bucket;
    o->named.n_buckets = 1;
    o->named.first = NULL;
    o->named.size = 0;
    o->named.most_load = 1;
    o->named.resize_at = 0;
    o->named.bucket = NULL;
    memset(o->outputs, 0, sizeof o->outputs);
    o->forward_thread = o->handle = 0;
    o->is_async = false;
    o->debug_handle = -1;
    o->is_static_out = o->is_nccl = false;
}

/* Whether the object owns memory by now: torch's functions gave it a name or values. */
static inline bool owns_memory(const struct object *o)
{
    return (o->name_is != NAME_IS_SCHEMA && o->name.text.at != o->name.text.here) ||
           o->named.size || o->outputs[0];
}

static inline void start_own(struct object *o, const char *name, int64_t sequence)
{
    o->sequence = sequence;
    o->started = true;
    ours.begin(o, name);
}

static inline void start_operator(struct object *o, const char *const *schema, int64_t sequence)
{
    o->name.schema = schema;
    o->name_is = NAME_IS_SCHEMA;
    start_own(o, *schema, sequence);
}

static inline void end_own(struct object *o)
{
    if (!o->started || o->callbacks.size == 0)
        return;
    o->callbacks.size = 0;
    ours.end(o, NULL);
}

/* ---- the engine's ranges ---- */

#define EVALUATE   "autograd::engine::evaluate_function: "
#define RANGE_MOST 4096u /* bytes of a range's name, with the terminator; longer ones are cut */

/* Where the engine calls the constructor for a range; NULL: not known yet, and ranges are made and
 * named as other objects are. */
static void *_Atomic engine_site;

/* How often the calls were redirected. */
static _Atomic unsigned redirections;

/* The last object that was made for a scope on this thread; the engine makes one, and calls
 * evaluate_function() next. NULL: none. */
static __thread struct object *last_made;

/* What such an object holds in the places of further callbacks. */
enum {
    REDIRECTION = 2, /* `redirections` when it was made */
    SITE,            /* where the constructor was called */
    NODE,            /* if its name is a range's: the hash of the node's name; else NULL */
};

static void *current_redirection(void)
{
    return (void *)(uintptr_t)atomic_load_explicit(&redirections, memory_order_relaxed);
}

/* The object that the engine has just made, in the frame that calls evaluate_function(). NULL: it
 * made none. An older object may be gone, but its place in the caller's frame can be read. */
static struct object *take_last_made(const void *frame)
{
    enum { FRAME = 4096 }; /* bytes; the caller's frame has 1,300 */
    struct object *o = last_made;
    last_made = NULL;
    bool in_frame = (uintptr_t)o - (uintptr_t)frame < FRAME;
    return in_frame && o->callbacks.here[REDIRECTION] == current_redirection() ? o : NULL;
}

/* The node's name; to be freed. A function returns a std::string in memory of the caller (Itanium
 * C++ ABI, 3.1.3.1). */
static void name_node(struct torch_string *name, const void *node)
{
    const void *const *class;
    void (*get)(struct torch_string *, const void *);
    memcpy(&class, node, sizeof class);
    memcpy(&get, &class[torchs.node_name], sizeof get);
    get(name, node);
}

static void free_name(const struct torch_string *name)
{
    void *now = atomic_load_explicit(torchs.free, memory_order_relaxed);
    void (*delete)(void *);
    memcpy(&delete, &now, sizeof delete);
    if (name->at != name->here)
        delete (name->at);
}

/* Begins the engine's range around the node. */
static void begin_range(struct object *o, const void *node)
{
    char text[RANGE_MOST];
    struct torch_string name;
    name_node(&name, node);
    size_t room = sizeof text - sizeof EVALUATE;
    size_t len = name.len < room ? name.len : room;
    memcpy(text, EVALUATE, sizeof EVALUATE - 1);
    memcpy(text + sizeof EVALUATE - 1, name.at, len);
    text[sizeof EVALUATE - 1 + len] = '\0';
    free_name(&name);
    o->started = true;
    ours.begin(o, text);
}

/* Notes a range's name while the site is unknown. */
static __attribute__((noinline)) void note_name(struct object *o, const char *name)
{
    size_t prefix = sizeof EVALUATE - 1;
    if (o == last_made && strncmp(name, EVALUATE, prefix) == 0)
        o->callbacks.here[NODE] =
            (void *)(uintptr_t)hash_text(name + prefix, strlen(name + prefix));
}

/* Learns where the engine makes its ranges, from a range that torch has named: its name ends with
 * the node's. */
static void learn_site(const struct object *o, const void *node)
{
    struct torch_string name;
    name_node(&name, node);
    if (o->callbacks.here[NODE] == (void *)(uintptr_t)hash_text(name.at, name.len))
        atomic_store(&engine_site, o->callbacks.here[SITE]);
    free_name(&name);
}

static __attribute__((noinline)) void node_begins(const void *node)
{
    struct object *o = take_last_made(__builtin_frame_address(0));
    if (o && o->class == &range_class[2] && !o->started)
        begin_range(o, node);
    else if (o && is_own(o) && o->callbacks.here[NODE])
        learn_site(o, node);
}

/* Replaces Engine::evaluate_function(). */
static void evaluate(void *engine, void *task, const void *node, void *inputs, void *queue)
{
    if (last_made)
        node_begins(node);
    torchs.evaluate(engine, task, node, inputs, queue);
}

void torch_objects_redirect(void)
{
    atomic_fetch_add(&redirections, 1);
}

/* ---- the other replacements ---- */

/* Replaces the constructor RecordFunction(StepCallbacks&&). */
static void make(struct object *o, struct callbacks *c)
{
    if (are_ours(c))
        make_own(o, c);
    else
        torchs.make(o, c);
}

/* Replaces the constructor RecordFunction(RecordScope). */
static void make_for_scope(struct object *o, uint8_t scope)
{
    struct callbacks c;
    torchs.callbacks_of(&c, scope);
    last_made = NULL;
    if (!are_ours(&c)) {
        torchs.make(o, &c); /* leaves nothing in `c` that must be freed */
        return;
    }
    make_own(o, &c);
    void *site = __builtin_return_address(0);
    o->callbacks.here[REDIRECTION] = current_redirection();
    o->callbacks.here[SITE] = site;
    o->callbacks.here[NODE] = NULL;
    if (site == atomic_load_explicit(&engine_site, memory_order_relaxed)) {
        o->class = &range_class[2];
        o->callbacks.size = 0; /* inactive */
    }
    last_made = o;
}

/* Replaces the destructor. */
static void destroy(struct object *o)
{
    if (is_own(o)) {
        end_own(o);
        if (__builtin_expect(!owns_memory(o), 1))
            return;
    } else if (o->class == &range_class[2]) {
        if (o->started)
            ours.end(o, NULL);
        return;
    }
    torchs.destroy(o);
}

/* Replaces RecordFunction::end(). */
static void end(struct object *o)
{
    if (is_own(o))
        end_own(o);
    else
        torchs.end(o);
}

/* Replaces RecordFunction::before(). */
static void before(struct object *o, struct descriptor name, int64_t sequence)
{
    char text[NAME_MOST];
    if (!is_own(o) || o->callbacks.size == 0) {
        torchs.before(o, name, sequence);
    } else if (name.is == NAME_IS_SCHEMA) {
        start_operator(o, name.schema, sequence);
    } else if (name.text.len < sizeof text) {
        memcpy(text, name.text.at, name.text.len);
        text[name.text.len] = '\0';
        if (__builtin_expect(!atomic_load_explicit(&engine_site, memory_order_relaxed), 0))
            note_name(o, text);
        start_own(o, text, sequence);
    } else { /* torch's function makes a copy, which its destructor frees */
        torchs.before(o, name, sequence);
    }
}

/* Replaces Dispatcher::runRecordFunction() for an operator whose inputs are not wanted. */
static void run(struct object *o, const char *const *schema, uint16_t key, uint64_t keys)
{
    if (is_own(o) && o->callbacks.size)
        start_operator(o, schema, torchs.sequence(key, keys));
    else
        torchs.run(o, schema, key, keys);
}

/* Replaces Dispatcher::runRecordFunction() with inputs, an array of c10::IValue. */
static void run_with_inputs(struct object *o, const char *const *schema, uint16_t key,
                            uint64_t keys, const void *inputs, uint64_t n)
{
    if (is_own(o) && o->callbacks.size) {
        o->inputs = inputs;
        o->n_inputs = n;
        start_operator(o, schema, torchs.sequence(key, keys));
    } else {
        torchs.run_with_inputs(o, schema, key, keys, inputs, n);
    }
}

#define RUN_NAME                                                                                   \
    "_ZN3c1010Dispatcher17runRecordFunctionERN2at14RecordFunctionESt17reference_wrapperIKNS_"      \
    "14FunctionSchemaEENS_11DispatchKeyENS_14DispatchKeySetE"

enum { EVALUATE_NODE, MAKE, MAKE_FOR_SCOPE, DESTROY, END, BEFORE, RUN, RUN_INPUTS };

const struct path_call torch_object_calls[OBJECT_CALLS] = {
    [EVALUATE_NODE] = {"_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTask"
                       "EEPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE",
                       (void (*)(void))evaluate, false},
    [MAKE] = {"_ZN2at14RecordFunctionC1EONS_13StepCallbacksE", (void (*)(void))make, false},
    [MAKE_FOR_SCOPE] = {"_ZN2at14RecordFunctionC1ENS_11RecordScopeE",
                        (void (*)(void))make_for_scope, false},
    [DESTROY] = {"_ZN2at14RecordFunctionD1Ev", (void (*)(void))destroy, true},
    [END] = {"_ZN2at14RecordFunction3endEv", (void (*)(void))end, false},
    [BEFORE] = {"_ZN2at14RecordFunction6beforeESt7variantIJSt17basic_string_viewIcSt11char_traitsIc"
                "EESt17reference_wrapperIKN3c1014FunctionSchemaEEEEl",
                (void (*)(void))before, false},
    [RUN] = {RUN_NAME, (void (*)(void))run, false},
    [RUN_INPUTS] = {RUN_NAME "NS_8ArrayRefIKNS_6IValueEEE", (void (*)(void))run_with_inputs, false},
};

/* ---- the comparison ---- */

static void *find_call(unsigned i)
{
    return resolve_in(OBJECT, torch_object_calls[i].name);
}

/* The index of Node::name() in the class of nodes; 0: not found. */
static unsigned find_node_name(void)
{
    enum { MOST = 19 }; /* words of the class in 2.13; it has grown over time */
    const void *const *class = resolve_in(OBJECT, "_ZTVN5torch8autograd4NodeE");
    const void *name = resolve_in(OBJECT, "_ZNK5torch8autograd4Node4nameB5cxx11Ev");
    for (unsigned i = 2; class && name && i < MOST; i++)
        if (class[i] == name)
            return i - 2;
    return 0;
}

static bool find_functions(void)
{
    struct got_call operator_delete = {"_ZdlPv", NULL};
    const void *const *class = resolve_in(OBJECT, "_ZTVN2at14RecordFunctionE");
    *(void **)&torchs.make = find_call(MAKE);
    *(void **)&torchs.destroy = find_call(DESTROY);
    *(void **)&torchs.end = find_call(END);
    *(void **)&torchs.before = find_call(BEFORE);
    *(void **)&torchs.run = find_call(RUN);
    *(void **)&torchs.run_with_inputs = find_call(RUN_INPUTS);
    *(void **)&torchs.evaluate = find_call(EVALUATE_NODE);
    *(void **)&torchs.callbacks_of =
        resolve_in(OBJECT, "_ZN2at16getStepCallbacksENS_11RecordScopeE");
    *(void **)&torchs.sequence =
        resolve_in(OBJECT, "_ZN3c1010Dispatcher38sequenceNumberForRunningRecordFunctionENS_"
                           "11DispatchKeyENS_14DispatchKeySetE");
    got_find_calls(OBJECT, &operator_delete, 1);
    torchs.free = operator_delete.slot;
    torchs.node_name = find_node_name();
    if (!class || !torchs.make || !torchs.destroy || !torchs.end || !torchs.before || !torchs.run ||
        !torchs.run_with_inputs || !torchs.evaluate || !torchs.callbacks_of || !torchs.sequence ||
        !torchs.free || !torchs.node_name)
        return false;
    memcpy(own_class, class, sizeof own_class);
    memcpy(range_class, class, sizeof range_class);
    return true;
}

static bool layout_agrees(const struct torch_layout *l)
{
    return l->rf_size == sizeof(struct object) &&
           l->rf_thread_id == offsetof(struct object, callbacks.thread) &&
           l->rf_scope == offsetof(struct object, callbacks.scope) &&
           l->rf_sequence_nr == offsetof(struct object, sequence) &&
           l->rf_inputs_data == offsetof(struct object, inputs) &&
           l->rf_inputs_size == offsetof(struct object, n_inputs) &&
           l->rf_fwd_thread_id == offsetof(struct object, forward_thread);
}

/* The bytes of an object that no constructor writes: free places and padding. */
static const struct gap {
    uint16_t from, to;
} gaps[] = {{40, 88},   {100, 104}, {105, 112}, {136, 160}, {177, 192},
            {193, 200}, {260, 264}, {321, 328}, {338, 344}};

#define FILLER 0xa5

/* Clears the gaps. False: one of their bytes was written. */
static bool clear_gaps(struct object *o)
{
    bool unwritten = true;
    uint8_t *bytes = (uint8_t *)o;
    for (const struct gap *g = gaps; g < gaps + sizeof gaps / sizeof gaps[0]; g++)
        for (uint16_t at = g->from; at < g->to; at++) {
            unwritten = unwritten && bytes[at] == FILLER;
            bytes[at] = 0;
        }
    return unwritten;
}

/* Whether torch reads the object's name where it is written here. */
static bool names_agree(struct object *o)
{
    const char *schema[32] = {"operator"};
    if (torch_api.name(o) != o->name.text.here)
        return false;
    o->name.schema = schema;
    o->name_is = NAME_IS_SCHEMA;
    return torch_api.name(o) == schema[0];
}

/* Whether torch's constructor writes each field as make_own() does, and no other byte. Both objects
 * are made at the same address, because they point into themselves. */
static bool constructors_agree(void)
{
    struct callbacks given = {.size = 1, .capacity = 4, .thread = 7}, moved;
    given.here[0] = &given;
    given.here[1] = &moved;
    given.scope = TORCH_SCOPE_BACKWARD_FUNCTION;
    given.needs_inputs = true;
    moved = given;
    moved.pairs = moved.here;
    struct object o, torchs_object;
    memset(&o, FILLER, sizeof o);
    torchs.make(&o, &moved);
    memcpy(&torchs_object, &o, sizeof o);
    memset(&o, FILLER, sizeof o);
    make_own(&o, &given);
    torchs_object.class = o.class;
    clear_gaps(&o);
    return clear_gaps(&torchs_object) && memcmp(&o, &torchs_object, sizeof o) == 0 &&
           names_agree(&o);
}

bool torch_objects_start(const struct operator_callbacks *callbacks)
{
    ours = *callbacks;
    return layout_agrees(torch_api.layout) && find_functions() && constructors_agree();
}

#else

const struct path_call torch_object_calls[OBJECT_CALLS] = {[0 ... OBJECT_CALLS - 1] = {.name = ""}};

void torch_objects_redirect(void)
{
}

bool torch_objects_start(const struct operator_callbacks *callbacks)
{
    (void)callbacks;
    return false;
}

#endif
