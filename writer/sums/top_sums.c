/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the sums, step by step like walk() of scripts/python/cprof/tool/spans.py and
 * averages.py. The parent of a span is the innermost span of its row that contains it. An only
 * child with its parent's name replaces the parent. A kernel belongs to the span that it names. An
 * allocation or release belongs to all spans at its time. */
#include <stdlib.h>
#include <string.h>

#include "writer/sums/top_table.h"

#define NEXT_FEW 4u

/* Sums of a span besides its own time. */
struct sums {
    int64_t time, device, memory, on_device;
};

struct node {
    int64_t start, end;
    uint16_t kind, module;
    uint64_t children;
    int64_t own_device;        /* time of the kernels that it launched */
    int64_t memory, on_device; /* its children's included */
    struct sums child;
};

/* An open node, and its only child so far. */
struct level {
    struct node node, only;
    bool has_only;
};

/* Outermost spans of the thread that marks steps, in time order: they become children of steps,
 * which have a row of their own. `before`: sums of all earlier ones. */
struct roots {
    int64_t *start, *end;
    struct sums *before; /* one more than n */
    size_t n, room;
    bool wanted;
};

/* Spans of that thread that contain whole steps, such as a range around the loop. They are in no
 * step, and a step's own time is not theirs. Counted last, when that is known. */
struct holders {
    struct node *at;
    size_t n, room;
    size_t *open; /* indices of those around the current step, innermost last */
    size_t n_open, next;
    int64_t before; /* start of the step before */
    bool over;
};

struct interval {
    int64_t start, end;
};

struct walk {
    struct top *t;
    struct top_memory *memory; /* of all rows; one more than n_memory */
    uint8_t *covered;          /* true: some span contains the event */
    size_t n_memory;
    size_t low; /* index in `memory` at which the last span began */
    struct level *stack;
    size_t depth, room;
    struct interval *steps; /* the steps of separate rows, in time order */
    size_t n_steps;
    int64_t shortest; /* duration of the shortest step */
    struct roots roots;
    struct holders holders;
    bool main, apart; /* the current row: the thread that marks steps; a row of steps only */
    bool failed;
};

/* ---- memory of all threads ---- */

/* The rest of a row's events. */
struct cursor {
    const struct top_memory *at, *end;
};

/* Moves the cursor at i down a heap of n until none below it is earlier. */
static void sink_down(struct cursor *heap, size_t n, size_t i)
{
    struct cursor moved = heap[i];
    for (size_t below; (below = 2 * i + 1) < n; i = below) {
        if (below + 1 < n && heap[below + 1].at->at < heap[below].at->at)
            below++;
        if (heap[below].at->at >= moved.at->at)
            break;
        heap[i] = heap[below];
    }
    heap[i] = moved;
}

static size_t make_heap(const struct top *t, struct cursor *heap)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct top_row *row = &t->rows[i];
        if (row->n_memory)
            heap[n++] = (struct cursor){row->memory, row->memory + row->n_memory};
    }
    for (size_t i = n / 2; i > 0; i--)
        sink_down(heap, n, i - 1);
    return n;
}

/* Merges the events of all rows into one sorted array with running sums. */
static bool merge_memory(struct walk *w)
{
    const struct top *t = w->t;
    size_t n = 0;
    for (size_t i = 0; i < t->n_rows; i++)
        n += t->rows[i].n_memory;
    struct cursor *heap = calloc(t->n_rows + 1, sizeof *heap);
    w->memory = malloc((n + 1) * sizeof *w->memory);
    w->covered = calloc(n + 1, 1);
    w->n_memory = n;
    if (!heap || !w->memory || !w->covered) {
        free(heap);
        return false;
    }
    size_t rows = make_heap(t, heap);
    int64_t cpu = 0, device = 0;
    for (size_t k = 0; k < n; k++) {
        const struct top_memory *first = heap[0].at++;
        w->memory[k] = (struct top_memory){first->at, cpu, device};
        cpu += first->cpu;
        device += first->device;
        if (heap[0].at == heap[0].end)
            heap[0] = heap[--rows];
        if (rows)
            sink_down(heap, rows, 0);
    }
    w->memory[n] = (struct top_memory){INT64_MAX, cpu, device};
    free(heap);
    return true;
}

