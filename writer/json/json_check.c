/* SPDX-License-Identifier: Apache-2.0 */
/* Checks JSON from the program and makes it fit for a trace (writer_check_json() in writer.h). The
 * copy is never longer than the text: blanks are dropped, and an escape is at least as long as its
 * character. */
#include <string.h>

#include "writer/base/base.h"
#include "writer/json/json_scan.h"

/* ---- strings ---- */

/* Copies the escape or non-ASCII character at *from. NULL: *what tells why it is invalid. */
static char *copy_special(char *to, const char **from, const char *end, const char **what)
{
    if (*from[0] == '\\') {
        uint32_t c = json_escaped(from, end);
        *what = "half of a surrogate pair";
        if (c >= 0x80)
            return c >> 11 == 0xd800 >> 11 ? NULL : put_utf8(to, c);
        char byte = (char)c;
        return json_escape(to, &byte, 1);
    }
    size_t n = json_utf8_length(*from, (size_t)(end - *from));
    *what = (uint8_t)*from[0] < 0x20 ? "a control character in a string" : "not UTF-8";
    if (n == 0)
        return NULL;
    memcpy(to, *from, n);
    *from += n;
    return to + n;
}

/* Copies the inside of a string or key. NULL: s->fault is filled. */
static char *copy_string(char *to, const struct json_scan *s)
{
    const char *from = s->text + s->from, *end = s->text + s->to;
    while (from < end) {
        const char *start = from, *what;
        uint8_t c = (uint8_t)*from;
        if (c >= 0x20 && c < 0x80 && c != '\\') {
            *to++ = *from++;
        } else if (!(to = copy_special(to, &from, end, &what))) {
            *s->fault = (struct json_fault){(size_t)(start - s->text), what};
            return NULL;
        }
    }
    return to;
}

/* ---- numbers ---- */

/* True when a number exceeds a double, which readers take for infinite. Not by strtod(), which
 * depends on the locale. */
static bool too_large(const char *number, const char *end)
{
    static const char most[] = "17976931348623158"; /* DBL_MAX, its last digit rounded up */
    char digits[sizeof most] = "";
    size_t kept = 0;
    int64_t magnitude = 0, exponent = 0; /* the value is 0.DIGITS * 10^magnitude */
    bool point = false, negative = false;
    for (; number < end && *number != 'e' && *number != 'E'; number++) {
        point = point || *number == '.';
        if (*number < '0' || *number > '9')
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
        if (*number >= '0' && *number <= '9' && exponent < INT32_MAX)
            exponent = 10 * exponent + *number - '0';
    }
    magnitude += negative ? -exponent : exponent;
    return kept > 0 && (magnitude > 309 || (magnitude == 309 && strcmp(digits, most) >= 0));
}

/* ---- values ---- */

/* Copies a number or word. NULL: s->fault is filled. */
static char *copy_plain(char *to, const struct json_scan *s, enum json_token token)
{
    const char *from = s->text + s->from, *end = s->text + s->to;
    const char *what = token == JSON_WORD ? "NaN and Infinity are not JSON"
                                          : "a number beyond the range of a double";
    if (token == JSON_WORD ? !strchr("tfn", *from) : too_large(from, end)) {
        *s->fault = (struct json_fault){s->from, what};
        return NULL;
    }
    memcpy(to, from, s->to - s->from);
    return to + (s->to - s->from);
}

/* Appends a token, with a comma before it if needed. NULL: s->fault is filled. */
static char *copy_token(char *to, const struct json_scan *s, enum json_token token, bool comma)
{
    if (comma && token != JSON_CLOSES)
        *to++ = ',';
    switch (token) {
    case JSON_OBJECT:
    case JSON_ARRAY:
    case JSON_CLOSES:
        *to++ = s->text[s->at - 1];
        return to;
    case JSON_KEY:
    case JSON_STRING:
        *to++ = '"';
        to = copy_string(to, s);
        if (to)
            *to++ = '"';
        if (to && token == JSON_KEY)
            *to++ = ':';
        return to;
    default:
        return copy_plain(to, s, token);
    }
}

size_t writer_check_json(const char *text, size_t len, char *out, struct json_fault *fault)
{
    struct json_scan s = {.text = text, .len = len, .fault = fault};
    char *to = out;
    for (bool comma = false; to;) {
        enum json_token token = json_scan_next(&s);
        if (token == JSON_FAULT || token == JSON_ENDS)
            return token == JSON_ENDS ? (size_t)(to - out) : 0;
        to = copy_token(to, &s, token, comma);
        comma = token != JSON_OBJECT && token != JSON_ARRAY && token != JSON_KEY;
    }
    return 0;
}
