/* SPDX-License-Identifier: Apache-2.0 */
/* The record that application threads put into rings and the cprof thread takes out. It has no
 * pointers into the program, so it may outlive what it describes. */
#pragma once

#include <stdint.h>
#include <string.h>

#include "writer/record/numbered.h"

enum category {
#define CATEGORY(id, text) CAT_##id,
#include "writer/record/categories.def"
#undef CATEGORY
    CAT_COUNT
};

enum loss {
#define LOSS(id, key, what) LOSS_##id,
#include "writer/record/losses.def"
#undef LOSS
    LOSS_COUNT
};

enum record_kind {
    REC_PAD,     /* fills the ring up to its end; only `slots` counts */
    REC_SPAN,    /* name, start, end; both in one record, so that a loss never unbalances a file */
    REC_INSTANT, /* name, start */
    REC_COUNTER, /* name, start, one series per item of `data` (DATA_ARGS) */
    /* start, memory, DATA_MEMORY: a tensor allocation (bytes > 0), with the operator's name, or a
     * release (bytes < 0) */
    REC_MEMORY,
    /* as REC_MEMORY: an allocation of `bytes` that failed; if it was the driver's, the name is the
     * call's */
    REC_OUT_OF_MEMORY,
    /* node: a CUDA graph got a node; name and `parent` (id) are those of the span that made it.
     * Data: DATA_NODE, or where nothing is counted the span's DATA_ARGS */
    REC_NODE,
    /* name, start, end, async: a range that does not nest with its thread's row; both ends in one
     * record, as REC_SPAN */
    REC_ASYNC,
};

/* What the data bytes after the text are. */
enum record_data { DATA_NONE, DATA_SHAPES, DATA_ARGS, DATA_MEMORY, DATA_NODE };

enum record_flags {
    /* the span was still open when its window was written; `end` is the window's end */
    REC_UNFINISHED = 1u << 0,
    /* a marker: from a warmup step it goes to the head of the next window's file, as no other
     * record does */
    REC_MARKER = 1u << 1,
    /* sequence and forward_thread are copied from the operator inside: no arrow ends here */
    REC_BORROWED = 1u << 2,
    /* an open span that may outlive the span around it: it then becomes a REC_ASYNC, and is never
     * cut or dropped */
    REC_LOOSE = 1u << 3,
    /* an open span that did: it no longer nests */
    REC_CROSSES = 1u << 4,
    /* an open span whose end may come after the end of the span around it (as emit_itt's do): it
     * ends with that span and is complete */
    REC_ENDS_LATE = 1u << 5,
    /* with REC_MARKER: recorded in a skipped step, on request of the marker; goes to the head of
     * the next window's file */
    REC_SKIPPED = 1u << 6,
    /* a span around it on its thread has a FLOP count, which includes the count of this span */
    REC_IN_COUNTED = 1u << 7,
    /* with REC_MARKER, which never has REC_BORROWED: a task, which a library makes around its work
     * as often as the program does; in a warmup step it is dropped as other records are */
    REC_TASK = REC_BORROWED,
};

/* Numbers that any record may carry: 8 bytes each after its data, in this order, if their bit is
 * set in `extras`. */
enum record_extra {
    EXTRA_STACK,  /* stack id, not 0 */
    EXTRA_MODULE, /* id of the module path, not 0 */
    EXTRA_FLOPS,  /* floating-point operations; a multiply-add counts as two */
    EXTRA_BYTES,  /* bytes read and written, by the operator's formula */
    /* record_where(): type and device of the operations; FLOPS_NOT_KNOWN: not counted */
    EXTRA_DTYPE,
    EXTRA_COUNT
};

#define EXTRAS_VALUES ((1u << EXTRA_COUNT) - 1) /* the bits of `extras` that have a number */

/* Bits of `extras` without a number, which spans inherit from the span around them: in a backward
 * node that began with grad mode off; forward work that is repeated for the backward pass. */
#define EXTRAS_GRAD_OFF  (1u << 6)
#define EXTRAS_RECOMPUTE (1u << 7)
#define EXTRAS_INHERITED (EXTRAS_GRAD_OFF | EXTRAS_RECOMPUTE)

