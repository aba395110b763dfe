/* SPDX-License-Identifier: Apache-2.0 */
/* Taking CUPTI and leaving it: the subscription, and the attributes that are the process's. Under
 * the session's lock. */
#ifndef CUPTI_ATTACH_H
#define CUPTI_ATTACH_H

#include <stdbool.h>

#include "cupti/bind.h"
#include "cupti/callback.h"

/* Subscribes, or borrows CUPTI from a client that is subscribed and idle; sets the attributes; the
 * first time enables what is slow to enable. stays: what stays on between windows (switch.h).
 * initializing: inside cuInit. Returns CUPTI's result: CUPTI_MULTIPLE_SUBSCRIBERS while another
 * client is at work. After an error nothing has changed. */
int attach(const struct cupti *c, const struct callback_to *to, unsigned stays, bool initializing);

/* Unsubscribes; the attributes get CUPTI's own defaults. No kind is on and no buffer is out. */
void detach(const struct cupti *c);

#endif
