/* SPDX-License-Identifier: Apache-2.0 */
/* The frames of a thread's own CPython interpreter, read by layout (pyframes.def) without the GIL,
 * without references and without a call of the interpreter's: while a thread is in C its own frames
 * stand still, and they hold their code. What a frame is remembered by must outlive that, because
 * code is freed and its address used again: see struct pyframe. */
#ifndef PRELOAD_STACKS_PYFRAMES_H
#define PRELOAD_STACKS_PYFRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a code object says which line an instruction is of. */
enum pyframes_table { TABLE_LNOTAB, TABLE_RANGES, TABLE_LOCATIONS };

/* A row of pyframes.def. */
struct pyframes_layout {
    int minor;
    int16_t thread_frame, cframe, f_code, f_back, f_instr, f_owner, f_locals;
    int16_t co_filename, co_name, co_lines, co_firstline, co_bytecode, co_traceable, co_version;
    int16_t ascii, compact;
    enum pyframes_table table;
};

/* One frame of the calling thread, valid while the thread stays in the C call from which it was
 * read. */
struct pyframe {
    const void *code;
    /* Says which code and instruction it is, also after the code was freed: made of the code's
     * serial number where the interpreter numbers them (3.12 and later), else of its file, name and
     * line table, byte by byte. Two that differ have the same by chance once in 2^64. */
    uint64_t print;
    int32_t instruction; /* bytes from the first one; negative: it has not begun */
};

/* What a frame is called. */
struct pyframe_text {
    const char *file, *name; /* UTF-8, not terminated; in `room` or the interpreter's own */
    uint32_t file_len, name_len;
    int32_t line; /* 0: the code says that the instruction is of no line */
    char room[2][1024];
};

/* The layout of this process' interpreter; NULL: none runs here, or it is not known. *why: a few
 * words, when it is not known. Looked up once. Any thread. */
const struct pyframes_layout *pyframes_layout(const char **why);

/* The row for CPython 3.`minor`, or NULL. */
const struct pyframes_layout *pyframes_layout_of(int minor);

/* False while there are subinterpreters of which the calling thread may run one unseen: before 3.12
 * a thread's state is only known to be that of the main interpreter. Needs a layout. */
bool pyframes_alone(void);

/* The calling thread's innermost frame that runs Python code, as an identity; NULL: it runs none.
 * Needs a layout. */
const void *pyframes_top(void);

/* The next frame outwards that runs Python code, or NULL. Needs a layout. */
const void *pyframes_outer(const void *frame);

/* The frames from `top` outwards, innermost first, at most `most`; *more: there are others further
 * out. Needs a layout. */
unsigned pyframes_walk(const void *top, struct pyframe *out, unsigned most, bool *more);

/* Name, file and line of a frame just read; too long a name is cut. Needs a layout. */
void pyframes_describe(const struct pyframe *frame, struct pyframe_text *out);

/* What n bytes are remembered by, begun with `seed` (the print of what is before them). Two that
 * differ, also in their length alone, have the same by chance once in 2^64. Pure. */
uint64_t pyframes_print(const void *bytes, size_t n, uint64_t seed);

/* The line of an instruction: `table` bytes as the version encodes them. 0: of no line. Pure. */
int32_t pyframes_line(enum pyframes_table encoding, const uint8_t *table, size_t size,
                      int32_t first_line, int32_t instruction);

/* UTF-8 of `n` code points of 1, 2 or 4 bytes each, at most `size` bytes, whole characters; a lone
 * surrogate becomes U+FFFD. The bytes used. Pure. */
uint32_t pyframes_utf8(const void *text, unsigned width, size_t n, char *out, uint32_t size);

#endif
