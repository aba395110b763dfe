/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the recording half of writer/writer.h: nesting and ids, ends without starts, truncated
 * and lost records and their counts. The hot path must not allocate or make system calls. The test
 * reads its own ring. */
#include "writer/writer.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/alloc.h"
#include "tests/support/records.h"
#include "tests/support/sandbox.h"

#define RING_BYTES 65536u /* 1024 slots: a record has at most 256 */

static struct thread_log *log_;

static void setup(void)
{
    clock_start();
    ck_assert(thread_log_start(RING_BYTES));
    atomic_store(&writer_gate, GATE_SPANS | GATE_MARKERS);
    log_ = thread_log_get();
    ck_assert_ptr_nonnull(log_);
}

static const void *key(uintptr_t n)
{
    return (const void *)(n << 4 | 2);
}

static struct open_span *begin(uintptr_t k, const char *text)
{
    return span_open(log_, key(k), CAT_CPU_OP, text, (uint32_t)strlen(text));
}

/* A copy of the ring's next record; NULL when the ring is empty. */
static const struct record *next_record(void)
{
    static struct {
        struct record r;
        char bytes[RING_BYTES / 4];
    } copy;
    const struct record *r = ring_peek(&log_->ring, ring_head(&log_->ring));
    if (!r)
        return NULL;
    memcpy(&copy, r, r->slots * RECORD_SLOT);
    ring_take(&log_->ring, r);
    return &copy.r;
}

static uint64_t lost(enum loss cause)
{
    return atomic_load(&log_->losses[cause]);
}

/* Fails unless the log has lost n records by this cause and none by others. */
static void check_only_loss(enum loss cause, uint64_t n)
{
    for (int i = 0; i < LOSS_COUNT; i++)
        ck_assert_uint_eq(lost((enum loss)i), i == (int)cause ? n : 0);
}

/* ---- spans ---- */

START_TEST(nests_spans)
{
    uint64_t before = clock_ticks();
    struct open_span *outer = begin(1, "outer");
    uint64_t outer_id = atomic_load(&outer->id);
    ck_assert_uint_eq(span_top(log_), outer_id);
    struct open_span *inner = begin(2, "inner");
    uint64_t inner_id = atomic_load(&inner->id);
    ck_assert_uint_eq(span_top(log_), inner_id);
    ck_assert_ptr_null(next_record()); /* a span is recorded at its end */
    uint64_t inner_end = span_close(log_, key(2));
    ck_assert_uint_eq(span_top(log_), outer_id);
    uint64_t outer_end = span_close(log_, key(1));
    ck_assert_uint_eq(span_top(log_), 0);

    const struct record *r = next_record();
    assert_named(r, "inner");
    ck_assert_uint_eq(r->kind, REC_SPAN);
    ck_assert_uint_eq(r->category, CAT_CPU_OP);
    ck_assert_uint_eq(r->data_kind, DATA_NONE);
    ck_assert_uint_eq(r->flags, 0);
    ck_assert_uint_eq(r->id, inner_id);
    ck_assert_uint_eq(r->parent, outer_id);
    ck_assert_uint_eq(r->end, inner_end);
    ck_assert_int_eq(r->op.sequence, -1);
    ck_assert_uint_eq(r->op.forward_thread, 0);
    uint64_t inner_start = r->start;
    r = next_record();
    assert_named(r, "outer");
    ck_assert_uint_eq(r->id, outer_id);
    ck_assert_uint_eq(r->parent, 0);
    ck_assert_uint_eq(r->end, outer_end);
    ck_assert(before <= r->start && r->start <= inner_start && inner_start <= inner_end &&
              inner_end <= outer_end);
    ck_assert_uint_lt(outer_id, UINT64_C(1) << 53);
    ck_assert_ptr_null(next_record());
    ck_assert_uint_eq(atomic_load(&log_->records), 2);
    check_only_loss(LOSS_COUNT, 0);
}
END_TEST

