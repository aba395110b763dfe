/* SPDX-License-Identifier: Apache-2.0 */
/* The one subscriber and its callbacks for API calls, resources and synchronisation. The state
 * domain can be enabled but reports nothing. */
#include "tests/sim/cupti_sim.h"
#include <stdio.h>
#include <string.h>
#include "tests/sim/cupti_names.h"

#define DOMAINS CUPTI_CB_DOMAIN_SIZE

struct CUpti_Subscriber_st {
    _Atomic(CUpti_CallbackFunc) function;
    void *userdata;
    char name[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN];
    _Atomic bool on[DOMAINS][CALLS];
};

static struct CUpti_Subscriber_st the_subscriber;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool sim_any_subscriber(void)
{
    return atomic_load_explicit(&the_subscriber.function, memory_order_relaxed) != NULL;
}

static uint32_t ids_of(CUpti_CallbackDomain domain)
{
    switch (domain) {
    case CUPTI_CB_DOMAIN_DRIVER_API:
        return CUPTI_DRIVER_TRACE_CBID_SIZE;
    case CUPTI_CB_DOMAIN_RUNTIME_API:
        return CUPTI_RUNTIME_TRACE_CBID_SIZE;
    case CUPTI_CB_DOMAIN_RESOURCE:
        return CUPTI_CBID_RESOURCE_SIZE;
    case CUPTI_CB_DOMAIN_SYNCHRONIZE:
        return CUPTI_CBID_SYNCHRONIZE_SIZE;
    case CUPTI_CB_DOMAIN_NVTX:
        return 256;
    case CUPTI_CB_DOMAIN_STATE:
        return sim_version() >= 20 ? CUPTI_CBID_STATE_SIZE : 0;
    default:
        return 0;
    }
}

static bool is_on(CUpti_CallbackDomain domain, uint32_t cbid)
{
    return sim_any_subscriber() && cbid < CALLS &&
           atomic_load_explicit(&the_subscriber.on[domain][cbid], memory_order_relaxed);
}

static void call(CUpti_CallbackDomain domain, uint32_t cbid, const void *data, enum inside inside)
{
    CUpti_CallbackFunc function = atomic_load(&the_subscriber.function);
    if (!function)
        return;
    struct thread *self = sim_self();
    enum inside before = self->inside;
    self->inside = inside;
    COUNT(callbacks);
    function(the_subscriber.userdata, domain, cbid, data);
    self->inside = before;
}

static CUpti_CallbackDomain domain_of(enum sim_domain domain)
{
    return domain == SIM_RUNTIME ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API;
}

bool sim_called_back(enum sim_domain domain, uint32_t cbid)
{
    return is_on(domain_of(domain), cbid);
}

void sim_callback_api(struct sim_call *c, bool leave, unsigned depth)
{
    struct thread *self = sim_self();
    if (!leave)
        self->correlation_data[depth] = 0;
    CUpti_CallbackData data = {
        .callbackSite = leave ? CUPTI_API_EXIT : CUPTI_API_ENTER,
        .functionName = c->name,
        .functionParams = c->args,
        .functionReturnValue = leave ? &c->result : NULL,
        .symbolName = leave ? self->symbol : NULL,
        .contextUid = self->context,
        .correlationData = &self->correlation_data[depth],
        .correlationId = c->correlation,
    };
    call(domain_of(c->domain), c->cbid, &data, IN_API_CALLBACK);
}

void sim_callback_resource(uint32_t cbid, const CUpti_ResourceData *data)
{
    if (is_on(CUPTI_CB_DOMAIN_RESOURCE, cbid))
        call(CUPTI_CB_DOMAIN_RESOURCE, cbid, data, IN_RESOURCE_CALLBACK);
}

void sim_callback_sync(bool stream)
{
    uint32_t cbid = stream ? CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED
                           : CUPTI_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED;
    CUpti_SynchronizeData data = {NULL, NULL};
    if (is_on(CUPTI_CB_DOMAIN_SYNCHRONIZE, cbid))
        call(CUPTI_CB_DOMAIN_SYNCHRONIZE, cbid, &data, IN_RESOURCE_CALLBACK);
}

/* ---- subscribing ---- */

static CUptiResult subscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc function,
                             void *userdata, const char *name)
{
    CUptiResult result = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    if (!handle || !function)
        return INVALID;
    pthread_mutex_lock(&lock);
    if (!sim_any_subscriber() && !sim_fault_on("other_first", false) &&
        sim_the_core->subscribe(&sim_cupti_tap)) {
        memset(the_subscriber.on, 0, sizeof the_subscriber.on);
        the_subscriber.userdata = userdata;
        snprintf(the_subscriber.name, sizeof the_subscriber.name, "CUPTI for %.53s", name);
        atomic_store(&the_subscriber.function, function);
        *handle = &the_subscriber;
        result = CUPTI_SUCCESS;
        sim_clock_subscribed();
    }
    pthread_mutex_unlock(&lock);
    if (result == CUPTI_SUCCESS)
        COUNT(subscribes);
    else
        COUNT(refused_subscribes);
    sim_rearm();
    return result;
}

EXPORTED CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle *handle,
                                             CUpti_CallbackFunc function, void *userdata)
{
    CALL(cuptiSubscribe);
    return sim_result(subscribe(handle, function, userdata, "unnamed"));
}

