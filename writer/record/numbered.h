/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers names that are used often, of operators, calls or markers. Their text is kept once, for
 * good, so a span or record holds 4 bytes instead of a copy. A name for which there is no room is
 * copied like any other. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define NUMBERED_MOST    8192u          /* names */
#define NUMBERED_BYTES   (256u * 1024u) /* bytes for their texts */
#define NUMBERED_LONGEST 128u           /* bytes; a longer name would take the room of many */

/* A text of the program's or cprof's, not terminated. */
struct text {
    const char *at;
    uint32_t len;
};

/* Spans and records hold a name as 32 bits: NAME_NUMBERED | number, or the length of a text that is
 * stored with them. */
#define NAME_NUMBERED (UINT32_C(1) << 31)

/* The texts by number; constant once numbered_name() has returned the number. */
extern struct text numbered_texts[NUMBERED_MOST] __attribute__((visibility("hidden")));

/* Returns the name's number with NAME_NUMBERED, always the same for a text; or `len`, if it cannot
 * have a number. No lock, no allocation, no system call; any thread. If threads add the same name
 * at once, each copy takes room. */
uint32_t numbered_name(const char *text, uint32_t len);

/* For callers with a fixed name: what numbered_once() stored; 0: nothing yet. Any thread. */
static inline uint32_t numbered_before(_Atomic uint32_t *found)
{
    return atomic_load_explicit(found, memory_order_acquire);
}

/* numbered_name(), which also stores its result in *found. Any thread: all store the same, unless
 * the names are full. */
static inline uint32_t numbered_once(_Atomic uint32_t *found, const char *text, uint32_t len)
{
    uint32_t name = numbered_name(text, len);
    atomic_store_explicit(found, name, memory_order_release);
    return name;
}

/* Bytes of text that are stored with a span or record of this name. */
static inline uint32_t name_bytes(uint32_t name)
{
    return name & NAME_NUMBERED ? 0 : name;
}

/* The name's text. beside: the text that is stored with the span or record. */
static inline struct text name_text(uint32_t name, const char *beside)
{
    if (name & NAME_NUMBERED)
        return numbered_texts[(name & ~NAME_NUMBERED) % NUMBERED_MOST];
    return (struct text){beside, name};
}
