/* SPDX-License-Identifier: Apache-2.0 */
/* Redirects calls of torch's record path, and answers two of them (torch_path.h). The functions run
 * on any thread of the program, inside torch. They take no lock, and allocate only what torch's own
 * would. Exceptions of torch's functions pass through them. */
#include "preload/torch/torch_path.h"

#include <stdatomic.h>
#include <string.h>

#include "preload/core/core.h"
#include "preload/link/link.h"
#include "writer/writer.h"

#define OBJECT "libtorch_cpu.so"

enum { LISTS, NAMES, OBJECTS, CALLS = OBJECTS + OBJECT_CALLS };

/* Written by torch_path_start(), before the first torch_path_on(). */
static struct {
    void *_Atomic *slot; /* GOT entry of the call; NULL: not redirected */
    void *torchs;        /* torch's own function */
} calls[CALLS];
static bool looked; /* look_at_torch() has been called; under the torch lock */
static _Atomic bool ended;
static struct operator_callbacks operators; /* written by torch_path_start() */

/* ---- lists of callbacks ---- */

/* at::RecordFunctionTLS, the same from 1.13 to 2.15: the thread's own callbacks, a std::vector, and
 * whether it records. */
struct thread_callbacks {
    const void *begin, *end, *room;
    bool enabled;
};

static const struct thread_callbacks *(*get_callbacks)(void);

/* Replaces at::set_record_function_tls_. The call can be skipped: at the next operator, torch
 * compares the version of the global callbacks and rebuilds its lists if they have changed. A
 * sampled callback then keeps its count, where torch would draw a new one; the rate is the same. */
static void set_callbacks(const struct thread_callbacks *to)
{
    const struct thread_callbacks *now = get_callbacks();
    if (to->begin == to->end && now->begin == now->end && to->enabled == now->enabled)
        return;
    void (*real)(const struct thread_callbacks *);
    memcpy(&real, &calls[LISTS].torchs, sizeof real);
    real(to);
}

/* Whether this thread's callbacks match struct thread_callbacks. Calls into torch. */
static bool callbacks_match_layout(void)
{
    const struct thread_callbacks *t = get_callbacks();
    uint8_t enabled;
    memcpy(&enabled, &t->enabled, sizeof enabled);
    bool none = !t->begin && !t->end && !t->room;
    bool some = t->begin && t->begin <= t->end && t->end <= t->room;
    return (none || some) && enabled <= 1;
}

static bool lists_start(void)
{
    *(void **)&get_callbacks = resolve_in(OBJECT, "_ZN2at24get_record_function_tls_Ev");
    return get_callbacks;
}

/* ---- names of nodes ---- */

#if defined(__x86_64__)
#define KNOWN     32u
#define NAME_MOST 160u /* with the terminator */

/* Demangled names. An entry is written once, so readers need no lock. A library that is loaded
 * where another one's name was finds the entry taken, and stays uncached. */
enum { FREE, TAKEN, READY };
static struct known {
    _Atomic int state;   /* any thread; READY is released after the rest is written */
    const char *mangled; /* address of the mangled name */
    uint32_t len;
    char same[NAME_MOST]; /* the mangled name */
    char text[NAME_MOST];
} known[KNOWN];

static void *_Atomic *new_slot; /* libtorch_cpu's GOT entry of operator new */

static struct torch_string *copy_known_name(struct torch_string *out, const struct known *k)
{
    out->at = out->here;
    out->len = k->len;
    if (k->len >= sizeof out->here) {
        void *now = atomic_load_explicit(new_slot, memory_order_relaxed);
        void *(*new)(size_t);
        memcpy(&new, &now, sizeof new);
        out->at = new (k->len + 1);
        out->room = k->len;
    }
    memcpy(out->at, k->text, k->len + 1);
    return out;
}

static void remember_name(struct known *k, const char *mangled, const struct torch_string *made)
{
    int free = FREE;
    size_t len = strlen(mangled);
    bool right =
        made->len < sizeof made->here || (made->at != made->here && made->room >= made->len);
    if (len >= NAME_MOST || made->len >= NAME_MOST || !right || strlen(made->at) != made->len ||
        !atomic_compare_exchange_strong(&k->state, &free, TAKEN))
        return;
    k->mangled = mangled;
    k->len = (uint32_t)made->len;
    memcpy(k->same, mangled, len + 1);
    memcpy(k->text, made->at, made->len + 1);
    atomic_store_explicit(&k->state, READY, memory_order_release);
}

/* Replaces c10::demangle, which returns a std::string in memory of the caller (Itanium C++ ABI,
 * 3.1.3.1). */
static struct torch_string *demangle_node(struct torch_string *out, const char *mangled)
{
    struct known *k = &known[((uintptr_t)mangled >> 3) % KNOWN];
    if (atomic_load_explicit(&k->state, memory_order_acquire) == READY && k->mangled == mangled &&
        strcmp(k->same, mangled) == 0)
        return copy_known_name(out, k);
    struct torch_string *(*real)(struct torch_string *, const char *);
    memcpy(&real, &calls[NAMES].torchs, sizeof real);
    real(out, mangled);
    remember_name(k, mangled, out);
    return out;
}

