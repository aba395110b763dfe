/* SPDX-License-Identifier: Apache-2.0 */
/* Reads CPython's frames by layout. Application threads. No lock, no allocation, and no system call
 * after the first lookup. */
#define _GNU_SOURCE
#include "preload/stacks/pyframes.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "preload/stacks/pyobject.h"
#include "preload/stacks/pyoffsets.h"
#include "writer/writer.h"

#define FIRST_PUBLISHED 13 /* minor versions from which on CPython publishes its offsets */

static const struct pyframes_layout layouts[] = {
#define LAYOUT(minor, thread_frame, cframe, f_code, f_back, f_instr, f_owner, f_locals,            \
               co_filename, co_name, co_lines, co_firstline, co_bytecode, co_traceable,            \
               co_version, ascii, compact, table)                                                  \
    {minor,       thread_frame, cframe,      f_code,  f_back,   f_instr,                           \
     f_owner,     f_locals,     co_filename, co_name, co_lines, co_firstline,                      \
     co_bytecode, co_traceable, co_version,  ascii,   compact,  TABLE_##table},
#define OFFSETS(...)
#include "preload/stacks/pyframes.def"
};

static void *(*this_thread)(void);
static void *(*newest_interpreter)(void), *(*main_interpreter)(void);
static const void *code_type; /* PyCode_Type */
static const struct pyframes_layout *layout;
static const char *why_unknown = "";

/* ---- the interpreter ---- */

const struct pyframes_layout *pyframes_layout_of(int minor)
{
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (layouts[i].minor == minor)
            return &layouts[i];
    return NULL;
}

/* The row, or NULL if the interpreter's published offsets differ. */
static const struct pyframes_layout *confirm(const struct pyframes_layout *row)
{
    struct pyframes_layout published;
    const char *why;
    if (row->minor < FIRST_PUBLISHED)
        return row;
    if (!pyoffsets_read(row->minor, loader_symbol(RTLD_DEFAULT, "_PyRuntime"), &published, &why)) {
        why_unknown = why;
        return NULL;
    }
    if (!pyoffsets_agree(&published, row)) {
        why_unknown = "its layout is not that of its version";
        return NULL;
    }
    return row;
}

