/* SPDX-License-Identifier: Apache-2.0 */
/* A client registers a schema, which tells the fields of a payload with their offsets. Only schemas
 * with XLA's fields count (xla/backends/gpu/runtime/annotation.cc):
 *
 *   Source locations   text of a line for each frame, `-- FILE:LINE:COLUMN[FUNCTION] OPERATION`,
 *                      with as many dashes as the frame is deep; several stacks in turn
 *   Source file, Source line
 *
 * The source line is the innermost frame of the first stack. Schemas are kept for ever. */
#include "preload/markers/nvtx_payload.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "preload/markers/nvtx_names.h"
#include "writer/writer.h"

#define SCHEMAS_MOST  32u
#define ENTRIES_MOST  256u
#define PAYLOADS_MOST 16u
#define DYNAMIC_IDS   (1ull << 32) /* the first id that a tool may give */
#define KEY           "source"
#define TEXT_MOST     (NVTX_SOURCE_MOST - ARG_HEAD - (uint32_t)sizeof KEY - 2)

#define NO_FIELD UINT64_MAX

/* Offsets of the fields, or NO_FIELD. */
struct schema {
    const void *domain;  /* whose payloads it describes: ids are unique within a domain */
    _Atomic uint64_t id; /* set last */
    uint64_t locations, file, line;
};

static struct schema schemas[SCHEMAS_MOST];
static _Atomic uint32_t n_schemas; /* may exceed SCHEMAS_MOST */

/* ---- schemas --------------------------------------------------------------------------------- */

static bool is_field(const struct nvtx_schema_entry *e, uint64_t type, const char *name)
{
    return e->flags == 0 && e->type == type && strcmp(e->name, name) == 0;
}

/* True if the schema has a field of use. */
static bool read_schema(const struct nvtx_schema *s, struct schema *out)
{
    out->locations = out->file = out->line = NO_FIELD;
    for (size_t i = 0; s->entries && i < s->n_entries && i < ENTRIES_MOST; i++) {
        const struct nvtx_schema_entry *e = &s->entries[i];
        if (!e->name || (i > 0 && e->offset == 0)) /* the offset follows from the alignment */
            continue;
        if (is_field(e, NVTX_ENTRY_REGISTERED, "Source locations"))
            out->locations = e->offset;
        else if (is_field(e, NVTX_ENTRY_REGISTERED, "Source file"))
            out->file = e->offset;
        else if (is_field(e, NVTX_ENTRY_INT32, "Source line"))
            out->line = e->offset;
    }
    return out->locations != NO_FIELD || (out->file != NO_FIELD && out->line != NO_FIELD);
}

/* Returns the id of the schema; without one, clients send no payloads. */
static uint64_t register_schema(const void *domain, const struct nvtx_schema *s)
{
    const uint64_t needed = NVTX_SCHEMA_TYPE | NVTX_SCHEMA_ENTRIES | NVTX_SCHEMA_N_ENTRIES;
    struct schema made;
    if (!s)
        return 0;
    uint64_t own = s->fields & NVTX_SCHEMA_ID ? s->id : DYNAMIC_IDS + SCHEMAS_MOST;
    if ((s->fields & needed) != needed || s->type != NVTX_SCHEMA_STATIC || !read_schema(s, &made))
        return own;
    uint32_t at = atomic_fetch_add(&n_schemas, 1);
    if (at >= SCHEMAS_MOST) {
        atomic_store(&n_schemas, SCHEMAS_MOST);
        return own;
    }
    uint64_t id = s->fields & NVTX_SCHEMA_ID ? s->id : DYNAMIC_IDS + at;
    schemas[at].domain = domain;
    schemas[at].locations = made.locations;
    schemas[at].file = made.file;
    schemas[at].line = made.line;
    atomic_store_explicit(&schemas[at].id, id, memory_order_release);
    return id;
}

/* The schema of this id that was registered last. */
static const struct schema *find_schema(const void *domain, uint64_t id)
{
    uint32_t n = atomic_load_explicit(&n_schemas, memory_order_relaxed);
    for (uint32_t i = n < SCHEMAS_MOST ? n : SCHEMAS_MOST; id && i-- > 0;)
        if (atomic_load_explicit(&schemas[i].id, memory_order_acquire) == id &&
            schemas[i].domain == domain)
            return &schemas[i];
    return NULL;
}

void nvtx_extend(const struct nvtx_extension *extension)
{
    if (!extension || extension->size < sizeof *extension ||
        extension->module != NVTX_MODULE_PAYLOAD || extension->n_segments == 0 ||
        !extension->segments)
        return;
    const struct nvtx_segment *segment = &extension->segments[0];
    if (segment->n_slots > NVTX_SLOT_REGISTER_SCHEMA && segment->slots)
        segment->slots[NVTX_SLOT_REGISTER_SCHEMA] = (intptr_t)register_schema;
}