/* The first event at `time` or later; behind: later than `time`. Searches near `from`, because the
 * result is mostly one of the next few. */
static size_t find_memory(const struct walk *w, size_t from, int64_t time, bool behind)
{
    size_t low = 0, high = w->n_memory, step = 1;
    time += behind;
    for (unsigned i = 0; i < NEXT_FEW; i++, from++)
        if (from == high || w->memory[from].at >= time) {
            if (from == 0 || w->memory[from - 1].at < time)
                return from;
            break;
        }
    if (from < w->n_memory && w->memory[from].at < time) {
        for (low = from; low + step < high && w->memory[low + step].at < time; step *= 2)
            low += step;
        high = low + step < high ? low + step : high;
    } else if (from == 0 || w->memory[from - 1].at < time) {
        return from;
    } else {
        high = from;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->memory[middle].at < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- the tree of a row ---- */

static void count_node(struct walk *w, const struct node *n)
{
    struct kind *k = &w->t->kinds[n->kind];
    int64_t duration = n->end - n->start;
    if (n->start < k->first || (n->start == k->first && n->end > k->first_end)) {
        k->first = n->start;
        k->first_end = n->end;
    }
    k->count++;
    k->cpu += duration;
    k->self_cpu += duration - n->child.time;
    k->device += n->own_device + n->child.device;
    k->self_device += n->own_device;
    k->memory += n->memory;
    k->self_memory += n->memory - n->child.memory;
    k->on_device += n->on_device;
    k->self_on_device += n->on_device - n->child.on_device;
    module_sums_add(w->t, n->module, duration - n->child.time, n->own_device);
}

static void add_root(struct walk *w, const struct node *n)
{
    struct roots *r = &w->roots;
    if (r->n + 1 >= r->room) {
        size_t room = r->room ? 2 * r->room : 256;
        int64_t *start = realloc(r->start, room * sizeof *start);
        r->start = start ? start : r->start;
        int64_t *end = realloc(r->end, room * sizeof *end);
        r->end = end ? end : r->end;
        struct sums *before = realloc(r->before, room * sizeof *before);
        r->before = before ? before : r->before;
        if (!start || !end || !before) {
            w->failed = true;
            return;
        }
        if (!r->room)
            r->before[0] = (struct sums){0};
        r->room = room;
    }
    const struct sums *s = &r->before[r->n];
    r->start[r->n] = n->start;
    r->end[r->n] = n->end;
    r->before[++r->n] = (struct sums){0, s->device + n->own_device + n->child.device,
                                      s->memory + n->memory, s->on_device + n->on_device};
}

/* How many of n starts are earlier than the time. The starts are ascending, `stride` words
 * apart. */
static size_t starts_before(const int64_t *start, size_t stride, size_t n, int64_t time)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (start[middle * stride] < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t roots_before(const struct roots *r, int64_t time)
{
    return starts_before(r->start, 1, r->n, time);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How much time of [start, end) the roots take. */
static int64_t time_of(const struct roots *r, int64_t start, int64_t end)
{
    size_t low = roots_before(r, start), high = roots_before(r, end);
    int64_t time = 0;
    for (size_t i = low; i < high; i++)
        time += least(r->end[i], end) - r->start[i];
    if (low && r->end[low - 1] > start)
        time += least(r->end[low - 1], end) - start;
    return time;
}

/* Makes the roots that begin in the step its children. Of a root that continues into the next step,
 * only the time inside counts. */
static void adopt_roots(const struct roots *r, struct node *step)
{
    size_t low = roots_before(r, step->start), high = roots_before(r, step->end);
    step->child = (struct sums){.time = time_of(r, step->start, step->end)};
    if (high > low) {
        step->child.device = r->before[high].device - r->before[low].device;
        step->child.memory = r->before[high].memory - r->before[low].memory;
        step->child.on_device = r->before[high].on_device - r->before[low].on_device;
    }
}

/* ---- spans around steps ---- */

/* True when a whole step lies in the node's time. */
static bool holds_step(const struct walk *w, const struct node *n)
{
    if (!w->main || w->n_steps == 0 || n->end - n->start < w->shortest)
        return false;
    size_t first = starts_before(&w->steps->start, sizeof *w->steps / sizeof w->steps->start,
                                 w->n_steps, n->start);
    return first < w->n_steps && w->steps[first].end <= n->end;
}

static void add_holder(struct walk *w, const struct node *n)
{
    struct holders *h = &w->holders;
    if (h->n == h->room) {
        size_t room = h->room ? 2 * h->room : 64;
        struct node *at = realloc(h->at, room * sizeof *at);
        if (!at) {
            w->failed = true;
            return;
        }
        h->at = at;
        h->room = room;
    }
    h->at[h->n++] = *n;
}

static int outer_first(const void *a, const void *b)
{
    const struct node *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (x->end < y->end) - (x->end > y->end);
}

/* After the row of the main thread, before the rows of steps. */
static bool sort_holders(struct holders *h)
{
    if (h->n == 0)
        return true;
    qsort(h->at, h->n, sizeof *h->at, outer_first);
    return (h->open = malloc(h->n * sizeof *h->open)) != NULL;
}

/* Opens the spans that have begun by `time`, and closes those that have ended. */
static void holders_until(struct holders *h, int64_t time)
{
    for (; h->next < h->n && h->at[h->next].start <= time; h->next++) {
        while (h->n_open && h->at[h->open[h->n_open - 1]].end <= h->at[h->next].start)
            h->n_open--;
        h->open[h->n_open++] = h->next;
    }
    while (h->n_open && h->at[h->open[h->n_open - 1]].end <= time)
        h->n_open--;
}

/* Removes a step's own time from the innermost span around it at each moment, and its own memory
 * from the innermost span that contains it. Steps of a row come in time order. */
static void take_from_holders(struct holders *h, const struct roots *r, const struct node *step)
{
    /* steps of another row run at the same time; they count once */
    h->over |= h->before > step->start;
    if (h->over)
        return;
    holders_until(h, h->before = step->start);
    for (size_t i = h->n_open; i-- > 0;) {
        struct node *holder = &h->at[h->open[i]];
        if (holder->end < step->end)
            continue;
        holder->child.memory += step->memory - step->child.memory;
        holder->child.on_device += step->on_device - step->child.on_device;
        break;
    }
    for (int64_t at = step->start, to; at < step->end; at = to) {
        holders_until(h, at);
        struct node *holder = h->n_open ? &h->at[h->open[h->n_open - 1]] : NULL;
        to = holder ? least(holder->end, step->end) : step->end;
        to = h->next < h->n ? least(h->at[h->next].start, to) : to;
        if (holder)
            holder->child.time += to - at - time_of(r, at, to);
    }
}

static void count_holders(struct walk *w)
{
    for (size_t i = 0; i < w->holders.n; i++)
        count_node(w, &w->holders.at[i]);
}

/* Counts a node that is final. parent: its parent or NULL. */
static void finish_node(struct walk *w, struct node *n, const struct node *parent)
{
    if (holds_step(w, n)) {
        add_holder(w, n);
        return;
    }
    if (w->main && (!parent || holds_step(w, parent))) {
        add_root(w, n);
    } else if (w->apart) {
        adopt_roots(&w->roots, n);
        take_from_holders(&w->holders, &w->roots, n);
    }
    count_node(w, n);
}

static void cover_memory(struct walk *w, const struct node *n)
{
    size_t low = find_memory(w, 0, n->start, false), high = find_memory(w, low, n->end, true);
    memset(w->covered + low, 1, high - low);
}

/* The top of the stack is complete: adds it to its parent, and counts nodes that are final. */
static void close_top(struct walk *w)
{
    const struct kind *kinds = w->t->kinds;
    struct level *top = &w->stack[--w->depth];
    struct node *node = &top->node;
    if (top->has_only && kinds[top->only.kind].name == kinds[node->kind].name &&
        holds_step(w, &top->only) == holds_step(w, node)) {
        /* as torch: an only child with its parent's name replaces the parent; but not a step's
         * child where the parent contains steps */
        node->own_device = top->only.own_device;
        node->children = top->only.children;
        node->child = top->only.child;
    } else if (top->has_only) {
        finish_node(w, &top->only, node);
    }
    if (w->depth == 0) {
        if (w->n_memory)
            cover_memory(w, node);
        finish_node(w, node, NULL);
        return;
    }
    struct level *around = &w->stack[w->depth - 1];
    struct node *parent = &around->node;
    if ((kinds[node->kind].flags & KIND_CALL) &&
        !holds_step(w, parent)) { /* kernels belong to the operator */
        parent->own_device += node->own_device;
        node->own_device = 0;
    }
    parent->child.time += node->end - node->start;
    parent->child.device += node->own_device + node->child.device;
    parent->child.memory += node->memory;
    parent->child.on_device += node->on_device;
    if (++parent->children == 1) {
        around->only = *node;
        around->has_only = true;
        return;
    }
    finish_node(w, node, parent);
}

static struct node node_of(struct walk *w, const struct top_span *span)
{
    const struct top *t = w->t;
    struct node n = {
        .start = span->start, .end = span->end, .kind = span->kind, .module = span->module};
    if (w->n_memory) {
        size_t low = w->low = find_memory(w, w->low, n.start, false),
               high = find_memory(w, low, n.end, true);
        n.memory = w->memory[high].cpu - w->memory[low].cpu;
        n.on_device = w->memory[high].device - w->memory[low].device;
    }
    bool call = t->kinds[n.kind].flags & KIND_CALL;
    if (t->n_work && span->external && call == t->by_call)
        n.own_device = top_work_of(t, span->external);
    return n;
}

static void open_node(struct walk *w, const struct top_span *span)
{
    if (w->depth == w->room) {
        size_t room = w->room ? 2 * w->room : 64;
        struct level *stack = realloc(w->stack, room * sizeof *stack);
        if (!stack) {
            w->failed = true;
            return;
        }
        w->stack = stack;
        w->room = room;
    }
    /* the child before is no longer the only one, hence final */
    if (w->depth && w->stack[w->depth - 1].has_only) {
        struct level *around = &w->stack[w->depth - 1];
        around->has_only = false;
        finish_node(w, &around->only, &around->node);
    }
    w->stack[w->depth].node = node_of(w, span);
    w->stack[w->depth++].has_only = false;
}

/* Counts the range of a transfer, which has neither parent nor children. Its kernels belong to the
 * span in which it began. */
static void count_transfer(struct walk *w, const struct top_span *span)
{
    while (w->depth && span->start >= w->stack[w->depth - 1].node.end)
        close_top(w);
    struct node n = node_of(w, span);
    if (w->depth)
        w->stack[w->depth - 1].node.own_device += n.own_device;
    n.own_device = 0;
    n.child = (struct sums){n.end - n.start, 0, n.memory, n.on_device};
    if (w->n_memory)
        cover_memory(w, &n);
    count_node(w, &n);
}

/* The next span of a row in tree order; NULL: the end. */
static const struct top_span *next_span(const struct top_row *row, size_t *span, size_t *call)
{
    const struct top_span *a = *span < row->spans.n ? &row->spans.at[*span] : NULL;
    const struct top_span *b = *call < row->calls.n ? &row->calls.at[*call] : NULL;
    if (a && b) {
        bool same = a->start == b->start && a->end == b->end;
        if (same ? b->serial < a->serial : top_before(b, a))
            a = NULL;
    }
    ++*(a ? span : call);
    return a ? a : b;
}

static void walk_row(struct walk *w, const struct top_row *row)
{
    size_t span_at = 0, call_at = 0;
    const struct top_span *span;
    w->low = 0;
    while (!w->failed && (span = next_span(row, &span_at, &call_at))) {
        if (w->t->kinds[span->kind].flags & KIND_TRANSFER) {
            count_transfer(w, span);
            continue;
        }
        while (w->depth && (span->start >= w->stack[w->depth - 1].node.end ||
                            span->end > w->stack[w->depth - 1].node.end))
            close_top(w);
        open_node(w, span);
    }
    while (w->depth && !w->failed)
        close_top(w);
}

/* ---- rows ---- */

/* The row of the operator that a stray call names. */
struct home {
    uint64_t external;
    uint64_t row; /* key; 0: not found */
};

static int by_external(const void *a, const void *b)
{
    uint64_t one = ((const struct home *)a)->external, other = ((const struct home *)b)->external;
    return one < other ? -1 : one > other;
}

static bool is_stray(const struct top_row *row)
{
    return !(row->key & 1) && !row->has_operators && row->calls.n;
}

static void find_in(struct home *homes, size_t n, const struct top_spans *spans, uint64_t row)
{
    for (size_t i = 0; i < spans->n; i++) {
        struct home key = {.external = spans->at[i].external};
        struct home *home = bsearch(&key, homes, n, sizeof *homes, by_external);
        while (home && home > homes && home[-1].external == key.external)
            home--;
        for (; home && home < homes + n && home->external == key.external; home++)
            home->row = row;
    }
}

static void find_homes(const struct top *t, struct home *homes, size_t n)
{
    qsort(homes, n, sizeof *homes, by_external);
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct top_row *row = &t->rows[i];
        if (!row->has_operators)
            continue;
        find_in(homes, n, &row->calls, row->key);
        find_in(homes, n, &row->spans, row->key);
    }
}

/* Moves calls of threads without operators to the thread of the operators that they name. */
static bool adopt_strays(struct top *t)
{
    size_t n = 0, k = 0;
    for (size_t i = 0; i < t->n_rows; i++)
        n += is_stray(&t->rows[i]) ? t->rows[i].calls.n : 0;
    if (n == 0)
        return true;
    struct home *homes = calloc(n, sizeof *homes);
    if (!homes)
        return false;
    for (size_t i = 0; i < t->n_rows; i++)
        for (size_t c = 0; is_stray(&t->rows[i]) && c < t->rows[i].calls.n; c++)
            homes[k++].external = t->rows[i].calls.at[c].external;
    find_homes(t, homes, n);
    size_t rows = t->n_rows;
    for (size_t i = 0; i < rows && !t->dead; i++) {
        if (!is_stray(&t->rows[i]))
            continue;
        struct top_spans calls = t->rows[i].calls;
        uint64_t otherwise = t->rows[i].key | 1;
        t->rows[i].calls = (struct top_spans){0};
        for (size_t c = 0; c < calls.n && !t->dead; c++) {
            struct home key = {.external = calls.at[c].external};
            struct home *home = bsearch(&key, homes, n, sizeof *homes, by_external);
            struct top_row *row = top_row_of(t, home && home->row ? home->row : otherwise);
            if (row) {
                row->steps_only = row->step_ranges_only = false;
                top_insert(t, &row->calls, &calls.at[c]);
            }
        }
        free(calls.at);
    }
    free(homes);
    return !t->dead;
}

static size_t spans_of(const struct top_row *row)
{
    return row->spans.n + row->calls.n;
}

static int64_t first_of(const struct top_row *row)
{
    int64_t span = row->spans.n ? row->spans.at[0].start : INT64_MAX;
    int64_t call = row->calls.n ? row->calls.at[0].start : INT64_MAX;
    return span < call ? span : call;
}

/* True for a row of steps only. torch.profiler's ranges are the steps where cprof has none. */
static bool is_of_steps(const struct top *t, const struct top_row *row)
{
    return t->has_steps ? row->steps_only : row->step_ranges_only;
}

/* True when `row` is the better choice for the thread of the steps: the one that marked them, else
 * the one with more spans, else the earlier one. */
static bool is_better_main(const struct top *t, const struct top_row *row,
                           const struct top_row *other)
{
    if (!other || row->key == t->stepping || other->key == t->stepping)
        return !other || row->key == t->stepping;
    if (spans_of(row) != spans_of(other))
        return spans_of(row) > spans_of(other);
    return first_of(row) < first_of(other);
}

/* The thread that the steps belong to; NULL: none, or no row of steps. */
static const struct top_row *main_row(const struct top *t)
{
    const struct top_row *main = NULL;
    bool apart = false;
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct top_row *row = &t->rows[i];
        if (spans_of(row) == 0)
            continue;
        bool is_apart = is_of_steps(t, row);
        apart |= is_apart;
        if (!is_apart && !(row->key & 1) && is_better_main(t, row, main))
            main = row;
    }
    return apart ? main : NULL;
}

/* The spans of a thread, with its calls outside operators, which have a row of their own. */
static size_t spans_of_thread(const struct top *t, const struct top_row *row)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_rows; i++)
        if (t->rows[i].key >> 1 == row->key >> 1)
            n += t->rows[i].calls.n + (t->rows[i].key & 1 ? 0 : t->rows[i].spans.n);
    return n;
}

