/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps markers that a later window may want. Chunks of 1 MB, so that a short program needs
 * little memory. Mapped, because malloc() would keep the peak for the rest of the program. cprof
 * thread. */
#include "writer/record/hold.h"

#include <string.h>
#include <sys/mman.h>

#define CHUNK_BYTES (1u << 20)

struct hold_chunk {
    struct hold_chunk *next;
    uint64_t used, size; /* used and capacity of `bytes` */
    char bytes[];
};

/* Precedes each record in a chunk. */
struct hold_entry {
    struct record_owner owner;
    uint64_t size; /* bytes of the record that follows */
};

void hold_begin(struct hold *h, uint64_t from, uint64_t limit)
{
    hold_drop(h);
    h->from = from;
    h->limit = limit;
    h->on = true;
}

static struct hold_chunk *chunk_for(struct hold *h, uint64_t size)
{
    if (h->last && h->last->size - h->last->used >= size)
        return h->last;
    uint64_t bytes = sizeof *h->last + size;
    bytes = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
    struct hold_chunk *chunk =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk == MAP_FAILED)
        return NULL;
    chunk->size = bytes - sizeof *chunk;
    if (h->last)
        h->last->next = chunk;
    else
        h->first = chunk;
    h->last = chunk;
    return chunk;
}

bool hold_put(struct hold *h, const struct record_owner *owner, const struct record *r)
{
    struct hold_entry entry = {*owner, (uint64_t)r->slots * RECORD_SLOT};
    uint64_t size = sizeof entry + entry.size;
    struct hold_chunk *chunk = h->bytes + size > h->limit ? NULL : chunk_for(h, size);
    if (!chunk) {
        h->refused++;
        h->refused_skipped += (r->flags & REC_SKIPPED) != 0;
        return false;
    }
    char *to = chunk->bytes + chunk->used;
    memcpy(to, &entry, sizeof entry);
    memcpy(to + sizeof entry, r, entry.size);
    chunk->used += size;
    h->bytes += size;
    return true;
}

void hold_each(const struct hold *h,
               void (*each)(const struct record_owner *, const struct record *, void *), void *arg)
{
    for (const struct hold_chunk *chunk = h->first; chunk; chunk = chunk->next) {
        for (uint64_t at = 0; at < chunk->used;) {
            struct hold_entry entry;
            memcpy(&entry, chunk->bytes + at, sizeof entry);
            each(&entry.owner, (const struct record *)(chunk->bytes + at + sizeof entry), arg);
            at += sizeof entry + entry.size;
        }
    }
}

static void keep_if_skipped(const struct record_owner *owner, const struct record *r, void *kept)
{
    if (r->flags & REC_SKIPPED)
        hold_put(kept, owner, r);
}

void hold_keep_skipped(struct hold *h)
{
    uint64_t refused = h->refused_skipped;
    struct hold kept = {.from = h->from, .limit = h->limit, .on = true};
    hold_each(h, keep_if_skipped, &kept);
    hold_drop(h);
    kept.refused = kept.refused_skipped += refused;
    *h = kept;
}

void hold_drop(struct hold *h)
{
    for (struct hold_chunk *chunk = h->first; chunk;) {
        struct hold_chunk *next = chunk->next;
        munmap(chunk, sizeof *chunk + chunk->size);
        chunk = next;
    }
    memset(h, 0, sizeof *h);
}
