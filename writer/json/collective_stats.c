/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes and bandwidth of collectives. */
#include "writer/json/collective_stats.h"

#include <stdlib.h>
#include <string.h>

#include "writer/json/json.h"
#include "writer/json/json_args.h"

#define KEPT 16384u /* a power of two */

struct kept {
    uint64_t id; /* 0: free */
    struct transfer transfer;
    char *text; /* owned: args, then data */
};

static struct kept *table; /* by the low bits of the id's hash */
/* the same for spans that made nodes of CUDA graphs, which are launched much later; text NULL: the
 * span has not ended */
static struct kept *captured;
static struct buf scratch;

static bool is_key(const struct json_arg *a, const char *key)
{
    return a->key_len == strlen(key) && memcmp(a->key, key, a->key_len) == 0;
}

static bool is_text(const struct json_arg *a, const char *text)
{
    return a->type == ARG_TEXT && a->value_len == strlen(text) &&
           memcmp(a->value, text, a->value_len) == 0;
}

static double number(const struct json_arg *a)
{
    int64_t value = 0;
    if (a->type == ARG_INT)
        memcpy(&value, a->value, sizeof value);
    return (double)value;
}

/* Bus bytes per byte that n ranks transfer; 0: unknown. */
static double bus_share(const struct json_arg *name, double n)
{
    if (is_text(name, "allreduce"))
        return n > 0 ? 2 * (n - 1) / n : 0;
    if (is_text(name, "allgather") || is_text(name, "reduce_scatter") ||
        is_text(name, "all_to_all") || is_text(name, "gather") || is_text(name, "scatter"))
        return n > 0 ? (n - 1) / n : 0;
    return 1;
}

bool collective_stats_read(const uint8_t *data, size_t n, struct transfer *out)
{
    const uint8_t *end = data + n;
    struct json_arg a, name = {.key = NULL};
    double ranks = 0;
    bool several = false;
    *out = (struct transfer){.blocking = true};
    while (json_next_arg(&data, end, &a)) {
        if (is_key(&a, "Collective name"))
            name = a;
        else if (is_key(&a, "bytes"))
            out->bytes = number(&a);
        else if (is_key(&a, "Group size"))
            ranks = number(&a);
        else if (is_key(&a, "Immediate") || (is_key(&a, "backend") && is_text(&a, "nccl")))
            out->blocking = false;
        else if (is_key(&a, "Coalesced") && number(&a) > 1)
            several = true;
    }
    if (!name.key)
        return false;
    if (several)
        out->bytes = 0; /* unknown which part a kernel did */
    else
        out->bus = bus_share(&name, ranks);
    return true;
}

static struct kept *transfer_place(struct kept *in, uint64_t id)
{
    return &in[(id * 0x9e3779b97f4a7c15u >> 40) % KEPT];
}

void collective_stats_captured(uint64_t span)
{
    if (span && !captured)
        captured = calloc(KEPT, sizeof *captured);
    struct kept *k = span && captured ? transfer_place(captured, span) : NULL;
    if (!k || k->id == span)
        return;
    free(k->text);
    *k = (struct kept){.id = span};
}

void collective_stats_note(const struct record *r)
{
    struct transfer t;
    if (r->category != CAT_COLLECTIVE || r->data_kind != DATA_ARGS ||
        !collective_stats_read(record_data(r), r->data_len, &t))
        return;
    if (!table)
        table = calloc(KEPT, sizeof *table);
    buf_reset(&scratch);
    json_args(&scratch, record_data(r), r->data_len, true);
    t.args_len = scratch.len;
    t.data_len = r->data_len;
    buf_put(&scratch, record_data(r), r->data_len);
    char *text = table && !scratch.failed ? malloc(scratch.len) : NULL;
    if (!text)
        return;
    memcpy(text, scratch.data, scratch.len);
    t.args = text;
    t.data = (const uint8_t *)text + t.args_len;
    struct kept *k = captured ? transfer_place(captured, r->id) : NULL;
    if (!k || k->id != r->id)
        k = transfer_place(table, r->id);
    free(k->text);
    *k = (struct kept){.id = r->id, .transfer = t, .text = text};
}

bool collective_stats_find(uint64_t span, struct transfer *out)
{
    const struct kept *k = captured && span ? transfer_place(captured, span) : NULL;
    if (!k || k->id != span)
        k = table && span ? transfer_place(table, span) : NULL;
    if (!k || k->id != span || !k->text)
        return false;
    *out = k->transfer;
    return true;
}

void collective_stats_bandwidth(struct buf *b, const struct transfer *t, int64_t duration_ns)
{
    if (t->bytes <= 0 || duration_ns <= 0)
        return;
    double rate = t->bytes / (double)duration_ns;
    buf_puts(b, ", \"Algorithm bandwidth (GB/s)\": ");
    json_rounded(b, rate, 4);
    if (t->bus > 0) {
        buf_puts(b, ", \"Bus bandwidth (GB/s)\": ");
        json_rounded(b, rate * t->bus, 4);
    }
}
