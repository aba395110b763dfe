/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a GPU as Chrome JSON text. */
#include "writer/json/json_state.h"

#define DIGITS 12 /* significant ones; enough for each byte of a terabyte */

const char *const throttle_names[THROTTLES] = {
#define THROTTLE(id, bit, name) name,
#include "writer/record/throttles.def"
#undef THROTTLE
};

static void put_place(struct buf *b, const struct json_place *at)
{
    buf_printf(b, ", \"pid\": %u, \"tid\": %u, \"ts\": ", at->pid, at->tid);
    json_us(b, at->start_ns);
}

/* Viewers join name and unit: "Power W". */
static void put_reading(struct buf *b, const char *prefix, const char *name, const char *unit,
                        double value, const struct json_place *at)
{
    buf_printf(b, "{\"ph\": \"C\", \"name\": \"%s%s\"", prefix, name);
    put_place(b, at);
    buf_printf(b, ", \"args\": {\"%s\": ", unit);
    json_rounded(b, value, DIGITS);
    buf_puts(b, "}},\n");
}

static void put_throttled(struct buf *b, const char *reason, const struct json_place *at)
{
    buf_printf(b,
               "{\"ph\": \"i\", \"cat\": \"gpu_state\", \"s\": \"p\", \"name\": \"throttled: %s\"",
               reason);
    put_place(b, at);
    buf_puts(b, "},\n");
}

/* Removes what was appended since `start` when not all of it fit. Returns the events left. */
static unsigned whole(struct buf *b, size_t start, unsigned events)
{
    if (!b->failed)
        return events;
    b->len = start;
    return 0;
}

unsigned json_state(struct buf *b, const struct gpu_state *s, const struct json_place *at)
{
    static const struct {
        const char *name, *unit;
    } values[] = {
#define GPU_VALUE(id, name, unit) {name, unit},
#include "writer/record/gpu_values.def"
#undef GPU_VALUE
    };
    size_t start = b->len;
    unsigned events = 0;
    for (unsigned i = 0; i < GPU_VALUES; i++)
        if (gpu_state_knows(s, (enum gpu_value)i)) {
            put_reading(b, "", values[i].name, values[i].unit, s->value[i], at);
            events++;
        }
    return whole(b, start, events);
}

unsigned json_throttles(struct buf *b, uint32_t before, uint32_t now, const struct json_place *at)
{
    size_t start = b->len;
    unsigned events = 0;
    for (unsigned i = 0; i < THROTTLES; i++) {
        uint32_t bit = UINT32_C(1) << i;
        if (!((before ^ now) & bit))
            continue;
        put_reading(b, "Throttled: ", throttle_names[i], "on", now & bit ? 1 : 0, at);
        if (now & bit)
            put_throttled(b, throttle_names[i], at);
        events += now & bit ? 2 : 1;
    }
    return whole(b, start, events);
}
