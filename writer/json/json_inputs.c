/* SPDX-License-Identifier: Apache-2.0 */
/* Writes an operator's inputs in Kineto's keys. Cut or invalid data ends the list at the last whole
 * item. */
#include "writer/json/json_inputs.h"

#include <math.h>
#include <string.h>

#include "writer/json/json.h"
#include "writer/json/json_event.h"
#include "writer/record/record.h"

#define REAL_DIGITS 17 /* any double reads back exactly */

/* One item of DATA_SHAPES. */
struct input {
    uint8_t tag;
    uint8_t dtype; /* SHAPE_TENSOR */
    uint8_t count; /* number of bodies, or of scalars */
    const uint8_t
        *data;   /* one or `count` bodies; the number of a scalar; `count` items of a list */
    size_t size; /* of the data */
};

/* ---- reading ---- */

/* Bytes of a tensor body; 0: cut. */
static size_t body_size(const uint8_t *p, const uint8_t *end)
{
    size_t size = end - p >= 2 ? shape_body_size(p) : 0;
    return (size_t)(end - p) >= size ? size : 0;
}

static bool is_scalar(uint8_t tag)
{
    return tag == SHAPE_SCALAR || (tag >= SHAPE_INT && tag <= SHAPE_TRUE);
}

/* Bytes of a scalar after its tag. */
static size_t number_size(uint8_t tag)
{
    return tag == SHAPE_COMPLEX ? 16 : tag == SHAPE_INT || tag == SHAPE_REAL ? 8 : 0;
}

/* Bytes of an element of a list of scalars, with its tag; 0: cut or invalid. */
static size_t element_size(const uint8_t *p, const uint8_t *end)
{
    if (p >= end || (!is_scalar(*p) && *p != SHAPE_OTHER))
        return 0;
    size_t size = 1 + number_size(*p);
    return (size_t)(end - p) >= size ? size : 0;
}

/* Reads the item at *at and advances *at. False: the end, or cut or invalid data. */
static bool next_input(const uint8_t **at, const uint8_t *end, struct input *in)
{
    const uint8_t *p = *at;
    if (p >= end)
        return false;
    in->tag = *p++;
    in->count = in->tag == SHAPE_TENSOR;
    bool list = in->tag == SHAPE_LIST || in->tag == SHAPE_SCALAR_LIST;
    if (in->tag > SHAPE_TRUE || (list && p >= end))
        return false;
    if (list)
        in->count = *p++;
    in->data = p;
    for (unsigned i = 0; i < in->count; i++) {
        size_t size = in->tag == SHAPE_SCALAR_LIST ? element_size(p, end) : body_size(p, end);
        if (size == 0)
            return false;
        p += size;
    }
    size_t number = number_size(in->tag);
    if ((size_t)(end - p) < number)
        return false;
    in->size = (size_t)(p - in->data);
    in->dtype = in->tag == SHAPE_TENSOR ? in->data[0] : 0;
    *at = p + number;
    return true;
}

/* ---- writing ---- */

/* Writes [n0, n1, …]. */
static char *put_numbers(char *to, const uint8_t *numbers, unsigned n)
{
    *to++ = '[';
    for (unsigned i = 0; i < n; i++) {
        int64_t number;
        memcpy(&number, numbers + 8 * (size_t)i, sizeof(number));
        if (i != 0)
            to = put_literal(to, ", ");
        to = put_i64(to, number);
    }
    *to++ = ']';
    return to;
}

/* Writes the sizes or strides of the tensor body at *body, and advances *body. */
static char *put_body(char *to, const uint8_t **body, bool strides)
{
    unsigned ndim = (*body)[1] & SHAPE_NDIM;
    const uint8_t *numbers = *body + 2;
    bool none = strides && !((*body)[1] & SHAPE_STRIDES);
    to = put_numbers(to, strides ? numbers + 8 * (size_t)ndim : numbers, none ? 0 : ndim);
    *body += shape_body_size(*body);
    return to;
}

/* Appends the sizes or strides of an input: [2, 3] for a tensor, [[2], [3]] for a list, [] for
 * others. */
static void put_dims(struct buf *b, const struct input *in, bool strides)
{
    /* A size of 8 bytes takes at most 22 characters with its comma, a body's two bytes at most "[],
     * ". */
    char *to = buf_room(b, 3 * in->size + 4);
    if (!to)
        return;
    char *p = to;
    const uint8_t *body = in->data;
    if (in->tag == SHAPE_TENSOR) {
        p = put_body(p, &body, strides);
    } else {
        unsigned count = in->tag == SHAPE_LIST ? in->count : 0;
        *p++ = '[';
        for (unsigned i = 0; i < count; i++) {
            if (i != 0)
                p = put_literal(p, ", ");
            p = put_body(p, &body, strides);
        }
        *p++ = ']';
    }
    b->len += (size_t)(p - to);
}

