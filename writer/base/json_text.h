/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and strings as JSON text: appended to a buffer, or written into memory that is large
 * enough (the inner loop of the JSON writer). Pure functions, cprof thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "writer/base/buf.h"

/* Appends `text` as a JSON string with quotes. Escapes `"`, `\\` and bytes below 0x20 (\\u00xx,
 * \\n, \\t …), and replaces invalid UTF-8 by U+FFFD. Copies other bytes raw, because Perfetto
 * refuses surrogate escapes. */
void json_string(struct buf *b, const char *text, size_t len);

/* Appends a decimal integer. */
void json_int(struct buf *b, int64_t value);

/* Appends an unsigned integer; above INT64_MAX in quotes, because readers silently lose such
 * numbers. */
void json_uint(struct buf *b, uint64_t value);

/* Appends nanoseconds as microseconds with three decimals: 1234567 -> 1234.567. Negative: 0.000. */
void json_us(struct buf *b, int64_t ns);

/* Appends a double that reads back exactly. Not finite: "NaN", "Infinity" or "-Infinity" in
 * quotes. */
void json_real(struct buf *b, double value);

/* Appends a double with this many significant digits (%g) in any locale. Not finite: as
 * json_real(). */
void json_rounded(struct buf *b, double value, int digits);

#define U64_ROOM 20u /* most characters of a uint64_t in decimal */
#define US_ROOM  24u /* most characters of put_us() */

/* Most characters of n bytes as a JSON string: six per byte (\u001f), and the quotes. */
#define STRING_ROOM(n) (6 * (size_t)(n) + 2)

/* "00" "01" … "99". */
extern const char json_two_digits[200];

/* json_powers[n] = 10^n; [0] is 0, so that the number 0 has one digit. */
extern const uint64_t json_powers[20];

/* Writes any bytes as the inside of a JSON string and returns the end. Needs room for 6 * n
 * bytes. */
char *json_escape(char *to, const char *text, size_t n);

/* Bytes of the UTF-8 character at text[0..n), n > 0; 0: invalid, or a control character. */
size_t json_utf8_length(const char *text, size_t n);

/* Copies a string literal and returns the end. */
#define put_literal(to, literal)                                                                   \
    ((char *)memcpy((to), (literal), sizeof(literal) - 1) + (sizeof(literal) - 1))

/* Number of decimal digits of v. */
static inline unsigned digits_of(uint64_t v)
{
    unsigned bits = 64u - (unsigned)__builtin_clzll(v | 1);
    unsigned guess = (bits * 1233u) >> 12; /* log10(2) = 1233 / 4096 */
    return guess + (guess < 20 && v >= json_powers[guess]);
}

/* Writes two decimal digits of v < 100. */
static inline char *put_2(char *to, uint32_t v)
{
    return (char *)memcpy(to, json_two_digits + 2 * (size_t)v, 2) + 2;
}

/* Writes six decimal digits of v < 10^6: three independent pairs. */
static inline char *put_6(char *to, uint32_t v)
{
    to = put_2(to, v / 10000);
    to = put_2(to, v / 100 % 100);
    return put_2(to, v % 100);
}

/* Writes eight decimal digits of v < 10^8. */
static inline char *put_8(char *to, uint32_t v)
{
    to = put_2(to, v / 1000000);
    return put_6(to, v % 1000000);
}

/* Writes exactly n decimal digits of v. */
static inline char *put_digits(char *to, uint64_t v, unsigned n)
{
    char *p = to + n;
    while (v >= 100) {
        p -= 2;
        put_2(p, (uint32_t)(v % 100));
        v /= 100;
    }
    if (v >= 10) {
        p -= 2;
        put_2(p, (uint32_t)v);
    } else {
        *--p = (char)('0' + v);
    }
    while (p > to)
        *--p = '0';
    return to + n;
}

