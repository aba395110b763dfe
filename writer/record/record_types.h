/* SPDX-License-Identifier: Apache-2.0 */
/* The one record that application threads put into rings and the cprof thread takes out. Plain
 * data: no pointers into the program, so that it may outlive what it describes. */
#ifndef WRITER_RECORD_RECORD_TYPES_H
#define WRITER_RECORD_RECORD_TYPES_H

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
    REC_PAD,  /* fills the ring up to its end; `slots` is all that counts */
    REC_SPAN, /* name, start, end; one record holds both ends, so a loss never unbalances a file */
    REC_INSTANT, /* name, start */
    REC_COUNTER, /* name, start, one series per item of `data` (DATA_ARGS) */
    /* start, memory, DATA_MEMORY: one tensor allocation (bytes > 0), its text the operator that
     * asked, or release (bytes < 0) */
    REC_MEMORY,
    /* as REC_MEMORY: an allocation of so many bytes that failed; of the driver: the text names
     * the call */
    REC_OUT_OF_MEMORY,
    /* node: a node of a CUDA graph came into being; the text names the span that made it,
     * `parent` is its id */
    REC_NODE,
    /* name, start, end, async: a range that does not nest with the row of its thread; both ends
     * in one, as REC_SPAN */
    REC_ASYNC,
};

/* What the `data` bytes behind the text are. */
enum record_data { DATA_NONE, DATA_SHAPES, DATA_ARGS, DATA_MEMORY, DATA_NODE };

enum record_flags {
    /* the span was still open when its window was written; end = the window's end */
    REC_UNFINISHED = 1u << 0,
    /* a marker: one of a warmup step goes to the head of the next window's file, other records do
     * not */
    REC_MARKER = 1u << 1,
    /* sequence and forward_thread are those of the operator inside: no arrow ends here */
    REC_BORROWED = 1u << 2,
    /* an open span that may outlive what is around it: it becomes a REC_ASYNC then, and is never
     * cut or dropped */
    REC_LOOSE = 1u << 3,
    /* an open span that did: it does not nest any more */
    REC_CROSSES = 1u << 4,
    /* an open span whose end may come behind that of the span around it (emit_itt's do): it ends
     * with that one, and is whole */
    REC_ENDS_LATE = 1u << 5,
    /* with REC_MARKER: made in a step to skip, by a marker that asks for such steps: it goes to the
     * head of the next window's file */
    REC_SKIPPED = 1u << 6,
    /* a span around it on its thread has a FLOP count: its own, if any, is part of that */
    REC_IN_COUNTED = 1u << 7,
    /* with REC_MARKER, which never has REC_BORROWED: a task, made by a library around its work as
     * likely as by the program: in a warmup step it is no more than other records */
    REC_TASK = REC_BORROWED,
};

/* Numbers that any record may carry. They stand behind its data, 8 bytes each, in this order, those
 * whose bit is set in `extras`. */
enum record_extra {
    EXTRA_STACK,  /* id of the stack that asked for it, not 0 */
    EXTRA_MODULE, /* id of the module path inside which it happened, not 0 */
    EXTRA_FLOPS,  /* floating-point operations, multiplication and addition counted each */
    EXTRA_BYTES,  /* bytes read and written, as the formula has them */
    /* record_where(): what the operations are done in and on; FLOPS_NOT_KNOWN: they could not be
     * counted */
    EXTRA_DTYPE,
    EXTRA_COUNT
};

#define EXTRAS_VALUES ((1u << EXTRA_COUNT) - 1) /* bits of `extras` that numbers belong to */

/* Further bits, which a span takes over from the one around it: it is in a backward node that began
 * with grad mode off; it is forward work that is done again for the backward pass. */
#define EXTRAS_GRAD_OFF  (1u << 6)
#define EXTRAS_RECOMPUTE (1u << 7)
#define EXTRAS_INHERITED (EXTRAS_GRAD_OFF | EXTRAS_RECOMPUTE)

/* EXTRA_DTYPE of an operator whose shapes could not be told. */
#define FLOPS_NOT_KNOWN 0xffffu

/* c10::ScalarType of single precision: all that a formula knows of an operator, whichever units its
 * library uses. */
#define DTYPE_FLOAT 6u

/* Bit of EXTRA_DTYPE: forward work that is done again for the backward pass. It lies in the lower
 * 32 bits, which is what struct note, share and captured keep. */
#define WHERE_RECOMPUTE (UINT64_C(1) << 23)

/* Bit of EXTRA_DTYPE: what the span launched was captured into a CUDA graph, and runs when that is
 * launched. */
#define WHERE_CAPTURED (UINT64_C(1) << 32)

/* Bit of EXTRA_DTYPE: a product, as of matrices or a convolution; with FLOPS_NOT_KNOWN, what looks
 * like one by its name, too. */
#define WHERE_PRODUCT (UINT64_C(1) << 33)

/* Where EXTRA_DTYPE of an open span has how many exceptions were on their way when it began; 0 in a
 * record. */
#define WHERE_UNCAUGHT_SHIFT 48