uint64_t top_main_thread(const struct top *t)
{
    if (t->stepping)
        return t->stepping >> 1;
    const struct top_row *main = NULL;
    size_t most = 0;
    for (int operators = 1; operators >= 0 && !main; operators--)
        for (size_t i = 0; i < t->n_rows; i++) {
            const struct top_row *row = &t->rows[i];
            bool candidate = operators ? row->has_operators && !(row->key & 1) : row->calls.n > 0;
            size_t n = candidate && !is_of_steps(t, row) ? spans_of_thread(t, row) : 0;
            if (n > most) {
                main = row;
                most = n;
            }
        }
    return main ? main->key >> 1 : 0;
}

/* Adds the row "[memory]" for memory events in no span's time. */
static bool add_uncovered(struct walk *w)
{
    struct top *t = w->t;
    for (size_t i = 0; i < w->n_memory; i++) {
        if (w->covered[i])
            continue;
        uint32_t number = top_kind_of(t, "[memory]", 8, 0);
        if (number == UINT32_MAX)
            return false;
        struct kind *k = &t->kinds[number];
        const struct top_memory *m = &w->memory[i];
        if (m->at < k->first) {
            k->first = m->at;
            k->first_end = m->at;
        }
        k->count++;
        k->memory += m[1].cpu - m->cpu;
        k->self_memory += m[1].cpu - m->cpu;
        k->on_device += m[1].device - m->device;
        k->self_on_device += m[1].device - m->device;
    }
    return true;
}