/* Writes v in decimal. */
static inline char *put_u64(char *to, uint64_t v)
{
    const uint64_t eight = 100000000;
    uint64_t head = v < eight ? v : v / eight;
    to = put_digits(to, head, digits_of(head));
    return v < eight ? to : put_8(to, (uint32_t)(v % eight));
}

/* Writes v in decimal with its sign. */
static inline char *put_i64(char *to, int64_t v)
{
    uint64_t magnitude = (uint64_t)v;
    if (v < 0) {
        *to++ = '-';
        magnitude = 0 - magnitude;
    }
    return put_u64(to, magnitude);
}

/* Writes v in decimal, in quotes when it is above INT64_MAX. */
static inline char *put_id(char *to, uint64_t v)
{
    if (v <= INT64_MAX)
        return put_u64(to, v);
    *to++ = '"';
    to = put_u64(to, v);
    *to++ = '"';
    return to;
}

/* Writes nanoseconds as microseconds with three decimals; negative as 0.000. */
static inline char *put_us(char *to, int64_t ns)
{
    const uint64_t second = 1000000000;
    uint64_t v = ns > 0 ? (uint64_t)ns : 0;
    uint32_t rest = (uint32_t)(v % second);
    uint64_t head = v < second ? rest / 1000 : v / second;
    to = put_digits(to, head, digits_of(head));
    to = v < second ? to : put_6(to, rest / 1000);
    *to++ = '.';
    *to++ = (char)('0' + rest / 100 % 10);
    return put_2(to, rest % 100);
}

/* Non-zero when one of the eight bytes needs an escape or is not ASCII. */
static inline uint64_t dirty_bytes(uint64_t w)
{
    const uint64_t ones = 0x0101010101010101u;
    const uint64_t tops = 0x8080808080808080u;
    uint64_t quote = w ^ (ones * '"');
    uint64_t slash = w ^ (ones * '\\');
    uint64_t below = (w - ones * 0x20) & ~w;
    return (w | below | ((quote - ones) & ~quote) | ((slash - ones) & ~slash)) & tops;
}

/* Copies 16 bytes. False: one of them needs an escape or is not ASCII. */
static inline bool put_plain_16(char *to, const char *text)
{
    typedef uint8_t bytes __attribute__((vector_size(16)));
    bytes b;
    uint64_t bad[2];
    memcpy(&b, text, 16);
    memcpy(to, &b, 16);
    bytes found = (bytes)((b - 0x20 > 0x7f - 0x20) | (b == '"') | (b == '\\'));
    memcpy(bad, &found, 16);
    return (bad[0] | bad[1]) == 0;
}

/* Copies 4 to 15 bytes, in two overlapping pieces. False: as above. */
static inline bool put_plain_few(char *to, const char *text, size_t n)
{
    if (n >= 8) {
        uint64_t first, last;
        memcpy(&first, text, 8);
        memcpy(&last, text + n - 8, 8);
        memcpy(to, &first, 8);
        memcpy(to + n - 8, &last, 8);
        return (dirty_bytes(first) | dirty_bytes(last)) == 0;
    }
    uint32_t first, last;
    memcpy(&first, text, 4);
    memcpy(&last, text + n - 4, 4);
    memcpy(to, &first, 4);
    memcpy(to + n - 4, &last, 4);
    return dirty_bytes(first | (uint64_t)last << 32) == 0;
}

/* Writes text as a JSON string with quotes. Names are nearly always plain ASCII, copied in large
 * pieces, of which the last overlaps the one before. Needs STRING_ROOM(n) bytes. */
static inline char *put_string(char *to, const char *text, size_t n)
{
    *to++ = '"';
    size_t i = 0;
    while (i + 16 <= n && put_plain_16(to + i, text + i))
        i += 16;
    bool plain = n >= 16  ? i + 16 > n && put_plain_16(to + n - 16, text + n - 16)
                 : n >= 4 ? put_plain_few(to, text, n)
                          : n == 0;
    to = plain ? to + n : json_escape(to + i, text + i, n - i);
    *to++ = '"';
    return to;
}
