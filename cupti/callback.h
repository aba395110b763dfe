/* SPDX-License-Identifier: Apache-2.0 */
/* CUPTI's callbacks on application threads, apart from buffers: driver initialised, context
 * created, graph node created, fatal error. */
#pragma once

#include <stdbool.h>

#include "cupti/bind.h"

/* Called on any thread. */
struct callback_to {
    void (*ended)(const char *why); /* CUPTI detached itself after a fatal error */
    void (*ready)(void);            /* driver initialised, and for each new context; or NULL */
};

/* Subscribes and enables the callbacks. *subscriber is for cuptiUnsubscribe(). Returns CUPTI's
 * result. */
int callback_subscribe(const struct cupti *c, void **subscriber, const struct callback_to *to);

/* In a forked child: makes the callbacks do nothing. */
void callback_abandon(void);
