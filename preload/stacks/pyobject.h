/* SPDX-License-Identifier: Apache-2.0 */
/* What the bytes of CPython's objects mean, by layout (pyframes.def). The bytes are those of the
 * interpreter, or a copy. Pure. */
#pragma once

#include <string.h>

#include "preload/stacks/pyframes.h"
#include "writer/writer.h"

/* The same in all versions of pyframes.def. */
#define TYPE_OF     8u  /* PyObject.ob_type */
#define TEXT_LENGTH 16u /* PyASCIIObject.length */
#define TEXT_HASH   24u /* PyASCIIObject.hash */
#define TEXT_STATE  32u /* PyASCIIObject.state: bits 2 to 4 kind, 5 compact, 6 ascii */
#define BYTES_SIZE  16u /* PyBytesObject.ob_size */
#define BYTES_HASH  24u /* PyBytesObject.ob_shash */
#define BYTES_DATA  32u
#define NO_CODE     3          /* f_owner from which on a frame holds no code */
#define TEXT_MOST   (1u << 16) /* most bytes of a text */
#define TABLE_MOST  (1u << 20) /* most bytes of a line table */

static inline const void *pointer_at(const void *object, int offset)
{
    const void *value;
    memcpy(&value, (const char *)object + offset, sizeof value);
    return value;
}

static inline int32_t int_at(const void *object, int offset)
{
    int32_t value;
    memcpy(&value, (const char *)object + offset, sizeof value);
    return value;
}

static inline size_t size_at(const void *object, int offset, size_t most)
{
    size_t value;
    memcpy(&value, (const char *)object + offset, sizeof value);
    return value < most ? value : most;
}

/* Address of the object that a frame runs; NULL: it holds no code. */
static inline const void *code_address(const struct pyframes_layout *l, const void *frame)
{
    if (l->f_owner >= 0 && ((const char *)frame)[l->f_owner] >= NO_CODE)
        return NULL;
    /* 3.14 has a tag in the lowest bits */
    return (const void *)((uintptr_t)pointer_at(frame, l->f_code) & ~(uintptr_t)7);
}

/* *instruction: bytes from the first instruction of the code, whose address is `at`. False: the
 * frame is still being set up. */
static inline bool has_begun(const struct pyframes_layout *l, const void *frame, const void *code,
                             const void *at, int32_t *instruction)
{
    if (l->co_bytecode < 0) {
        int32_t last = int_at(frame, l->f_instr);
        *instruction = l->table == TABLE_LNOTAB ? last : 2 * last; /* 3.10 counts words */
        return true;
    }
    const char *next = pointer_at(frame, l->f_instr);
    *instruction = (int32_t)(next - ((const char *)at + l->co_bytecode));
    bool in_generator = ((const char *)frame)[l->f_owner] == 1;
    return in_generator || l->co_traceable < 0 || *instruction >= 2 * int_at(code, l->co_traceable);
}

/* Width of a character in bytes, and *chars; 0: the string is not compact. */
static inline unsigned text_of_object(const struct pyframes_layout *l, const void *text,
                                      const char **chars)
{
    uint32_t state = (uint32_t)int_at(text, TEXT_STATE);
    if (!(state & 0x20))
        return 0;
    *chars = (const char *)text + (state & 0x40 ? l->ascii : l->compact);
    return state >> 2 & 7;
}

/* A string in UTF-8, cut after `size` bytes, in `room` or in the object. Returns its length. */
static inline uint32_t describe_text(const struct pyframes_layout *l, const void *text, char *room,
                                     uint32_t size, const char **out)
{
    const char *chars;
    unsigned width = text_of_object(l, text, &chars);
    size_t n = size_at(text, TEXT_LENGTH, TEXT_MOST);
    if (width != 1 && width != 2 && width != 4) {
        *out = "?";
        return 1;
    }
    bool ascii = (uint32_t)int_at(text, TEXT_STATE) & 0x40;
    *out = ascii ? chars : room;
    if (ascii)
        return (uint32_t)(n < size ? n : size);
    return utf8_text(chars, width, n, room, size);
}
