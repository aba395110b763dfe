/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by all interposed calls: slots, names, and the work around the real call. Application
 * threads; no lock. A wrapper's first call looks up the real function. */
#include "preload/hooks/hooks.h"

#include <errno.h>
#include <string.h>

#include "cupti/gpu_trace.h"
#include "preload/link/link.h"
#include "preload/stacks/stacks.h"
#include "preload/steps/steps.h"

#define OOM_WAIT_MS 50u /* longest wait until the event is on disk: the program may die */

struct hook_slot hook_slots[HOOK_COUNT];

/* Set by the first successful hooked call. Relaxed: cuda_alive_now() may be called twice. */
static _Atomic bool cuda_alive;

/* Arrays instead of pointers avoid relocations in every process with the preload. */
struct hook_info {
    char symbol[44];
    uint8_t shown; /* length of the name in traces, including a leading "__" */
    uint8_t node;
    uint8_t category;
};

static const struct hook_info infos[HOOK_COUNT] = {
#define HOOK(node, symbol, shown, ret, missing, category, ...)                                     \
    {#symbol, sizeof(#shown) - 1, HOOK_NODE_##node, category},
#include "preload/hooks/hooks.def"
};

static const struct resolve_library libraries[HOOK_NODE_COUNT] = {
    [HOOK_NODE_V11] = {"libcudart.so.11.0", {"libcudart.so.11.0"}, "libcudart"},
    [HOOK_NODE_V12] = {"libcudart.so.12", {"libcudart.so.12"}, "libcudart"},
    [HOOK_NODE_V13] = {"libcudart.so.13", {"libcudart.so.13"}, "libcudart"},
    [HOOK_NODE_ANY] = {NULL,
                       {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"},
                       "libcudart"},
    [HOOK_NODE_DRIVER] = {NULL, {"libcuda.so.1"}, "libcuda.so"},
};

const char *hook_shown(enum hook_id id, uint32_t *length)
{
    const char *symbol = infos[id].symbol;
    uint32_t skip = symbol[0] == '_' ? 2 : 0, end = infos[id].shown;
    if (symbol[end - 3] == '_' && symbol[end - 2] == 'v')
        end -= 3; /* cuMemAlloc_v2: users write cuMemAlloc, the header adds _v2 */
    *length = end - skip;
    return symbol + skip;
}

/* The real function, looked up if necessary; NULL: no loaded object has it. */
static void *find_real(enum hook_id id, const void *caller)
{
    struct hook_slot *slot = &hook_slots[id];
    void *real = atomic_load_explicit(&slot->real, memory_order_relaxed);
    if (real)
        return real;
    uint64_t generation = resolve_generation() + 1;
    if (atomic_load_explicit(&slot->missed, memory_order_relaxed) == generation)
        return NULL;
    real = resolve_next(infos[id].symbol, &libraries[infos[id].node], caller);
    if (real)
        atomic_store_explicit(&slot->real, real, memory_order_relaxed);
    else
        atomic_store_explicit(&slot->missed, generation, memory_order_relaxed);
    return real;
}

/* True when calls that are not recorded need no more checks. */
static bool settled(void)
{
    return atomic_load_explicit(&cuda_alive, memory_order_relaxed) ||
           atomic_load_explicit(&cprof_life, memory_order_relaxed) == LIFE_OVER;
}

/* With CPROF_TRIGGER=cuda, whether this call begins or ends a region. */
static bool is_capture(enum hook_id id)
{
    return __builtin_expect(trigger_is_cuda(), 0) && strstr(infos[id].symbol, "ProfilerSt");
}

static struct thread_log *open_call(const struct hook_call *call, enum hook_id id)
{
    struct thread_log *log = gate_open(GATE_CALLS) ? thread_log_get() : NULL;
    if (!log)
        return NULL;
    const char *text = NULL;
    uint32_t length, name = numbered_before(&hook_slots[id].name);
    if (__builtin_expect(!(name & NAME_NUMBERED), 0)) {
        text = hook_shown(id, &length);
        name = numbered_once(&hook_slots[id].name, text, length);
    }
    struct open_span *span = span_open(log, call, infos[id].category, text, name);
    if (span)
        gpu_clock_look(atomic_load_explicit(&span->start, memory_order_relaxed));
    stacks_open_span(log, span);
    return log;
}

void hook_begin(struct hook_call *call, enum hook_id id, const void *caller)
{
    int saved = errno;
    bool entered = guard_enter();
    call->log = NULL;
    call->real = find_real(id, caller);
    if (entered) {
        cprof_wake_once(WAKE_CUDA);
        symbol_look();
        /* While another thread wakes cprof, CUPTI has not started, so the call would be recorded
         * without its kernel. */
        bool waking = atomic_load(&cprof_life) == LIFE_WAKING;
        if (!settled() && !cprof_is_injected())
            cuda_begins(false);
        bool capture = is_capture(id);
        if (capture && atomic_load(&cprof_life) == LIFE_AWAKE)
            trigger_cuda(strstr(infos[id].symbol, "Start") != NULL);
        if (call->real) {
            call->log = waking ? NULL : open_call(call, id);
            if (settled() && !capture)
                atomic_store_explicit(&hook_slots[id].fast, call->real, memory_order_relaxed);
        }
        guard_leave();
    }
    errno = saved;
}

void hook_out_of_memory(const struct hook_call *call, uint64_t bytes)
{
    int saved = errno;
    if (guard_enter()) {
        struct record_memory state = {.device_type = MEMORY_OF_DRIVER, .device_index = -1};
        int64_t wanted = bytes <= INT64_MAX ? (int64_t)bytes : INT64_MAX;
        if (call->log && gate_open(GATE_MEMORY)) {
            emit_out_of_memory(call->log, wanted, &state, NULL);
            writer_flush_now(OOM_WAIT_MS);
        }
        guard_leave();
    }
    errno = saved;
}

void hook_end(struct hook_call *call, bool succeeded)
{
    int saved = errno;
    if (guard_enter()) {
        if (call->log)
            gpu_clock_look(span_close(call->log, call));
        /* Nothing can start while another thread wakes cprof; a later call does it. */
        if (succeeded && !settled() && atomic_load(&cprof_life) == LIFE_AWAKE) {
            /* if the driver did not call InitializeInjection; other threads wait for this until
             * settled() is true */
            cuda_begins(false);
            atomic_store_explicit(&cuda_alive, true, memory_order_relaxed);
            cuda_alive_now();
        }
        guard_leave();
    }
    errno = saved;
}
