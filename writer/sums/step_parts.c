/* SPDX-License-Identifier: Apache-2.0 */
/* Sweeps over work and spans in time order. For each part it adds up the union of what has this
 * part or an earlier one; the differences of these unions are the parts. */
#include "writer/sums/step_parts.h"

#include <stdlib.h>
#include <string.h>

struct piece {
    int64_t start, end;
    enum step_part part;
};

struct sweep {
    const struct summary_step *steps;
    size_t n_steps, low; /* low: the first step that later pieces may reach */
    int64_t reached[STEP_PARTS];
    struct parts_of_step *parts; /* of each step: the unions, until the end */
};

/* ---- what a span is ---- */

static bool begins(struct text name, const char *start)
{
    size_t n = strlen(start);
    return name.len >= n && memcmp(name.at, start, n) == 0;
}

static bool is_one_of(struct text name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(list[i]) == name.len && memcmp(list[i], name.at, name.len) == 0)
            return true;
    return false;
}

static struct text without(struct text name, size_t start, const char *end)
{
    size_t n = strlen(end);
    name.at += start;
    name.len -= (uint32_t)start;
    if (name.len >= n && memcmp(name.at + name.len - n, end, n) == 0)
        name.len -= (uint32_t)n;
    return name;
}

/* Calls that return when the device is done, and calls of the driver's allocator, which also wait
 * for it. Same as SYNC of moments.py. */
static bool waits_for_device(struct text name)
{
    static const char *const runtime[] = {
        "DeviceSynchronize", "StreamSynchronize", "EventSynchronize", "Memcpy",
        "Memcpy2D",          "Memcpy3D",          "Malloc",           "Free",
        "MallocHost",        "FreeHost",          "HostAlloc"};
    static const char *const driver[] = {"CtxSynchronize", "StreamSynchronize", "EventSynchronize"};
    static const char *const versioned[] = {"MemAlloc", "MemFree"};
    if (begins(name, "cuda"))
        return is_one_of(without(name, 4, ""), runtime, sizeof runtime / sizeof runtime[0]);
    if (!begins(name, "cu"))
        return false;
    struct text plain = without(name, 2, "_v2");
    return is_one_of(without(name, 2, ""), driver, sizeof driver / sizeof driver[0]) ||
           is_one_of(plain, versioned, sizeof versioned / sizeof versioned[0]) ||
           (begins(plain, "Memcpy") && plain.len == sizeof "MemcpyDtoH" - 1);
}

/* Operators and calls of communication; same as COLLECTIVE of thread_states.py. */
static bool is_communication(struct text name)
{
    return begins(name, "c10d::") || begins(name, "gloo:") || begins(name, "mpi:") ||
           begins(name, "ucc:") || begins(name, "MPI_") || begins(name, "PMPI_") ||
           (name.len == sizeof "record_param_comms" - 1 && begins(name, "record_param_comms"));
}

/* The part that a span of the thread of the steps has; STEP_PARTS: none. */
static enum step_part part_of(const struct top *t, const struct kind *kind)
{
    struct text name = {t->texts.data + kind->text, kind->text_len};
    if (kind->flags & (KIND_STEP | KIND_STEP_RANGE | KIND_TRANSFER | KIND_DEVICE))
        return STEP_PARTS;
    if (kind->flags & KIND_ANNOTATION)
        return begins(name, "enumerate(DataLoader)#") ? PART_DATA : STEP_PARTS;
    if (is_communication(name))
        return PART_COLLECTIVE;
    if (kind->flags & KIND_CALL && waits_for_device(name))
        return PART_SYNC;
    return PART_OPERATORS;
}

enum step_part step_part_of_work(enum category category, const char *name, size_t len)
{
    if (category == CAT_GPU_MEMCPY)
        return PART_MEMCPY;
    bool nccl = category == CAT_KERNEL && collective_kind_of(name, len, true) == COLLECTIVE_NCCL;
    return nccl ? PART_COMM : PART_COMPUTATION;
}

/* ---- the sweep ---- */

static void add(struct sweep *s, const struct piece *p, enum step_part part)
{
    int64_t start = p->start > s->reached[part] ? p->start : s->reached[part];
    for (size_t i = s->low; i < s->n_steps && s->steps[i].start < p->end; i++) {
        int64_t low = start > s->steps[i].start ? start : s->steps[i].start;
        int64_t high = p->end < s->steps[i].end ? p->end : s->steps[i].end;
        if (low < high)
            s->parts[i].ns[part] += high - low;
    }
    s->reached[part] = p->end;
}

/* Takes the pieces by their start. */
static void take(struct sweep *s, const struct piece *p)
{
    while (s->low < s->n_steps && s->steps[s->low].end <= p->start)
        s->low++;
    if (p->part <= PART_MEMCPY && s->low < s->n_steps && s->steps[s->low].start <= p->start)
        s->parts[s->low].launches++;
    /* what an earlier part's union covers, those of the later parts cover, too */
    for (enum step_part part = p->part; part < PART_OUTSIDE && p->end > s->reached[part]; part++)
        add(s, p, part);
}

