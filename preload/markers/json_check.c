/* SPDX-License-Identifier: Apache-2.0 */
/* A recursive check of JSON that copies what it accepts; see json_check.h. The copy is never longer
 * than the text: blanks go, and an escape is at least as long as what stands for it. */
#include "preload/markers/json_check.h"

#include <stdint.h>
#include <string.h>

struct reader {
    const uint8_t *text;
    size_t len, at;
    char *to; /* the copy's end */
    unsigned depth;
    struct json_fault *fault;
};

static bool refuse_text(struct reader *r, size_t at, const char *what)
{
    r->fault->at = at;
    r->fault->what = what;
    return false;
}

/* The byte at the reader, -1 behind the end. */
static int look_ahead(const struct reader *r)
{
    return r->at < r->len ? r->text[r->at] : -1;
}

static void put_byte(struct reader *r, int byte)
{
    *r->to++ = (char)byte;
}

static void skip_blanks(struct reader *r)
{
    while (r->at < r->len && memchr(" \t\r\n", r->text[r->at], 4))
        r->at++;
}

static bool is_digit(int byte)
{
    return byte >= '0' && byte <= '9';
}

/* ---- strings ---- */

static void put_utf8(struct reader *r, uint32_t c)
{
    if (c < 0x80) {
        put_byte(r, (int)c);
        return;
    }
    if (c < 0x800) {
        put_byte(r, (int)(0xc0 | c >> 6));
    } else {
        if (c < 0x10000) {
            put_byte(r, (int)(0xe0 | c >> 12));
        } else {
            put_byte(r, (int)(0xf0 | c >> 18));
            put_byte(r, (int)(0x80 | (c >> 12 & 0x3f)));
        }
        put_byte(r, (int)(0x80 | (c >> 6 & 0x3f)));
    }
    put_byte(r, (int)(0x80 | (c & 0x3f)));
}

/* The number in the four digits behind \u; -1 when they are none. */
static int32_t hex4(const struct reader *r, size_t at)
{
    int32_t c = 0;
    for (size_t i = at; i < at + 4; i++) {
        int digit = i < r->len ? r->text[i] : -1;
        int value = is_digit(digit)                ? digit - '0'
                    : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                    : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                                   : -1;
        if (value < 0)
            return -1;
        c = c << 4 | value;
    }
    return c;
}

