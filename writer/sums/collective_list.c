/* SPDX-License-Identifier: Apache-2.0 */
/* Collects collectives, and writes them as columns of the summary. */
#include "writer/sums/collective_list.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "writer/json/json.h"
#include "writer/sums/summary_limits.h"

#define KEYS_MOST  4096u
#define FIRST_ROOM 64u

/* ---- which events ---- */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool starts_with(const char *name, size_t len, const char *start)
{
    size_t n = strlen(start);
    return len >= n && memcmp(name, start, n) == 0;
}

/* ncclKernel…, ncclDevKernel…, and ncclXKernel with any letters for X; rccl…. */
static bool is_nccl_kernel(const char *name, size_t len)
{
    if (starts_with(name, len, "rccl") || starts_with(name, len, "ncclKernel"))
        return true;
    if (!starts_with(name, len, "nccl") || len < 5 || name[4] < 'A' || name[4] > 'Z')
        return false;
    for (size_t i = 5; i < len && is_word(name[i - 1]); i++)
        if (starts_with(name + i, len - i, "Kernel"))
            return true;
    return false;
}

static bool is_mpi_call(const char *name, size_t len)
{
    static const char *const calls[] = {"Allreduce", "Allgather", "Alltoall", "Barrier",
                                        "Reduce",    "Bcast",     "Gather",   "Scatter"};
    size_t p = len && name[0] == 'P';
    if (len < 4 + p || strncasecmp(name + p, "MPI_", 4) != 0)
        return false;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        size_t n = strlen(calls[i]);
        if (len >= 4 + p + n && strncasecmp(name + p + 4, calls[i], n) == 0)
            return true;
    }
    return false;
}

enum collective_kind collective_kind_of(const char *name, size_t len, bool on_device)
{
    if (len == 0 || !strchr("ngrmuMP", name[0])) /* nearly all names */
        return COLLECTIVE_NONE;
    if (on_device)
        return is_nccl_kernel(name, len) ? COLLECTIVE_NCCL : COLLECTIVE_NONE;
    if (starts_with(name, len, "gloo:") || starts_with(name, len, "mpi:") ||
        starts_with(name, len, "ucc:"))
        return COLLECTIVE_RANGE;
    return is_mpi_call(name, len) ? COLLECTIVE_MPI : COLLECTIVE_NONE;
}

/* ---- collecting ---- */

/* The values of an event's args that the summary needs. */
struct wanted_args {
    struct json_arg name, members, size;
    int64_t bytes, number;
};

static void keep_if(const struct json_arg *a, const char *key, struct json_arg *out)
{
    if (a->key_len == strlen(key) && memcmp(a->key, key, a->key_len) == 0)
        *out = *a;
}

static int64_t whole_or(const struct json_arg *a, int64_t otherwise)
{
    if (a->key && a->type == ARG_INT)
        memcpy(&otherwise, a->value, sizeof otherwise);
    return otherwise;
}

static void read_wanted(const uint8_t *args, size_t n, struct wanted_args *out)
{
    const uint8_t *end = args + n;
    struct json_arg a, bytes = {.key = NULL}, number = {.key = NULL};
    *out = (struct wanted_args){0};
    while (n && json_next_arg(&args, end, &a)) {
        keep_if(&a, "Collective name", &out->name);
        keep_if(&a, "Process Group Ranks", &out->members);
        keep_if(&a, "Group size", &out->size);
        keep_if(&a, "bytes", &bytes);
        keep_if(&a, "Seq", &number);
    }
    out->bytes = whole_or(&bytes, -1);
    out->number = whole_or(&number, -1);
}

/* Appends [name, members, size of the group]: "" and 0 where unknown. */
static void put_key(struct buf *b, const struct text *name, const struct wanted_args *w)
{
    buf_puts(b, "[");
    if (w->name.key && w->name.type == ARG_TEXT && w->name.value_len)
        json_string(b, (const char *)w->name.value, w->name.value_len);
    else
        json_string(b, name->at, name->len);
    buf_puts(b, ", ");
    if (w->members.key && w->members.type == ARG_TEXT)
        json_string(b, (const char *)w->members.value, w->members.value_len);
    else
        buf_puts(b, "\"\"");
    buf_puts(b, ", ");
    json_int(b, whole_or(&w->size, 0));
    buf_put(b, "]", 2); /* with its NUL */
}

/* The index of a key, which is new unless an earlier one has the same text. UINT32_MAX: too many,
 * or no memory. */
