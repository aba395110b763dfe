/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a fuzz target's input as numbers and texts, with zeroes after its end. Also checks that the
 * records in this thread's ring become valid JSON. For tests and fuzzing, one thread. */
#pragma once

#include <stdlib.h>
#include <wchar.h>

#include "tests/fuzz/json_valid.h"
#include "writer/json/json.h"
#include "writer/record/thread_log.h"

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            __builtin_trap();                                                                      \
    } while (0)

enum { INPUT_TEXTS = 64 };

struct input {
    const uint8_t *at, *end;
    void *texts[INPUT_TEXTS]; /* freed by input_free() */
    unsigned n_texts;
};

static inline uint8_t input_byte(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

/* A little-endian number of n bytes, n <= 8. */
static inline uint64_t input_number(struct input *in, unsigned n)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < n; i++)
        value |= (uint64_t)input_byte(in) << 8 * i;
    return value;
}

/* Zeroed memory of exactly this size, so that ASan sees an overread. Valid until input_free(). NULL
 * after INPUT_TEXTS calls. */
static inline void *input_room(struct input *in, size_t size)
{
    void *room = in->n_texts < INPUT_TEXTS ? calloc(1, size != 0 ? size : 1) : NULL;
    if (room)
        in->texts[in->n_texts++] = room;
    return room;
}

/* A terminated text. Its length comes first, as a byte. 254: the text repeats up to 65,536 times.
 * 255: NULL. */
static inline const char *input_text(struct input *in)
{
    unsigned len = input_byte(in);
    size_t times = len == 254 ? 1 + input_number(in, 2) : 1;
    if (len == 255)
        return NULL;
    if ((size_t)(in->end - in->at) < len)
        len = (unsigned)(in->end - in->at);
    char *text = input_room(in, len * times + 1);
    for (size_t i = 0; text && i < times; i++)
        memcpy(text + i * len, in->at, len);
    in->at += len;
    return text;
}

/* The same in wide characters, each made of two bytes. Some are high code points or no characters
 * at all. */
static inline const wchar_t *input_wide(struct input *in)
{
    unsigned len = input_byte(in);
    if (len == 255)
        return NULL;
    wchar_t *text = input_room(in, (len + 1) * sizeof *text);
    for (unsigned i = 0; text && i < len && in->at < in->end; i++) {
        uint64_t two = input_number(in, 2);
        text[i] = (wchar_t)(two & 1 ? two : two * 0x10001u);
    }
    return text;
}

static inline void input_free(struct input *in)
{
    while (in->n_texts != 0)
        free(in->texts[--in->n_texts]);
}

/* Takes all records out of this thread's ring. Each must become whole lines of strict JSON. */
__attribute__((weak)) unsigned long input_records; /* records read so far, by all targets */

static inline void input_drain_as_json(void)
{
    static const char *const dtypes[] = {"float"};
    struct thread_log *log = thread_log_get();
    REQUIRE(log != NULL);
    uint64_t head = ring_head(&log->ring);
    const struct record *r;
    while ((r = ring_peek(&log->ring, head)) != NULL) {
        uint64_t needed = record_slots(r->name, r->data_len, (uint8_t)r->extras);
        REQUIRE(needed == r->slots && r->end >= r->start && r->kind != REC_PAD);
        struct record *copy = malloc((size_t)r->slots * RECORD_SLOT); /* exact size, for ASan */
        REQUIRE(copy != NULL);
        memcpy(copy, r, (size_t)r->slots * RECORD_SLOT);
        struct json_place at = {4242, 1, 5, 7};
        struct buf b = {0};
        json_record(&b, copy, record_name(copy), &at, dtypes, 1);
        REQUIRE(!b.failed && json_lines_valid(b.data, b.len));
        buf_free(&b);
        free(copy);
        ring_take(&log->ring, r);
        input_records++;
    }
}