START_TEST(ids_are_unique_and_parents_are_open)
{
    static uint64_t open[64];
    uint64_t last = 0;
    unsigned depth = 0, made = 0, seen = 0;
    srand(7);
    while (made < 20000 || depth > 0) {
        if (depth < 64 && made < 20000 && (depth == 0 || rand() % 2)) {
            struct open_span *span = begin(depth, "span");
            open[depth] = atomic_load(&span->id);
            if (open[depth] <= last)
                ck_abort_msg("id %lx after %lx", open[depth], last);
            last = open[depth++];
            made++;
            continue;
        }
        depth--;
        span_close(log_, key(depth));
        const struct record *r = next_record();
        seen++;
        if (!r || r->id != open[depth] || r->parent != (depth ? open[depth - 1] : 0))
            ck_abort_msg("span %u at depth %u has the wrong id or parent", seen, depth);
    }
    ck_assert_uint_eq(seen, made);
    ck_assert_uint_eq(log_->text_used, 0);
    check_only_loss(LOSS_COUNT, 0);
}
END_TEST

START_TEST(keeps_names_of_every_length)
{
    char name[64];
    for (unsigned i = 0; i < sizeof name; i++)
        name[i] = (char)(0x80 + i * 7);
    for (unsigned around = 0; around < 2; around++) {
        if (around)
            begin(1, "a name of 19 bytes.");
        for (uint32_t len = 0; len <= sizeof name; len++) {
            char *exact = malloc(len ? len : 1); /* exact size, so that ASan sees an overread */
            memcpy(exact, name, len);
            span_open(log_, key(2), CAT_USER_ANNOTATION, exact, len);
            free(exact);
            span_close(log_, key(2));
            const struct record *r = next_record();
            ck_assert_ptr_nonnull(r);
            ck_assert_uint_eq(record_name(r).len, len);
            ck_assert_uint_eq(r->slots, record_slots(len, 0, 0));
            ck_assert(memcmp(record_name(r).at, name, len) == 0);
        }
    }
    span_close(log_, key(1));
    assert_named(next_record(), "a name of 19 bytes.");
}
END_TEST

START_TEST(writes_data_after_the_name)
{
    struct open_span *span = begin(1, "with data");
    uint8_t *room = span_data_room(log_, span, 4096);
    ck_assert_ptr_nonnull(room);
    memset(room, 0xab, 200);
    span_data_done(log_, span, DATA_SHAPES, 200);
    span_set_node(span, 42, 3);
    span_add_flags(span, REC_MARKER);
    begin(2, "inside");
    room = span_data_room(log_, span, 10);
    memset(room, 0xcd, 10); /* without span_data_done() the span has no data */
    span_close(log_, key(2));
    span_close(log_, key(1));
    assert_named(next_record(), "inside");
    const struct record *r = next_record();
    assert_named(r, "with data");
    ck_assert_uint_eq(r->data_kind, DATA_SHAPES);
    ck_assert_uint_eq(r->data_len, 200);
    ck_assert_uint_eq(r->flags, REC_MARKER);
    ck_assert_int_eq(r->op.sequence, 42);
    ck_assert_uint_eq(r->op.forward_thread, 3);
    for (unsigned i = 0; i < 200; i++)
        ck_assert_uint_eq(record_data(r)[i], 0xab);
    ck_assert_uint_eq(log_->data_used, 0);
}
END_TEST

/* ---- names with a number: the fast path ---- */

static struct open_span *begin_numbered(uintptr_t k)
{
    return span_open(log_, key(k), CAT_CPU_OP, NULL, numbered_name("numbered", 8));
}

/* Adds len bytes of data and the extras of the mask, closes the span, and returns its record. */
static const struct record *close_with(struct open_span *span, uint32_t len, unsigned mask,
                                       uint32_t seed)
{
    uint8_t *room = span_data_room(log_, span, len);
    ck_assert_ptr_nonnull(room);
    for (uint32_t i = 0; i < len; i++)
        room[i] = (uint8_t)(seed + i * 7);
    span_data_done(log_, span, DATA_SHAPES, len);
    for (unsigned which = 0; which < EXTRA_COUNT; which++)
        if (mask & 1u << which)
            span_set_extra(log_, span, (enum record_extra)which, seed * 16 + which);
    span_set_node(span, seed, 9);
    span_add_flags(span, REC_MARKER);
    ck_assert_uint_ne(span_close(log_, span_key(span)), 0);
    return next_record();
}

