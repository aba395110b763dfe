/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the rings. ring_make() runs on the application thread that records its first event. */
#include "writer/ring.h"

#include <string.h>
#include <sys/mman.h>

bool ring_make(struct ring *r, uint64_t bytes)
{
    uint64_t slots = 64;
    while (slots * RECORD_SLOT < bytes)
        slots *= 2;
    void *base = mmap(NULL, slots * RECORD_SLOT, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return false;
    madvise(base, slots * RECORD_SLOT, MADV_NOHUGEPAGE); /* of 2 MB for a thread of few events */
    memset(r, 0, sizeof *r);
    r->base = base;
    r->slots = slots;
    return true;
}

void ring_free(struct ring *r)
{
    if (r->base)
        munmap(r->base, r->slots * RECORD_SLOT);
    r->base = NULL;
}