static const struct pyframes_layout *find_layout(void)
{
    static char why[64];
    const char *(*version)(void) =
        (const char *(*)(void))loader_symbol(RTLD_DEFAULT, "Py_GetVersion");
    *(void **)&this_thread = loader_symbol(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
    *(void **)&newest_interpreter = loader_symbol(RTLD_DEFAULT, "PyInterpreterState_Head");
    *(void **)&main_interpreter = loader_symbol(RTLD_DEFAULT, "PyInterpreterState_Main");
    code_type = loader_symbol(RTLD_DEFAULT, "PyCode_Type");
    int major = 0, minor = 0;
    if (!version || !this_thread || !code_type || !newest_interpreter || !main_interpreter)
        return NULL; /* no CPython here */
    bool read = sscanf(version(), "%d.%d", &major, &minor) == 2 && major == 3;
    const struct pyframes_layout *row = read ? pyframes_layout_of(minor) : NULL;
    if (!row) {
        snprintf(why, sizeof why, "the layout of Python %d.%d is not known", major, minor);
        why_unknown = why;
        return NULL;
    }
    /* only free-threaded builds have this function */
    if (loader_symbol(RTLD_DEFAULT, "_Py_MergeZeroLocalRefcount")) {
        why_unknown = "this Python has no GIL";
        return NULL;
    }
    return confirm(row);
}

/* Threads may look it up at the same time, with the same result. */
const struct pyframes_layout *pyframes_layout(const char **why)
{
    static _Atomic bool looked;
    if (!atomic_load_explicit(&looked, memory_order_acquire)) {
        layout = find_layout();
        atomic_store_explicit(&looked, true, memory_order_release);
    }
    if (why)
        *why = why_unknown;
    return layout;
}

/* ---- frames ---- */

/* The code of a frame; NULL: the frame holds no code, or is still being set up. */
static inline const void *code_of(const struct pyframes_layout *l, const void *frame,
                                  int32_t *instruction)
{
    const void *code = code_address(l, frame);
    if (!code || pointer_at(code, TYPE_OF) != code_type)
        return NULL;
    return has_begun(l, frame, code, code, instruction) ? code : NULL;
}

static const void *first_with_code(const struct pyframes_layout *l, const void *frame)
{
    int32_t instruction;
    while (frame && !code_of(l, frame, &instruction))
        frame = pointer_at(frame, l->f_back);
    return frame;
}

bool pyframes_alone(void)
{
    return layout->minor >= 12 || newest_interpreter() == main_interpreter();
}

const void *pyframes_top(void)
{
    const struct pyframes_layout *l = layout;
    const void *thread = this_thread();
    const void *frame = thread ? pointer_at(thread, l->thread_frame) : NULL;
    if (frame && l->cframe >= 0)
        frame = pointer_at(frame, l->cframe);
    return first_with_code(l, frame);
}

const void *pyframes_outer(const void *frame)
{
    return first_with_code(layout, pointer_at(frame, layout->f_back));
}

/* Mixes two words into one: the product of two such 64-bit numbers spreads every bit. */
static inline uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product =
        (unsigned __int128)(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xd1b54a32d192ed03u);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Spreads a length over all bits: a plain length could cancel out other bytes of a text that is
 * longer by one. */
static inline uint64_t spread(size_t n)
{
    return n * 0x9e3779b97f4a7c15u;
}

static inline uint64_t word_at(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

/* For n < 16. */
static inline uint64_t fold_few(const uint8_t *bytes, size_t n, uint64_t seed)
{
    uint32_t low = 0, high = 0;
    if (n >= 8)
        return fold(word_at(bytes) ^ seed, word_at(bytes + n - 8) ^ spread(n));
    if (n >= 4) {
        memcpy(&low, bytes, sizeof low);
        memcpy(&high, bytes + n - 4, sizeof high);
    } else if (n > 0) {
        low = (uint32_t)bytes[0] | (uint32_t)bytes[n / 2] << 8 | (uint32_t)bytes[n - 1] << 16;
    }
    return fold(low ^ seed, high ^ spread(n));
}

/* The last words overlap those before: no byte is skipped, none behind the end is read. */
static inline uint64_t fold_bytes(const uint8_t *bytes, size_t n, uint64_t seed)
{
    if (n < 16)
        return fold_few(bytes, n, seed);
    uint64_t a = seed, b = spread(n);
    const uint8_t *end = bytes + n;
    for (; end - bytes > 32; bytes += 32) {
        a = fold(word_at(bytes) ^ a, word_at(bytes + 8));
        b = fold(word_at(bytes + 16) ^ b, word_at(bytes + 24));
    }
    if (end - bytes > 16)
        a = fold(word_at(bytes) ^ a, word_at(bytes + 8));
    return fold(fold(word_at(end - 16) ^ a, word_at(end - 8)), b);
}

uint64_t pyframes_print(const void *bytes, size_t n, uint64_t seed)
{
    return fold_bytes(bytes, n, seed);
}

/* Whether the object, a string or bytes, has a cached hash of all its content; -1: not cached. */
static inline bool hashed(const void *object, int offset, uint64_t *hash)
{
    memcpy(hash, (const char *)object + offset, sizeof *hash);
    return *hash != UINT64_MAX;
}

static inline uint64_t fold_text(const struct pyframes_layout *l, const void *text, uint64_t seed)
{
    const char *chars;
    uint64_t hash;
    if (hashed(text, TEXT_HASH, &hash))
        return fold(hash ^ seed, seed);
    unsigned width = text_of_object(l, text, &chars);
    size_t n = size_at(text, TEXT_LENGTH, TEXT_MOST);
    return fold_bytes((const uint8_t *)(width ? chars : ""), width * n, seed);
}

/* Fingerprint of all that frames of this code show. */
static uint64_t print_of_content(const struct pyframes_layout *l, const void *code)
{
    const void *lines = pointer_at(code, l->co_lines);
    uint64_t print;
    if (!hashed(lines, BYTES_HASH, &print))
        print = fold_bytes((const uint8_t *)lines + BYTES_DATA,
                           size_at(lines, BYTES_SIZE, TABLE_MOST), 0);
    print = fold_text(l, pointer_at(code, l->co_filename), print);
    return fold_text(l, pointer_at(code, l->co_name), print);
}

static inline uint64_t print_of(const struct pyframes_layout *l, const void *code)
{
    uint32_t version = l->co_version >= 0 ? (uint32_t)int_at(code, l->co_version) : 0;
    if (!version)
        return print_of_content(l, code);
    /* with co_filename, which an import may fix up once */
    uint64_t file = (uintptr_t)pointer_at(code, l->co_filename);
    return fold((uintptr_t)code, file + version * 0x9e3779b97f4a7c15u);
}

unsigned pyframes_walk(const void *top, struct pyframe *out, unsigned most, bool *more)
{
    const struct pyframes_layout *l = layout;
    unsigned n = 0;
    const void *frame = top;
    for (; frame && n < most; frame = pointer_at(frame, l->f_back)) {
        struct pyframe *f = &out[n];
        f->code = code_of(l, frame, &f->instruction);
        if (!f->code)
            continue;
        uint64_t place =
            (uint64_t)(uint32_t)f->instruction << 32 | (uint32_t)int_at(f->code, l->co_firstline);
        f->print = fold(print_of(l, f->code), place);
        n++;
    }
    *more = first_with_code(l, frame) != NULL; /* the outermost frame may hold no code */
    return n;
}

/* ---- lines ---- */

/* 3.9: pairs of address increment and line increment. */
static int32_t line_in_lnotab(const uint8_t *t, size_t size, int32_t line, int32_t instruction)
{
    int32_t at = 0;
    for (size_t i = 0; i + 1 < size; i += 2) {
        at += t[i];
        if (at > instruction)
            break;
        line += (int8_t)t[i + 1];
    }
    return line;
}

/* 3.10: pairs of range length and line increment; -128: the range has no line. */
static int32_t line_in_ranges(const uint8_t *t, size_t size, int32_t line, int32_t instruction)
{
    int32_t end = 0, first = line;
    if (instruction < 0)
        return first;
    for (size_t i = 0; i + 1 < size; i += 2) {
        int8_t more = (int8_t)t[i + 1];
        end += t[i];
        line += more == -128 ? 0 : more;
        if (instruction < end)
            return more == -128 ? 0 : line;
    }
    return 0;
}

static int32_t signed_number(const uint8_t *t, size_t size, size_t at)
{
    uint32_t value = 0;
    for (unsigned shift = 0; at < size && shift < 30; shift += 6, at++) {
        value |= (uint32_t)(t[at] & 63) << shift;
        if (!(t[at] & 64))
            break;
    }
    return value & 1 ? -(int32_t)(value >> 1) : (int32_t)(value >> 1);
}

/* 3.11: an entry begins with a byte above 127, its kind and the number of code words. */
static int32_t line_in_locations(const uint8_t *t, size_t size, int32_t line, int32_t instruction)
{
    enum { SHORT_LAST = 9, ONE_LINE = 10, NO_COLUMNS = 13, LONG = 14, NONE = 15 };
    int32_t end = 0, first = line;
    if (instruction < 0)
        return first;
    for (size_t i = 0; i < size;) {
        unsigned kind = t[i] >> 3 & 15;
        end += 2 * ((t[i] & 7) + 1);
        if (kind == NO_COLUMNS || kind == LONG)
            line += signed_number(t, size, i + 1);
        else if (kind > SHORT_LAST && kind < NO_COLUMNS)
            line += (int32_t)kind - ONE_LINE;
        if (instruction < end)
            return kind == NONE ? 0 : line;
        for (i++; i < size && !(t[i] & 128);)
            i++;
    }
    return 0;
}

int32_t pyframes_line(enum pyframes_table encoding, const uint8_t *table, size_t size,
                      int32_t first_line, int32_t instruction)
{
    switch (encoding) {
    case TABLE_LNOTAB:
        return line_in_lnotab(table, size, first_line, instruction);
    case TABLE_RANGES:
        return line_in_ranges(table, size, first_line, instruction);
    case TABLE_LOCATIONS:
        return line_in_locations(table, size, first_line, instruction);
    }
    return 0;
}

/* ---- names ---- */

void pyframes_describe(const struct pyframe *frame, struct pyframe_text *out)
{
    const struct pyframes_layout *l = layout;
    const void *code = frame->code;
    out->file_len = describe_text(l, pointer_at(code, l->co_filename), out->room[0],
                                  sizeof out->room[0], &out->file);
    out->name_len = describe_text(l, pointer_at(code, l->co_name), out->room[1],
                                  sizeof out->room[1], &out->name);
    const char *lines = pointer_at(code, l->co_lines);
    out->line = pyframes_line(l->table, (const uint8_t *)lines + BYTES_DATA,
                              size_at(lines, BYTES_SIZE, TABLE_MOST), int_at(code, l->co_firstline),
                              frame->instruction);
}