/* Where operations are done: c10::ScalarType, c10::DeviceType (0 CPU, 1 CUDA), and the device's
 * number, 0xff = it is that of the kernels. */
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
            /* length in slots, this header included; a ring is no longer either */
          uint32_t slots : 24;
            /* bit 1 << enum record_extra: numbers behind the data; and EXTRAS_ */
            uint32_t extras : 8;
        };
        /* both, for writing: one bit field alone is read first, from a line that is not in the
         * cache */
        uint32_t slots_and_extras;
    };
    uint64_t start; /* clock_ticks() */
    uint64_t end;   /* clock_ticks(); == start where there is no duration */
    /* span id, unique in the process, < 2^53; 0 = none. The `External id` of the trace */
    uint64_t id;
    uint64_t parent; /* id of the span that was open on this thread; 0 = none */
    union {
        struct {
            int64_t sequence; /* autograd sequence number, -1 = none */
            /* torch's logical id of the forward thread, 0 = not a backward operator */
            uint64_t forward_thread;
        } op;
        struct {
            /* of the thread on which it began; 0: that on which it ended, whose span it was */
            uint64_t tid;
        } async;
        struct {
            uint64_t address;
            int64_t bytes; /* signed: negative when released */
        } memory;
        struct {
            uint64_t id;       /* as CUPTI numbers it: graph id in the upper half */
            uint64_t original; /* the node it is a copy of, 0 = of none */
        } node;
    };
    uint32_t name;     /* numbered.h; a text stands directly behind the header, any bytes */
    uint32_t data_len; /* bytes of `data` directly behind the text, not aligned */
};
_Static_assert(sizeof(struct record) == RECORD_SLOT, "a record header is one slot");

/* DATA_MEMORY, copied with memcpy (unaligned). */
struct record_memory {
    int64_t total_allocated; /* bytes alive on the device as far as cprof saw */
    int64_t total_reserved;  /* bytes the caching allocator holds; 0 on the CPU */
    int32_t device_type;     /* c10::DeviceType: 0 CPU, 1 CUDA; MEMORY_OF_DRIVER: below torch */
    int32_t device_index;    /* -1 on the CPU */
};

/* DATA_NODE of REC_NODE, copied with memcpy (unaligned): the innermost and the outermost of the
 * counted spans inside which it was made. */
struct record_node {
    struct record_counted {
        uint64_t span; /* id; 0 = none was counted */
        uint64_t flops, bytes, where;
    } inner, outer;
    uint64_t is_kernel;
};

#define MEMORY_OF_DRIVER (-1) /* device_type of a call to the CUDA driver or runtime that failed */

/* DATA_SHAPES: one item per operator input, in order. An item is a tag byte, then:
 *   SHAPE_TENSOR       uint8 dtype (c10::ScalarType), uint8 ndim, ndim x int64 size; with
 *                      SHAPE_STRIDES in ndim: ndim x int64 stride
 *   SHAPE_LIST         uint8 n (tensors), then n SHAPE_TENSOR bodies (no tag); a longer list is cut
 *                      at 255
 *   SHAPE_SCALAR_LIST  uint8 n, then n items of scalars, or SHAPE_OTHER for what is none
 *   SHAPE_INT          int64
 *   SHAPE_REAL         double
 *   SHAPE_COMPLEX      2 x double
 *   SHAPE_SCALAR (its value cannot be told), SHAPE_FALSE, SHAPE_TRUE, SHAPE_OTHER   nothing
 * which is all that Kineto's "Input Dims", "Input Strides", "Input type" and "Concrete Inputs" can
 * tell apart. Numbers are in host order, unaligned. */
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

/* DATA_ARGS: named values. An item is a type byte, uint16 key length, key bytes, then 8 bytes of
 * value (ARG_INT int64, ARG_REAL double) or uint32 length + bytes (ARG_TEXT; ARG_SHAPES, without a
 * key: as DATA_SHAPES). */
enum arg_type { ARG_INT, ARG_REAL, ARG_TEXT, ARG_SHAPES };

/* The record's name; valid as long as the record. */
static inline struct text record_name(const struct record *r)
{
    return name_text(r->name, (const char *)(r + 1));
}

/* Address of the data bytes behind a record's text. */
static inline const uint8_t *record_data(const struct record *r)
{
    return (const uint8_t *)(r + 1) + name_bytes(r->name);
}

/* How many numbers a mask of extras names. Built in, counting bits is a call where the machine may
 * lack the instruction. */
static inline unsigned extras_count(unsigned mask)
{
    mask &= EXTRAS_VALUES;
    mask = (mask & 0x55) + (mask >> 1 & 0x55);
    mask = (mask & 0x33) + (mask >> 2 & 0x33);
    return (mask & 0xf) + (mask >> 4);
}

/* The extra's value; `otherwise` when the record does not carry it. */
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

/* True when the record was a span on its thread's stack. */
static inline int record_was_span(const struct record *r)
{
    return r->kind == REC_SPAN || (r->kind == REC_ASYNC && r->async.tid == 0);
}

/* Slots that a record of this name, with so many bytes of data and these extras, takes. */
static inline uint64_t record_slots(uint32_t name, uint64_t data_len, uint8_t extras)
{
    uint64_t bytes = name_bytes(name) + data_len;
    /* most have none, and counting bits takes a score of instructions where there is none for it */
    if (extras & EXTRAS_VALUES)
        bytes += 8 * extras_count(extras);
    return 1 + (bytes + RECORD_SLOT - 1) / RECORD_SLOT;
}

#endif
