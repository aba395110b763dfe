/* SPDX-License-Identifier: Apache-2.0 */
/* JSON strings and numbers: escapes and UTF-8 repair by table, decimals two digits at a time,
 * doubles that read back exactly in any locale. Pure functions, cprof thread. */
#include "writer/base/json_text.h"

#include <stdio.h>
#include <stdlib.h>

/* bytes of a long text per chunk, to limit the room for its worst case */
#define CHUNK 512u

const char json_two_digits[200] = {
#define ROW(t) t, '0', t, '1', t, '2', t, '3', t, '4', t, '5', t, '6', t, '7', t, '8', t, '9'
    ROW('0'), ROW('1'), ROW('2'), ROW('3'), ROW('4'),
    ROW('5'), ROW('6'), ROW('7'), ROW('8'), ROW('9'),
#undef ROW
};

const uint64_t json_powers[20] = {
    0,
    10ull,
    100ull,
    1000ull,
    10000ull,
    100000ull,
    1000000ull,
    10000000ull,
    100000000ull,
    1000000000ull,
    10000000000ull,
    100000000000ull,
    1000000000000ull,
    10000000000000ull,
    100000000000000ull,
    1000000000000000ull,
    10000000000000000ull,
    100000000000000000ull,
    1000000000000000000ull,
    10000000000000000000ull,
};

/* What a byte means in a text: 0 copied; SEQ + k starts a UTF-8 sequence of row k below; BAD
 * invalid; HEX written as \u00xx; else the letter after the backslash. */
enum { HEX = 1, BAD = 2, SEQ = 8 };

static const uint8_t byte_class[256] = {
    [0x00 ... 0x07] = HEX, [0x08] = 'b',
    [0x09] = 't',          [0x0a] = 'n',
    [0x0b] = HEX,          [0x0c] = 'f',
    [0x0d] = 'r',          [0x0e ... 0x1f] = HEX,
    ['"'] = '"',           ['\\'] = '\\',
    [0x80 ... 0xc1] = BAD, [0xc2 ... 0xdf] = SEQ + 0,
    [0xe0] = SEQ + 1,      [0xe1 ... 0xec] = SEQ + 2,
    [0xed] = SEQ + 3,      [0xee ... 0xef] = SEQ + 2,
    [0xf0] = SEQ + 4,      [0xf1 ... 0xf3] = SEQ + 5,
    [0xf4] = SEQ + 6,      [0xf5 ... 0xff] = BAD,
};

/* Unicode 15, table 3-7: length, and range of the second byte. Later bytes are 80..BF. */
static const struct {
    uint8_t length, low, high;
} sequences[] = {
    {2, 0x80, 0xbf}, {3, 0xa0, 0xbf}, {3, 0x80, 0xbf}, {3, 0x80, 0x9f},
    {4, 0x90, 0xbf}, {4, 0x80, 0xbf}, {4, 0x80, 0x8f},
};

/* Length of the sequence of class k at text: all of it (*good), or its maximal subpart. */
static size_t sequence_length(const uint8_t *text, size_t n, unsigned k, bool *good)
{
    size_t length = sequences[k].length;
    size_t i = 1;
    if (n > 1 && text[1] >= sequences[k].low && text[1] <= sequences[k].high) {
        for (i = 2; i < length && i < n && (text[i] & 0xc0) == 0x80; i++) {
        }
    }
    *good = i == length;
    return i;
}

/* Writes the one character at text that is not plain. *used: its bytes in text. */
static char *put_special(char *to, const uint8_t *text, size_t n, size_t *used)
{
    static const char hex[] = "0123456789abcdef";
    uint8_t class = byte_class[*text];
    *used = 1;
    if (class == HEX) {
        to = put_literal(to, "\\u00");
        *to++ = hex[*text >> 4];
        *to++ = hex[*text & 15];
        return to;
    }
    if (class != BAD && class >= SEQ && class < SEQ + 7) {
        bool good;
        *used = sequence_length(text, n, class - (unsigned)SEQ, &good);
        if (good) {
            memcpy(to, text, *used);
            return to + *used;
        }
        class = BAD;
    }
    if (class == BAD)
        return put_literal(to, "\xef\xbf\xbd");
    *to++ = '\\';
    *to++ = (char)class;
    return to;
}

size_t json_utf8_length(const char *text, size_t n)
{
    uint8_t first = (uint8_t)*text, class = byte_class[first];
    bool good = first >= 0x20;
    if (class < SEQ || class >= SEQ + 7)
        return good && first < 0x80;
    size_t length = sequence_length((const uint8_t *)text, n, class - (unsigned)SEQ, &good);
    return good ? length : 0;
}

char *json_escape(char *to, const char *text, size_t n)
{
    const uint8_t *in = (const uint8_t *)text;
    const uint8_t *end = in + n;
    while (in < end) {
        uint64_t w;
        while (end - in >= 8 && (memcpy(&w, in, 8), dirty_bytes(w) == 0)) {
            memcpy(to, &w, 8);
            to += 8;
            in += 8;
        }
        while (in < end && byte_class[*in] == 0)
            *to++ = (char)*in++;
        if (in < end) {
            size_t used;
            to = put_special(to, in, (size_t)(end - in), &used);
            in += used;
        }
    }
    return to;
}

