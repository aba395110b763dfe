/* SPDX-License-Identifier: Apache-2.0 */
/* The activity API: kinds and their filters, attributes, thread ids, external correlation,
 * timestamp callback, finalize. */
#include "tests/sim/cupti_sim.h"
#include <string.h>

struct settings sim_settings;

bool sim_kind_on(uint32_t kind, uint32_t context)
{
    if (atomic_load_explicit(&sim_settings.kind[kind], memory_order_relaxed))
        return true;
    uint64_t bits = atomic_load_explicit(&sim_settings.kind_of_context[kind], memory_order_relaxed);
    return bits && context < 64 && (bits >> context & 1);
}

/* Computes whether the tap has anything to do. With everything off, the simulated CUPTI costs
 * nearly nothing. */
void sim_rearm(void)
{
    bool armed = sim_any_subscriber();
    for (int kind = 0; kind < KINDS; kind++)
        armed = armed || sim_settings.kind[kind] || sim_settings.kind_of_context[kind];
    for (int cbid = 0; cbid < CALLS && !armed; cbid++)
        armed = sim_settings.call[SIM_RUNTIME][cbid] || sim_settings.call[SIM_DRIVER][cbid];
    atomic_store(&sim_settings.armed, armed);
}

static void set_calls(enum sim_domain domain, bool on)
{
    for (int cbid = 0; cbid < CALLS; cbid++)
        atomic_store_explicit(&sim_settings.call[domain][cbid], on, memory_order_relaxed);
}

static void set_kind(uint32_t kind, bool on)
{
    atomic_store(&sim_settings.kind[kind], on);
    if (!on)
        atomic_store(&sim_settings.kind_of_context[kind], 0);
    if (kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE && on)
        atomic_store(&sim_settings.graphs_whole, true);
    if (kind == CUPTI_ACTIVITY_KIND_RUNTIME)
        set_calls(SIM_RUNTIME, on);
    if (kind == CUPTI_ACTIVITY_KIND_DRIVER)
        set_calls(SIM_DRIVER, on);
    /* Until 12.9, SYNCHRONIZATION and CUDA_EVENT were switched together. */
    if (sim_version() < 27 && kind == CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)
        atomic_store(&sim_settings.kind[CUPTI_ACTIVITY_KIND_CUDA_EVENT], on);
    if (sim_version() < 27 && kind == CUPTI_ACTIVITY_KIND_CUDA_EVENT)
        atomic_store(&sim_settings.kind[CUPTI_ACTIVITY_KIND_SYNCHRONIZATION], on);
    sim_rearm();
}

static uint32_t last_kind(void)
{
    uint32_t version = sim_version();
    if (version < 21)
        return CUPTI_ACTIVITY_KIND_JIT;
    return version < 26 ? CUPTI_ACTIVITY_KIND_DEVICE_GRAPH_TRACE
                        : CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS;
}

static CUptiResult check_kind(CUpti_ActivityKind kind)
{
    if ((int)kind <= 0 || (uint32_t)kind > last_kind())
        return CUPTI_ERROR_INVALID_KIND;
    if (kind == CUPTI_ACTIVITY_KIND_DEVICE_GRAPH_TRACE)
        return CUPTI_ERROR_NOT_SUPPORTED;
    return CUPTI_SUCCESS;
}

static CUptiResult enable(CUpti_ActivityKind kind)
{
    CUptiResult result = check_kind(kind);
    long ms = 0;
    COUNT(enables);
    if (result != CUPTI_SUCCESS)
        return result;
    if (sim_fault_on("insufficient", false))
        return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
    if (kind == CUPTI_ACTIVITY_KIND_KERNEL)
        COUNT(kind_kernel);
    if ((kind == CUPTI_ACTIVITY_KIND_KERNEL || kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) &&
        sim_fault("enable_ms", &ms))
        sim_sleep_ms(ms);
    set_kind(kind, true);
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind)
{
    CALL(cuptiActivityEnable);
    return sim_result(enable(kind));
}

EXPORTED CUptiResult CUPTIAPI cuptiActivityEnableAndDump(CUpti_ActivityKind kind)
{
    CALL(cuptiActivityEnableAndDump);
    CUptiResult result = enable(kind);
    if (result == CUPTI_SUCCESS)
        sim_dump(kind);
    return sim_result(result);
}

static void hold_disable(void)
{
    static _Atomic bool held;
    long ms = 0;
    if (sim_fault("hold_disable", &ms) && ms > 1 && !atomic_exchange(&held, true))
        sim_sleep_ms((unsigned)ms);
    while (sim_fault("hold_disable", &ms) && ms == 1)
        sim_sleep_ms(1000);
}