/* EXTRA_DTYPE of an operator whose shapes are unknown. */
#define FLOPS_NOT_KNOWN 0xffffu

/* c10::ScalarType of single precision. A formula knows only this type, even if the library computes
 * in TF32. */
#define DTYPE_FLOAT 6u

/* Bit of EXTRA_DTYPE: forward work that is repeated for the backward pass. Among the lower 32 bits,
 * the only ones that struct note, share and captured keep. */
#define WHERE_RECOMPUTE (UINT64_C(1) << 23)

/* Bit of EXTRA_DTYPE: the span's work was captured into a CUDA graph, and runs when the graph is
 * launched. */
#define WHERE_CAPTURED (UINT64_C(1) << 32)

/* Bit of EXTRA_DTYPE: a product, of matrices or a convolution. With FLOPS_NOT_KNOWN: or a name that
 * looks like a product. */
#define WHERE_PRODUCT (UINT64_C(1) << 33)

/* First bit, in an open span's EXTRA_DTYPE, of the count of uncaught exceptions when the span
 * began. 0 in a record. */
#define WHERE_UNCAUGHT_SHIFT 48

/* Type and device of operations: c10::ScalarType; c10::DeviceType (0 CPU, 1 CUDA); device number,
 * 0xff: the device of the span's kernels. */
static inline uint64_t record_where(uint32_t dtype, uint32_t device_type, uint32_t device_index)
{
    return (dtype & 0xffffu) | (uint64_t)(device_type & 0x7fu) << 16 |
           (uint64_t)(device_index & 0xffu) << 24;
}

#define RECORD_SLOT 64u /* bytes; a record is a whole number of slots */

struct record {
    union {
        struct {
            uint8_t kind;      /* enum record_kind */
            uint8_t category;  /* enum category */
            uint8_t data_kind; /* enum record_data */
            uint8_t flags;     /* enum record_flags */
        };
        uint32_t kinds; /* all four, the first in the lowest byte */
    };
    union {
        struct {
            /* slots, this header included; no ring is longer */
          uint32_t slots : 24;
            /* bits 1 << enum record_extra, and EXTRAS_INHERITED */
            uint32_t extras : 8;
        };
        /* both, for writing: writing one bit field would first read its cache line, which may be
         * missing */
        uint32_t slots_and_extras;
    };
    uint64_t start; /* clock_ticks() */
    uint64_t end;   /* clock_ticks(); == start where there is no duration */
    /* span id, unique in the process, < 2^53; 0: none. `External id` in the trace */
    uint64_t id;
    uint64_t parent; /* id of the span that was open on this thread; 0 = none */
    union {
        struct {
            int64_t sequence; /* autograd sequence number, -1 = none */
            /* torch's logical id of the forward thread, 0 = not a backward operator */
            uint64_t forward_thread;
        } op;
        struct {
            /* thread where it began; 0: the ring's thread, whose span it was */
            uint64_t tid;
        } async;
        struct {
            uint64_t address;
            int64_t bytes; /* signed: negative when released */
        } memory;
        struct {
            uint64_t id;       /* as CUPTI numbers it: graph id in the upper half */
            uint64_t original; /* the node it was copied from; 0: none */
        } node;
    };
    uint32_t name;     /* as in numbered.h; a text, of any bytes, follows the header directly */
    uint32_t data_len; /* bytes of data, directly after the text, not aligned */
};
_Static_assert(sizeof(struct record) == RECORD_SLOT, "a record header is one slot");

/* DATA_MEMORY, copied with memcpy (unaligned). */
struct record_memory {
    int64_t total_allocated; /* bytes alive on the device, as far as cprof knows */
    int64_t total_reserved;  /* bytes the caching allocator holds; 0 on the CPU */
    int32_t device_type;     /* c10::DeviceType: 0 CPU, 1 CUDA; MEMORY_OF_DRIVER: below torch */
    int32_t device_index;    /* -1 on the CPU */
};

/* DATA_NODE of REC_NODE, copied with memcpy (unaligned): the innermost and the outermost counted
 * span around the node's creation. */
struct record_node {
    struct record_counted {
        uint64_t span; /* id; 0: no counted span */
        uint64_t flops, bytes, where;
    } inner, outer;
    uint64_t is_kernel;
};