START_TEST(numbered_spans_keep_data_and_extras)
{
    uint32_t seed = 1; /* the ring's end falls on many places of a record */
    for (uint32_t len = 0; len <= 300; len++) {
        for (unsigned mask = 0; mask <= EXTRAS_VALUES; mask += len % 3 + 1, seed++) {
            const struct record *r = close_with(begin_numbered(1), len, mask, seed);
            assert_named(r, "numbered");
            ck_assert_uint_eq(r->kind, REC_SPAN);
            ck_assert_uint_eq(r->category, CAT_CPU_OP);
            ck_assert_uint_eq(r->data_kind, DATA_SHAPES);
            ck_assert_uint_eq(r->flags, REC_MARKER);
            ck_assert_uint_eq(r->extras, mask);
            ck_assert_uint_eq(r->slots, record_slots(r->name, len, (uint8_t)mask));
            ck_assert_int_eq(r->op.sequence, seed);
            ck_assert_uint_eq(r->op.forward_thread, 9);
            ck_assert_uint_eq(r->data_len, len);
            for (uint32_t i = 0; i < len; i++)
                if (record_data(r)[i] != (uint8_t)(seed + i * 7))
                    ck_abort_msg("byte %u of %u is wrong", i, len);
            for (unsigned which = 0; which < EXTRA_COUNT; which++)
                ck_assert_uint_eq(record_extra(r, (enum record_extra)which, 0),
                                  mask & 1u << which ? seed * 16 + which : 0);
        }
    }
    check_only_loss(LOSS_COUNT, 0);
}
END_TEST

START_TEST(numbered_spans_inherit_module_and_context)
{
    struct open_span *outer = begin_numbered(1);
    span_set_extra(log_, outer, EXTRA_MODULE, 5);
    span_set_extra(log_, outer, EXTRA_STACK, 6);
    span_add_context(outer, EXTRAS_GRAD_OFF);
    span_set_flops(log_, outer, 100, 10, 6);
    span_add_flags(outer, REC_MARKER);
    struct open_span *inner = begin_numbered(2);
    ck_assert_uint_eq(inner->flags, REC_IN_COUNTED);
    ck_assert_uint_eq(inner->extras, EXTRAS_GRAD_OFF | 1u << EXTRA_MODULE);
    begin_numbered(3);
    span_close(log_, key(3));
    const struct record *r = next_record();
    ck_assert_uint_eq(r->flags, REC_IN_COUNTED); /* also inside a span without FLOPs of its own */
    ck_assert_uint_eq(r->extras, EXTRAS_GRAD_OFF | 1u << EXTRA_MODULE);
    ck_assert_uint_eq(record_extra(r, EXTRA_MODULE, 0), 5);
    ck_assert_uint_eq(r->parent, atomic_load(&inner->id));
}
END_TEST

START_TEST(counts_numbered_spans_without_room)
{
    struct open_span *around = begin_numbered(1);
    ck_assert_ptr_nonnull(span_data_room(log_, around, SPAN_DATA));
    span_data_done(log_, around, DATA_ARGS, SPAN_DATA - 70);
    const struct record *r =
        close_with(begin_numbered(2), 70, 0, 1); /* uses the last byte of data room */
    ck_assert_uint_eq(r->data_len, 70);
    span_close(log_, key(1)); /* more than a quarter of the ring */
    check_only_loss(LOSS_TOO_BIG, 1);
    ck_assert_ptr_null(next_record());

    uint64_t n = 0;
    for (; lost(LOSS_RING_FULL) == 0; n++) {
        begin_numbered(3);
        ck_assert_uint_ne(span_close(log_, key(3)), 0);
        ck_assert_uint_eq(span_top(log_), 0);
    }
    ck_assert_uint_eq(n, RING_BYTES / RECORD_SLOT + 1);
    uint64_t seen = 0;
    while (next_record())
        seen++;
    ck_assert_uint_eq(seen, n - 1);
    begin_numbered(4);
    span_close(log_, key(4));
    assert_named(next_record(), "numbered");

    for (uint32_t i = 0; i < SPAN_DEPTH; i++)
        ck_assert_ptr_nonnull(begin_numbered(10 + i));
    ck_assert_ptr_null(begin_numbered(5));
    ck_assert_uint_eq(lost(LOSS_DEPTH), 1);
    span_close(log_, key(10 + SPAN_DEPTH - 1));
    assert_named(next_record(), "numbered");
}
END_TEST