EXPORTED CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind)
{
    CALL(cuptiActivityDisable);
    COUNT(disables);
    if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && sim_counters.records)
        hold_disable();
    CUptiResult result = check_kind(kind);
    if (result == CUPTI_SUCCESS)
        set_kind(kind, false);
    return sim_result(result);
}

static CUptiResult set_context_kind(CUcontext context, CUpti_ActivityKind kind, bool on)
{
    CUptiResult result = check_kind(kind);
    if (result != CUPTI_SUCCESS)
        return result;
    if (!context)
        return CUPTI_ERROR_INVALID_CONTEXT;
    if (kind == CUPTI_ACTIVITY_KIND_RUNTIME || kind == CUPTI_ACTIVITY_KIND_DRIVER ||
        kind == CUPTI_ACTIVITY_KIND_DEVICE || kind == CUPTI_ACTIVITY_KIND_CONTEXT)
        return CUPTI_ERROR_NOT_COMPATIBLE;
    uint64_t id = sim_the_core->id_of_context(context), bit = (uint64_t)1 << (id & 63);
    if (on)
        atomic_fetch_or(&sim_settings.kind_of_context[kind], bit);
    else
        atomic_fetch_and(&sim_settings.kind_of_context[kind], ~bit);
    sim_rearm();
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiActivityEnableContext(CUcontext context, CUpti_ActivityKind kind)
{
    CALL(cuptiActivityEnableContext);
    COUNT(enables);
    if (sim_fault_on("insufficient", false))
        return sim_result(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
    return sim_result(set_context_kind(context, kind, true));
}

EXPORTED CUptiResult CUPTIAPI cuptiActivityDisableContext(CUcontext context,
                                                          CUpti_ActivityKind kind)
{
    CALL(cuptiActivityDisableContext);
    COUNT(disables);
    return sim_result(set_context_kind(context, kind, false));
}

static CUptiResult set_call(enum sim_domain domain, CUpti_CallbackId cbid, uint8_t on)
{
    uint32_t n = domain == SIM_RUNTIME ? (uint32_t)CUPTI_RUNTIME_TRACE_CBID_SIZE
                                       : (uint32_t)CUPTI_DRIVER_TRACE_CBID_SIZE;
    if (cbid == 0 || cbid >= n)
        return INVALID;
    atomic_store(&sim_settings.call[domain][cbid], on != 0);
    sim_rearm();
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiActivityEnableRuntimeApi(CUpti_CallbackId cbid, uint8_t on)
{
    CALL(cuptiActivityEnableRuntimeApi);
    SINCE(23);
    return sim_result(set_call(SIM_RUNTIME, cbid, on));
}

EXPORTED CUptiResult CUPTIAPI cuptiActivityEnableDriverApi(CUpti_CallbackId cbid, uint8_t on)
{
    CALL(cuptiActivityEnableDriverApi);
    SINCE(23);
    return sim_result(set_call(SIM_DRIVER, cbid, on));
}

EXPORTED CUptiResult CUPTIAPI cuptiActivityEnableAllSyncRecords(uint8_t on)
{
    CALL(cuptiActivityEnableAllSyncRecords);
    SINCE(26);
    atomic_store(&sim_settings.all_syncs, on != 0);
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiActivityEnableLatencyTimestamps(uint8_t on)
{
    CALL(cuptiActivityEnableLatencyTimestamps);
    atomic_store(&sim_settings.latency, on != 0);
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t on)
{
    CALL(cuptiActivityEnableCudaEventDeviceTimestamps);
    SINCE(130000);
    atomic_store(&sim_settings.event_times, on != 0);
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiActivityEnableLaunchAttributes(uint8_t on)
{
    CALL(cuptiActivityEnableLaunchAttributes);
    (void)on;
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiActivityEnableDeviceGraph(uint8_t on)
{
    CALL(cuptiActivityEnableDeviceGraph);
    SINCE(21);
    (void)on;
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiActivityEnableHWTrace(uint8_t on)
{
    CALL(cuptiActivityEnableHWTrace);
    SINCE(26);
    return sim_result(on ? CUPTI_ERROR_NOT_SUPPORTED : CUPTI_SUCCESS);
}

EXPORTED CUptiResult CUPTIAPI cuptiActivityEnableAllocationSource(uint8_t on)
{
    CALL(cuptiActivityEnableAllocationSource);
    SINCE(24);
    (void)on;
    return CUPTI_SUCCESS;
}

/* ---- attributes ---- */

#define ATTRIBUTES 11

static struct {
    uint64_t value;
    size_t size;
    uint32_t since, until;
} attributes[ATTRIBUTES] = {{3200000, sizeof(size_t), 0, UINT32_MAX},
                            {8388608, sizeof(size_t), 0, UINT32_MAX},
                            {250, sizeof(size_t), 0, UINT32_MAX},
                            {25000, sizeof(size_t), 0, 21},
                            {250, sizeof(size_t), 0, 21},
                            {0, sizeof(uint8_t), 0, UINT32_MAX},
                            {3, sizeof(size_t), 0, UINT32_MAX},
                            {3, sizeof(size_t), 0, 21},
                            {0, sizeof(uint8_t), 0, UINT32_MAX},
                            {0, sizeof(uint8_t), 21, UINT32_MAX},
                            {16777216, sizeof(size_t), 27, UINT32_MAX}};

static CUptiResult check_attribute(CUpti_ActivityAttribute attribute, const size_t *size,
                                   const void *value)
{
    if ((unsigned)attribute >= ATTRIBUTES || !size || !value ||
        sim_version() < attributes[attribute].since)
        return INVALID;
    if (sim_version() >= attributes[attribute].until)
        return CUPTI_ERROR_NOT_SUPPORTED;
    return *size < attributes[attribute].size ? CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT
                                              : CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiActivityGetAttribute(CUpti_ActivityAttribute attribute,
                                                        size_t *size, void *value)
{
    CALL(cuptiActivityGetAttribute);
    CUptiResult result = check_attribute(attribute, size, value);
    if (result != CUPTI_SUCCESS)
        return sim_result(result);
    uint64_t now = attributes[attribute].value;
    if (attribute == CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER)
        now = atomic_load(&sim_settings.per_thread);
    *size = attributes[attribute].size;
    memcpy(value, &now, *size); /* little endian */
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute,
                                                        size_t *size, void *value)
{
    CALL(cuptiActivitySetAttribute);
    CUptiResult result = check_attribute(attribute, size, value);
    if (result != CUPTI_SUCCESS)
        return sim_result(result);
    uint64_t new = 0;
    memcpy(&new, value, attributes[attribute].size);
    attributes[attribute].value = new;
    if (attribute == CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER)
        atomic_store(&sim_settings.per_thread, new != 0);
    if (attribute == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER)
        atomic_store(&sim_settings.zeroed, new != 0);
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiSetThreadIdType(CUpti_ActivityThreadIdType type)
{
    CALL(cuptiSetThreadIdType);
    if (type != CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT &&
        type != CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM)
        return sim_result(INVALID);
    atomic_store(&sim_settings.system_threads, type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiGetThreadIdType(CUpti_ActivityThreadIdType *type)
{
    CALL(cuptiGetThreadIdType);
    if (!type)
        return sim_result(INVALID);
    *type = atomic_load(&sim_settings.system_threads) ? CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM
                                                      : CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT;
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI
cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc function)
{
    CALL(cuptiActivityRegisterTimestampCallback);
    if (!function)
        return sim_result(INVALID);
    COUNT(register_timestamp);
    sim_clock_set(function);
    return CUPTI_SUCCESS;
}

/* ---- external correlation ---- */

EXPORTED CUptiResult CUPTIAPI
cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id)
{
    CALL(cuptiActivityPushExternalCorrelationId);
    if ((unsigned)kind == 0 || (unsigned)kind >= EXTERNALS)
        return sim_result(INVALID);
    struct thread *self = sim_self();
    if (self->external_n[kind] == EXTERNAL_N)
        return sim_result(CUPTI_ERROR_OUT_OF_MEMORY);
    self->external[kind][self->external_n[kind]++] = id;
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI
cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t *last)
{
    CALL(cuptiActivityPopExternalCorrelationId);
    if ((unsigned)kind == 0 || (unsigned)kind >= EXTERNALS)
        return sim_result(INVALID);
    struct thread *self = sim_self();
    if (!self->external_n[kind])
        return sim_result(CUPTI_ERROR_QUEUE_EMPTY);
    uint64_t id = self->external[kind][--self->external_n[kind]];
    if (last)
        *last = id;
    return CUPTI_SUCCESS;
}

/* ---- finalize ---- */

EXPORTED CUptiResult CUPTIAPI cuptiFinalize(void)
{
    CALL(cuptiFinalize);
    enum inside inside = sim_self()->inside;
    if (inside != IN_NOTHING && inside != IN_API_CALLBACK)
        sim_die("cuptiFinalize from a callback that is not an API exit");
    COUNT(finalizes);
    for (int kind = 0; kind < KINDS; kind++)
        atomic_store(&sim_settings.kind_of_context[kind], 0);
    for (uint32_t kind = 1; kind < KINDS; kind++)
        atomic_store(&sim_settings.kind[kind], false);
    set_calls(SIM_RUNTIME, false);
    set_calls(SIM_DRIVER, false);
    atomic_store(&sim_settings.graphs_whole, false);
    sim_drop_subscriber();
    sim_deliver_all(true);
    sim_forget_client();
    sim_rearm();
    return CUPTI_SUCCESS;
}
