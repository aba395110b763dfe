/* SPDX-License-Identifier: Apache-2.0 */
/* Subscribes to CUPTI and sets its process-wide attributes; undoes both for the next client. */
#include "cupti/attach.h"

#include "cupti/buffers.h"
#include "cupti/other_client.h"
#include "cupti/switch.h"

/* cuptiGetVersion() of 12.8. A flush is safe while threads fill buffers of their own from 12.6
 * Update 2 on, which has no version number of its own. */
#define PER_THREAD_SINCE 26

static void *subscriber; /* NULL: another client holds the subscription */

static void set_attribute(const struct cupti *c, int attribute, uint8_t value)
{
    size_t size = sizeof value;
    c->set_attribute(attribute, &size, &value);
}

/* Sets attributes that belong to the process, not to the subscriber. detach() resets them. No
 * buffer is out. CUPTI keeps its own clock, because cuptiActivityRegisterTimestampCallback() cannot
 * be undone: after a change of clients, CUPTI would give the first kernels times between the two
 * clocks. */
static int set_process_state(const struct cupti *c, unsigned stays)
{
    c->set_thread_id_type(CUPTI_THREAD_SYSTEM);
    set_attribute(c, CUPTI_ZEROED_BUFFERS, 1);
    if (c->version >= PER_THREAD_SINCE)
        set_attribute(c, CUPTI_PER_THREAD_BUFFERS, 1);
    if (stays & SWITCH_KERNELS) /* see FIRST_13_0 in session.c */
        set_attribute(c, CUPTI_HOST_PINNED, 1);
    return c->register_callbacks(buffers_request, buffers_complete);
}

/* Subscribes. If another client holds the subscription and has no kind enabled, uses CUPTI without
 * one: the activity API does not check the subscriber. Refuses when cprof has never seen the
 * subscriber's calls, as with a tool outside the process. Returns whether CUPTI may be used now. */
static bool subscribe_or_borrow(const struct cupti *c, const struct callback_to *to, int *result)
{
    bool subscribed, idle = other_client_is_idle(&subscribed);
    subscriber = NULL;
    *result = idle ? callback_subscribe(c, &subscriber, to) : CUPTI_MULTIPLE_SUBSCRIBERS;
    if (*result != CUPTI_OK)
        subscriber = NULL;
    return *result == CUPTI_OK || (*result == CUPTI_MULTIPLE_SUBSCRIBERS && subscribed && idle);
}

/* Enabling a kind for the first time takes long; start-up is to pay for it. initializing: inside
 * cuInit. Returns an error only if CUPTI cannot record at all. */
static int enable_first(const struct cupti *c, unsigned stays, bool initializing)
{
    static bool done;
    if (done)
        return CUPTI_OK;
    if (stays)
        buffers_unread_from(clock_ticks());
    int result = switch_first(c, initializing ? stays & ~SWITCH_KERNELS : stays);
    done = true;
    return result == CUPTI_NOT_INITIALIZED || result == CUPTI_NO_REASON ? result : CUPTI_OK;
}

void detach(const struct cupti *c)
{
    set_attribute(c, CUPTI_ZEROED_BUFFERS, 0);
    if (c->version >= PER_THREAD_SINCE)
        set_attribute(c, CUPTI_PER_THREAD_BUFFERS, 0);
    c->set_thread_id_type(CUPTI_THREAD_DEFAULT);
    if (c->enable_all_sync_records)
        c->enable_all_sync_records(1);
    if (subscriber)
        c->unsubscribe(subscriber);
    subscriber = NULL;
}

int attach(const struct cupti *c, const struct callback_to *to, unsigned stays, bool initializing)
{
    int result;
    if (!subscribe_or_borrow(c, to, &result))
        return result;
    result = set_process_state(c, stays);
    if (result == CUPTI_OK)
        result = enable_first(c, stays, initializing);
    if (result != CUPTI_OK)
        detach(c);
    return result;
}
