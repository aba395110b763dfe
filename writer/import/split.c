/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts a trace's text into events. */
#include "writer/import/split.h"

#include <string.h>

enum state {
    TEXT_BEGINS,
    KEY_OR_END,   /* after { */
    KEY,          /* after a comma */
    IN_KEY,       /* inside the key */
    COLON,        /* after the key */
    MEMBER,       /* after the colon */
    AFTER_MEMBER, /* after its value */
    EVENT_OR_END, /* after [ */
    EVENT,        /* after a comma */
    AFTER_EVENT,
    IN_VALUE, /* of a member or an event */
    TEXT_ENDS,
    BROKEN,
};

static enum split_got refuse_event(struct split *s, uint64_t at, const char *what)
{
    s->state = BROKEN;
    s->fault = what;
    s->fault_at = at;
    return SPLIT_FAULT;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* ---- values ---- */

static void keep_text(struct split *s, const char *from, const char *to)
{
    size_t n = (size_t)(to - from);
    if (s->value.len + n > SPLIT_VALUE_MOST)
        s->is_long = true;
    if (s->is_long)
        s->value.len = 0;
    else
        buf_put(&s->value, from, n);
}

/* Skips the inside of a string. True: and its closing quote. */
static bool pass_string(struct split *s, const char **at, const char *end)
{
    const char *p = *at;
    while (p < end && s->in_string) {
        if (s->escaped)
            s->escaped = false;
        else if (*p == '\\')
            s->escaped = true;
        else if (*p == '"')
            s->in_string = false;
        p++;
    }
    *at = p;
    return !s->in_string;
}

/* Skips plain bytes and brackets, up to a string or the value's end (*done). */
static const char *pass_plain(struct split *s, const char *p, const char *end, bool *done)
{
    for (; p < end; p++) {
        char c = *p;
        bool closes = c == '}' || c == ']';
        if (s->depth == 0 && (closes || c == ',' || is_blank(c))) {
            *done = true; /* the end of a word or number */
            return p;
        }
        if (c == '"')
            return p;
        if (c == ',' && ++s->values > SPLIT_VALUES_MOST)
            s->is_long = true;
        if (c == '{' || c == '[') {
            s->depth++;
            if (++s->containers > SPLIT_CONTAINERS_MOST)
                s->is_long = true;
            if (s->depth > SPLIT_DEPTH)
                return p;
        } else if (closes && --s->depth == 0) {
            *done = true;
            return p + 1;
        }
    }
    return p;
}

/* Consumes bytes of the value. */
static enum split_got take_value(struct split *s, const char **at, const char *end)
{
    const char *from = *at;
    bool done = false;
    while (*at < end && !done) {
        const char *p = *at;
        if (s->in_string) {
            done = pass_string(s, &p, end) && s->depth == 0;
        } else {
            p = pass_plain(s, p, end, &done);
            if (s->depth > SPLIT_DEPTH)
                return refuse_event(s, s->at + (uint64_t)(p - from), "nested too deeply");
        }
        keep_text(s, *at, p);
        *at = p;
        if (!done && p < end && !s->in_string && *p == '"') {
            s->in_string = true;
            keep_text(s, p, p + 1);
            *at = p + 1;
        }
    }
    s->at += (uint64_t)(*at - from);
    if (!done)
        return SPLIT_MORE;
    s->state = s->is_event ? AFTER_EVENT : AFTER_MEMBER;
    if (s->value.failed)
        s->is_long = true; /* no memory for it */
    if (s->is_long)
        return s->is_event ? SPLIT_LONG_EVENT : SPLIT_LONG_MEMBER;
    return s->is_event ? SPLIT_EVENT : SPLIT_MEMBER;
}

static void begin_value(struct split *s, bool is_event)
{
    s->state = IN_VALUE;
    s->is_event = is_event;
    s->is_long = s->in_string = s->escaped = false;
    s->depth = s->containers = s->values = 0;
    s->value_at = s->at;
    buf_reset(&s->value);
}

/* ---- between values ---- */

static void take_key(struct split *s, char c)
{
    if (s->escaped) {
        s->escaped = false;
    } else if (c == '\\') {
        s->escaped = true;
    } else if (c == '"') {
        s->key[s->key_len] = '\0';
        s->state = COLON;
        return;
    }
    if (s->key_len < sizeof s->key - 1)
        s->key[s->key_len++] = c;
}

/* Consumes the byte, or leaves it to the value that it begins. False: it is invalid here. */
static bool take_byte(struct split *s, char c, const char **wanted)
{
    switch (s->state) {
    case TEXT_BEGINS:
        *wanted = "it is not a trace: it begins with neither { nor [";
        s->array = s->events = c == '[';
        s->state = c == '[' ? EVENT_OR_END : KEY_OR_END;
        return c == '[' || c == '{';
    case KEY_OR_END:
    case KEY:
        *wanted = "a key in double quotes is missing";
        s->key_len = 0;
        s->escaped = false;
        if (c == '}' && s->state == KEY_OR_END) {
            s->state = TEXT_ENDS;
            return true;
        }
        s->state = IN_KEY;
        return c == '"';
    case COLON:
        *wanted = "a colon is missing";
        s->state = MEMBER;
        return c == ':';
    case MEMBER:
        *wanted = "a value is missing";
        if (strcmp(s->key, "traceEvents") == 0) {
            *wanted = "traceEvents is not an array";
            s->events = true;
            s->state = EVENT_OR_END;
            return c == '[';
        }
        begin_value(s, false);
        return c != ',' && c != '}' && c != ']' && c != ':';
    case AFTER_MEMBER:
        *wanted = "a comma or the closing bracket is missing";
        s->state = c == ',' ? KEY : TEXT_ENDS;
        return c == ',' || c == '}';
    case EVENT_OR_END:
    case EVENT:
        *wanted = "an event is not an object";
        if (c == ']' && (s->state == EVENT_OR_END || s->array)) {
            s->state = s->array ? TEXT_ENDS : AFTER_MEMBER;
            return true;
        }
        begin_value(s, true);
        return c == '{';
    case AFTER_EVENT:
        *wanted = "a comma or the closing bracket is missing";
        s->state = c == ',' ? EVENT : s->array ? TEXT_ENDS : AFTER_MEMBER;
        return c == ',' || c == ']';
    default:
        *wanted = "data after the end";
        return false;
    }
}

enum split_got split_next(struct split *s, const char **at, const char *end)
{
    while (*at < end && s->state != BROKEN) {
        if (s->at > SPLIT_TEXT_MOST)
            return refuse_event(s, s->at, SPLIT_TOO_LONG);
        if (s->state == IN_VALUE) {
            enum split_got got = take_value(s, at, end);
            if (got != SPLIT_MORE)
                return got;
            continue;
        }
        if (s->state == IN_KEY) {
            take_key(s, **at);
        } else if (!is_blank(**at)) {
            const char *wanted;
            if (!take_byte(s, **at, &wanted))
                return refuse_event(s, s->at, wanted);
            if (s->state == IN_VALUE)
                continue; /* the byte belongs to the value */
        }
        s->at++;
        ++*at;
    }
    return s->state == BROKEN ? SPLIT_FAULT : SPLIT_MORE;
}

bool split_end(struct split *s, bool *cut)
{
    *cut = false;
    if (s->state == BROKEN)
        return false;
    if (s->state == TEXT_BEGINS)
        refuse_event(s, s->at, "it is empty");
    else if (s->state == TEXT_ENDS && !s->events)
        refuse_event(s, s->at, "it is not a trace: it has no traceEvents");
    else if (s->state != TEXT_ENDS && !s->array)
        refuse_event(s, s->at, "it ends too early");
    else
        *cut = s->state == IN_VALUE;
    return s->state != BROKEN;
}

void split_reset(struct split *s)
{
    struct buf value = s->value;
    buf_reset(&value);
    *s = (struct split){.value = value};
}

void split_free(struct split *s)
{
    buf_free(&s->value);
    *s = (struct split){0};
}
