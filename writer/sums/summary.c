/* SPDX-License-Identifier: Apache-2.0 */
/* Collects what the summary needs. */
#include "writer/sums/summary_data.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 64u

struct summary *summary_make(uint64_t most)
{
    struct summary *s = most ? calloc(1, sizeof *s) : NULL;
    if (!s)
        return NULL;
    s->most = s->collectives.most = most / 4;
    s->table = top_make(most - most / 4);
    return s;
}

void summary_drop_parts(struct summary *s)
{
    free(s->works.at);
    s->works = (struct device_works){0};
    s->no_parts = true;
}

void summary_free(struct summary *s)
{
    if (!s)
        return;
    top_free(s->table);
    free(s->steps);
    summary_drop_parts(s);
    collective_list_free(&s->collectives);
    free(s);
}

unsigned summary_shares(const struct summary *s, struct step_shares *out, unsigned most)
{
    unsigned n = s ? s->n_shares : 0;
    n = n < most ? n : most;
    for (unsigned i = 0; i < n; i++)
        out[i] = s->shares[i];
    return n;
}

uint64_t summary_bytes(const struct summary *s)
{
    return s ? sizeof *s + s->used + s->collectives.used + top_bytes(s->table) : 0;
}

static bool grow(struct summary *s, void **array, size_t *room, size_t n, size_t size)
{
    if (n < *room)
        return true;
    size_t more = *room ? *room : FIRST_ROOM;
    void *grown = s->used + more * size <= s->most ? realloc(*array, (*room + more) * size) : NULL;
    if (!grown)
        return false;
    s->used += more * size;
    *array = grown;
    *room += more;
    return true;
}

/* ---- collecting ---- */

static int64_t start_of(const struct json_place *at)
{
    return at->start_ns > 0 ? at->start_ns : 0;
}

static int64_t end_of(const struct json_place *at)
{
    int64_t start = start_of(at);
    return at->end_ns > start ? at->end_ns : start;
}

static bool is_work(enum category category)
{
    return category == CAT_KERNEL || category == CAT_GPU_MEMCPY || category == CAT_GPU_MEMSET;
}

static void take_collective(struct summary *s, const struct record *r, const struct json_place *at,
                            bool open)
{
    struct text name = record_name(r);
    if (r->kind != REC_SPAN)
        return;
    bool has_args = r->data_kind == DATA_ARGS;
    collective_list_add(&s->collectives, collective_kind_of(name.at, name.len, false), name,
                        start_of(at), end_of(at), has_args ? record_data(r) : NULL,
                        has_args ? r->data_len : 0, open);
}

void summary_record(struct summary *s, const struct record *r, const struct json_place *at)
{
    if (!s)
        return;
    top_record(s->table, r, at);
    if (r->kind == REC_SPAN && is_work(r->category))
        summary_drop_parts(s); /* work that the program itself reports, on a row of its choice */
    else
        take_collective(s, r, at, false);
}

void summary_open(struct summary *s, const struct record *r, const struct json_place *at)
{
    if (!s)
        return;
    top_open(s->table, r, at);
    take_collective(s, r, at, true);
}

void summary_forget_open(struct summary *s)
{
    if (!s)
        return;
    top_forget_open(s->table);
    collective_list_forget_open(&s->collectives);
}

void summary_step(struct summary *s, int64_t number, const char *name, const struct json_place *at,
                  uint32_t thread)
{
    if (!s)
        return;
    top_step(s->table, name, at, thread);
    if (grow(s, (void **)&s->steps, &s->steps_room, s->n_steps, sizeof *s->steps))
        s->steps[s->n_steps++] = (struct summary_step){start_of(at), end_of(at), number, 1};
    else
        s->no_steps = true;
}

static void take_work(struct summary *s, const struct gpu_record *r, const struct json_name *name,
                      const struct json_place *at)
{
    struct device_works *w = &s->works;
    if (s->no_parts)
        return;
    if (!grow(s, (void **)&w->at, &w->room, w->n, sizeof *w->at)) {
        summary_drop_parts(s);
        return;
    }
    w->at[w->n++] = (struct device_work){
        .start = start_of(at),
        .end = end_of(at),
        .device = r->device,
        .part = (uint8_t)step_part_of_work(name->category, name->text, name->len)};
}

void summary_gpu(struct summary *s, const struct gpu_record *r, const struct json_place *at,
                 uint64_t external, const struct transfer *transfer)
{
    char room[JSON_NAME_ROOM];
    if (!s)
        return;
    top_gpu(s->table, r, at, external);
    struct json_name name = json_gpu_name(r, room);
    if (!is_work(name.category))
        return;
    take_work(s, r, &name, at);
    if (name.category == CAT_KERNEL)
        collective_list_add(&s->collectives, collective_kind_of(name.text, name.len, true),
                            (struct text){name.text, (uint32_t)name.len}, start_of(at), end_of(at),
                            transfer ? transfer->data : NULL, transfer ? transfer->data_len : 0,
                            false);
}

void summary_annotation(struct summary *s, const char *name, size_t len,
                        const struct json_place *at)
{
    if (s)
        top_annotation(s->table, name, len, at);
}
