/* SPDX-License-Identifier: Apache-2.0 */
/* What CUPTI calls on application threads apart from buffers: graph nodes as they come into being, and errors that end it. */
#ifndef CUPTI_CALLBACK_H
#define CUPTI_CALLBACK_H

#include <stdbool.h>

#include "cupti/bind.h"

/* Subscribes; *subscriber is what cuptiUnsubscribe() takes. gone() is called, on any thread, when CUPTI tells that it has ended of
 * itself. Returns CUPTI's result. */
int callback_subscribe(const struct cupti *c, void **subscriber, void (*gone)(const char *why));

/* Forked child: callbacks do nothing from now on. */
void callback_abandon(void);

#endif
