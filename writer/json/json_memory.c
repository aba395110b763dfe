/* SPDX-License-Identifier: Apache-2.0 */
/* Writes tensor memory as JSON. */
#include "writer/json/json_memory.h"

#include "writer/json/json_event.h"
#include "writer/json/json_extras.h"
#include "writer/stack/stack.h"

#define EVENT_ROOM 512u

/* Writes a device's name as torch does: CPU, CUDA:0. */
static char *put_device(char *p, int32_t type, int32_t index)
{
    /* c10::DeviceType of tensor allocators */
    static const char *const names[] = {
        [0] = "CPU", [1] = "CUDA", [6] = "HIP", [12] = "XPU", [13] = "MPS",
    };
    const char *name = NULL;
    if (type >= 0 && (size_t)type < sizeof(names) / sizeof(*names))
        name = names[type];
    if (name) {
        size_t n = strlen(name);
        p = (char *)memcpy(p, name, n) + n;
    } else {
        p = put_literal(p, "device type ");
        p = put_i64(p, type);
    }
    if (index >= 0) {
        *p++ = ':';
        p = put_i64(p, index);
    }
    return p;
}

/* Begins the counter of a device, up to its name. NULL: no room. */
static char *begin_total(struct buf *b, const struct record_memory *m)
{
    char *p = buf_room(b, EVENT_ROOM);
    return !p ? NULL
              : put_device(put_literal(p, "{\"ph\": \"C\", \"name\": \"Memory "), m->device_type,
                           m->device_index);
}

void json_memory(struct buf *b, const struct record *r, const struct json_place *at)
{
    struct record_memory m;
    if (r->data_kind != DATA_MEMORY || r->data_len < sizeof(m))
        return;
    memcpy(&m, record_data(r), sizeof(m));
    char *p = begin_event(b, &instant_begin[CAT_MEMORY], "[memory]", 8, EVENT_ROOM);
    if (!p)
        return;
    p = put_place(p, at);
    p = put_literal(p, ", \"args\": {\"Total Reserved\": ");
    p = put_i64(p, m.total_reserved);
    p = put_literal(p, ", \"Total Allocated\": ");
    p = put_i64(p, m.total_allocated);
    p = put_literal(p, ", \"Bytes\": ");
    p = put_i64(p, r->memory.bytes);
    p = put_literal(p, ", \"Device Id\": ");
    p = put_i64(p, m.device_index);
    p = put_literal(p, ", \"Device Type\": ");
    p = put_i64(p, m.device_type);
    p = put_literal(p, ", \"Addr\": ");
    p = put_id(p, r->memory.address);
    if (r->parent != 0) {
        p = put_literal(p, ", \"External id\": ");
        p = put_id(p, r->parent);
    }
    end_at(b, p);
    json_extras(b, r, false);
    json_extras_end(b, r);

    p = begin_total(b, &m);
    if (!p)
        return;
    *p++ = '"';
    p = put_place(p, at);
    p = put_literal(p, ", \"args\": {\"allocated bytes\": ");
    p = put_i64(p, m.total_allocated);
    end_at(b, put_literal(p, "}},\n"));
}

void json_memory_reserved(struct buf *b, const struct record_memory *state,
                          const struct json_place *at)
{
    size_t start = b->len;
    char *p = begin_total(b, state);
    if (p) {
        p = put_literal(p, " reserved\"");
        p = put_place(p, at);
        p = put_literal(p, ", \"args\": {\"reserved bytes\": ");
        p = put_i64(p, state->total_reserved);
        end_at(b, put_literal(p, "}},\n"));
    }
    whole_or_nothing(b, start);
}

