/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers names. Open addressing without locks: an entry is complete before its number is in a
 * slot, and never changes. Static memory, whose unused pages are never populated. */
#include "writer/record/numbered.h"

#include <stdatomic.h>
#include <string.h>

#include "writer/base/base.h"

#define SLOTS (2 * NUMBERED_MOST) /* a power of two; half of them stay free */

struct text numbered_texts[NUMBERED_MOST];

static char texts[NUMBERED_BYTES];
static _Atomic uint32_t texts_used; /* bytes; any thread adds */
static _Atomic uint32_t n_names;    /* any thread adds */
/* names with NAME_NUMBERED, 0: free; any thread adds (release) and reads (acquire) */
static _Atomic uint32_t slots[SLOTS];

/* Takes `n` of `most` units, and sets *at to the first one. False: fewer than `n` are left. */
static int take_units(_Atomic uint32_t *used, uint32_t n, uint32_t most, uint32_t *at)
{
    *at = atomic_load_explicit(used, memory_order_relaxed);
    do {
        if (n > most - *at)
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(used, at, *at + n, memory_order_relaxed,
                                                    memory_order_relaxed));
    return 1;
}

/* Adds a name, not to a slot yet. 0: no room. */
static uint32_t make_name(const char *text, uint32_t len)
{
    uint32_t number, at;
    if (len > NUMBERED_LONGEST || !take_units(&texts_used, len, NUMBERED_BYTES, &at) ||
        !take_units(&n_names, 1, NUMBERED_MOST, &number))
        return 0;
    memcpy(texts + at, text, len);
    numbered_texts[number] = (struct text){texts + at, len};
    return NAME_NUMBERED | number;
}

uint32_t numbered_name(const char *text, uint32_t len)
{
    uint32_t made = 0;
    for (uint64_t i = hash_text(text, len);; i++) {
        _Atomic uint32_t *slot = &slots[i & (SLOTS - 1)];
        uint32_t name = atomic_load_explicit(slot, memory_order_acquire);
        if (!name) {
            if (!made && !(made = make_name(text, len)))
                return len;
            if (atomic_compare_exchange_strong_explicit(slot, &name, made, memory_order_release,
                                                        memory_order_acquire))
                return made;
        }
        struct text seen = numbered_texts[name & ~NAME_NUMBERED];
        if (seen.len == len && memcmp(seen.at, text, len) == 0)
            return name;
    }
}