static void put_sizes(struct buf *b, const struct input *in)
{
    put_dims(b, in, false);
}

static void put_strides(struct buf *b, const struct input *in)
{
    put_dims(b, in, true);
}

/* Appends the type of an input as a JSON string. */
static void put_type(struct buf *b, const struct input *in, const char *const *names,
                     unsigned n_names)
{
    const char *word = is_scalar(in->tag)             ? "Scalar"
                       : in->tag == SHAPE_LIST        ? "TensorList"
                       : in->tag == SHAPE_SCALAR_LIST ? "ScalarList"
                                                      : "";
    if (in->tag == SHAPE_TENSOR && in->dtype < n_names && names[in->dtype])
        word = names[in->dtype];
    size_t n = strlen(word);
    char *to = n <= INLINE_NAME ? buf_room(b, STRING_ROOM(n)) : NULL;
    if (to)
        b->len += (size_t)(put_string(to, word, n) - to);
    else
        json_string(b, word, n);
}

/* Appends a double as torch prints it in a c10::IValue: a whole number as int64_t with a point. */
static void put_real(struct buf *b, double value)
{
    const double limit = 9223372036854775808.0; /* 2^63 */
    bool fits = (value == 0 || isnormal(value)) && value >= -limit && value < limit;
    if (fits && (double)(int64_t)value == value) {
        json_int(b, (int64_t)value);
        buf_put(b, ".", 1);
    } else if (isfinite(value)) {
        json_rounded(b, value, REAL_DIGITS);
    } else {
        buf_puts(b, signbit(value) ? "-" : "");
        buf_puts(b, isnan(value) ? "nan" : "inf");
    }
}

/* Appends a scalar with this tag as torch prints it; nothing for an unknown value. */
static void put_scalar(struct buf *b, uint8_t tag, const uint8_t *number)
{
    int64_t whole;
    double real[2];
    switch (tag) {
    case SHAPE_INT:
        memcpy(&whole, number, sizeof(whole));
        json_int(b, whole);
        break;
    case SHAPE_REAL:
        memcpy(real, number, sizeof(*real));
        put_real(b, *real);
        break;
    case SHAPE_COMPLEX:
        memcpy(real, number, sizeof(real));
        put_real(b, real[0]);
        buf_put(b, real[1] >= 0 ? "+" : "-", 1);
        put_real(b, fabs(real[1]));
        buf_put(b, "j", 1);
        break;
    case SHAPE_FALSE:
        buf_puts(b, "False");
        break;
    case SHAPE_TRUE:
        buf_puts(b, "True");
        break;
    case SHAPE_OTHER: /* in a list of scalars */
        buf_puts(b, "None");
        break;
    default:
        break;
    }
}

/* Appends the value of an input as a JSON string: empty, except for scalars and lists of scalars.
 * No value needs escapes. */
static void put_value(struct buf *b, const struct input *in)
{
    buf_put(b, "\"", 1);
    if (is_scalar(in->tag)) {
        put_scalar(b, in->tag, in->data);
    } else if (in->tag == SHAPE_SCALAR_LIST) {
        const uint8_t *p = in->data;
        buf_put(b, "[", 1);
        for (unsigned i = 0; i < in->count; i++) {
            if (i != 0)
                buf_put(b, ", ", 2);
            put_scalar(b, *p, p + 1);
            p += 1 + number_size(*p);
        }
        buf_put(b, "]", 1);
    }
    buf_put(b, "\"", 1);
}

/* Appends `key`, then put() for each item. */
static void put_each(struct buf *b, const char *key, const uint8_t *at, const uint8_t *end,
                     unsigned items, void (*put)(struct buf *, const struct input *))
{
    struct input in;
    buf_puts(b, key);
    for (unsigned i = 0; i < items && next_input(&at, end, &in); i++) {
        if (i != 0)
            buf_put(b, ", ", 2);
        put(b, &in);
    }
    buf_put(b, "]", 1);
}

bool json_inputs(struct buf *b, const uint8_t *data, size_t n, const char *const *names,
                 unsigned n_names, bool first)
{
    const uint8_t *end = data + n;
    const uint8_t *at = data;
    struct input in;
    unsigned items = 0;
    while (next_input(&at, end, &in)) {
        if (items++ != 0)
            buf_put(b, ", ", 2);
        else
            buf_puts(b, first ? "\"Input type\": [" : ", \"Input type\": [");
        put_type(b, &in, names, n_names);
    }
    if (items == 0)
        return first;
    buf_put(b, "]", 1);
    put_each(b, ", \"Input Dims\": [", data, end, items, put_sizes);
    put_each(b, ", \"Input Strides\": [", data, end, items, put_strides);
    put_each(b, ", \"Concrete Inputs\": [", data, end, items, put_value);
    return false;
}