START_TEST(ignores_an_end_without_a_start)
{
    ck_assert_uint_eq(span_close(log_, key(1)), 0);
    begin(1, "open");
    ck_assert_uint_eq(span_close(log_, key(2)), 0);
    ck_assert_uint_ne(span_close(log_, key(1)), 0);
    ck_assert_uint_eq(span_close(log_, key(1)), 0);
    assert_named(next_record(), "open");
    ck_assert_ptr_null(next_record());
    check_only_loss(LOSS_COUNT, 0);
}
END_TEST

START_TEST(outer_end_pops_and_counts_inner_spans)
{
    begin(1, "outer");
    begin(2, "lost");
    begin(3, "lost too");
    ck_assert_uint_ne(span_close(log_, key(1)), 0);
    assert_named(next_record(), "outer");
    ck_assert_ptr_null(next_record());
    check_only_loss(LOSS_UNMATCHED, 2);
    ck_assert_uint_eq(log_->text_used, 0);
    ck_assert_uint_eq(span_close(log_, key(3)), 0); /* the end of a popped span comes late */
    check_only_loss(LOSS_UNMATCHED, 2);
}
END_TEST

START_TEST(reused_key_closes_the_inner_span_first)
{
    begin(1, "outer");
    begin(1, "inner");
    span_close(log_, key(1));
    assert_named(next_record(), "inner");
    span_close(log_, key(1));
    assert_named(next_record(), "outer");
}
END_TEST

/* ---- limits ---- */

START_TEST(counts_spans_beyond_the_depth_limit)
{
    for (unsigned i = 0; i < SPAN_DEPTH; i++)
        ck_assert_ptr_nonnull(begin(i, "level"));
    uint64_t top = span_top(log_);
    for (unsigned i = 0; i < 10; i++) {
        ck_assert_ptr_null(begin(9000 + i, "too deep"));
        ck_assert_uint_eq(span_top(log_), top);
    }
    for (unsigned i = 10; i-- > 0;)
        ck_assert_uint_eq(span_close(log_, key(9000 + i)), 0);
    check_only_loss(LOSS_DEPTH, 10);
    for (unsigned i = SPAN_DEPTH; i-- > 0;) {
        ck_assert_uint_ne(span_close(log_, key(i)), 0);
        assert_named(next_record(), "level");
    }
    check_only_loss(LOSS_DEPTH, 10);
}
END_TEST

START_TEST(truncates_names_that_do_not_fit)
{
    static char name[SPAN_TEXT];
    memset(name, 'n', sizeof name);
    unsigned depth = 0;
    while (log_->text_used * 8 + 10000 <= SPAN_TEXT)
        ck_assert_ptr_nonnull(span_open(log_, key(depth++), CAT_CPU_OP, name, 10000));
    check_only_loss(LOSS_COUNT, 0);
    uint32_t left = SPAN_TEXT - log_->text_used * 8;
    ck_assert_ptr_nonnull(span_open(log_, key(100), CAT_CPU_OP, name, 10000));
    ck_assert_ptr_nonnull(span_open(log_, key(101), CAT_CPU_OP, name, 1));
    check_only_loss(LOSS_TEXT, 2);
    span_close(log_, key(101));
    ck_assert_uint_eq(record_name(next_record()).len, 0);
    span_close(log_, key(100));
    const struct record *r = next_record();
    ck_assert_uint_eq(record_name(r).len, left);
    ck_assert(memcmp(record_name(r).at, name, left) == 0);
    while (depth-- > 0) {
        span_close(log_, key(depth));
        ck_assert_uint_eq(record_name(next_record()).len, 10000);
    }
    ck_assert_ptr_nonnull(begin(1, "fits again"));
    check_only_loss(LOSS_TEXT, 2);
}
END_TEST

START_TEST(omits_data_that_does_not_fit)
{
    struct open_span *span = NULL;
    unsigned depth = 0;
    for (uint32_t used = 0; used + 4096 <= SPAN_DATA; used += 4096) {
        span = begin(depth++, "deep");
        ck_assert_ptr_nonnull(span_data_room(log_, span, 4096));
        span_data_done(log_, span, DATA_ARGS, 4096);
    }
    ck_assert_ptr_null(span_data_room(log_, begin(depth++, "none"), 1));
    check_only_loss(LOSS_TEXT, 1);
    while (depth-- > 0) {
        span_close(log_, key(depth));
        const struct record *r = next_record();
        ck_assert_ptr_nonnull(r);
        struct text name = record_name(r);
        bool deep = name.len == 4 && memcmp(name.at, "deep", 4) == 0;
        ck_assert_uint_eq(r->data_len, deep ? 4096 : 0);
    }
    ck_assert_ptr_nonnull(span_data_room(log_, begin(1, "again"), SPAN_DATA));
}
END_TEST

