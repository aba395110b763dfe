/* SPDX-License-Identifier: Apache-2.0 */
/* What CUPTI calls on application threads apart from buffers: the driver, contexts and graph nodes
 * as they come into being, and errors that end it. */
#ifndef CUPTI_CALLBACK_H
#define CUPTI_CALLBACK_H

#include <stdbool.h>

#include "cupti/bind.h"

/* Called on any thread. */
struct callback_to {
    void (*gone)(const char *why); /* CUPTI tells that it has ended of itself */
    void (*ready)(void); /* the driver is initialised, and again for each context; or NULL */
};

/* Subscribes; *subscriber is what cuptiUnsubscribe() takes. Returns CUPTI's result. */
int callback_subscribe(const struct cupti *c, void **subscriber, const struct callback_to *to);

/* Forked child: callbacks do nothing from now on. */
void callback_abandon(void);

#endif