/* Appends `"key": [{…}, …]`: the holders and their bytes. */
static void put_holders(struct buf *b, const char *key, const struct memory_holders *holders)
{
    buf_printf(b, "\"%s\": [", key);
    for (unsigned i = 0; i < holders->n; i++) {
        const struct memory_holder *h = &holders->top[i];
        uint32_t len;
        const char *module = modules_path(h->module, &len);
        buf_puts(b, i != 0 ? ", {\"operator\": " : "{\"operator\": ");
        json_string(b, h->name ? h->name : "", h->name_len);
        if (module) {
            buf_puts(b, ", \"module\": ");
            json_string(b, module, len);
        }
        bool first = false;
        stacks_args(b, h->stack, &first);
        if (h->stack != 0)
            buf_printf(b, ", \"sf\": %u", h->stack);
        buf_printf(b, ", \"bytes\": %lld, \"allocations\": %llu}", (long long)h->bytes,
                   (unsigned long long)h->allocations);
    }
    buf_puts(b, "]");
}

void json_out_of_memory(struct buf *b, const struct memory_event *e,
                        const struct memory_holders *holders, const struct json_place *at)
{
    size_t start = b->len;
    bool driver = e->state.device_type == MEMORY_OF_DRIVER;
    char *p = driver ? begin_event(b, &instant_begin[CAT_DRIVER_MEMORY], "[driver OutOfMemory]", 20,
                                   EVENT_ROOM)
                     : begin_event(b, &instant_begin[CAT_MEMORY], "[OutOfMemory]", 13, EVENT_ROOM);
    if (!p)
        return;
    p = put_place(p, at);
    p = put_literal(p, ", \"args\": {\"Bytes\": ");
    p = put_i64(p, e->bytes);
    if (!driver) {
        p = put_literal(p, ", \"Total Reserved\": ");
        p = put_i64(p, e->state.total_reserved);
        p = put_literal(p, ", \"Total Allocated\": ");
        p = put_i64(p, e->state.total_allocated);
        p = put_literal(p, ", \"Device Id\": ");
        p = put_i64(p, e->state.device_index);
        p = put_literal(p, ", \"Device Type\": ");
        p = put_i64(p, e->state.device_type);
    }
    if (e->parent != 0) {
        p = put_literal(p, ", \"External id\": ");
        p = put_id(p, e->parent);
    }
    end_at(b, p);
    if (e->name) {
        buf_puts(b, driver ? ", \"Call\": " : ", \"Operator\": ");
        json_string(b, e->name, e->name_len);
    }
    struct {
        struct record r;
        uint64_t values[2];
    } extras = {.r = {.extras = (uint8_t)((e->stack != 0) << EXTRA_STACK | (e->module != 0)
                                                                               << EXTRA_MODULE)}};
    extras.values[0] = e->stack != 0 ? e->stack : e->module;
    extras.values[1] = e->module;
    json_extras(b, &extras.r, false);
    if (!driver) {
        buf_puts(b, ", ");
        put_holders(b, "Largest Holders", holders);
    }
    buf_put(b, "}},\n", 4);
    whole_or_nothing(b, start);
}

void json_memory_device_name(char name[64], int32_t type, int32_t index)
{
    *put_device(name, type, index) = '\0';
}

void json_memory_device(struct buf *b, const struct memory_device *device, int64_t peak_ns,
                        const struct memory_holders *at_peak, const struct memory_holders *at_end)
{
    char name[64];
    char *end = put_device(name, device->type, device->index);
    buf_puts(b, "{\"level\": \"tensor\", \"device\": ");
    json_string(b, name, (size_t)(end - name));
    buf_printf(b, ", \"peak_bytes\": %lld, \"peak_ts\": ", (long long)device->peak);
    json_us(b, peak_ns);
    buf_printf(b, ", \"peak_reserved_bytes\": %lld, \"begin_bytes\": %lld, \"end_bytes\": %lld, ",
               (long long)device->peak_reserved, (long long)device->first, (long long)device->last);
    put_holders(b, "peak_holders", at_peak);
    buf_printf(b, ", \"peak_other_holders_bytes\": %lld, \"peak_unknown_bytes\": %lld, ",
               (long long)at_peak->others, (long long)at_peak->unknown);
    put_holders(b, "end_holders", at_end);
    buf_printf(b, ", \"end_other_holders_bytes\": %lld, \"end_unknown_bytes\": %lld}",
               (long long)at_end->others, (long long)at_end->unknown);
}