START_TEST(counts_losses_while_the_ring_is_full)
{
    enum { SLOTS = RING_BYTES / RECORD_SLOT };
    for (unsigned i = 0; i < SLOTS / 2 + 25; i++) {
        begin(1, "x");
        ck_assert_uint_ne(span_close(log_, key(1)), 0); /* the span ends all the same */
    }
    check_only_loss(LOSS_RING_FULL, 25);
    ck_assert_uint_eq(atomic_load(&log_->records), SLOTS / 2);
    emit_instant(log_, CAT_CPU_OP, 0, "x", 1, DATA_NONE, NULL, 0, NULL);
    emit_counter(log_, 0, "x", 1, NULL, 0);
    emit_memory(log_, 1, 1, &(struct record_memory){0}, NULL);
    check_only_loss(LOSS_RING_FULL, 28);
    unsigned seen = 0;
    while (next_record())
        seen++;
    ck_assert_uint_eq(seen, SLOTS / 2);
    begin(2, "later");
    span_close(log_, key(2));
    assert_named(next_record(), "later");
    ck_assert_uint_eq(atomic_load(&log_->records), SLOTS / 2 + 1);
}
END_TEST

START_TEST(counts_records_above_a_quarter_of_the_ring)
{
    static char text[RING_BYTES];
    memset(text, 't', sizeof text);
    uint32_t most = RING_BYTES / 4 - RECORD_SLOT;
    emit_instant(log_, CAT_CPU_OP, 0, text, most, DATA_NONE, NULL, 0, NULL);
    check_only_loss(LOSS_COUNT, 0);
    emit_instant(log_, CAT_CPU_OP, 0, text, most + 1, DATA_NONE, NULL, 0, NULL);
    check_only_loss(LOSS_TOO_BIG, 1);
    span_open(log_, key(1), CAT_CPU_OP, text, most + 1);
    ck_assert_uint_ne(span_close(log_, key(1)), 0);
    check_only_loss(LOSS_TOO_BIG, 2);
    ck_assert_uint_eq(record_name(next_record()).len, most);
    ck_assert_ptr_null(next_record());
}
END_TEST

/* A span inside a span with FLOPs gets REC_IN_COUNTED, at any depth. */
START_TEST(marks_spans_inside_operators_with_flops)
{
    span_open(log_, key(1), CAT_USER_ANNOTATION, "range", 5);
    begin(2, "counted");
    span_set_extra(log_, &log_->spans[1], EXTRA_FLOPS, 0);
    span_open(log_, key(3), CAT_USER_ANNOTATION, "inside", 6);
    begin(4, "deep");
    for (uintptr_t i = 4; i >= 1; i--)
        span_close(log_, key(i));
    begin(5, "after");
    span_close(log_, key(5));
    static const uint8_t flags[] = {REC_IN_COUNTED, REC_IN_COUNTED, 0, 0, 0};
    for (unsigned i = 0; i < 5; i++)
        ck_assert_uint_eq(next_record()->flags, flags[i]);
}
END_TEST

