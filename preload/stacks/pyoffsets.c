/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the offsets that CPython 3.13 and later publish. It follows no pointer and accepts only
 * plausible numbers. */
#include "preload/stacks/pyoffsets.h"

#include <string.h>

#define COOKIE        "xdebugpy"
#define VERSION       8u /* PY_VERSION_HEX */
#define FREE_THREADED 16u
#define MOST          4096u /* no field lies deeper in any object */

/* The same in all versions (pyframes.c). */
#define TYPE_OF     8u
#define BYTES_SIZE  16u
#define BYTES_DATA  32u
#define TEXT_LENGTH 16u
#define TEXT_STATE  32u
#define TEXT_UTF8   16u /* PyCompactUnicodeObject: utf8_length and utf8 */

/* A row OFFSETS of pyframes.def: the position of each number. */
struct offset_row {
    int minor;
    uint16_t current_frame, previous, executable, instr_ptr, localsplus, owner;
    uint16_t filename, name, linetable, firstlineno, co_code_adaptive;
    uint16_t ob_type, ob_size, ob_sval, state, length, asciiobject_size;
};

static const struct offset_row rows[] = {
#define LAYOUT(...)
#define OFFSETS(...) {__VA_ARGS__},
#include "preload/stacks/pyframes.def"
};

static uint64_t word_at(const void *runtime, unsigned at)
{
    uint64_t number;
    memcpy(&number, (const char *)runtime + at, sizeof number);
    return number;
}

/* -1: not a plausible offset. */
static int16_t offset_at(const void *runtime, unsigned at)
{
    uint64_t number = word_at(runtime, at);
    return number < MOST ? (int16_t)number : -1;
}

static const struct offset_row *row_of(int minor)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].minor == minor)
            return &rows[i];
    return NULL;
}

static bool has_usual_objects(const void *runtime, const struct offset_row *t)
{
    return word_at(runtime, t->ob_type) == TYPE_OF && word_at(runtime, t->ob_size) == BYTES_SIZE &&
           word_at(runtime, t->ob_sval) == BYTES_DATA &&
           word_at(runtime, t->length) == TEXT_LENGTH && word_at(runtime, t->state) == TEXT_STATE;
}

/* Pointers are aligned, and no two fields share an offset. */
static bool is_plausible(const struct pyframes_layout *l)
{
    const int16_t pointers[] = {l->thread_frame, l->f_back,      l->f_instr,
                                l->f_locals,     l->co_filename, l->co_name,
                                l->co_lines,     l->co_bytecode, l->ascii};
    for (size_t i = 0; i < sizeof pointers / sizeof *pointers; i++)
        if (pointers[i] <= 0 || pointers[i] % 8)
            return false;
    return l->f_code >= 0 && l->f_code % 8 == 0 && l->f_owner > 0 && l->co_firstline > 0 &&
           l->co_firstline % 4 == 0 && l->f_code != l->f_back && l->f_back != l->f_instr &&
           l->co_filename != l->co_name && l->co_name != l->co_lines;
}

bool pyoffsets_read(int minor, const void *runtime, struct pyframes_layout *out, const char **why)
{
    const struct offset_row *t = row_of(minor);
    *why = "the layout that it publishes is not plausible";
    if (!t || !runtime || memcmp(runtime, COOKIE, sizeof COOKIE - 1) != 0 ||
        word_at(runtime, VERSION) >> 16 != 0x300u + (unsigned)minor)
        return false;
    if (word_at(runtime, FREE_THREADED) != 0) {
        *why = "this Python has no GIL";
        return false;
    }
    *out = (struct pyframes_layout){
        .minor = minor,
        .thread_frame = offset_at(runtime, t->current_frame),
        .cframe = -1,
        .f_code = offset_at(runtime, t->executable),
        .f_back = offset_at(runtime, t->previous),
        .f_instr = offset_at(runtime, t->instr_ptr),
        .f_owner = offset_at(runtime, t->owner),
        .f_locals = offset_at(runtime, t->localsplus),
        .co_filename = offset_at(runtime, t->filename),
        .co_name = offset_at(runtime, t->name),
        .co_lines = offset_at(runtime, t->linetable),
        .co_firstline = offset_at(runtime, t->firstlineno),
        .co_bytecode = offset_at(runtime, t->co_code_adaptive),
        .co_traceable = -1,
        .co_version = -1,
        .ascii = offset_at(runtime, t->asciiobject_size),
        .table = TABLE_LOCATIONS,
    };
    out->compact = (int16_t)(out->ascii + TEXT_UTF8);
    return has_usual_objects(runtime, t) && is_plausible(out);
}

bool pyoffsets_agree(const struct pyframes_layout *published, const struct pyframes_layout *row)
{
    struct pyframes_layout same = *row;
    same.co_traceable = same.co_version = -1;
    const size_t first = offsetof(struct pyframes_layout, thread_frame);
    const size_t end = offsetof(struct pyframes_layout, compact) + sizeof same.compact;
    return published->minor == same.minor && published->table == same.table &&
           memcmp((const char *)published + first, (const char *)&same + first, end - first) == 0;
}