EXPORTED CUptiResult CUPTIAPI cuptiSubscribe_v2(CUpti_SubscriberHandle *handle,
                                                CUpti_CallbackFunc function, void *userdata,
                                                CUpti_SubscriberParams *params)
{
    CALL(cuptiSubscribe_v2);
    SINCE(130000);
    /* The size is 32 bytes up to 13.1 and 40 from 13.2 on. Any other size is refused. */
    size_t size = CUpti_SubscriberParams_STRUCT_SIZE + (sim_version() >= 130200 ? 8 : 0);
    if (!params || params->structSize != size)
        return sim_result(INVALID);
    const char *name = params->subscriberName ? params->subscriberName : "unnamed";
    CUptiResult result = subscribe(handle, function, userdata, name);
    if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED && params->oldSubscriberName)
        snprintf(params->oldSubscriberName, params->oldSubscriberSize, "%s",
                 sim_any_subscriber() ? the_subscriber.name : "CUPTI for another tool");
    return sim_result(result);
}

static bool is_valid(CUpti_SubscriberHandle handle)
{
    return handle == &the_subscriber && sim_any_subscriber();
}

void sim_drop_subscriber(void)
{
    pthread_mutex_lock(&lock);
    atomic_store(&the_subscriber.function, NULL);
    memset(the_subscriber.on, 0, sizeof the_subscriber.on);
    sim_the_core->unsubscribe(&sim_cupti_tap);
    pthread_mutex_unlock(&lock);
    sim_rearm();
}

/* Unsubscribing leaves the activity kinds enabled. */
EXPORTED CUptiResult CUPTIAPI cuptiUnsubscribe(CUpti_SubscriberHandle handle)
{
    CALL(cuptiUnsubscribe);
    if (!is_valid(handle))
        return sim_result(INVALID);
    COUNT(unsubscribes);
    sim_drop_subscriber();
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle handle,
                                                  CUpti_CallbackDomain domain,
                                                  CUpti_CallbackId cbid)
{
    CALL(cuptiEnableCallback);
    if (!is_valid(handle) || cbid == 0 || cbid >= ids_of(domain))
        return sim_result(INVALID);
    atomic_store(&the_subscriber.on[domain][cbid], on != 0);
    return CUPTI_SUCCESS;
}

static void enable_domain(CUpti_CallbackDomain domain, bool on)
{
    for (uint32_t cbid = 1, n = ids_of(domain); cbid < n; cbid++)
        atomic_store(&the_subscriber.on[domain][cbid], on);
}

EXPORTED CUptiResult CUPTIAPI cuptiEnableDomain(uint32_t on, CUpti_SubscriberHandle handle,
                                                CUpti_CallbackDomain domain)
{
    CALL(cuptiEnableDomain);
    if (!is_valid(handle) || !ids_of(domain))
        return sim_result(INVALID);
    enable_domain(domain, on != 0);
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiEnableAllDomains(uint32_t on, CUpti_SubscriberHandle handle)
{
    CALL(cuptiEnableAllDomains);
    if (!is_valid(handle))
        return sim_result(INVALID);
    for (int domain = 1; domain < (int)DOMAINS; domain++)
        enable_domain((CUpti_CallbackDomain)domain, on != 0);
    return CUPTI_SUCCESS;
}

EXPORTED CUptiResult CUPTIAPI cuptiGetCallbackState(uint32_t *on, CUpti_SubscriberHandle handle,
                                                    CUpti_CallbackDomain domain,
                                                    CUpti_CallbackId cbid)
{
    CALL(cuptiGetCallbackState);
    if (!on || !is_valid(handle) || cbid >= ids_of(domain))
        return sim_result(INVALID);
    *on = is_on(domain, cbid);
    return CUPTI_SUCCESS;
}

/* ---- names ---- */

static const char *const runtime_names[] = {"INVALID",
#define X(name, id) [id] = #name,
                                            RUNTIME_CALLS(X)
#undef X
};

static const char *const driver_names[] = {"INVALID",
#define X(name, id) [id] = #name,
                                           DRIVER_CALLS(X)
#undef X
};

#if CUPTI_API_VERSION / 100 == 1300
#define X(name, id) _Static_assert((int)CUPTI_RUNTIME_TRACE_CBID_##name == (id), #name);
RUNTIME_CALLS(X)
#undef X
#define X(name, id) _Static_assert((int)CUPTI_DRIVER_TRACE_CBID_##name == (id), #name);
DRIVER_CALLS(X)
#undef X
#endif

/* A version knows only its own ids. The last id of each was seen in the real library. */
static uint32_t last_name(CUpti_CallbackDomain domain)
{
    bool runtime = domain == CUPTI_CB_DOMAIN_RUNTIME_API;
    uint32_t version = sim_version();
    if (version <= 18)
        return runtime ? 433 : 676;
    if (version <= 22)
        return runtime ? 467 : 753;
    return UINT32_MAX;
}

EXPORTED CUptiResult CUPTIAPI cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid,
                                                   const char **name)
{
    CALL_WITHOUT_DRIVER(cuptiGetCallbackName);
    if (!name)
        return sim_result(INVALID);
    *name = NULL;
    if (cbid <= last_name(domain)) {
        if (domain == CUPTI_CB_DOMAIN_RUNTIME_API &&
            cbid < sizeof runtime_names / sizeof runtime_names[0])
            *name = runtime_names[cbid];
        if (domain == CUPTI_CB_DOMAIN_DRIVER_API &&
            cbid < sizeof driver_names / sizeof driver_names[0])
            *name = driver_names[cbid];
    }
    return sim_result(*name ? CUPTI_SUCCESS : INVALID);
}
