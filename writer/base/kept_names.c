/* SPDX-License-Identifier: Apache-2.0 */
/* Texts kept once each, never freed. Open addressing in a table that doubles; the texts are in
 * blocks. */
#include "writer/base/kept_names.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "writer/base/hash.h"

#define FIRST_SLOTS 1024u
#define MOST_NAMES  (1u << 20)
#define MOST_BYTES  (64u << 20)
#define BLOCK       (64u * 1024u)

struct name {
    const char *text;
    uint32_t len;
    uint32_t hash;
};

static struct name *slots;
static uint32_t n_slots, used;
static char *block;
static uint32_t block_left;
static uint64_t bytes, refused;

static struct name *find_kept(struct name *in, uint32_t n, const char *text, uint32_t len,
                              uint32_t hash)
{
    uint32_t at = hash & (n - 1);
    while (in[at].text &&
           !(in[at].hash == hash && in[at].len == len && memcmp(in[at].text, text, len) == 0))
        at = (at + 1) & (n - 1);
    return &in[at];
}

static int grow_kept(void)
{
    uint32_t n = n_slots ? n_slots * 2 : FIRST_SLOTS;
    struct name *bigger = calloc(n, sizeof *bigger);
    if (!bigger)
        return 0;
    for (uint32_t i = 0; i < n_slots; i++)
        if (slots[i].text)
            *find_kept(bigger, n, slots[i].text, slots[i].len, slots[i].hash) = slots[i];
    free(slots);
    slots = bigger;
    n_slots = n;
    return 1;
}

static const char *copy(const char *text, uint32_t len)
{
    if (len > BLOCK / 4) {
        char *own = malloc(len);
        return own ? memcpy(own, text, len) : NULL;
    }
    if (block_left < len || !block) {
        block = malloc(BLOCK);
        block_left = block ? BLOCK : 0;
        if (!block)
            return NULL;
    }
    char *to = block + (BLOCK - block_left);
    block_left -= len;
    return memcpy(to, text, len);
}

static const char *refuse_kept(void)
{
    refused++;
    return NULL;
}

const char *names_keep(const char *text, uint32_t len)
{
    bool room = used * 2 < n_slots || (used < MOST_NAMES && grow_kept());
    if (!n_slots)
        return refuse_kept();
    uint32_t hash = (uint32_t)hash_text(text, len);
    /* at least half of the slots are free */
    struct name *slot = find_kept(slots, n_slots, text, len, hash);
    if (slot->text)
        return slot->text;
    const char *kept = !room || bytes + len > MOST_BYTES ? NULL : len ? copy(text, len) : "";
    if (!kept)
        return refuse_kept();
    *slot = (struct name){kept, len, hash};
    used++;
    bytes += len;
    return kept;
}

uint64_t names_refused(void)
{
    uint64_t n = refused;
    refused = 0;
    return n;
}