static uint32_t key_of(struct collective_list *l, const struct text *name,
                       const struct wanted_args *w)
{
    size_t made = l->keys.len;
    put_key(&l->keys, name, w);
    if (l->keys.failed)
        return UINT32_MAX;
    const char *text = l->keys.data + made, *at = l->keys.data;
    for (uint32_t i = 0; i < l->n_keys; i++, at += strlen(at) + 1) {
        if (strcmp(at, text) == 0) {
            l->keys.len = made;
            return i;
        }
    }
    if (l->n_keys == KEYS_MOST)
        return UINT32_MAX;
    l->used += l->keys.len - made;
    return l->n_keys++;
}

static bool append_seen(struct collective_list *l, struct collective_column *c,
                        const struct collective_seen *one)
{
    if (c->n == c->room) {
        size_t more = c->room ? c->room : FIRST_ROOM;
        struct collective_seen *at = l->used + more * sizeof *at <= l->most
                                         ? realloc(c->at, (c->room + more) * sizeof *at)
                                         : NULL;
        if (!at)
            return false;
        l->used += more * sizeof *at;
        c->at = at;
        c->room += more;
    }
    c->at[c->n++] = *one;
    return true;
}

void collective_list_add(struct collective_list *l, enum collective_kind kind, struct text name,
                         int64_t start, int64_t end, const uint8_t *args, size_t n, bool open)
{
    if (kind == COLLECTIVE_NONE || l->failed)
        return;
    struct wanted_args wanted;
    read_wanted(args, n, &wanted);
    struct collective_seen one = {.start = start,
                                  .end = end,
                                  .bytes = wanted.bytes,
                                  .number = wanted.number,
                                  .key = key_of(l, &name, &wanted)};
    struct collective_column *to = open ? &l->open[kind] : &l->of[kind];
    l->failed = one.key == UINT32_MAX || !append_seen(l, to, &one);
}

void collective_list_forget_open(struct collective_list *l)
{
    for (int i = 0; i < COLLECTIVE_KINDS; i++)
        l->open[i].n = 0;
}

/* ---- writing ---- */

static int in_time(const void *a, const void *b)
{
    const struct collective_seen *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return (x->key > y->key) - (x->key < y->key);
}

static void put_keys(const struct collective_list *l, struct buf *out)
{
    const char *at = l->keys.data;
    buf_puts(out, "{\"keys\": [");
    for (uint32_t i = 0; i < l->n_keys; i++, at += strlen(at) + 1) {
        buf_puts(out, i ? ", " : "");
        buf_puts(out, at);
    }
    buf_puts(out, "]");
}

enum column { COL_KEY, COL_START, COL_DURATION, COL_BYTES, COL_NUMBER, COLS };

static int64_t value_of(const struct collective_seen *one, enum column column, int64_t before)
{
    switch (column) {
    case COL_KEY:
        return one->key;
    case COL_START: /* the distance from the one before takes fewer digits */
        return one->start - before;
    case COL_DURATION:
        return one->end - one->start;
    case COL_BYTES:
        return one->bytes;
    default:
        return one->number;
    }
}

static void put_columns(const struct collective_column *c, struct buf *out)
{
    static const char *const names[COLS] = {"key", "start_delta", "duration", "bytes", "number"};
    for (enum column column = 0; column < COLS; column++) {
        buf_printf(out, ", \"%s\": [", names[column]);
        for (size_t i = 0; i < c->n; i++) {
            buf_puts(out, i ? "," : "");
            json_int(out, value_of(&c->at[i], column, i ? c->at[i - 1].start : 0));
        }
        buf_puts(out, "]");
    }
    buf_puts(out, ", \"truncated\": false}");
}

struct sum {
    uint64_t count;
    int64_t duration, bytes;
    int64_t covered, end; /* time in which any ran; end of the last one */
};

/* Adds those that begin in [start, end) to the sums by key. */
static void add_sums(const struct collective_column *c, size_t *at, const struct summary_step *step,
                     struct sum *sums)
{
    for (; *at < c->n && c->at[*at].start < step->end; ++*at) {
        const struct collective_seen *one = &c->at[*at];
        if (one->start < step->start)
            continue;
        struct sum *sum = &sums[one->key];
        int64_t since = sum->count && sum->end > one->start ? sum->end : one->start;
        sum->covered += one->end > since ? one->end - since : 0;
        sum->end = sum->count && sum->end > one->end ? sum->end : one->end;
        sum->count++;
        sum->duration += one->end - one->start;
        sum->bytes += one->bytes > 0 ? one->bytes : 0;
    }
}

