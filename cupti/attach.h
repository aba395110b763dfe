/* SPDX-License-Identifier: Apache-2.0 */
/* CUPTI's subscription and its process-wide attributes. Call under the session's lock. */
#pragma once

#include <stdbool.h>

#include "cupti/bind.h"
#include "cupti/callback.h"

/* Subscribes, or uses CUPTI beside a subscriber that is idle. Sets the attributes. The first call
 * enables the kinds that are slow to enable. stays: kinds that stay on between windows (switch.h).
 * initializing: inside cuInit. Returns CUPTI's result, CUPTI_MULTIPLE_SUBSCRIBERS while another
 * client is at work. An error leaves nothing changed. */
int attach(const struct cupti *c, const struct callback_to *to, unsigned stays, bool initializing);

/* Unsubscribes and restores CUPTI's default attributes. No kind may be on and no buffer out. */
void detach(const struct cupti *c);
