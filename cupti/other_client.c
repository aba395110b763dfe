/* SPDX-License-Identifier: Apache-2.0 */
/* Tracks what another CUPTI client in this process does. */
#include "cupti/other_client.h"

#include <pthread.h>
#include <string.h>

#include "writer/writer.h"

#define KINDS 128
/* a client without kinds is done after this time without a call, flushed or not */
#define QUIET_MS 3000

/* Never held during a call of CUPTI, so waits for it are short. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Under the lock. */
static struct {
    bool subscribed;
    bool busy;                  /* from registering its buffers until it flushes with no kind on */
    uint64_t kinds[KINDS / 64]; /* the client enabled these */
    uint64_t last_ns;           /* clock_monotonic_ns() of its last call */
} other;

static void note(enum gpu_other what, int kind)
{
    uint64_t bit = UINT64_C(1) << (kind & 63);
    uint64_t *word = kind >= 0 && kind < KINDS ? &other.kinds[kind / 64] : NULL;
    other.last_ns = clock_monotonic_ns();
    switch (what) {
    case GPU_OTHER_SUBSCRIBES:
        other.subscribed = true;
        break;
    case GPU_OTHER_UNSUBSCRIBES:
        other.subscribed = other.busy = false;
        break;
    case GPU_OTHER_ENABLES:
        if (word)
            *word |= bit;
        break;
    case GPU_OTHER_DISABLES:
        if (word)
            *word &= ~bit;
        break;
    case GPU_OTHER_FINALIZES:
        other.subscribed = other.busy = false;
        memset(other.kinds, 0, sizeof other.kinds);
        break;
    case GPU_OTHER_BUFFERS:
        other.busy = true;
        break;
    case GPU_OTHER_FLUSHED:
        for (unsigned i = 0; i < KINDS / 64; i++)
            if (other.kinds[i])
                return;
        other.busy = false;
        break;
    }
}

void other_client_note(enum gpu_other what, int kind)
{
    struct held_back before = hold_back();
    pthread_mutex_lock(&lock);
    note(what, kind);
    pthread_mutex_unlock(&lock);
    hold_back_end(&before);
}

bool other_client_is_idle(bool *subscribed)
{
    struct held_back before = hold_back();
    bool idle;
    pthread_mutex_lock(&lock);
    *subscribed = other.subscribed;
    idle = !other.busy || clock_monotonic_ns() - other.last_ns > QUIET_MS * 1000000ull;
    for (unsigned i = 0; i < KINDS / 64; i++)
        idle = idle && !other.kinds[i];
    pthread_mutex_unlock(&lock);
    hold_back_end(&before);
    return idle;
}
