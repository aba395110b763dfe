/* SPDX-License-Identifier: Apache-2.0 */
/* Parses one JSON text strictly, by json-c. */
#ifndef CPROF_NO_JSON_C

#include "writer/import/json_parse.h"

#include <json-c/json.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "writer/import/parse_memory.h"

#define DEEPEST 72 /* more than SPLIT_DEPTH */

/* A text on its way through json-c, which may be left anywhere. */
struct parse {
    struct json_parser *p;
    const char *text, *checked, *why; /* checked: what the strict rules are held against */
    size_t len, at;
};

static bool make_tokener(struct json_parser *p)
{
    p->tokener = json_tokener_new_ex(DEEPEST);
    return p->tokener;
}

static void drop_value(struct json_parser *p)
{
    json_object_put(p->value);
    p->value = NULL;
}

static const char *words(enum json_tokener_error error)
{
    const char *text = json_tokener_error_desc(error);
    return strcmp(text, "out of memory") == 0 ? "no memory" : text; /* 0.18 has a name for it */
}

static void parse_by(struct parse *j, const char *text, int flags)
{
    struct json_tokener *t = j->p->tokener;
    drop_value(j->p);
    json_tokener_reset(t);
    json_tokener_set_flags(t, flags);
    j->p->value = json_tokener_parse_ex(t, text, (int)j->len);
    enum json_tokener_error error = json_tokener_get_error(t);
    size_t used = json_tokener_get_parse_end(t);
    if (error == json_tokener_continue && used == j->len) /* the NUL stands for a number's end */
        j->p->value = json_tokener_parse_ex(t, "", 1);
    error = json_tokener_get_error(t);
    j->at = used < j->len ? used : j->len;
    if (error != json_tokener_success)
        j->why = words(error);
    else if (used < j->len)
        j->why = used ? "something follows the value" : "no memory"; /* for a locale, that is */
    else
        j->why = NULL;
}

static void parse(void *arg)
{
    struct parse *j = arg;
    if (!j->p->tokener && !make_tokener(j->p))
        return;
    parse_by(j, j->checked, JSON_TOKENER_STRICT);
    if (!j->why && j->checked != j->text)
        parse_by(j, j->text, 0);
}

static bool is_ascii(const char *text, size_t len)
{
    unsigned char all = 0;
    for (size_t i = 0; i < len; i++)
        all |= (unsigned char)text[i];
    return all < 0x80;
}

/* Every other byte is a question mark, as good as any inside a string and refused outside. NULL: no
 * memory. */
static char *ascii_copy(const char *text, size_t len)
{
    char *copy = malloc(len + 1);
    for (size_t i = 0; copy && i < len; i++)
        copy[i] = (unsigned char)text[i] < 0x80 ? text[i] : '?';
    return copy;
}

bool json_parse(struct json_parser *p, const char *text, size_t len, const char **why, uint64_t *at)
{
    struct parse j = {.p = p, .text = text, .checked = text, .len = len, .why = "no memory"};
    char *copy = NULL;
    drop_value(p);
    if (p->ascii_only && !is_ascii(text, len))
        j.checked = copy = ascii_copy(text, len);
    locale_t locale = uselocale((locale_t)0);
    if (j.checked && !parse_guarded(parse, &j)) { /* what it holds was left in the middle */
        uselocale(locale);                        /* json-c takes its own meanwhile */
        p->tokener = NULL;
        p->value = NULL;
        j.why = "no memory";
    }
    free(copy);
    *why = j.why;
    *at = j.at;
    return !j.why;
}

bool json_parser_start(struct json_parser *p)
{
    static const char accent[] = "\"\xc3\xa9\"";
    const char *why;
    uint64_t at;
    if (!make_tokener(p))
        return false;
    /* json-c 0.18 takes bytes from 0x80 on for control characters where char is signed. */
    p->ascii_only = !json_parse(p, accent, sizeof accent - 1, &why, &at);
    return true;
}

void json_parser_end(struct json_parser *p)
{
    drop_value(p);
    if (p->tokener)
        json_tokener_free(p->tokener);
    p->tokener = NULL;
}

#else
typedef int json_parse_is_not_built; /* a file must declare something */
#endif
