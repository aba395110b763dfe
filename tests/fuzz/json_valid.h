/* SPDX-License-Identifier: Apache-2.0 */
/* A strict check of JSON and UTF-8 that shares no code with the writer under test. It decodes code
 * points by arithmetic and refuses what Perfetto refuses: surrogate escapes, control bytes, NaN.
 * For tests and fuzzing, any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* End of the UTF-8 character at p; NULL if it is invalid. */
static inline const uint8_t *utf8_end(const uint8_t *p, const uint8_t *end)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned n = *p < 0x80 ? 1 : *p >> 5 == 6 ? 2 : *p >> 4 == 14 ? 3 : *p >> 3 == 30 ? 4 : 0;
    if (n == 0 || (size_t)(end - p) < n)
        return NULL;
    uint32_t code = n == 1 ? *p : *p & (0x7fu >> n);
    for (unsigned i = 1; i < n; i++) {
        if (p[i] >> 6 != 2)
            return NULL;
        code = code << 6 | (p[i] & 0x3fu);
    }
    bool good =
        (n == 1 || code >= least[n]) && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    return good ? p + n : NULL;
}

/* End of the string whose opening quote is at p; NULL if it is invalid. */
static inline const uint8_t *string_end(const uint8_t *p, const uint8_t *end)
{
    if (p == end || *p++ != '"')
        return NULL;
    while (p && p < end && *p != '"') {
        if (*p < 0x20)
            return NULL;
        if (*p != '\\') {
            p = utf8_end(p, end);
            continue;
        }
        if (end - p < 2 || !strchr("\"\\/bfnrtu", p[1]) || p[1] == 0)
            return NULL;
        if (p[1] == 'u') {
            /* cprof escapes control characters only */
            if (end - p < 6 || memcmp(p + 2, "00", 2) != 0 || (p[4] != '0' && p[4] != '1') ||
                memchr("0123456789abcdef", p[5], 16) == NULL)
                return NULL;
            p += 4;
        }
        p += 2;
    }
    return p && p < end ? p + 1 : NULL;
}

static inline const uint8_t *digits_end(const uint8_t *p, const uint8_t *end)
{
    const uint8_t *begin = p;
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p != begin ? p : NULL;
}

/* End of the number at p; NULL if it is invalid. */
static inline const uint8_t *number_end(const uint8_t *p, const uint8_t *end)
{
    p += p < end && *p == '-';
    const uint8_t *begin = p;
    p = digits_end(p, end);
    if (!p || (*begin == '0' && p != begin + 1))
        return NULL;
    if (p < end && *p == '.')
        p = digits_end(p + 1, end);
    if (p && p < end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < end && (*p == '+' || *p == '-');
        p = digits_end(p, end);
    }
    return p;
}

static inline const uint8_t *skip_blank(const uint8_t *p, const uint8_t *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
        p++;
    return p;
}

/* End of true, false or null at p; NULL if there is none. */
static inline const uint8_t *word_end(const uint8_t *p, const uint8_t *end)
{
    static const char *const words[] = {"true", "false", "null"};
    for (unsigned i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(end - p) >= n && memcmp(p, words[i], n) == 0)
            return p + n;
    }
    return NULL;
}

/* End of the JSON value at p; NULL if it is invalid. */
static inline const uint8_t *value_end(const uint8_t *p, const uint8_t *end)
{
    p = skip_blank(p, end);
    if (p == end)
        return NULL;
    if (*p == '"')
        return string_end(p, end);
    if (*p == 't' || *p == 'f' || *p == 'n')
        return word_end(p, end);
    if (*p != '{' && *p != '[')
        return number_end(p, end);
    uint8_t open = *p;
    uint8_t close = open == '{' ? '}' : ']';
    p = skip_blank(p + 1, end);
    if (p < end && *p == close)
        return p + 1;
    for (;;) {
        if (open == '{') {
            p = string_end(skip_blank(p, end), end);
            p = p ? skip_blank(p, end) : p;
            if (!p || p == end || *p++ != ':')
                return NULL;
        }
        p = value_end(p, end);
        p = p ? skip_blank(p, end) : p;
        if (!p || p == end || (*p != ',' && *p != close))
            return NULL;
        if (*p++ == close)
            return p;
    }
}

/* True for one JSON value with optional blanks around it. */
static inline bool json_valid(const void *text, size_t n)
{
    const uint8_t *end = (const uint8_t *)text + n;
    const uint8_t *p = n != 0 ? value_end(text, end) : NULL;
    return p && skip_blank(p, end) == end;
}

/* True if every line is a JSON object followed by a comma. */
static inline bool json_lines_valid(const char *text, size_t n)
{
    while (n != 0) {
        const char *line_end = memchr(text, '\n', n);
        size_t line = line_end ? (size_t)(line_end - text) : 0;
        if (line < 2 || text[0] != '{' || line_end[-1] != ',' || !json_valid(text, line - 1))
            return false;
        text += line + 1;
        n -= line + 1;
    }
    return true;
}