static bool names_start(void)
{
    struct got_call operator_new = {"_Znwm", NULL};
    got_find_calls(OBJECT, &operator_new, 1);
    new_slot = operator_new.slot;
    return new_slot;
}
#else
#define demangle_node set_callbacks /* never called */
#define names_start() false
#endif

/* ---- redirecting the calls ---- */

static const struct path_call own_calls[OBJECTS] = {
    [LISTS] = {"_ZN2at24set_record_function_tls_ERKNS_17RecordFunctionTLSE",
               (void (*)(void))set_callbacks, true},
    [NAMES] = {"_ZN3c108demangleB5cxx11EPKc", (void (*)(void))demangle_node, false},
};

static const struct path_call *row(unsigned i)
{
    return i < OBJECTS ? &own_calls[i] : &torch_object_calls[i - OBJECTS];
}

static void *ours(unsigned i)
{
    void *function;
    memcpy(&function, &row(i)->ours, sizeof function);
    return function;
}

/* Prepares to redirect a call, if its entry holds torch's own function. It does not if the loader
 * has not bound it yet, if another library provides the function, or if another tool redirected it.
 * False: this must be reported. */
static bool prepare_call(unsigned i, void *_Atomic *slot)
{
    void *torchs = resolve_in(OBJECT, row(i)->name);
    if (!torchs)
        return true;
    if (!slot || (atomic_load(slot) == torchs && !got_swap(slot, torchs, torchs)))
        return false;
    calls[i].torchs = torchs;
    calls[i].slot = slot;
    return true;
}

void torch_path_start(const struct config *config, const struct operator_callbacks *callbacks)
{
    struct got_call found[CALLS];
    bool quiet = true;
    if (config->torch_path == CONFIG_TORCH_PATH_CALLBACKS)
        return;
    operators = *callbacks;
    for (unsigned i = 0; i < CALLS; i++)
        found[i].name = row(i)->name;
    got_find_calls(OBJECT, found, CALLS);
    if (lists_start())
        quiet = prepare_call(LISTS, found[LISTS].slot);
    if (names_start())
        quiet = prepare_call(NAMES, found[NAMES].slot) && quiet;
    bool objects = config->torch_path == CONFIG_TORCH_PATH_OBJECTS;
    for (unsigned i = OBJECTS; i < CALLS && objects; i++)
        quiet = prepare_call(i, found[i].slot) && quiet;
    if (!quiet)
        log_debug(
            "calls inside this build of libtorch_cpu cannot be redirected, so operators cost more "
            "while they are recorded");
}

/* Looks at torch's data once. Calls that it contradicts are not redirected. */
static void look_at_torch(void)
{
    if (looked)
        return;
    looked = true;
    if (calls[LISTS].slot && !callbacks_match_layout())
        calls[LISTS].slot = NULL;
    bool all = true;
    for (unsigned i = OBJECTS; i < CALLS; i++)
        all = all && calls[i].slot;
    if (all && torch_objects_start(&operators))
        return;
    for (unsigned i = OBJECTS; i < CALLS; i++)
        calls[i].slot = NULL;
}

/* Redirects the call. False: its entry holds something else, or its page is not writable. */
static bool redirect_call(unsigned i)
{
    return calls[i].slot && (atomic_load(calls[i].slot) == ours(i) ||
                             got_swap(calls[i].slot, calls[i].torchs, ours(i)));
}

static void restore_call(unsigned i)
{
    if (calls[i].slot)
        got_swap(calls[i].slot, ours(i), calls[i].torchs);
}

static void record_redirected(bool lists, bool names, bool objects)
{
    static const char *const paths[2][2][2] = {
        {{"callbacks", "callbacks+objects"}, {"callbacks+names", "callbacks+names+objects"}},
        {{"callbacks+lists", "callbacks+lists+objects"},
         {"callbacks+lists+names", "callbacks+lists+names+objects"}}};
    writer_record_path(paths[lists][names][objects]);
}

void torch_path_on(void)
{
    look_at_torch();
    torch_objects_redirect();
    bool lists = redirect_call(LISTS), names = redirect_call(NAMES), objects = true;
    for (unsigned i = OBJECTS; i < CALLS; i++)
        objects = redirect_call(i) && objects;
    for (unsigned i = OBJECTS; i < CALLS && !objects; i++)
        restore_call(i);
    if (atomic_load(&ended))
        torch_path_end();
    record_redirected(lists, names, objects);
}

void torch_path_off(void)
{
    for (unsigned i = 0; i < CALLS; i++)
        if (!row(i)->stays)
            restore_call(i);
}

void torch_path_end(void)
{
    atomic_store(&ended, true);
    for (unsigned i = 0; i < CALLS; i++)
        restore_call(i);
}
