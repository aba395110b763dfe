/* SPDX-License-Identifier: Apache-2.0 */
/* Takes CUPTI and leaves it as another client expects to find it. */
#include "cupti/attach.h"

#include "cupti/buffers.h"
#include "cupti/other_client.h"
#include "cupti/switch.h"

/* cuptiGetVersion() of 12.8: from there on it may be flushed while threads fill buffers of their
 * own. Really from 12.6 Update 2 on, which has no number. */
#define PER_THREAD 26

static void *subscriber; /* NULL: borrowed, another client holds the subscription */

static void set_attribute(const struct cupti *c, int attribute, uint8_t value)
{
    size_t size = sizeof value;
    c->set_attribute(attribute, &size, &value);
}

/* What is the process's, not the subscriber's; detach() sets it back. No buffer is out. CUPTI
 * keeps its own clock (cuptiActivityRegisterTimestampCallback cannot be undone): from cprof's clock
 * to another client's and back, CUPTI would place the first kernels between the two. */
static int settle_in(const struct cupti *c, unsigned stays)
{
    c->set_thread_id_type(CUPTI_THREAD_SYSTEM);
    set_attribute(c, CUPTI_ZEROED_BUFFERS, 1);
    if (c->version >= PER_THREAD)
        set_attribute(c, CUPTI_PER_THREAD_BUFFERS, 1);
    if (stays & SWITCH_KERNELS) /* kernels stay on: their times are kept in the host's memory */
        set_attribute(c, CUPTI_HOST_PINNED, 1);
    return c->register_callbacks(buffers_request, buffers_complete);
}

/* Subscribes, or borrows CUPTI from a client that holds the subscription and was seen to have
 * nothing enabled: the activity API does not ask who is subscribed. One that was never seen (a tool
 * outside the process) is left alone. False: not now. */
static bool join_in(const struct cupti *c, const struct callback_to *to, int *result)
{
    bool subscribed, idle = other_client_is_idle(&subscribed);
    subscriber = NULL;
    *result = idle ? callback_subscribe(c, &subscriber, to) : CUPTI_MULTIPLE_SUBSCRIBERS;
    if (*result != CUPTI_OK)
        subscriber = NULL;
    return *result == CUPTI_OK || (*result == CUPTI_MULTIPLE_SUBSCRIBERS && subscribed && idle);
}

/* The first time a kind is enabled takes long; its cost is to fall here. initializing: inside
 * cuInit. Returns an error only where CUPTI cannot record at all. */
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
    if (c->version >= PER_THREAD)
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
    if (!join_in(c, to, &result))
        return result;
    result = settle_in(c, stays);
    if (result == CUPTI_OK)
        result = enable_first(c, stays, initializing);
    if (result != CUPTI_OK)
        detach(c);
    return result;
}