/* Also through spans in between. The next span on the same place of the stack inherits nothing. */
START_TEST(inner_spans_inherit_recompute)
{
    span_add_context(begin(1, "node"), EXTRAS_GRAD_OFF);
    span_open(log_, key(2), CAT_USER_ANNOTATION, "range", 5);
    struct open_span *again = begin(3, "again");
    span_add_context(again, EXTRAS_RECOMPUTE);
    span_set_flops(log_, again, 7, 8, 9);
    struct open_span *inside = begin(4, "inside");
    span_set_extra(log_, inside, EXTRA_STACK, 5);
    for (uintptr_t i = 4; i >= 3; i--)
        span_close(log_, key(i));
    begin(5, "backward");
    for (uintptr_t i = 5; i >= 1; i -= i == 5 ? 3 : 1)
        span_close(log_, key(i));
    begin(6, "after");
    span_close(log_, key(6));
    const struct record *r = next_record();
    assert_named(r, "inside");
    ck_assert(r->extras & EXTRAS_RECOMPUTE && record_extra(r, EXTRA_STACK, 0) == 5);
    r = next_record();
    assert_named(r, "again");
    ck_assert(r->extras & EXTRAS_RECOMPUTE && record_extra(r, EXTRA_FLOPS, 0) == 7);
    ck_assert_uint_eq(record_extra(r, EXTRA_BYTES, 0), 8);
    ck_assert_uint_eq(record_extra(r, EXTRA_DTYPE, 0), 9 | WHERE_RECOMPUTE);
    static const char *const names[] = {"backward", "range", "node"};
    for (unsigned i = 0; i < 3; i++) {
        r = next_record();
        assert_named(r, names[i]);
        ck_assert_uint_eq(r->extras, EXTRAS_GRAD_OFF);
    }
    ck_assert_uint_eq(next_record()->extras, 0);
}
END_TEST

/* ---- the rest ---- */

START_TEST(marks_abandoned_spans_unfinished)
{
    begin(1, "outer");
    span_add_flags(begin(2, "marker"), REC_MARKER);
    begin(3, "inner");
    spans_abandon(log_);
    static const char *const names[] = {"inner", "marker", "outer"};
    for (unsigned i = 0; i < 3; i++) {
        const struct record *r = next_record();
        assert_named(r, names[i]);
        ck_assert_uint_eq(r->flags & (REC_UNFINISHED | REC_MARKER),
                          REC_UNFINISHED | (i == 1 ? REC_MARKER : 0));
        ck_assert_uint_ge(r->end, r->start);
    }
    ck_assert_ptr_null(next_record());
    ck_assert_uint_eq(span_top(log_), 0);
    spans_abandon(log_); /* no span is open */
    ck_assert_ptr_null(next_record());
    check_only_loss(LOSS_COUNT, 0);
}
END_TEST

/* A REC_LOOSE range ends while only REC_ENDS_LATE spans are open inside. They end with the range,
 * so it crosses no span and stays on its row. */
START_TEST(loose_span_around_late_spans_nests)
{
    span_add_flags(begin(1, "range"), REC_LOOSE);
    span_add_flags(begin(2, "late"), REC_MARKER | REC_ENDS_LATE);
    ck_assert_uint_ne(span_close(log_, key(1)), 0);
    const struct record *r = next_record();
    assert_named(r, "late");
    ck_assert_uint_eq(r->kind, REC_SPAN);
    r = next_record();
    assert_named(r, "range");
    ck_assert_uint_eq(r->kind, REC_SPAN);
    ck_assert(!(r->flags & REC_CROSSES));
    ck_assert_uint_eq(span_close(log_, key(2)), 0);
    ck_assert_ptr_null(next_record());
}
END_TEST

/* Extras stay with the span in every way to end, apart from its name and data. */
START_TEST(keeps_extras_with_their_span)
{
    struct open_span *outer = begin(1, "outer");
    span_set_extra(log_, outer, EXTRA_FLOPS, 7);
    span_add_flags(outer, REC_LOOSE);
    struct open_span *inner = begin(2, "inner");
    memcpy(span_data_room(log_, inner, 4), "data", 4);
    span_data_done(log_, inner, DATA_ARGS, 4);
    span_set_extra(log_, inner, EXTRA_DTYPE, 15);
    span_set_extra(log_, inner, EXTRA_STACK, 1);
    span_set_extra(log_, inner, EXTRA_STACK, UINT64_MAX);
    ck_assert_uint_ne(span_close(log_, key(1)), 0); /* the inner span moves down the stack */
    const struct record *r = next_record();
    assert_named(r, "outer");
    ck_assert_uint_eq(r->extras, 1u << EXTRA_FLOPS);
    ck_assert_uint_eq(record_extra(r, EXTRA_FLOPS, 0), 7);
    ck_assert_uint_eq(record_extra(r, EXTRA_BYTES, 99), 99);
    ck_assert_uint_ne(span_close(log_, key(2)), 0);
    r = next_record();
    assert_named(r, "inner");
    ck_assert(r->data_len == 4 && memcmp(record_data(r), "data", 4) == 0);
    ck_assert_uint_eq(record_extra(r, EXTRA_STACK, 0), UINT64_MAX);
    ck_assert_uint_eq(record_extra(r, EXTRA_DTYPE, 0), 15);
    ck_assert_uint_eq(r->extras, 1u << EXTRA_STACK | 1u << EXTRA_DTYPE);

    begin(1, "none"); /* on the place of a span that had extras */
    ck_assert_uint_ne(span_close(log_, key(1)), 0);
    ck_assert_uint_eq(next_record()->extras, 0);

    struct extras of = {1u << EXTRA_MODULE | 1u << EXTRA_BYTES,
                        {[EXTRA_MODULE] = 3, [EXTRA_BYTES] = 4}};
    emit_instant(log_, CAT_CPU_OP, 0, "now", 3, DATA_ARGS, "args", 4, &of);
    r = next_record();
    assert_named(r, "now");
    ck_assert(r->data_len == 4 && memcmp(record_data(r), "args", 4) == 0);
    ck_assert_uint_eq(record_extra(r, EXTRA_MODULE, 0), 3);
    ck_assert_uint_eq(record_extra(r, EXTRA_BYTES, 0), 4);
}
END_TEST

