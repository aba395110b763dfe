/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of JSON, token by token. */
#include "writer/json/json_scan.h"

#include <string.h>

static bool refuse_token(struct json_scan *s, size_t at, const char *what)
{
    s->fault->at = at;
    s->fault->what = what;
    return false;
}

/* The byte `more` ahead; -1 past the end. */
static int look_ahead(const struct json_scan *s, size_t more)
{
    return s->len - s->at > more ? (uint8_t)s->text[s->at + more] : -1;
}

static int skip_blanks(struct json_scan *s)
{
    int c = look_ahead(s, 0);
    while (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        s->at++;
        c = look_ahead(s, 0);
    }
    return c;
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

/* ---- strings ---- */

static int hex_digit(int c)
{
    return is_digit(c)            ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool scan_escape(struct json_scan *s)
{
    int kind = look_ahead(s, 1);
    if (kind <= 0 || !strchr("\"\\/bfnrtu", kind))
        return refuse_token(s, s->at, "an invalid escape");
    for (size_t i = 2; kind == 'u' && i < 6; i++)
        if (hex_digit(look_ahead(s, i)) < 0)
            return refuse_token(s, s->at, "\\u needs four hexadecimal digits");
    s->at += kind == 'u' ? 6 : 2;
    return true;
}

static bool scan_string(struct json_scan *s)
{
    size_t start = s->at++;
    s->from = s->at;
    s->escapes = false;
    for (int c; (c = look_ahead(s, 0)) != '"';) {
        if (c < 0)
            return refuse_token(s, start, "a string without an end");
        if (c != '\\') {
            s->at++;
            continue;
        }
        s->escapes = true;
        if (!scan_escape(s))
            return false;
    }
    s->to = s->at++;
    return true;
}

static uint32_t hex4(const char *digits)
{
    uint32_t c = 0;
    for (unsigned i = 0; i < 4; i++)
        c = c << 4 | (uint32_t)hex_digit(digits[i]);
    return c;
}

uint32_t json_escaped(const char **text, const char *end)
{
    static const char letters[] = "bfnrt", meant[] = "\b\f\n\r\t";
    const char *p = *text + 2;
    char kind = p[-1];
    *text = p;
    if (kind != 'u') {
        const char *letter = strchr(letters, kind);
        return (uint8_t)(letter ? meant[letter - letters] : kind);
    }
    uint32_t c = hex4(p), low;
    *text = p += 4;
    if (c >> 10 != 0xd800 >> 10 || end - p < 6 || p[0] != '\\' || p[1] != 'u' ||
        (low = hex4(p + 2)) >> 10 != 0xdc00 >> 10)
        return c;
    *text = p + 6;
    return 0x10000 + ((c & 0x3ff) << 10) + (low & 0x3ff);
}

/* ---- numbers and words ---- */

static bool scan_digits(struct json_scan *s)
{
    if (!is_digit(look_ahead(s, 0)))
        return refuse_token(s, s->at, "a digit is missing");
    while (is_digit(look_ahead(s, 0)))
        s->at++;
    return true;
}

static enum json_token scan_number(struct json_scan *s)
{
    enum json_token token = JSON_INTEGER;
    s->at += look_ahead(s, 0) == '-';
    if (look_ahead(s, 0) == '0' && is_digit(look_ahead(s, 1))) {
        refuse_token(s, s->at, "a number that begins with 0");
        return JSON_FAULT;
    }
    if (!scan_digits(s))
        return JSON_FAULT;
    if (look_ahead(s, 0) == '.') {
        token = JSON_REAL;
        s->at++;
        if (!scan_digits(s))
            return JSON_FAULT;
    }
    if (look_ahead(s, 0) == 'e' || look_ahead(s, 0) == 'E') {
        token = JSON_REAL;
        s->at++;
        s->at += look_ahead(s, 0) == '+' || look_ahead(s, 0) == '-';
        if (!scan_digits(s))
            return JSON_FAULT;
    }
    return token;
}

static enum json_token scan_word(struct json_scan *s)
{
    static const char *const words[] = {"true", "false", "null", "NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i]);
        if (s->len - s->at >= n && memcmp(s->text + s->at, words[i], n) == 0) {
            s->at += n;
            return JSON_WORD;
        }
    }
    refuse_token(s, s->at, "not a value");
    return JSON_FAULT;
}

/* ---- values ---- */

static enum json_token open_container(struct json_scan *s, int bracket)
{
    if (s->depth == JSON_DEPTH) {
        refuse_token(s, s->at, "nested too deeply");
        return JSON_FAULT;
    }
    s->due[s->depth++] = bracket == '{' ? '}' : ']';
    s->after = s->keyed = false;
    s->at++;
    return bracket == '{' ? JSON_OBJECT : JSON_ARRAY;
}

static enum json_token scan_value(struct json_scan *s, int c)
{
    if (c < 0) {
        refuse_token(s, s->at, "a value is missing");
        return JSON_FAULT;
    }
    if (c == '{' || c == '[')
        return open_container(s, c);
    s->after = true;
    s->keyed = false;
    if (c == '"')
        return scan_string(s) ? JSON_STRING : JSON_FAULT;
    s->from = s->at;
    bool number = is_digit(c) || (c == '-' && look_ahead(s, 1) != 'I');
    enum json_token token = number ? scan_number(s) : scan_word(s);
    s->to = s->at;
    return token;
}

static enum json_token scan_key(struct json_scan *s, int c)
{
    if (c != '"') {
        refuse_token(s, s->at, "a key in double quotes is missing");
        return JSON_FAULT;
    }
    if (!scan_string(s))
        return JSON_FAULT;
    if (skip_blanks(s) != ':') {
        refuse_token(s, s->at, "a colon is missing");
        return JSON_FAULT;
    }
    s->at++;
    s->keyed = true;
    return JSON_KEY;
}

/* Steps over a comma. *c: the byte here, afterwards the one after the comma. False: neither comma
 * nor end follows the value. */
static bool pass_comma(struct json_scan *s, int *c)
{
    if (*c != ',')
        return refuse_token(s, s->at, *c < 0 ? "it ends too early" : "a comma is missing");
    s->at++;
    *c = skip_blanks(s);
    return true;
}

enum json_token json_scan_next(struct json_scan *s)
{
    int c = skip_blanks(s);
    if (s->depth == 0 && s->after) {
        if (c < 0)
            return JSON_ENDS;
        refuse_token(s, s->at, "text after the value");
        return JSON_FAULT;
    }
    if (s->depth == 0 || s->keyed)
        return scan_value(s, c);
    char due = s->due[s->depth - 1];
    if (c == due) {
        s->at++;
        s->depth--;
        s->after = true;
        return JSON_CLOSES;
    }
    if (s->after && !pass_comma(s, &c))
        return JSON_FAULT;
    return due == '}' ? scan_key(s, c) : scan_value(s, c);
}
