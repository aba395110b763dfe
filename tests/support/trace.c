/* SPDX-License-Identifier: Apache-2.0 */
/* Reads trace files. Any thread. */
#include "tests/support/trace.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/json_valid.h"

static struct trace read_all(const char *path)
{
    struct trace t = {0};
    FILE *file = fopen(path, "rbe");
    ck_assert_msg(file != NULL, "cannot open %s", path);
    fseek(file, 0, SEEK_END);
    t.len = (size_t)ftell(file);
    rewind(file);
    t.text = malloc(t.len + 1);
    ck_assert_ptr_nonnull(t.text);
    ck_assert_uint_eq(fread(t.text, 1, t.len, file), t.len);
    fclose(file);
    t.text[t.len] = '\0';
    return t;
}

struct trace trace_read(const char *path)
{
    struct trace t = read_all(path);
    ck_assert_msg(json_valid(t.text, t.len), "%s is not JSON", path);
    return t;
}

struct trace trace_read_open(const char *path)
{
    for (int ms = 0; ms < 10000; ms += 10) {
        struct trace t = read_all(path);
        if (json_valid(t.text, t.len))
            return t;
        trace_free(&t);
        usleep(10000);
    }
    return trace_read(path);
}

void trace_free(struct trace *t)
{
    free(t->text);
    *t = (struct trace){0};
}

/* The next line from *at on with an event of phase ph that contains part; NULL at the end. */
static const char *next_event(const char **at, char ph, const char *part, size_t *length)
{
    char head[] = "{\"ph\": \"?\"";
    head[8] = ph;
    while (**at != '\0') {
        const char *line = *at;
        *length = strcspn(line, "\n");
        *at += *length + (line[*length] == '\n');
        if (strncmp(line, head, sizeof head - 1) == 0 &&
            (!part || memmem(line, *length, part, strlen(part)) != NULL))
            return line;
    }
    return NULL;
}

unsigned trace_count(const struct trace *t, char ph, const char *part)
{
    unsigned n = 0;
    size_t length;
    for (const char *at = t->text; next_event(&at, ph, part, &length) != NULL;)
        n++;
    return n;
}

const char *trace_event(const struct trace *t, char ph, const char *part)
{
    static char line[8192];
    size_t length;
    const char *at = t->text;
    const char *found = next_event(&at, ph, part, &length);
    if (!found)
        return NULL;
    snprintf(line, sizeof line, "%.*s", (int)length, found);
    return line;
}

double trace_number(const char *text, const char *key)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\"%s\": ", key);
    const char *at = text ? strstr(text, wanted) : NULL;
    return at ? strtod(at + strlen(wanted), NULL) : -1;
}

void trace_check_lost(const struct trace *t, const char *cause, unsigned n)
{
    const char *account = strstr(t->text, "\"lost\": {");
    ck_assert_ptr_nonnull(account);
    ck_assert_int_eq((int)trace_number(account, cause), (int)n);
    ck_assert_int_eq((int)trace_number(account, "total"), (int)n);
}

unsigned trace_named(const struct trace *t, char ph, const char *name)
{
    char part[128];
    snprintf(part, sizeof part, "\"name\": \"%s\"", name);
    return trace_count(t, ph, part);
}