/* Length of the next chunk: at most CHUNK bytes, not ending inside a UTF-8 sequence. */
static size_t chunk_length(const char *text, size_t n)
{
    if (n <= CHUNK)
        return n;
    size_t back = 0;
    while (back < 4 && ((uint8_t)text[CHUNK - back] & 0xc0) == 0x80)
        back++;
    /* Four continuation bytes in a row: no sequence is that long. */
    return back < 4 ? CHUNK - back : CHUNK;
}

void json_string(struct buf *b, const char *text, size_t len)
{
    buf_put(b, "\"", 1);
    while (len != 0) {
        size_t n = chunk_length(text, len);
        char *to = buf_room(b, STRING_ROOM(n));
        if (!to)
            return;
        b->len += (size_t)(json_escape(to, text, n) - to);
        text += n;
        len -= n;
    }
    buf_put(b, "\"", 1);
}

void json_int(struct buf *b, int64_t value)
{
    char *to = buf_room(b, U64_ROOM + 1);
    if (to)
        b->len += (size_t)(put_i64(to, value) - to);
}

void json_uint(struct buf *b, uint64_t value)
{
    char *to = buf_room(b, U64_ROOM + 2);
    if (to)
        b->len += (size_t)(put_id(to, value) - to);
}

void json_us(struct buf *b, int64_t ns)
{
    char *to = buf_room(b, US_ROOM);
    if (to)
        b->len += (size_t)(put_us(to, ns) - to);
}

/* The bits of a double. Comparing bits is independent of flush-to-zero modes that a thread
 * inherits. */
static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* Writes numbers with up to nine decimals: nearly all. scaled / 10^n is a correctly rounded
 * division of two exact doubles. When it equals the value, the text scaled / 10^n reads back as the
 * value too. NULL: does not apply. */
static char *put_short_real(char *to, double magnitude)
{
    static const double tens[] = {1e1, 1e3, 1e6, 1e9};
    static const unsigned places[] = {1, 3, 6, 9};
    for (size_t i = 0; i < sizeof(tens) / sizeof(*tens); i++) {
        double scaled = magnitude * tens[i] + 0.5;
        if (!(scaled < 9007199254740992.0))
            break;
        uint64_t whole = (uint64_t)scaled;
        if (bits_of((double)whole / tens[i]) == bits_of(magnitude)) {
            uint64_t unit = json_powers[places[i]];
            to = put_u64(to, whole / unit);
            *to++ = '.';
            return put_digits(to, whole % unit, places[i]);
        }
    }
    return NULL;
}

/* Writes other numbers: the shortest of 15 to 17 digits that reads back, as d.ddde±xx. Skips the
 * decimal point in the C library's text, which is that of the locale. */
static char *put_long_real(char *to, double magnitude)
{
    char text[64];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*e", digits - 1, magnitude);
        if (digits == 17 || bits_of(strtod(text, NULL)) == bits_of(magnitude))
            break;
    }
    const char *in = text;
    *to++ = *in++;
    *to++ = '.';
    while (*in != '\0' && (*in < '0' || *in > '9'))
        in++;
    while (*in >= '0' && *in <= '9')
        *to++ = *in++;
    while (to[-1] == '0' && to[-2] != '.')
        to--;
    while (*in != '\0')
        *to++ = *in++;
    return to;
}

void json_real(struct buf *b, double value)
{
    uint64_t bits = bits_of(value);
    uint64_t exponent = (bits >> 52) & 0x7ff;
    bool negative = (bits >> 63) != 0;
    if (exponent == 0x7ff) {
        bool nan = (bits << 12) != 0;
        buf_puts(b, nan ? "\"NaN\"" : negative ? "\"-Infinity\"" : "\"Infinity\"");
        return;
    }
    char *to = buf_room(b, 64);
    if (!to)
        return;
    char *p = to;
    if (negative) {
        *p++ = '-';
        value = -value;
    }
    /* This thread's arithmetic may flush subnormal numbers to 0; the C library's text functions do
     * not. */
    char *end = exponent != 0 || bits << 1 == 0 ? put_short_real(p, value) : NULL;
    if (!end)
        end = put_long_real(p, value);
    b->len += (size_t)(end - to);
}

void json_rounded(struct buf *b, double value, int digits)
{
    char text[64];
    bool point = false;
    if (((bits_of(value) >> 52) & 0x7ff) == 0x7ff) {
        json_real(b, value);
        return;
    }
    snprintf(text, sizeof(text), "%.*g", digits, value);
    for (const char *c = text; *c != '\0'; c++) {
        bool plain = (*c >= '0' && *c <= '9') || *c == '-' || *c == '+' || *c == 'e';
        if (plain) {
            buf_put(b, c, 1);
        } else if (!point) { /* the locale's decimal point, one or more bytes */
            buf_put(b, ".", 1);
            point = true;
        }
    }
}