START_TEST(writes_instants_counters_and_memory)
{
    uint64_t parent = atomic_load(&begin(1, "around")->id);
    emit_instant(log_, CAT_USER_ANNOTATION, REC_MARKER, "now", 3, DATA_ARGS, "args", 4, NULL);
    const struct record *r = next_record();
    assert_named(r, "now");
    ck_assert_uint_eq(r->kind, REC_INSTANT);
    ck_assert_uint_eq(r->flags, REC_MARKER);
    ck_assert_uint_eq(r->start, r->end);
    ck_assert_uint_eq(r->id, 0);
    ck_assert_uint_eq(r->parent, parent);
    ck_assert_uint_eq(r->data_kind, DATA_ARGS);
    ck_assert(r->data_len == 4 && memcmp(record_data(r), "args", 4) == 0);

    emit_counter(log_, 0, "loss", 4, "items", 5);
    r = next_record();
    assert_named(r, "loss");
    ck_assert_uint_eq(r->kind, REC_COUNTER);
    ck_assert_uint_eq(r->data_kind, DATA_ARGS);
    ck_assert(r->data_len == 5 && memcmp(record_data(r), "items", 5) == 0);

    struct record_memory extra = {11, 22, 1, 3}, seen;
    emit_memory(log_, 0xdeadbeef, -64, &extra, NULL);
    r = next_record();
    ck_assert_uint_eq(r->kind, REC_MEMORY);
    ck_assert_uint_eq(r->category, CAT_MEMORY);
    ck_assert_uint_eq(r->memory.address, 0xdeadbeef);
    ck_assert_int_eq(r->memory.bytes, -64);
    ck_assert_uint_eq(record_name(r).len, 0);
    ck_assert_uint_eq(r->data_len, sizeof seen);
    memcpy(&seen, record_data(r), sizeof seen);
    ck_assert(memcmp(&seen, &extra, sizeof seen) == 0);
    ck_assert_uint_eq(r->parent, parent);
}
END_TEST

START_TEST(gate_opens_by_bit)
{
    atomic_store(&writer_gate, 0);
    ck_assert(!gate_open(GATE_SPANS | GATE_MARKERS | GATE_MEMORY | GATE_SHAPES));
    writer_set_gate(GATE_MARKERS);
    ck_assert(gate_open(GATE_MARKERS));
    ck_assert(gate_open(GATE_MARKERS | GATE_SPANS)); /* one open bit is enough */
    ck_assert(!gate_open(GATE_SPANS));
    writer_set_gate(0);
    ck_assert(!gate_open(GATE_MARKERS));
}
END_TEST

/* Between windows nobody empties the ring, so nodes that no operator made are not recorded. */
START_TEST(keeps_only_operator_nodes_between_windows)
{
    writer_set_gate(0);
    emit_graph_node(log_, 7, 0, true);
    emit_graph_node(log_, 8, 7, true);
    ck_assert_ptr_null(next_record());
    begin(1, "aten::mm"); /* open since the last window */
    emit_graph_node(log_, 9, 0, true);
    const struct record *r = next_record();
    ck_assert_ptr_nonnull(r);
    ck_assert_int_eq(r->kind, REC_NODE);
    ck_assert_uint_eq(r->node.id, 9);
    span_close(log_, key(1));
    next_record();
    emit_graph_node(log_, 10, 9, true);
    r = next_record();
    ck_assert_ptr_nonnull(r);
    ck_assert_uint_eq(r->node.original, 9);
}
END_TEST

