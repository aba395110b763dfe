/* SPDX-License-Identifier: Apache-2.0 */
/* Finds torch and registers cprof's callbacks. Application threads: the one that wakes cprof, marks
 * a step, or first uses torch's allocator. */
#define _GNU_SOURCE
#include "preload/torch/torch.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/flops/flops.h"
#include "preload/torch/torch_glue.h"
#include "preload/torch/torch_lock.h"
#include "preload/torch/torch_path.h"
#include "preload/core/core.h"
#include "preload/stacks/stacks.h"
#include "preload/link/link.h"
#include "writer/writer.h"

static uint64_t range_handle, operator_handle;
/* torch's list has the callbacks; written under the torch lock */
static _Atomic bool registered;
static _Atomic bool stopped; /* exiting or forked child: torch must not be called any more */
static bool operators_on;    /* under the torch lock */
static _Atomic bool broken;  /* operators are off for good */

/* Stands for at::RecordFunctionCallback, which torch takes by value. The struct has the same size,
 * and the ABI passes both alike. */
struct callback {
    unsigned char bytes[40];
};

/* Reads a version from a file. `file` replaces the last component of `path`. */
static bool read_version_beside(const char *path, const char *file, char *text, size_t size)
{
    char other[4096], line[1024];
    const char *slash = strrchr(path, '/');
    if (!slash || (size_t)(slash - path) + strlen(file) >= sizeof other)
        return false;
    snprintf(other, sizeof other, "%.*s%s", (int)(slash - path), path, file);
    if (!read_file(other, line, sizeof line))
        return false;
    const char *digits = strstr(line, "__version__ ="); /* the name is also in __all__ */
    digits = strpbrk(digits ? digits : line, "0123456789");
    if (!digits)
        return false;
    snprintf(text, size, "%.*s", (int)strspn(digits, "0123456789."), digits);
    return true;
}

/* Reads the torch package's version from version.py beside _C.so. A C++ program has no _C.so; it
 * has build-version (libtorch archive) or version.py (wheel) one folder above the library. */
static bool read_version(char *text, size_t size)
{
    char path[4096];
    if (resolve_path_containing("/torch/_C.", path, sizeof path))
        return read_version_beside(path, "/version.py", text, size);
    return resolve_object("libtorch_cpu.so", path, sizeof path) &&
           (read_version_beside(path, "/../build-version", text, size) ||
            read_version_beside(path, "/../version.py", text, size));
}

static const char unknown_version[] = "of unknown version";

static const struct torch_layout *find_layout(struct torch_api *api)
{
    int major = 0, minor = 0;
    if (!read_version(api->version, sizeof api->version)) {
        strcpy(api->version, unknown_version);
        return NULL;
    }
    if (sscanf(api->version, "%d.%d", &major, &minor) != 2)
        return NULL;
    bool new_abi = resolve_in("libtorch_cpu.so", TORCH_SYM_ABI_CXX11) != NULL;
    bool old_abi = resolve_in("libtorch_cpu.so", TORCH_SYM_ABI_OLD) != NULL;
    return new_abi == old_abi ? NULL : torch_layout_find(major, minor, new_abi);
}

static const void *find_class(const char *table)
{
    const char *at = resolve_in("libtorch_cpu.so", table);
    /* objects point after the first two words of their class's table (Itanium C++ ABI, 2.5.2) */
    return at ? at + 2 * sizeof(void *) : NULL;
}

/* False if a required function is missing: cprof does not know this torch. */
static bool find_functions(struct torch_api *api)
{
    static const char object[] = "libtorch_cpu.so";
    *(void **)&api->add = resolve_in(object, TORCH_SYM_ADD_GLOBAL);
    *(void **)&api->disable = resolve_in(object, TORCH_SYM_DISABLE);
    *(void **)&api->reenable = resolve_in(object, TORCH_SYM_REENABLE);
    *(void **)&api->name = resolve_in(object, TORCH_SYM_NAME);
    *(void **)&api->num_inputs = resolve_in(object, TORCH_SYM_NUM_INPUTS);
    *(void **)&api->grad_mode = resolve_in("libc10.so", TORCH_SYM_GRAD_MODE);
    void *exceptions = resolve_in("libstdc++.so.6", "__cxa_get_globals");
    if (!exceptions)
        exceptions = resolve_in("libc++abi.so.1", "__cxa_get_globals");
    *(void **)&api->exceptions = exceptions;
    api->coo_class = find_class(TORCH_SYM_COO_CLASS);
    api->compressed_class = find_class(TORCH_SYM_COMPRESSED_CLASS);
    api->undefined_tensor = resolve_in("libc10.so", TORCH_SYM_UNDEFINED_TENSOR);
    return api->add && api->disable && api->reenable && api->name;
}

