/* SPDX-License-Identifier: Apache-2.0 */
/* What NVTX programs name once and use often: domains, categories, registered strings. Kept for
 * ever, in tables without locks (a fork may come at any time); the same name gives the same object,
 * in every client library. Any application thread; making one may allocate. */
#ifndef PRELOAD_MARKERS_NVTX_NAMES_H
#define PRELOAD_MARKERS_NVTX_NAMES_H

#include <stddef.h>
#include <stdint.h>

#define NVTX_DOMAINS 1024u /* with the default one */
/* bytes of a domain's or category's name, its DATA_ARGS head included */
#define NVTX_ITEM_MOST   512u
#define NVTX_WIDE_MOST   4096u /* bytes of a wide string as UTF-8; what is longer is cut */
#define NVTX_STRING_MOST 65536u

/* A registered string, as UTF-8 or any bytes. Constant. */
struct nvtx_string {
    struct nvtx_string *next; /* in its bucket */
    uint32_t len;
    char text[];
};

/* A domain. Constant. */
struct nvtx_domain {
    uint32_t number; /* from 1; the default domain, NULL to programs, is 0 */
    uint32_t len;    /* of its name */
    uint32_t item_len;
    const char *name;
    uint8_t item[]; /* "domain": its name, as DATA_ARGS; the name may be cut there */
};

/* The string with these bytes, made now if there is none yet; NULL: no memory, or too many (said
 * once). */
struct nvtx_string *nvtx_string(const char *text, size_t len);

/* The domain of this name; NULL, which is the default domain: no memory, or too many (said
 * once). */
const struct nvtx_domain *nvtx_domain(const char *name, size_t len);

/* Names a category of a domain. */
void nvtx_name_category(uint32_t domain, uint32_t category, const char *name, size_t len);

/* The category's name, or its number, as a DATA_ARGS item "category"; returns its length. room:
 * NVTX_ITEM_MOST bytes. No lock, no allocation. */
uint32_t nvtx_category_item(uint32_t domain, uint32_t category, uint8_t *room);

/* A wide string as UTF-8 into out[0..size); what is no character becomes U+FFFD. NULL is an empty
 * string. Returns the length. */
size_t nvtx_utf8(const wchar_t *text, char *out, size_t size);

#endif
