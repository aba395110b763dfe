/* SPDX-License-Identifier: Apache-2.0 */
/* One JSON text as an object of json-c, by the strict rules and no others, whatever json-c's
 * version makes of them. In a library that is built with json-c only. cprof thread. */
#ifndef WRITER_IMPORT_JSON_PARSE_H
#define WRITER_IMPORT_JSON_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_object;
struct json_tokener;

struct json_parser {
    struct json_tokener *tokener; /* NULL: made by the next parse */
    struct json_object *value;    /* of the last text, owned; NULL is JSON's null, too */
    bool ascii_only;              /* being strict it refuses what is not */
};

/* Of a zeroed one. False: no memory. */
bool json_parser_start(struct json_parser *p);

/* Parses a text, which must be one JSON value; it stays until the next call. False: *why (static)
 * and *at, its byte. */
bool json_parse(struct json_parser *p, const char *text, size_t len, const char **why,
                uint64_t *at);

/* Frees what it holds. */
void json_parser_end(struct json_parser *p);

#endif