/* Finds the function that returns c10d's description of a transfer, if the description's
 * constructor shows the fields of the layout. */
static void find_comms(struct torch_api *api)
{
    const struct torch_layout *l = api->layout;
    char constructor[256];
    if (l->pc_group == TORCH_LAYOUT_ABSENT)
        return;
    snprintf(constructor, sizeof constructor,
             l->cxx11_abi ? TORCH_SYM_COMMS_CXX11 : TORCH_SYM_COMMS_OLD,
             l->pc_out - l->pc_in == sizeof(int32_t) ? "ii" : "ll",
             l->pc_seq != TORCH_LAYOUT_ABSENT ? "b" : "");
    if (!resolve_in("libtorch_cpu.so", constructor))
        return;
    const uintptr_t *kind = resolve_in("libc10.so", TORCH_SYM_COMMS_KIND);
    api->comms_kind = kind ? *kind : TORCH_COMMS_KIND;
    *(void **)&api->debug_info = resolve_in("libc10.so", TORCH_SYM_DEBUG_INFO);
}

/* The scopes that operators run in. The other scopes are for builds of torch that search for what a
 * smaller build can omit (Dispatch.h, op_allowlist.h: ENABLE_RECORD_KERNEL_FUNCTION_DTYPE). Each
 * scope with a callback costs the autograd engine an allocation per node: torch rebuilds its
 * callback lists whenever a thread takes over another thread's state. */
static bool has_operators(unsigned scope)
{
    return scope != TORCH_SCOPE_USER_SCOPE && scope != TORCH_SCOPE_KERNEL_FUNCTION_DTYPE &&
           scope != TORCH_SCOPE_CUSTOM_CLASS && scope != TORCH_SCOPE_BUILD_FEATURE;
}

/* A start callback returns a std::unique_ptr in memory of the caller (Itanium C++ ABI, 3.1.3.1).
 * x86-64 passes its address as the first argument. AArch64 passes it in x8 (AAPCS64, 6.9), which C
 * cannot name, so these entries move it into the first argument. */