static int by_start(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Pieces to be, or their number alone. */
struct pieces {
    struct piece *at; /* NULL: they are only counted */
    size_t n;
};

static void put(struct pieces *p, int64_t start, int64_t end, enum step_part part)
{
    if (p->at)
        p->at[p->n] = (struct piece){start, end, part};
    p->n++;
}

/* Adds the spans of one array, which come by their start. Leaves out what lies in a span of this
 * part or an earlier one: most operators are called by others. */
static void put_spans(struct pieces *p, const struct top *t, const struct top_spans *spans,
                      bool transfers)
{
    int64_t reached[STEP_PARTS];
    for (int part = 0; part < STEP_PARTS; part++)
        reached[part] = INT64_MIN;
    for (size_t i = 0; i < spans->n; i++) {
        const struct top_span *span = &spans->at[i];
        const struct kind *kind = &t->kinds[span->kind];
        enum step_part part =
            transfers ? kind->flags & KIND_TRANSFER ? PART_TRANSFER : STEP_PARTS : part_of(t, kind);
        if (part == STEP_PARTS || span->end <= reached[part])
            continue;
        put(p, span->start, span->end, part);
        for (; part < STEP_PARTS && reached[part] < span->end; part++)
            reached[part] = span->end;
    }
}

static void put_all(struct pieces *p, const struct top *t, uint64_t main,
                    const struct device_works *works, uint32_t device)
{
    for (size_t i = 0; i < works->n; i++)
        if (works->at[i].device == device)
            put(p, works->at[i].start, works->at[i].end, works->at[i].part);
    for (size_t i = 0; i < t->n_rows; i++) {
        put_spans(p, t, &t->rows[i].spans, true);
        if (t->rows[i].key >> 1 != main)
            continue;
        put_spans(p, t, &t->rows[i].calls, false);
        if (!(t->rows[i].key & 1)) /* else CUPTI's overhead */
            put_spans(p, t, &t->rows[i].spans, false);
    }
}

bool step_parts(const struct top *t, uint64_t main, const struct device_works *works,
                uint32_t device, const struct summary_step *steps, size_t n_steps,
                struct parts_of_step *parts)
{
    struct pieces counted = {0}, pieces = {0};
    put_all(&counted, t, main, works, device);
    pieces.at = malloc((counted.n + 1) * sizeof *pieces.at);
    if (!pieces.at)
        return false;
    put_all(&pieces, t, main, works, device);
    qsort(pieces.at, pieces.n, sizeof *pieces.at, by_start);
    struct sweep s = {.steps = steps, .n_steps = n_steps, .parts = parts};
    for (int part = 0; part < STEP_PARTS; part++)
        s.reached[part] = INT64_MIN;
    memset(parts, 0, n_steps * sizeof *parts);
    for (size_t i = 0; i < pieces.n; i++)
        take(&s, &pieces.at[i]);
    for (size_t i = 0; i < n_steps; i++) {
        parts[i].ns[PART_OUTSIDE] = steps[i].end - steps[i].start;
        for (int part = STEP_PARTS - 1; part > 0; part--)
            parts[i].ns[part] -= parts[i].ns[part - 1];
    }
    free(pieces.at);
    return true;
}

/* ---- compilation ---- */

/* Same as COMPILING of moments.py. */
static bool compiles(const struct top *t, const struct kind *kind)
{
    static const char *const inside[] = {"(dynamo_timed)", "CachingAutotuner.precompile",
                                         "_compile_inner"};
    struct text name = {t->texts.data + kind->text, kind->text_len};
    bool found = begins(name, "compile_fx");
    for (size_t i = 0; i < sizeof inside / sizeof inside[0] && !found; i++)
        found = memmem(name.at, name.len, inside[i], strlen(inside[i])) != NULL;
    return found && !(kind->flags & KIND_DEVICE);
}

static void mark_late(const struct summary_step *steps, size_t n, const struct top_span *span,
                      bool *late)
{
    for (size_t i = 0; i < n; i++)
        late[i] |= span->start < steps[i].end && span->end > steps[i].start;
}

void step_parts_compiling(const struct top *t, const struct summary_step *steps, size_t n_steps,
                          bool *late)
{
    bool any = false;
    for (size_t i = 0; i < t->n_kinds && !any; i++)
        any = compiles(t, &t->kinds[i]);
    for (size_t i = 0; i < t->n_rows && any; i++)
        for (size_t k = 0; k < t->rows[i].spans.n; k++) {
            const struct top_span *span = &t->rows[i].spans.at[k];
            if (compiles(t, &t->kinds[span->kind]))
                mark_late(steps, n_steps, span, late);
        }
}