#define MEMORY_OF_DRIVER (-1) /* device_type of a call to the CUDA driver or runtime that failed */

/* DATA_SHAPES: one item per operator input, in order. An item is a tag byte, then:
 *   SHAPE_TENSOR       uint8 dtype (c10::ScalarType), uint8 ndim, ndim x int64 size; with
 *                      SHAPE_STRIDES in ndim: ndim x int64 stride
 *   SHAPE_LIST         uint8 n (tensors), then n SHAPE_TENSOR bodies (no tag); n is 0 for a list
 *                      that is longer than Kineto writes
 *   SHAPE_SCALAR_LIST  uint8 n, then n scalar items; SHAPE_OTHER for other elements
 *   SHAPE_INT          int64
 *   SHAPE_REAL         double
 *   SHAPE_COMPLEX      2 x double
 *   SHAPE_SCALAR (of unknown value), SHAPE_FALSE, SHAPE_TRUE, SHAPE_OTHER   nothing
 * Kineto's "Input Dims", "Input Strides", "Input type" and "Concrete Inputs" distinguish no more.
 * Numbers are in host order, unaligned. */
enum shape_tag {
    SHAPE_OTHER,
    SHAPE_TENSOR,
    SHAPE_LIST,
    SHAPE_SCALAR,
    SHAPE_SCALAR_LIST,
    SHAPE_INT,
    SHAPE_REAL,
    SHAPE_COMPLEX,
    SHAPE_FALSE,
    SHAPE_TRUE,
};

#define SHAPE_STRIDES 0x80u /* bit of ndim */
#define SHAPE_NDIM    0x7fu /* the rest of it */

/* Bytes of a SHAPE_TENSOR body that begins so. */
static inline size_t shape_body_size(const uint8_t *body)
{
    size_t ndim = body[1] & SHAPE_NDIM;
    return 2 + 8 * ndim * (body[1] & SHAPE_STRIDES ? 2 : 1);
}

/* DATA_ARGS: named values. An item is a type byte, uint16 key length, key bytes, and a value.
 * ARG_INT int64, ARG_REAL double; ARG_TEXT uint32 length and bytes; ARG_SHAPES, without a key,
 * uint32 length and a DATA_SHAPES list. */
enum arg_type { ARG_INT, ARG_REAL, ARG_TEXT, ARG_SHAPES };

/* The record's name; valid as long as the record. */
static inline struct text record_name(const struct record *r)
{
    return name_text(r->name, (const char *)(r + 1));
}

/* The record's data bytes. */
static inline const uint8_t *record_data(const struct record *r)
{
    return (const uint8_t *)(r + 1) + name_bytes(r->name);
}

/* The number of values that a mask of extras stands for. The compiler's bit count would be a call
 * on machines that may lack the instruction. */
static inline unsigned extras_count(unsigned mask)
{
    mask &= EXTRAS_VALUES;
    mask = (mask & 0x55) + (mask >> 1 & 0x55);
    mask = (mask & 0x33) + (mask >> 2 & 0x33);
    return (mask & 0xf) + (mask >> 4);
}

/* The extra's value; `otherwise` if the record does not have it. */
static inline uint64_t record_extra(const struct record *r, enum record_extra which,
                                    uint64_t otherwise)
{
    uint64_t value = otherwise;
    if (r->extras & 1u << which)
        memcpy(&value,
               record_data(r) + r->data_len + 8 * extras_count(r->extras & ((1u << which) - 1)),
               sizeof value);
    return value;
}

/* True when the record was a span on its thread's stack of open spans. */
static inline int record_was_span(const struct record *r)
{
    return r->kind == REC_SPAN || (r->kind == REC_ASYNC && r->async.tid == 0);
}

/* Slots of a record with this name, `data_len` bytes of data and these extras. */
static inline uint64_t record_slots(uint32_t name, uint64_t data_len, uint8_t extras)
{
    uint64_t bytes = name_bytes(name) + data_len;
    /* most records have none, and counting bits takes some 20 instructions */
    if (extras & EXTRAS_VALUES)
        bytes += 8 * extras_count(extras);
    return 1 + (bytes + RECORD_SLOT - 1) / RECORD_SLOT;
}
