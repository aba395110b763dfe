/* SPDX-License-Identifier: Apache-2.0 */
/* What every interposed call shares: slots, names, and what happens around the real call.
 * Application threads; no lock. The real function is looked up at a wrapper's first call, outside
 * of everything. */
#include "preload/hooks/hooks.h"

#include <errno.h>
#include <string.h>

#include "cupti/gpu_trace.h"
#include "preload/core/core.h"
#include "preload/hooks/cuda_alive.h"
#include "preload/link/link.h"
#include "preload/stacks/stacks.h"
#include "preload/steps/steps.h"

#define OOM_WAIT_MS 50u /* for the event to be on disk: the program may not live on */

struct hook_slot hook_slots[HOOK_COUNT];

/* Set by the first hooked call that succeeded; any thread writes, relaxed: cuda_alive_now() may
 * be called twice. */
static _Atomic bool cuda_alive;

/* Arrays, not pointers: nothing for the loader to relocate in each process that has the preload. */
struct hook_info {
    char symbol[44];
    uint8_t shown; /* bytes of `symbol` that traces show, a leading "__" included */
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

const char *hook_symbol(enum hook_id id)
{
    return infos[id].symbol;
}

const char *hook_shown(enum hook_id id, uint32_t *length)
{
    const char *symbol = infos[id].symbol;
    uint32_t skip = symbol[0] == '_' ? 2 : 0, end = infos[id].shown;
    if (symbol[end - 3] == '_' && symbol[end - 2] == 'v')
        end -= 3; /* cuMemAlloc_v2: the number is the header's, not the user's */
    *length = end - skip;
    return symbol + skip;
}

/* The real function, looked up now if need be; NULL when no loaded object has it. */
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

/* Nothing is left to be learnt from calls that are not recorded. */
static bool settled(void)
{
    return atomic_load_explicit(&cuda_alive, memory_order_relaxed) ||
           atomic_load_explicit(&cprof_life, memory_order_relaxed) == LIFE_OVER;
}

/* CPROF_TRIGGER=cuda: this call says where to record, each time. */
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
    stacks_open_span(log, span_open(log, call, infos[id].category, text, name));
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
        /* When another thread wakes cprof up, and is done just behind this, CUPTI has not begun:
         * the call would be recorded without its kernel. */
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
        /* While another thread wakes cprof up, nothing can begin yet: the next call will see. */
        if (succeeded && !settled() && atomic_load(&cprof_life) == LIFE_AWAKE) {
            /* where the driver did not call us after all; other threads wait for it as long as
             * nothing is settled */
            cuda_begins(false);
            atomic_store_explicit(&cuda_alive, true, memory_order_relaxed);
            cuda_alive_now();
        }
        guard_leave();
    }
    errno = saved;
}