static void put_sums(const struct collective_list *l, const struct collective_column *c,
                     const struct summary_step *steps, size_t n_steps, struct buf *out)
{
    struct sum *sums = calloc(l->n_keys + 1, sizeof *sums);
    size_t at = 0;
    bool first = true;
    buf_puts(out, ", \"sums\": [");
    for (size_t i = 0; sums && i < n_steps; i++) {
        memset(sums, 0, l->n_keys * sizeof *sums);
        add_sums(c, &at, &steps[i], sums);
        for (uint32_t key = 0; key < l->n_keys; key++) {
            if (!sums[key].count)
                continue;
            buf_printf(out, "%s[%zu, %u, %llu, %lld, %lld, %lld, %lld]", first ? "" : ", ", i, key,
                       (unsigned long long)sums[key].count, (long long)sums[key].duration,
                       (long long)sums[key].bytes, (long long)sums[key].covered,
                       (long long)(sums[key].end - steps[i].start));
            first = false;
        }
    }
    out->failed |= !sums;
    free(sums);
    buf_puts(out, "], \"truncated\": true}");
}

void collective_list_put(const struct collective_list *l, const struct summary_step *steps,
                         size_t n_steps, struct buf *out)
{
    bool single = collective_list_fits(l);
    if (l->failed || (!single && n_steps == 0)) {
        buf_puts(out, "null");
        return;
    }
    put_keys(l, out);
    if (single)
        put_columns(&l->of[0], out);
    else
        put_sums(l, &l->of[0], steps, n_steps, out);
}

/* ---- the end ---- */

/* Drops the keys of other kinds. False: no memory. */
static bool keep_keys(struct collective_list *l)
{
    struct collective_column *c = &l->of[0];
    uint32_t *to = calloc(l->n_keys + 1, sizeof *to), n = 0;
    size_t from = 0, kept = 0;
    if (!to)
        return false;
    for (size_t i = 0; i < c->n; i++)
        to[c->at[i].key] = 1;
    for (uint32_t key = 0; key < l->n_keys; key++) {
        size_t len = strlen(l->keys.data + from) + 1;
        if (to[key]) {
            memmove(l->keys.data + kept, l->keys.data + from, len);
            kept += len;
            to[key] = n++;
        }
        from += len;
    }
    for (size_t i = 0; i < c->n; i++)
        c->at[i].key = to[c->at[i].key];
    l->n_keys = n;
    l->keys.len = kept;
    free(to);
    return true;
}

/* The size of the keys in the file, each with its comma and space. */
static size_t bytes_of_keys(const struct collective_list *l)
{
    return l->keys.len + l->n_keys;
}

void collective_list_finish(struct collective_list *l)
{
    struct collective_column *c = &l->of[0];
    for (int i = 0; i < COLLECTIVE_KINDS; i++)
        for (size_t k = 0; k < l->open[i].n && !l->failed; k++)
            l->failed = !append_seen(l, &l->of[i], &l->open[i].at[k]);
    collective_list_forget_open(l);
    for (int i = 1; i < COLLECTIVE_KINDS && c->n == 0; i++) {
        struct collective_column none = *c;
        *c = l->of[i];
        l->of[i] = none;
    }
    if (l->failed || c->n == 0)
        return;
    qsort(c->at, c->n, sizeof *c->at, in_time);
    l->failed =
        !keep_keys(l) || l->n_keys > FILE_KEYS_MOST || bytes_of_keys(l) > FILE_KEYS_BYTES_MOST;
}

bool collective_list_fits(const struct collective_list *l)
{
    return l->of[0].n * FILE_COLLECTIVE_BYTES + bytes_of_keys(l) <= FILE_COLLECTIVES_MOST;
}

size_t collective_list_bytes(const struct collective_list *l, size_t n_rows)
{
    if (l->failed)
        return 0;
    size_t rows = collective_list_fits(l) ? l->of[0].n * FILE_COLLECTIVE_BYTES
                                          : n_rows * l->n_keys * FILE_SUM_BYTES;
    return rows + bytes_of_keys(l);
}

void collective_list_free(struct collective_list *l)
{
    for (int i = 0; i < COLLECTIVE_KINDS; i++) {
        free(l->of[i].at);
        free(l->open[i].at);
    }
    buf_free(&l->keys);
    *l = (struct collective_list){.failed = true};
}
