/* SPDX-License-Identifier: Apache-2.0 */
/* Starts GPU recording once CUDA is in use, and registers the exit handler before CUDA's.
 * Application threads. */
#include "preload/hooks/cuda_alive.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "cupti/gpu_trace.h"
#include "preload/core/core.h"
#include "preload/settings/settings.h"
#include "preload/steps/steps.h"
#include "writer/writer.h"

#define GPU_START_MS 500 /* longest wait for another thread that starts GPU recording */

enum { GPU_NOT_STARTED, GPU_CLAIMED, GPU_STARTING, GPU_STARTED };

/* Waits for the thread that starts GPU recording, as for the driver's call of InitializeInjection.
 * Kernels launched before that would be missing. */
static void wait_for_gpu_start(const _Atomic int *state, const pthread_t *starter)
{
    for (int ms = 0; ms < GPU_START_MS && atomic_load(state) != GPU_STARTED; ms++) {
        if (atomic_load(state) == GPU_STARTING && pthread_equal(*starter, pthread_self()))
            return; /* CUPTI called a hooked function on this thread */
        usleep(1000);
    }
}

void cuda_begins(bool initializing)
{
    static _Atomic int state;
    static pthread_t starter; /* written before GPU_STARTING */
    int none = GPU_NOT_STARTED;
    if (atomic_load(&cprof_life) != LIFE_AWAKE || (int)getpid() != cprof_owner_pid() ||
        !(config_get()->activities & CONFIG_ACTIVITY_CUDA))
        return;
    int saved = errno;
    if (atomic_compare_exchange_strong(&state, &none, GPU_CLAIMED)) {
        int cancel = cancel_off();
        starter = pthread_self();
        atomic_store(&state, GPU_STARTING);
        bool entered = guard_enter(); /* CUPTI may call hooked functions */
        gpu_start(steps_want_gpu(), initializing);
        if (entered)
            guard_leave();
        /* again: to run before the destructors of the libcupti just opened */
        atexit(cprof_at_exit);
        atomic_store(&state, GPU_STARTED);
        cancel_back(cancel);
    } else if (none != GPU_STARTED) {
        wait_for_gpu_start(&state, &starter);
    }
    errno = saved;
}

void cuda_alive_now(void)
{
    static _Atomic bool registered;
    if (!atomic_load_explicit(&registered, memory_order_relaxed) &&
        !atomic_exchange(&registered, true))
        atexit(cprof_at_exit);
}
