/* SPDX-License-Identifier: Apache-2.0 */
/* Names that come again and again – of operators, calls, markers – are kept once and have a number,
 * so that a span or record of one holds 4 bytes instead of a copy of the text. They are kept for
 * good; where there is no room for another, its text is copied as that of any other name. */
#ifndef WRITER_RECORD_NUMBERED_H
#define WRITER_RECORD_NUMBERED_H

#include <stdatomic.h>
#include <stdint.h>

#define NUMBERED_MOST    8192u          /* names */
#define NUMBERED_BYTES   (256u * 1024u) /* of their texts */
#define NUMBERED_LONGEST 128u           /* bytes of a name: one is not to take the room of many */

/* Bytes of the program's or of ours; not terminated. */
struct text {
    const char *at;
    uint32_t len;
};

/* How spans and records hold a name, in 32 bits: NAME_NUMBERED and a number, or the length of a
 * text that stands with them. */
#define NAME_NUMBERED (UINT32_C(1) << 31)

/* By number; constant once numbered_name() has given the number. */
extern struct text numbered_texts[NUMBERED_MOST] __attribute__((visibility("hidden")));

/* The number of a name, with NAME_NUMBERED; `len` itself when it can have none. The same for the
 * same name. No lock, no allocation, no system call; any thread. Threads that make the same name at
 * the same time take the room of one each. */
uint32_t numbered_name(const char *text, uint32_t len);

/* For who asks for one name again and again: what numbered_once() found before, 0 = nothing yet.
 * Any thread. */
static inline uint32_t numbered_before(_Atomic uint32_t *found)
{
    return atomic_load_explicit(found, memory_order_acquire);
}

/* numbered_name(), noted in *found. Any thread: all find the same, but where there is no room for
 * the name any more. */
static inline uint32_t numbered_once(_Atomic uint32_t *found, const char *text, uint32_t len)
{
    uint32_t name = numbered_name(text, len);
    atomic_store_explicit(found, name, memory_order_release);
    return name;
}

/* Bytes that stand with a span or record of this name. */
static inline uint32_t name_bytes(uint32_t name)
{
    return name & NAME_NUMBERED ? 0 : name;
}

/* The text of a name; `beside`: what stands with the span or record. */
static inline struct text name_text(uint32_t name, const char *beside)
{
    if (name & NAME_NUMBERED)
        return numbered_texts[(name & ~NAME_NUMBERED) % NUMBERED_MOST];
    return (struct text){beside, name};
}

#endif
