/* SPDX-License-Identifier: Apache-2.0 */
/* NVTX domains, categories and registered strings. They are never freed. The tables have no locks,
 * because a fork may come at any time. The same name gives the same object in every client library.
 * Any application thread; a new name may allocate. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define NVTX_DOMAINS 1024u /* with the default one */
/* bytes of a domain's or category's name, with its DATA_ARGS head */
#define NVTX_ITEM_MOST   512u
#define NVTX_WIDE_MOST   4096u /* bytes of a wide string as UTF-8; longer ones are cut */
#define NVTX_STRING_MOST 65536u

/* A registered string: UTF-8 or any bytes. Constant. */
struct nvtx_string {
    struct nvtx_string *next;
    uint32_t len;
    char text[];
};

/* A domain. Constant. */
struct nvtx_domain {
    uint32_t number; /* from 1; 0: the default domain, which programs know as NULL */
    uint32_t len;    /* of the name */
    uint32_t item_len;
    const char *name;
    uint8_t item[]; /* "domain": name, as DATA_ARGS; the name may be cut */
};

/* The string with these bytes, made if new. NULL: no memory, or too many (logged once). */
struct nvtx_string *nvtx_string(const char *text, size_t len);

/* The domain of this name. NULL, the default domain: no memory, or too many (logged once). */
const struct nvtx_domain *nvtx_domain(const char *name, size_t len);

/* Names a category of a domain. */
void nvtx_name_category(uint32_t domain, uint32_t category, const char *name, size_t len);

/* Writes the category's name, or its number, as a DATA_ARGS item "category" to
 * room[NVTX_ITEM_MOST]. Returns its length. No lock, no allocation. */
uint32_t nvtx_category_item(uint32_t domain, uint32_t category, uint8_t *room);

/* Converts a wide string to UTF-8 in out[0..size); invalid characters become U+FFFD. NULL counts as
 * empty. Returns the length. */
size_t nvtx_utf8(const wchar_t *text, char *out, size_t size);