/* ---- source lines ---------------------------------------------------------------------------- */

static struct text text_at(const struct nvtx_payload *p, uint64_t offset)
{
    const struct nvtx_string *text = NULL;
    if (p->size >= sizeof text && offset <= p->size - sizeof text)
        memcpy(&text, (const char *)p->data + offset, sizeof text);
    return text ? (struct text){text->text, text->len} : (struct text){NULL, 0};
}

static int32_t number_at(const struct nvtx_payload *p, uint64_t offset)
{
    int32_t number = 0;
    if (p->size >= sizeof number && offset <= p->size - sizeof number)
        memcpy(&number, (const char *)p->data + offset, sizeof number);
    return number;
}

/* The innermost frame of the first stack, without its dashes. */
static struct text innermost(struct text lines)
{
    struct text found = {NULL, 0};
    const char *at = lines.at, *end = lines.at + lines.len;
    uint32_t depth = 0;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        uint32_t dashes = 0;
        while (at + dashes < stop && at[dashes] == '-')
            dashes++;
        if (at < stop && found.at && dashes <= depth)
            break;
        const char *begin = at + dashes + (at + dashes < stop && at[dashes] == ' ');
        if (at < stop)
            found = (struct text){begin, (uint32_t)(stop - begin)};
        depth = dashes;
        at = stop + 1;
    }
    return found;
}

static bool is_digit_at(const char *at, const char *end)
{
    return at < end && *at >= '0' && *at <= '9';
}

/* Text that is being made; cut at its end. */
struct line_text {
    char at[TEXT_MOST];
    uint32_t len;
};

/* Appends [at, end) with XLA's &lt; and &gt; undone. */
static void add_span(struct line_text *to, const char *at, const char *end)
{
    while (at < end && to->len < sizeof to->at) {
        size_t left = (size_t)(end - at);
        bool low = left >= 4 && memcmp(at, "&lt;", 4) == 0;
        bool high = left >= 4 && memcmp(at, "&gt;", 4) == 0;
        to->at[to->len++] = low ? '<' : high ? '>' : *at;
        at += low || high ? 4 : 1;
    }
}

static void add_char(struct line_text *to, char c)
{
    if (to->len < sizeof to->at)
        to->at[to->len++] = c;
}

static const char *skip_digits(const char *at, const char *end)
{
    while (is_digit_at(at, end))
        at++;
    return at;
}

/* Writes FILE(LINE): FUNCTION from FILE:LINE[:COLUMN][[FUNCTION]][ OPERATION]; nothing if it is no
 * such line. */
static void add_frame(struct line_text *to, struct text frame)
{
    const char *colon = frame.at, *end = frame.at + frame.len, *after = end;
    for (; colon < end; colon++) {
        after = skip_digits(colon + 1, end);
        if (*colon == ':' && after > colon + 1 && (after == end || strchr(":[ ", *after)))
            break;
    }
    if (colon >= end)
        return;
    add_span(to, frame.at, colon);
    add_char(to, '(');
    add_span(to, colon + 1, after);
    add_char(to, ')');
    if (after < end && *after == ':')
        after = skip_digits(after + 1, end);
    if (after == end || *after != '[')
        return;
    const char *bracket = memchr(after, ']', (size_t)(end - after));
    add_char(to, ':');
    add_char(to, ' ');
    add_span(to, after + 1, bracket ? bracket : end);
}

static void add_source(struct line_text *to, const void *domain, const struct nvtx_payload *p)
{
    const struct schema *s = find_schema(domain, p->schema);
    if (!s || !p->data)
        return;
    if (s->locations != NO_FIELD)
        add_frame(to, innermost(text_at(p, s->locations)));
    if (to->len || s->file == NO_FIELD || s->line == NO_FIELD)
        return;
    struct text file = text_at(p, s->file);
    char line[16];
    int digits = snprintf(line, sizeof line, "(%d)", (int)number_at(p, s->line));
    if (file.len) {
        add_span(to, file.at, file.at + file.len);
        add_span(to, line, line + digits);
    }
}

uint32_t nvtx_source_item(const void *domain, const struct nvtx_attributes *a, uint8_t *room)
{
    const struct nvtx_payload *payloads = (const struct nvtx_payload *)(uintptr_t)a->payload.u64;
    struct line_text text = {.len = 0};
    if (!payloads || a->reserved < 0 || (uint32_t)a->reserved > PAYLOADS_MOST)
        return 0;
    for (int32_t i = 0; i < a->reserved && !text.len; i++)
        add_source(&text, domain, &payloads[i]);
    return text.len ? put_arg_bytes(room, ARG_TEXT, KEY, sizeof KEY - 1, text.at, text.len) : 0;
}
