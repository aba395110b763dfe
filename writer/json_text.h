/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loop of the JSON writer: numbers and strings into memory that is known to be large enough. Only json.c and
 * json_text.c include it; everybody else uses json.h. Pure functions, cprof thread. */
#ifndef WRITER_JSON_TEXT_H
#define WRITER_JSON_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define U64_ROOM 20u /* most characters of a uint64_t in decimal */
#define US_ROOM  24u /* most characters of put_us() */

/* Most characters that n bytes of text take as a JSON string: six per byte (\u001f) and the quotes. */
#define STRING_ROOM(n) (6 * (size_t)(n) + 2)

/* "00" "01" … "99". */
extern const char json_two_digits[200];

/* json_powers[n] = 10 to the n; [0] is 0 so that the number 0 has one digit. */
extern const uint64_t json_powers[20];

/* Writes the inside of a JSON string (no quotes) for any bytes, and returns the end. Room for 6 * n bytes is needed. */
char *json_escape(char *to, const char *text, size_t n);

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

/* Writes exactly n decimal digits of v. */
static inline char *put_digits(char *to, uint64_t v, unsigned n)
{
    char *p = to + n;
    while (v >= 100) {
        p -= 2;
        memcpy(p, json_two_digits + 2 * (v % 100), 2);
        v /= 100;
    }
    if (v >= 10) {
        p -= 2;
        memcpy(p, json_two_digits + 2 * v, 2);
    } else {
        *--p = (char)('0' + v);
    }
    while (p > to) {
        *--p = '0';
    }
    return to + n;
}

/* Writes v in decimal. */
static inline char *put_u64(char *to, uint64_t v)
{
    return put_digits(to, v, digits_of(v));
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
    if (v <= INT64_MAX) {
        return put_u64(to, v);
    }
    *to++ = '"';
    to = put_u64(to, v);
    *to++ = '"';
    return to;
}

/* Writes nanoseconds as microseconds with three decimals; negative as 0.000. */
static inline char *put_us(char *to, int64_t ns)
{
    uint64_t v = ns > 0 ? (uint64_t)ns : 0;
    to = put_u64(to, v / 1000);
    unsigned rest = (unsigned)(v % 1000);
    *to++ = '.';
    *to++ = (char)('0' + rest / 100);
    memcpy(to, json_two_digits + 2 * (rest % 100), 2);
    return to + 2;
}

/* Non-zero when one of the eight bytes cannot stand in a JSON string as it is or is not ASCII. */
static inline uint64_t dirty_bytes(uint64_t w)
{
    const uint64_t ones = 0x0101010101010101u;
    const uint64_t tops = 0x8080808080808080u;
    uint64_t quote = w ^ (ones * '"');
    uint64_t slash = w ^ (ones * '\\');
    uint64_t below = (w - ones * 0x20) & ~w;
    return (w | below | ((quote - ones) & ~quote) | ((slash - ones) & ~slash)) & tops;
}

/* Writes text as a JSON string with quotes. Names are nearly always plain ASCII: eight bytes at a time, the rest by one
 * more word that overlaps the last. Room for STRING_ROOM(n) bytes is needed. */
static inline char *put_string(char *to, const char *text, size_t n)
{
    *to++ = '"';
    size_t i = 0;
    uint64_t w;
    for (; i + 8 <= n; i += 8) {
        memcpy(&w, text + i, 8);
        if (dirty_bytes(w) != 0) {
            break;
        }
        memcpy(to + i, &w, 8);
    }
    if (i + 8 > n && n >= 8) {
        memcpy(&w, text + n - 8, 8);
        if (dirty_bytes(w) == 0) {
            memcpy(to + n - 8, &w, 8);
            i = n;
        }
    }
    to = i == n ? to + n : json_escape(to + i, text + i, n - i);
    *to++ = '"';
    return to;
}

#endif
