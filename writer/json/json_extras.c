/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the extra numbers of records. */
#include "writer/json/json_extras.h"

#include "writer/json/json_event.h"
#include "writer/stack/stack.h"

#define NUMBER_ROOM 48u

static void put_key(struct buf *b, const char *key, bool *first)
{
    buf_puts(b, *first ? "\"" : ", \"");
    buf_puts(b, key);
    buf_puts(b, "\": ");
    *first = false;
}

static void put_number(struct buf *b, const char *key, uint64_t value, bool *first)
{
    put_key(b, key, first);
    char *p = buf_room(b, NUMBER_ROOM);
    if (p)
        end_at(b, put_u64(p, value));
}

/* Module Hierarchy is Kineto's key. */
static void put_module(struct buf *b, uint64_t id, bool *first)
{
    uint32_t len;
    const char *path = modules_path(id, &len);
    if (path) {
        put_key(b, "Module Hierarchy", first);
        json_string(b, path, len);
    }
}

/* Only for what computes: ranges and CUDA calls inside are in the operator's row. */
static bool tells_recompute(const struct record *r)
{
    return r->category == CAT_CPU_OP || r->category == CAT_LIBRARY;
}

/* FLOPs of the graph that is being captured, not done here. */
static void put_captured(struct buf *b, uint64_t flops, bool *first)
{
    if (flops != 0)
        put_number(b, "captured flops", flops, first);
}

void json_extras(struct buf *b, const struct record *r, bool first)
{
    if (r->extras & 1u << EXTRA_STACK)
        stacks_args(b, stacks_of(r), &first);
    if (r->extras & EXTRAS_RECOMPUTE && tells_recompute(r)) {
        put_key(b, "recompute", &first);
        buf_puts(b, "true");
    }
    if (r->extras & 1u << EXTRA_MODULE)
        put_module(b, record_extra(r, EXTRA_MODULE, 0), &first);
    uint64_t flops = record_extra(r, EXTRA_FLOPS, 0), bytes = record_extra(r, EXTRA_BYTES, 0);
    if (record_extra(r, EXTRA_DTYPE, 0) & WHERE_CAPTURED) {
        put_captured(b, flops, &first);
        return;
    }
    if (flops != 0)
        put_number(b, "flops", flops, &first);
    if (bytes != 0)
        put_number(b, "bytes", bytes, &first);
    if (flops != 0 && bytes != 0) {
        put_key(b, "flops per byte", &first);
        char *p = buf_room(b, NUMBER_ROOM);
        if (p)
            /* put_us() prints three decimals */
            end_at(b, put_us(p, (int64_t)((double)flops / (double)bytes * 1000 + 0.5)));
    }
}

void json_extras_end(struct buf *b, const struct record *r)
{
    stacks_end(b, stacks_of(r));
}