/* ---- costs of the hot path ---- */

static void touch(void)
{
    memset(log_->ring.base, 0, RING_BYTES); /* no page faults during the test */
    memset((char *)log_->data, 0, sizeof log_->data);
}

static void record_everything(void)
{
    struct record_memory extra = {0};
    for (unsigned i = 0; i < 5000; i++) {
        struct open_span *span = begin(1, "aten::addmm");
        uint8_t *room = span_data_room(log_, span, 4096);
        memset(room, 1, 40);
        span_data_done(log_, span, DATA_SHAPES, 40);
        begin(2, "aten::empty");
        emit_memory(log_, i, 64, &extra, NULL);
        emit_instant(log_, CAT_USER_ANNOTATION, REC_MARKER, "here", 4, DATA_NONE, NULL, 0, NULL);
        emit_counter(log_, 0, "loss", 4, "data", 4);
        span_close(log_, key(3));
        begin(4, "lost");
        span_close(log_, key(2));
        span_close(log_, key(1));
        thread_log_lost(log_, LOSS_MARKER, 1);
        if (i < 4000) /* later the ring fills up */
            atomic_store(&log_->ring.tail, ring_head(&log_->ring));
    }
}

START_TEST(allocates_nothing)
{
    uint64_t before = alloc_count();
    record_everything();
    uint64_t after = alloc_count();
    void *volatile close_with = malloc(1);
    uint64_t counted = alloc_count(); /* libcheck allocates too */
    free(close_with);
    ck_assert_uint_eq(after, before);
    ck_assert_uint_eq(counted, after + (alloc_is_ours ? 1 : 0));
    ck_assert_uint_gt(lost(LOSS_RING_FULL), 0);
}
END_TEST

static void make_a_system_call(void)
{
    log_error("a system call");
}

START_TEST(makes_no_system_call)
{
    int how = sandbox_run(touch, record_everything);
    ck_assert(how == 0 || how == -1);
    how = sandbox_run(touch, make_a_system_call);
    ck_assert(how == SIGSYS || how == -1); /* the sandbox does kill */
}
END_TEST

Suite *suite_emit(void)
{
    Suite *suite = suite_create("emit");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, NULL);
    tcase_set_timeout(all, 30);
    tcase_add_test(all, nests_spans);
    tcase_add_test(all, marks_spans_inside_operators_with_flops);
    tcase_add_test(all, inner_spans_inherit_recompute);
    tcase_add_test(all, ids_are_unique_and_parents_are_open);
    tcase_add_test(all, keeps_names_of_every_length);
    tcase_add_test(all, writes_data_after_the_name);
    tcase_add_test(all, numbered_spans_keep_data_and_extras);
    tcase_add_test(all, numbered_spans_inherit_module_and_context);
    tcase_add_test(all, counts_numbered_spans_without_room);
    tcase_add_test(all, ignores_an_end_without_a_start);
    tcase_add_test(all, outer_end_pops_and_counts_inner_spans);
    tcase_add_test(all, reused_key_closes_the_inner_span_first);
    tcase_add_test(all, counts_spans_beyond_the_depth_limit);
    tcase_add_test(all, truncates_names_that_do_not_fit);
    tcase_add_test(all, omits_data_that_does_not_fit);
    tcase_add_test(all, counts_losses_while_the_ring_is_full);
    tcase_add_test(all, counts_records_above_a_quarter_of_the_ring);
    tcase_add_test(all, marks_abandoned_spans_unfinished);
    tcase_add_test(all, loose_span_around_late_spans_nests);
    tcase_add_test(all, keeps_extras_with_their_span);
    tcase_add_test(all, writes_instants_counters_and_memory);
    tcase_add_test(all, gate_opens_by_bit);
    tcase_add_test(all, keeps_only_operator_nodes_between_windows);
    tcase_add_test(all, allocates_nothing);
    tcase_add_test(all, makes_no_system_call);
    suite_add_tcase(suite, all);
    return suite;
}
