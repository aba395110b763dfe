/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the array of a JSON text's values. */
#include "writer/import/json_tree.h"

#include <stdlib.h>

#define FEW 16u /* up to so many members are compared pairwise */

/* ---- the values of a tree ---- */

static const struct json_value *present(const struct json_value *in, const struct json_value *v)
{
    while (v < in + in->size && v->gone)
        v += v->size;
    return v < in + in->size ? v : NULL;
}

const struct json_value *json_first(const struct json_value *in)
{
    return present(in, in + 1);
}

const struct json_value *json_next(const struct json_value *in, const struct json_value *v)
{
    return present(in, v + v->size);
}

const struct json_value *json_member(const struct json_value *object, const char *key)
{
    const struct json_value *v = json_first(object);
    while (v && !text_is(v->key, key))
        v = json_next(object, v);
    return v;
}

/* ---- repeated keys: the last member counts ---- */

static bool same_text(struct text a, struct text b)
{
    return a.len == b.len && memcmp(a.at, b.at, a.len) == 0;
}

/* For qsort(): by key, equal keys in file order. */
static int by_key(const void *a, const void *b)
{
    const struct json_value *v = *(struct json_value *const *)a,
                            *w = *(struct json_value *const *)b;
    int order = v->key.len != w->key.len ? (v->key.len < w->key.len ? -1 : 1)
                                         : memcmp(v->key.at, w->key.at, v->key.len);
    return order ? order : v < w ? -1 : 1;
}

/* Sorts, because pairwise comparison takes minutes for a hostile text. False: no memory. */
static bool drop_repeated_of_many(struct json_tree *t, struct json_value *object, size_t n)
{
    buf_reset(&t->order);
    struct json_value **sorted = (struct json_value **)buf_room(&t->order, n * sizeof *sorted);
    if (!sorted)
        return false;
    struct json_value *v = object + 1;
    for (size_t i = 0; i < n; i++, v += v->size)
        sorted[i] = v;
    qsort(sorted, n, sizeof *sorted, by_key);
    for (size_t i = 1; i < n; i++)
        sorted[i - 1]->gone = same_text(sorted[i - 1]->key, sorted[i]->key);
    return true;
}

static bool drop_repeated(struct json_tree *t, struct json_value *object)
{
    struct json_value *end = object + object->size;
    size_t n = 0;
    for (struct json_value *v = object + 1; v < end; v += v->size)
        n++;
    if (n > FEW)
        return drop_repeated_of_many(t, object, n);
    for (struct json_value *v = object + 1; v < end; v += v->size)
        for (struct json_value *later = v + v->size; later < end; later += later->size)
            v->gone = v->gone || same_text(v->key, later->key);
    return true;
}

/* ---- reading ---- */

static struct json_value *value_at(const struct json_tree *t, size_t at)
{
    return (struct json_value *)t->values.data + at;
}

static size_t count(const struct json_tree *t)
{
    return t->values.len / sizeof(struct json_value);
}

/* Makes room for strings with escapes, so that none moves later: resolved escapes are never longer.
 * False: no memory. */
static bool make_room(struct json_tree *t, const char *text, size_t len)
{
    buf_reset(&t->values);
    buf_reset(&t->strings);
    return len == 0 || !memchr(text, '\\', len) || buf_room(&t->strings, len);
}

static struct text token_text(struct json_tree *t, const struct json_scan *s, bool escapes)
{
    const char *from = s->text + s->from, *end = s->text + s->to;
    if (!escapes)
        return (struct text){from, (uint32_t)(end - from)};
    char *first = t->strings.data + t->strings.len, *to = first;
    while (from < end) {
        if (*from == '\\')
            to = put_utf8(to, json_escaped(&from, end));
        else
            *to++ = *from++;
    }
    t->strings.len += (size_t)(to - first);
    return (struct text){first, (uint32_t)(to - first)};
}

/* False: exceeds 64 bits. */
static bool read_integer(struct text text, int64_t *value)
{
    bool negative = text.at[0] == '-', fits = true;
    int64_t v = 0;
    for (uint32_t i = negative; i < text.len && fits; i++) {
        int digit = text.at[i] - '0';
        fits = !__builtin_mul_overflow(v, (int64_t)10, &v) &&
               !__builtin_add_overflow(v, (int64_t)(negative ? -digit : digit), &v);
    }
    *value = v;
    return fits;
}

/* Appends a value. False: no memory. */
static bool add_value(struct json_tree *t, const struct json_scan *s, enum json_token token,
                      struct text key)
{
    struct json_value v = {.key = key, .size = 1, .type = token};
    if (token != JSON_OBJECT && token != JSON_ARRAY)
        v.text = token_text(t, s, token == JSON_STRING && s->escapes);
    if (token == JSON_INTEGER && !read_integer(v.text, &v.number))
        v.type = JSON_STRING; /* readers silently change such numbers */
    buf_put(&t->values, &v, sizeof v);
    return !t->values.failed;
}

/* Completes the container at this index. False: no memory. */
static bool close_value(struct json_tree *t, size_t at)
{
    struct json_value *v = value_at(t, at);
    v->size = (uint32_t)(count(t) - at);
    return v->type == JSON_ARRAY || drop_repeated(t, v);
}

static bool read_values(struct json_tree *t, struct json_scan *s)
{
    uint32_t open[JSON_DEPTH]; /* indices of the enclosing arrays and objects */
    struct text key = {"", 0};
    for (;;) {
        enum json_token token = json_scan_next(s);
        bool done = true;
        if (token == JSON_FAULT || token == JSON_ENDS)
            return token == JSON_ENDS;
        if (token == JSON_KEY) {
            key = token_text(t, s, s->escapes);
            continue;
        }
        if (token == JSON_OBJECT || token == JSON_ARRAY)
            open[s->depth - 1] = (uint32_t)count(t);
        if (token == JSON_CLOSES)
            done = close_value(t, open[s->depth]);
        else
            done = add_value(t, s, token, key);
        if (!done) {
            *s->fault = (struct json_fault){s->at, "no memory"};
            return false;
        }
        key = (struct text){"", 0};
    }
}

const struct json_value *json_tree_read(struct json_tree *t, const char *text, size_t len,
                                        struct json_fault *fault)
{
    struct json_scan s = {.text = text, .len = len, .fault = fault};
    *fault = (struct json_fault){0, "no memory"};
    return make_room(t, text, len) && read_values(t, &s) ? value_at(t, 0) : NULL;
}

void json_tree_free(struct json_tree *t)
{
    buf_free(&t->values);
    buf_free(&t->strings);
    buf_free(&t->order);
}
