/* SPDX-License-Identifier: Apache-2.0 */
/* All stacks of the process, each once. Application threads find and add them, without a lock, in
 * memory that is mapped once; the cprof thread reads them. Nothing is ever taken out, so that an id
 * stays good for the life of the process.
 *
 * Stacks are paths of a tree: a node is a frame and the node of its caller, and a stack's id is the
 * node of its innermost frame. A second table leads from a stack's print (a 64-bit hash of what the
 * thread saw, pyframes.h) to that node, so that a stack that was seen before costs one look. */
#ifndef WRITER_STACK_STACK_TABLE_H
#define WRITER_STACK_STACK_TABLE_H

#include <stdbool.h>
#include <stdint.h>

/* A frame. Constant once its id is known. */
struct stack_frame {
    uint64_t print;
    uint64_t pc; /* return address of a native frame; 0: a frame of Python */
    union {
        uint32_t text;   /* of Python: offset of the file's name, the function's right behind it */
        uint32_t object; /* of a native frame: which one was there, dso_table.h */
    };
    uint16_t file_len, name_len;
    int32_t line; /* 0: none */
};

/* Maps room for `most` distinct stacks; about 1 KB for each at the worst, touched as it fills.
 * Once, at wake-up. false: no memory. */
bool stack_table_start(uint32_t most);

/* The node of a stack that was seen before; 0: it was not. Any thread, about 10 ns. */
uint32_t stack_table_find(uint64_t print);

/* True when no further stack has room. Any thread. */
bool stack_table_full(void);

/* Remembers that a stack's node is this one; 0: no room. Returns the node. Any thread. */
uint32_t stack_table_add(uint64_t print, uint32_t node);

/* The node below `caller` (0: outermost) for a frame of Python, or for a return address; made if
 * need be; 0: no room. Any thread. */
uint32_t stack_table_python(uint32_t caller, const char *file, uint32_t file_len, const char *name,
                            uint32_t name_len, int32_t line);
uint32_t stack_table_native(uint32_t caller, uint64_t pc, uint32_t object);

/* True when the node exists: ids come out of rings and files of tests. */
bool stack_table_has(uint32_t node);

/* The caller's node, 0 of the outermost, and the id of its frame, of a node that exists. Any
 * thread. */
uint32_t stack_table_caller(uint32_t node);
uint32_t stack_table_frame_of(uint32_t node);

/* One more than the largest id of a frame. Any thread. */
uint32_t stack_table_frames(void);

/* The frame with this id. Any thread. */
const struct stack_frame *stack_table_frame(uint32_t frame);

/* The same for an id that no node has led to: NULL while the frame is being made. Any thread. */
const struct stack_frame *stack_table_frame_if_whole(uint32_t frame);

/* The text of a frame of Python. Any thread. */
const char *stack_table_text(const struct stack_frame *frame);

/* Nodes made so far, one more than the largest id of one. Any thread. */
uint32_t stack_table_nodes(void);

#endif