/* \uXXXX, or a pair of them; the reader is at the backslash. */
static bool copy_number_escape(struct reader *r)
{
    size_t start = r->at;
    int32_t c = hex4(r, start + 2);
    r->at += 6;
    if (c < 0)
        return refuse_text(r, start, "\\u needs four hexadecimal digits");
    if (c >= 0xd800 && c < 0xe000) {
        bool pair =
            c < 0xdc00 && r->at + 1 < r->len && r->text[r->at] == '\\' && r->text[r->at + 1] == 'u';
        int32_t low = pair ? hex4(r, r->at + 2) : -1;
        if (low < 0xdc00 || low >= 0xe000)
            return refuse_text(r, start, "half of a surrogate pair");
        r->at += 6;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    if (c < 0x20) {
        static const char hex[] = "0123456789abcdef";
        memcpy(r->to, "\\u00", 4);
        r->to += 4;
        put_byte(r, hex[c >> 4]);
        put_byte(r, hex[c & 15]);
        return true;
    }
    if (c == '"' || c == '\\')
        put_byte(r, '\\');
    put_utf8(r, (uint32_t)c);
    return true;
}

static bool copy_escape(struct reader *r)
{
    int kind = r->at + 1 < r->len ? r->text[r->at + 1] : -1;
    if (kind == 'u')
        return copy_number_escape(r);
    if (kind <= 0 || !strchr("\"\\/bfnrt", kind))
        return refuse_text(r, r->at, "no such escape");
    if (kind != '/')
        put_byte(r, '\\');
    put_byte(r, kind);
    r->at += 2;
    return true;
}

/* One character of more than one byte. */
static bool copy_character(struct reader *r)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t *p = r->text + r->at;
    unsigned n = *p >> 5 == 6 ? 2 : *p >> 4 == 14 ? 3 : *p >> 3 == 30 ? 4 : 0;
    if (n == 0 || r->len - r->at < n)
        return refuse_text(r, r->at, "no UTF-8");
    uint32_t c = *p & (0x7fu >> n);
    for (unsigned i = 1; i < n; i++) {
        if (p[i] >> 6 != 2)
            return refuse_text(r, r->at, "no UTF-8");
        c = c << 6 | (p[i] & 0x3fu);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return refuse_text(r, r->at, "no UTF-8");
    memcpy(r->to, p, n);
    r->to += n;
    r->at += n;
    return true;
}

static bool copy_string(struct reader *r)
{
    size_t start = r->at++;
    put_byte(r, '"');
    for (;;) {
        int byte = look_ahead(r);
        if (byte < 0)
            return refuse_text(r, start, "a string without an end");
        if (byte < 0x20)
            return refuse_text(r, r->at, "a control character in a string");
        if (byte == '\\') {
            if (!copy_escape(r))
                return false;
        } else if (byte >= 0x80) {
            if (!copy_character(r))
                return false;
        } else {
            put_byte(r, byte);
            r->at++;
            if (byte == '"')
                return true;
        }
    }
}

/* ---- numbers ---- */

static bool copy_digits(struct reader *r)
{
    if (!is_digit(look_ahead(r)))
        return refuse_text(r, r->at, "a digit is missing");
    while (is_digit(look_ahead(r)))
        put_byte(r, r->text[r->at++]);
    return true;
}

/* True when a copied number is beyond a double, which readers take for infinite. Not by strtod,
 * which asks the locale. */
static bool too_large(const char *number, const char *end)
{
    static const char most[] = "17976931348623158"; /* DBL_MAX, its last digit rounded up */
    char digits[sizeof most] = "";
    size_t kept = 0;
    int64_t magnitude = 0, exponent = 0; /* the value is 0.DIGITS times 10 to the magnitude */
    bool point = false, negative = false;
    for (; number < end && *number != 'e' && *number != 'E'; number++) {
        point = point || *number == '.';
        if (!is_digit((uint8_t)*number))
            continue;
        if (kept > 0 || *number != '0') {
            magnitude += !point;
            if (kept < sizeof digits - 1)
                digits[kept++] = *number;
        } else {
            magnitude -= point;
        }
    }
    for (; number < end; number++) {
        negative = negative || *number == '-';
        if (is_digit((uint8_t)*number) && exponent < INT32_MAX)
            exponent = 10 * exponent + *number - '0';
    }
    magnitude += negative ? -exponent : exponent;
    return kept > 0 && (magnitude > 309 || (magnitude == 309 && strcmp(digits, most) >= 0));
}

static bool copy_number(struct reader *r)
{
    size_t start = r->at;
    const char *copy = r->to;
    if (look_ahead(r) == '-')
        put_byte(r, r->text[r->at++]);
    if (look_ahead(r) == '0' && r->at + 1 < r->len && is_digit(r->text[r->at + 1]))
        return refuse_text(r, r->at, "a number that begins with 0");
    if (!copy_digits(r))
        return false;
    if (look_ahead(r) == '.') {
        put_byte(r, r->text[r->at++]);
        if (!copy_digits(r))
            return false;
    }
    if (look_ahead(r) == 'e' || look_ahead(r) == 'E') {
        put_byte(r, r->text[r->at++]);
        if (look_ahead(r) == '+' || look_ahead(r) == '-')
            put_byte(r, r->text[r->at++]);
        if (!copy_digits(r))
            return false;
    }
    return !too_large(copy, r->to) ||
           refuse_text(r, start, "a number beyond the range of a double");
}

/* ---- values ---- */

static bool copy_word(struct reader *r)
{
    static const char *const words[] = {"true", "false", "null"};
    const char *rest = (const char *)r->text + r->at;
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if (r->len - r->at >= n && memcmp(rest, words[i], n) == 0) {
            memcpy(r->to, rest, n);
            r->to += n;
            r->at += n;
            return true;
        }
    }
    bool minus = *rest == '-';
    int first = minus && r->at + 1 < r->len ? rest[1] : *rest;
    if (first == 'N' || first == 'I')
        return refuse_text(r, r->at, "NaN and Infinity are no JSON");
    return refuse_text(r, r->at, "no value begins like this");
}

static bool copy_value(struct reader *r);

/* The members of an array or object; the reader is at its bracket. */
static bool copy_members(struct reader *r)
{
    size_t start = r->at;
    int opening = r->text[r->at++], closing = opening == '{' ? '}' : ']';
    if (++r->depth > JSON_DEPTH)
        return refuse_text(r, start, "too deep");
    put_byte(r, opening);
    skip_blanks(r);
    for (bool first = true; look_ahead(r) != closing; first = false) {
        if (!first) {
            if (look_ahead(r) != ',')
                return refuse_text(r, r->at,
                                   look_ahead(r) < 0 ? "it ends too early" : "a comma is missing");
            put_byte(r, r->text[r->at++]);
            skip_blanks(r);
        }
        if (opening == '{') {
            if (look_ahead(r) != '"')
                return refuse_text(r, r->at, "a key in double quotes is missing");
            if (!copy_string(r))
                return false;
            skip_blanks(r);
            if (look_ahead(r) != ':')
                return refuse_text(r, r->at, "a colon is missing");
            put_byte(r, r->text[r->at++]);
        }
        if (!copy_value(r))
            return false;
        skip_blanks(r);
    }
    put_byte(r, closing);
    r->at++;
    r->depth--;
    return true;
}

static bool copy_value(struct reader *r)
{
    skip_blanks(r);
    int byte = look_ahead(r);
    if (byte < 0)
        return refuse_text(r, r->at, "a value is missing");
    if (byte == '"')
        return copy_string(r);
    if (byte == '{' || byte == '[')
        return copy_members(r);
    bool number =
        is_digit(byte) || (byte == '-' && (r->at + 1 == r->len || r->text[r->at + 1] != 'I'));
    return number ? copy_number(r) : copy_word(r);
}

size_t json_check(const char *text, size_t len, char *out, struct json_fault *fault)
{
    struct reader r = {(const uint8_t *)text, len, 0, out, 0, fault};
    if (!copy_value(&r))
        return 0;
    skip_blanks(&r);
    if (r.at < len) {
        refuse_text(&r, r.at, "something follows the value");
        return 0;
    }
    return (size_t)(r.to - out);
}