#if defined(__aarch64__)
/* clang-format off */
#define START_ENTRY(entry, callback)                                                               \
    __asm__(".text\n"                                                                              \
            ".p2align 2\n"                                                                         \
            ".hidden " #entry "\n"                                                                 \
            ".globl " #entry "\n"                                                                  \
            ".type " #entry ", %function\n"                                                        \
            #entry ":\n"                                                                           \
            "    .cfi_startproc\n"                                                                 \
            "    hint #34\n" /* bti c */                                                           \
            "    mov x1, x0\n"                                                                     \
            "    mov x0, x8\n"                                                                     \
            "    b " #callback "\n"                                                                \
            "    .cfi_endproc\n"                                                                   \
            ".size " #entry ", . - " #entry "\n");                                                 \
    __attribute__((visibility("hidden"))) void entry(void)
/* clang-format on */
START_ENTRY(operator_start_entry, torch_operator_start);
START_ENTRY(range_start_entry, torch_range_start);
#else
#define operator_start_entry torch_operator_start
#define range_start_entry    torch_range_start
#endif

/* Registers a callback. start: one of the two entries above. */
static uint64_t add_callback(const void *start, void (*end)(const void *, void *), bool ranges,
                             bool inputs)
{
    const struct torch_layout *l = torch_api.layout;
    struct callback callback = {{0}};
    double always = 1.0;
    memcpy(callback.bytes + l->cb_start, &start, sizeof start);
    memcpy(callback.bytes + l->cb_end, &end, sizeof end);
    memcpy(callback.bytes + l->cb_sampling_prob, &always, sizeof always);
    for (unsigned scope = 0; scope < TORCH_SCOPE_COUNT; scope++)
        callback.bytes[l->cb_scopes + scope] =
            ranges ? scope == TORCH_SCOPE_USER_SCOPE : has_operators(scope);
    callback.bytes[l->cb_needs_inputs] = inputs;
    uint64_t (*by_value)(struct callback);
    memcpy(&by_value, &torch_api.add, sizeof by_value);
    return by_value(callback);
}

static void work_without_callbacks(const struct config *config)
{
    torch_operators_broken("operators and ranges",
                           "its layout is not known to this version of cprof");
    if (config->step == CONFIG_STEP_AUTO || config->step == CONFIG_STEP_OPTIMIZER)
        torch_follow_optimizers();
}

static void add_callbacks(const struct config *config)
{
    torch_path_start(config, &(struct operator_callbacks){
                                 .start = (const void *)(uintptr_t)&operator_start_entry,
                                 .begin = torch_operator_begin,
                                 .end = torch_operator_end});
    torch_lock();
    flops_start();
    operator_handle =
        add_callback((const void *)(uintptr_t)&operator_start_entry, torch_operator_end, false,
                     config->record_shapes || config->with_flops);
    range_handle =
        add_callback((const void *)(uintptr_t)&range_start_entry, torch_range_end, true, false);
    torch_api.disable(operator_handle);
    atomic_store(&registered, true);
    torch_unlock();
}

/* Adds torch's version, which is digits and dots, to the traces' metadata. */
static void add_version_to_traces(void)
{
    char json[sizeof torch_api.version + 2];
    if (strcmp(torch_api.version, unknown_version) == 0)
        return;
    snprintf(json, sizeof json, "\"%s\"", torch_api.version);
    struct held_back before = hold_back();
    writer_metadata("torch_version", json);
    hold_back_end(&before);
}

/* Notes in the traces what they lack with this torch. */
static void note_missing_grad_mode(void)
{
    if (!torch_api.grad_mode)
        writer_note("recompute is not marked, and HFU equals MFU: this torch has no "
                    "GradMode::is_enabled()");
}

/* Two threads may run this at once, and one may fail where the other succeeds, for example because
 * no descriptor is left for the version file. The first to finish decides, so torch_api never
 * changes while callbacks run. */
void torch_start(const struct config *config)
{
    static _Atomic bool decided;
    struct torch_api api = {0};
    char path[4096];
    if (atomic_load(&decided) || !resolve_object("libtorch_cpu.so", path, sizeof path))
        return;
    forked_note_torch();
    bool known = find_functions(&api);
    api.layout = find_layout(&api);
    known = known && api.layout && api.layout->cb_size == sizeof(struct callback);
    if (known)
        find_comms(&api);
    if (atomic_exchange(&decided, true))
        return;
    torch_api = api;
    add_version_to_traces();
    if (known) {
        note_missing_grad_mode();
        /* now, because the first range whose frames are read may open while Python ends */
        pyend_watch();
        add_callbacks(config);
    } else {
        work_without_callbacks(config);
    }
}

bool torch_here(void)
{
    cprof_wake_once(WAKE_TORCH);
    forked_works();
    if (atomic_load(&registered) || atomic_load(&broken) || atomic_load(&cprof_life) == LIFE_OVER)
        return true;
    if (atomic_load(&cprof_life) != LIFE_AWAKE)
        return false;
    int cancel = cancel_off();
    torch_start(config_get());
    cancel_back(cancel);
    if (gate_open(GATE_SPANS))
        torch_operators(true);
    return atomic_load(&registered);
}

void torch_operators(bool on)
{
    if (!atomic_load(&registered) || atomic_load(&stopped) || atomic_load(&broken) ||
        !(config_get()->activities & CONFIG_ACTIVITY_CPU))
        return;
    torch_lock();
    if (on != operators_on && !atomic_load(&stopped)) {
        if (on) {
            torch_api.reenable(operator_handle);
            torch_path_on();
        } else {
            torch_path_off();
            torch_api.disable(operator_handle);
        }
        operators_on = on;
    }
    torch_unlock();
}

void torch_edge_before(const struct edge_change *change)
{
    if (change->begins)
        torch_operators(true);
    if (change->memory)
        torch_memory_restart();
}

void torch_edge_after(const struct edge_change *change)
{
    if (change->ends)
        torch_operators(false);
}

void torch_stop(void)
{
    atomic_store(&stopped, true);
    torch_path_end();
}

bool torch_stopped(void)
{
    return atomic_load_explicit(&stopped, memory_order_relaxed);
}

void torch_operators_broken(const char *what, const char *why)
{
    if (atomic_exchange(&broken, true))
        return;
    torch_path_end();
    char note[160];
    snprintf(note, sizeof note, "%s are not recorded: torch %s: %s", what, torch_api.version, why);
    log_warn("%s; all else is", note);
    writer_note(note);
}