static int by_start(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (x->end > y->end) -
           (x->end < y->end); /* a step without duration lies in all that begin there */
}

/* Lists the steps of all rows of steps only. */
static bool list_steps(struct walk *w)
{
    const struct top *t = w->t;
    size_t n = 0;
    for (size_t i = 0; i < t->n_rows; i++)
        n += is_of_steps(t, &t->rows[i]) ? t->rows[i].spans.n : 0;
    if (n == 0)
        return true;
    w->steps = malloc(n * sizeof *w->steps);
    w->shortest = INT64_MAX;
    for (size_t i = 0; w->steps && i < t->n_rows; i++)
        for (size_t k = 0; is_of_steps(t, &t->rows[i]) && k < t->rows[i].spans.n; k++) {
            const struct top_span *step = &t->rows[i].spans.at[k];
            w->steps[w->n_steps++] = (struct interval){step->start, step->end};
            w->shortest = least(w->shortest, step->end - step->start);
        }
    if (w->steps)
        qsort(w->steps, n, sizeof *w->steps, by_start);
    return w->steps != NULL;
}

static void walk_rows(struct walk *w)
{
    const struct top *t = w->t;
    const struct top_row *most = main_row(t);
    w->failed = most && !list_steps(w);
    for (int apart = 0; apart < 2 && !w->failed; apart++) {
        w->failed = apart == 1 && !sort_holders(&w->holders);
        for (size_t i = 0; i < t->n_rows && !w->failed; i++) {
            const struct top_row *row = &t->rows[i];
            w->apart = most && is_of_steps(t, row);
            w->main = row == most;
            if (w->apart == (apart == 1) && spans_of(row))
                walk_row(w, row);
        }
    }
    if (!w->failed)
        count_holders(w);
}

bool top_add_up(struct top *t)
{
    struct walk w = {.t = t};
    bool good = adopt_strays(t) && merge_memory(&w);
    if (good) {
        walk_rows(&w);
        good = !w.failed && add_uncovered(&w);
    }
    free(w.memory);
    free(w.covered);
    free(w.stack);
    free(w.roots.start);
    free(w.roots.end);
    free(w.roots.before);
    free(w.steps);
    free(w.holders.at);
    free(w.holders.open);
    if (!good && !t->dead)
        top_drop(t);
    return good;
}
