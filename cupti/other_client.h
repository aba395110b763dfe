/* SPDX-License-Identifier: Apache-2.0 */
/* What another client of CUPTI in the process is doing, told from the calls that it makes. */
#ifndef CUPTI_OTHER_CLIENT_H
#define CUPTI_OTHER_CLIENT_H

#include <stdbool.h>

#include "cupti/gpu_trace.h"

/* Takes note of a call, as gpu_other_client(). Any thread; never waits for CUPTI. */
void other_client_note(enum gpu_other what, int kind);

/* True when the client has no kind on and has flushed, or has made no call for three seconds.
 * *subscribed: it holds the subscription. Any thread. */
bool other_client_is_idle(bool *subscribed);

#endif
