/* SPDX-License-Identifier: Apache-2.0 */
/* Sums by module. Spans carry a number of 16 bits, so that they take no more memory. */
#include "writer/sums/module_sums.h"

#include <stdlib.h>
#include <string.h>

#include "writer/record/record.h"
#include "writer/sums/summary_limits.h"
#include "writer/sums/top_table.h"

#define MODULES_MOST 65535u

static size_t slot_of(const struct module_sums *m, uint32_t id)
{
    size_t at = id * 0x9e3779b1u & (m->n_slots - 1);
    while (m->slots[at] && m->at[m->slots[at] - 1].id != id)
        at = (at + 1) & (m->n_slots - 1);
    return at;
}

static bool more_module_slots(struct top *t)
{
    struct module_sums *m = &t->modules;
    size_t n = m->n_slots ? 2 * m->n_slots : 256;
    uint16_t *slots = t->used + n * sizeof *slots <= t->most ? calloc(n, sizeof *slots) : NULL;
    if (!slots)
        return false;
    t->used += n * sizeof *slots;
    free(m->slots);
    m->slots = slots;
    m->n_slots = n;
    for (size_t i = 0; i < m->n; i++)
        m->slots[slot_of(m, m->at[i].id)] = (uint16_t)(i + 1);
    return true;
}

uint16_t module_sums_number(struct top *t, uint32_t id)
{
    struct module_sums *m = &t->modules;
    if (!id)
        return 0;
    if (2 * m->n >= m->n_slots && !more_module_slots(t)) {
        m->full = true;
        return 0;
    }
    size_t at = slot_of(m, id);
    if (m->slots[at])
        return m->slots[at];
    if (m->n == MODULES_MOST) {
        m->full = true;
        return 0;
    }
    if (!top_grow(t, (void **)&m->at, &m->room, m->n, sizeof *m->at))
        return 0;
    m->at[m->n++] = (struct module_sum){.id = id};
    return m->slots[at] = (uint16_t)m->n;
}

void module_sums_add(struct top *t, uint16_t number, int64_t self_cpu, int64_t self_device)
{
    if (!number)
        return;
    struct module_sum *m = &t->modules.at[number - 1];
    m->count++;
    m->self_cpu += self_cpu;
    m->self_device += self_device;
}

static struct text path_of(const struct module_sum *m)
{
    struct text path = {NULL, 0};
    path.at = modules_path(m->id, &path.len);
    return path.at ? path : (struct text){"", 0};
}

static int largest_first(const void *a, const void *b)
{
    const struct module_sum *x = a, *y = b;
    if (x->self_device != y->self_device)
        return x->self_device < y->self_device ? 1 : -1;
    if (x->self_cpu != y->self_cpu)
        return x->self_cpu < y->self_cpu ? 1 : -1;
    struct text p = path_of(x), q = path_of(y);
    int order = memcmp(p.at, q.at, p.len < q.len ? p.len : q.len);
    return order ? order : (p.len > q.len) - (p.len < q.len);
}

static void put_column(const struct module_sums *m, size_t shown, const char *key, size_t offset,
                       struct buf *out)
{
    buf_printf(out, ", \"%s\": [", key);
    for (size_t i = 0; i < shown; i++) {
        int64_t value;
        memcpy(&value, (const char *)&m->at[i] + offset, sizeof value);
        buf_puts(out, i ? ", " : "");
        json_int(out, value);
    }
    buf_puts(out, "]");
}

size_t module_sums_put(struct top *t, struct buf *out)
{
    struct module_sums *m = &t->modules;
    size_t used = 0;
    for (size_t i = 0; i < m->n; i++)
        if (m->at[i].count)
            m->at[used++] = m->at[i];
    m->n = used;
    if (!used) {
        buf_puts(out, "null");
        return 0;
    }
    qsort(m->at, used, sizeof *m->at, largest_first);
    size_t bytes = 0, shown = 0;
    while (shown < used && shown < FILE_MODULES_MOST) {
        size_t more = path_of(&m->at[shown]).len + FILE_MODULE_BYTES;
        if (bytes + more > FILE_MODULES_BYTES_MOST)
            break;
        bytes += more;
        shown++;
    }
    buf_puts(out, "{\"name\": [");
    for (size_t i = 0; i < shown; i++) {
        struct text path = path_of(&m->at[i]);
        buf_puts(out, i ? ", " : "");
        json_string(out, path.at, path.len);
    }
    buf_puts(out, "]");
    put_column(m, shown, "count", offsetof(struct module_sum, count), out);
    put_column(m, shown, "self_cpu", offsetof(struct module_sum, self_cpu), out);
    put_column(m, shown, "self_device", offsetof(struct module_sum, self_device), out);
    buf_printf(out, ", \"truncated\": %s}", m->full || shown < used ? "true" : "false");
    return bytes;
}
