/* SPDX-License-Identifier: Apache-2.0 */
/* All stacks of the process, each once. Application threads find and add them without a lock, in
 * memory that is mapped once; the cprof thread reads them. Nothing is ever removed, so ids stay
 * valid.
 *
 * Stacks are paths of a tree. A node is a frame and the node of its caller; a stack's id is the
 * node of its innermost frame. A second table leads from a stack's print to that node, so a known
 * stack costs one lookup. The print is a 64-bit hash of what the thread saw (pyframes.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A frame. Constant once its id is known. */
struct stack_frame {
    uint64_t print;
    uint64_t pc; /* return address of a native frame; 0: a Python frame */
    union {
        uint32_t text;   /* Python: offset of the file name, followed by the function name */
        uint32_t object; /* native: number of the object (dso_table.h) */
    };
    uint16_t file_len, name_len;
    int32_t line; /* 0: none */
};

/* Maps room for `most` distinct stacks: at worst 1 KB each, touched as it fills. Once, at wake-up.
 * False: no memory. */
bool stack_table_start(uint32_t most);

/* The node of a known stack; 0: unknown. Any thread, about 10 ns. */
uint32_t stack_table_find(uint64_t print);

/* True when no new stack has room. Any thread. */
bool stack_table_full(void);

/* Adds a stack with its node. Returns the node; 0: no room. Any thread. */
uint32_t stack_table_add(uint64_t print, uint32_t node);

/* The node under `caller` (0: outermost) for a Python frame, or for a return address; made when
 * new. 0: no room. Any thread. */
uint32_t stack_table_python(uint32_t caller, const char *file, uint32_t file_len, const char *name,
                            uint32_t name_len, int32_t line);
uint32_t stack_table_native(uint32_t caller, uint64_t pc, uint32_t object);

/* True when the node exists. Needed because ids come from rings and from test files. */
bool stack_table_has(uint32_t node);

/* The caller's node (0: outermost), and the frame id, of an existing node. Any thread. */
uint32_t stack_table_caller(uint32_t node);
uint32_t stack_table_frame_of(uint32_t node);

/* One more than the largest id of a frame. Any thread. */
uint32_t stack_table_frames(void);

/* The frame with this id. Any thread. */
const struct stack_frame *stack_table_frame(uint32_t frame);

/* The frame with an id that no node has led to; NULL while the frame is being made. Any thread. */
const struct stack_frame *stack_table_frame_if_whole(uint32_t frame);

/* The text of a Python frame. Any thread. */
const char *stack_table_text(const struct stack_frame *frame);

/* One more than the largest id of a node. Any thread. */
uint32_t stack_table_nodes(void);
