/* SPDX-License-Identifier: Apache-2.0 */
/* Parses numbers, booleans, choices and lists. Pure. */
#include "preload/core/parse.h"

#include <string.h>

enum { DISTANCE_MAX = 63 };

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* text[0..length) without blanks around it. */
static const char *trim(const char *text, size_t *length)
{
    while (*length > 0 && is_blank(*text)) {
        text++;
        (*length)--;
    }
    while (*length > 0 && is_blank(text[*length - 1]))
        (*length)--;
    return text;
}

static bool equal(const char *a, size_t a_length, const char *b, size_t b_length)
{
    if (a_length != b_length)
        return false;
    for (size_t i = 0; i < a_length; i++)
        if (lower(a[i]) != lower(b[i]))
            return false;
    return true;
}

bool parse_is_blank(const char *text)
{
    if (!text)
        return true;
    while (is_blank(*text))
        text++;
    return *text == '\0';
}

bool parse_int(const char *text, int64_t min, int64_t max, int64_t *out)
{
    size_t length = text ? strlen(text) : 0;
    if (length == 0)
        return false;
    const char *digits = trim(text, &length);
    bool negative = length > 0 && *digits == '-';
    if (negative) {
        digits++;
        length--;
    }
    if (length == 0)
        return false;
    /* Counts down from 0, because -INT64_MIN does not fit. */
    int64_t value = 0;
    for (size_t i = 0; i < length; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return false;
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, digits[i] - '0', &value))
            return false;
    }
    if (!negative) {
        if (value == INT64_MIN)
            return false;
        value = -value;
    }
    if (value < min || value > max)
        return false;
    *out = value;
    return true;
}

bool parse_bool(const char *text, bool *out)
{
    int index;
    if (!parse_choice(text, "0|1|false|true|no|yes|off|on", &index))
        return false;
    *out = index % 2 == 1;
    return true;
}

/* The index of word[0..length) in choices, or -1. */
static int find_choice(const char *word, size_t length, const char *choices)
{
    if (length == 0)
        return -1;
    for (int index = 0;; index++) {
        size_t choice_length = strcspn(choices, "|");
        const char *colon = memchr(choices, ':', choice_length);
        size_t prefix = colon ? (size_t)(colon - choices) + 1 : 0;
        if (colon ? length > prefix && equal(word, prefix, choices, prefix)
                  : equal(word, length, choices, choice_length))
            return index;
        if (choices[choice_length] == '\0')
            return -1;
        choices += choice_length + 1;
    }
}

bool parse_choice(const char *text, const char *choices, int *out)
{
    size_t length = text ? strlen(text) : 0;
    const char *word = length > 0 ? trim(text, &length) : NULL;
    int index = find_choice(word, length, choices);
    if (index < 0)
        return false;
    *out = index;
    return true;
}

bool parse_list(const char *text, const char *choices, unsigned *out)
{
    unsigned bits = 0;
    if (!text)
        return false;
    for (;;) {
        size_t item_length = strcspn(text, ",");
        size_t word_length = item_length;
        const char *word = trim(text, &word_length);
        int index = find_choice(word, word_length, choices);
        if (index < 0)
            return false;
        bits |= 1u << index;
        if (text[item_length] == '\0')
            break;
        text += item_length + 1;
    }
    *out = bits;
    return true;
}

static unsigned min_of(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned parse_distance(const char *a, const char *b)
{
    /* Three rows of the table: a swap needs the row before the last. */
    unsigned rows[3][DISTANCE_MAX + 1];
    size_t a_length = strnlen(a, DISTANCE_MAX);
    size_t b_length = strnlen(b, DISTANCE_MAX);
    unsigned *before = rows[0], *last = rows[1], *row = rows[2];

    for (size_t j = 0; j <= b_length; j++)
        last[j] = before[j] = (unsigned)j;
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_length; j++) {
            char x = lower(a[i - 1]), y = lower(b[j - 1]);
            row[j] = min_of(min_of(last[j], row[j - 1]) + 1, last[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == lower(b[j - 2]) && lower(a[i - 2]) == y)
                row[j] = min_of(row[j], before[j - 2] + 1);
        }
        unsigned *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[b_length];
}
