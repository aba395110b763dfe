/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of the calling thread's CPython interpreter, read by layout (pyframes.def). No GIL, no
 * references, no call of the interpreter: while a thread is in C, its frames do not change and hold
 * their code. Later the code may be freed and its address reused; struct pyframe has what
 * identifies it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Encoding of a code object's line table. */
enum pyframes_table { TABLE_LNOTAB, TABLE_RANGES, TABLE_LOCATIONS };

/* A row of pyframes.def. */
struct pyframes_layout {
    int minor;
    int16_t thread_frame, cframe, f_code, f_back, f_instr, f_owner, f_locals;
    int16_t co_filename, co_name, co_lines, co_firstline, co_bytecode, co_traceable, co_version;
    int16_t ascii, compact;
    enum pyframes_table table;
};

/* A frame of the calling thread, valid while the thread stays in the C call that read it. */
struct pyframe {
    const void *code;
    /* Fingerprint of code and instruction, valid after the code was freed. Made of the code's
     * serial number (3.12 and later), else of the bytes of its file, name and line table. Two that
     * differ have the same print once in 2^64. */
    uint64_t print;
    int32_t instruction; /* bytes from the first instruction; negative: not begun */
};

struct pyframe_text {
    const char *file, *name; /* UTF-8, not terminated; in `room` or in the interpreter */
    uint32_t file_len, name_len;
    int32_t line; /* 0: the instruction has no line */
    char room[2][1024];
};

/* The layout of this process's interpreter; NULL: there is none, or it is unknown. *why: a few
 * words if it is unknown, else "". The first call looks it up. Any thread. */
const struct pyframes_layout *pyframes_layout(const char **why);

/* The row for CPython 3.`minor`, or NULL. */
const struct pyframes_layout *pyframes_layout_of(int minor);

/* False while the calling thread might run a subinterpreter: before 3.12 cprof finds only the main
 * interpreter's thread state. Needs a layout. */
bool pyframes_alone(void);

/* Identity of the calling thread's innermost frame that runs Python code; NULL: none. Needs a
 * layout. */
const void *pyframes_top(void);

/* The next outer frame that runs Python code, or NULL. Needs a layout. */
const void *pyframes_outer(const void *frame);

/* Reads frames from `top` outwards, at most `most`. Returns their number; *more: there are outer
 * ones. Needs a layout. */
unsigned pyframes_walk(const void *top, struct pyframe *out, unsigned most, bool *more);

/* Reads name, file and line of a frame just walked; cuts long names. Needs a layout. */
void pyframes_describe(const struct pyframe *frame, struct pyframe_text *out);

/* Fingerprint of n bytes after `seed`, the print of the bytes before. Two texts that differ, even
 * in length only, have the same print once in 2^64. Pure. */
uint64_t pyframes_print(const void *bytes, size_t n, uint64_t seed);

/* The line of an instruction in a line table of `size` bytes. 0: it has no line. Pure. */
int32_t pyframes_line(enum pyframes_table encoding, const uint8_t *table, size_t size,
                      int32_t first_line, int32_t instruction);
