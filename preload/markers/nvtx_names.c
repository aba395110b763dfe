/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of NVTX domains, categories and registered strings. */
#include "preload/markers/nvtx_names.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "writer/writer.h"

#define BUCKETS      (1u << 16) /* of strings. Programs put numbers into strings */
#define CATEGORIES   4096u      /* places for named categories; a power of two */
#define STRINGS_MOST (1u << 18)
#define BYTES_MOST   (64u << 20) /* of all strings */

/* Maps a domain's category to its name. A place is taken for ever; its name may change. */
struct named_category {
    /* 1 + domain << 32 | category; 0: free. Set by compare and swap */
    _Atomic uint64_t key;
    /* NULL until the first name; any thread sets (release) */
    struct nvtx_string *_Atomic name;
};

static struct nvtx_string *_Atomic strings[BUCKETS];
static _Atomic uint64_t strings_made, string_bytes;             /* any thread adds */
static const struct nvtx_domain *_Atomic domains[NVTX_DOMAINS]; /* [0] stays NULL */
static struct named_category categories[CATEGORIES];

static void *too_many(const char *what)
{
    if (once_here())
        log_warn("too many different NVTX %s: ranges and marks are recorded without new ones",
                 what);
    return NULL;
}

static struct nvtx_string *search(struct nvtx_string *s, const struct nvtx_string *end,
                                  const char *text, size_t len)
{
    for (; s != end; s = s->next)
        if (s->len == len && memcmp(s->text, text, len) == 0)
            return s;
    return NULL;
}

static struct nvtx_string *make_string(const char *text, size_t len)
{
    if (atomic_fetch_add(&strings_made, 1) >= STRINGS_MOST ||
        atomic_fetch_add(&string_bytes, len) + len > BYTES_MOST)
        return too_many("strings");
    struct nvtx_string *s = malloc(sizeof *s + len + 1);
    if (!s)
        return NULL;
    s->len = (uint32_t)len;
    memcpy(s->text, text, len);
    s->text[len] = '\0';
    return s;
}

struct nvtx_string *nvtx_string(const char *text, size_t len)
{
    int saved = errno;
    if (len > NVTX_STRING_MOST)
        len = NVTX_STRING_MOST;
    struct nvtx_string *_Atomic *bucket = &strings[hash_text(text, len) % BUCKETS];
    struct nvtx_string *seen = atomic_load_explicit(bucket, memory_order_acquire);
    struct nvtx_string *s = search(seen, NULL, text, len);
    if (!s && (s = make_string(text, len))) {
        s->next = seen;
        while (!atomic_compare_exchange_weak(bucket, &s->next, s)) {
            struct nvtx_string *first = search(s->next, seen, text, len);
            seen = s->next;
            if (first) {
                free(s);
                s = first;
                break;
            }
        }
    }
    errno = saved;
    return s;
}

/* Writes a text item of at most NVTX_ITEM_MOST bytes; cuts the text. Returns its length. */
static uint32_t put_name_text(uint8_t *to, const char *key, const char *text, uint32_t len)
{
    size_t key_len = strlen(key);
    uint32_t most = NVTX_ITEM_MOST - ARG_HEAD - (uint32_t)(key_len + sizeof len);
    return put_arg_bytes(to, ARG_TEXT, key, key_len, text, len < most ? len : most);
}

static struct nvtx_domain *make_domain(uint32_t number, const struct nvtx_string *name)
{
    struct nvtx_domain *d = malloc(sizeof *d + NVTX_ITEM_MOST);
    if (!d)
        return NULL;
    d->number = number;
    d->name = name->text;
    d->len = name->len;
    d->item_len = put_name_text(d->item, "domain", name->text, name->len);
    return d;
}

const struct nvtx_domain *nvtx_domain(const char *name, size_t len)
{
    const struct nvtx_string *kept = nvtx_string(name, len); /* one address per name */
    if (!kept)
        return NULL;
    int saved = errno;
    struct nvtx_domain *mine = NULL;
    const struct nvtx_domain *found = NULL;
    for (uint32_t i = 1; i < NVTX_DOMAINS && !found; i++) {
        const struct nvtx_domain *seen = atomic_load_explicit(&domains[i], memory_order_acquire);
        if (!seen) {
            if (!mine && !(mine = make_domain(i, kept)))
                break;
            mine->number = i;
            if (atomic_compare_exchange_strong(&domains[i], &seen, mine)) {
                errno = saved;
                return mine;
            }
        }
        found = seen->name == kept->text ? seen : NULL;
    }
    if (!found)
        too_many("domains");
    free(mine);
    errno = saved;
    return found;
}

/* The place of a category. NULL: it has none, or none is left. */
static struct named_category *category_of(uint32_t domain, uint32_t number, bool make)
{
    uint64_t key = ((uint64_t)domain + 1) << 32 | number;
    uint32_t at = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 40);
    for (uint32_t tried = 0; tried < CATEGORIES; tried++, at++) {
        struct named_category *c = &categories[at & (CATEGORIES - 1)];
        uint64_t seen = atomic_load_explicit(&c->key, memory_order_relaxed);
        if (seen == 0 && (!make || atomic_compare_exchange_strong(&c->key, &seen, key)))
            return make ? c : NULL;
        if (seen == key)
            return c;
    }
    return NULL;
}

void nvtx_name_category(uint32_t domain, uint32_t category, const char *name, size_t len)
{
    struct nvtx_string *kept = nvtx_string(name, len);
    struct named_category *c = kept ? category_of(domain, category, true) : NULL;
    if (c)
        atomic_store_explicit(&c->name, kept, memory_order_release);
    else
        too_many("categories");
}

uint32_t nvtx_category_item(uint32_t domain, uint32_t category, uint8_t *room)
{
    const struct named_category *c = category_of(domain, category, false);
    const struct nvtx_string *name =
        c ? atomic_load_explicit(&c->name, memory_order_acquire) : NULL;
    if (name)
        return put_name_text(room, "category", name->text, name->len);
    int64_t value = category;
    return put_arg_number(room, ARG_INT, "category", sizeof "category" - 1, &value);
}

size_t nvtx_utf8(const wchar_t *text, char *out, size_t size)
{
    return text ? utf8_text(text, sizeof *text, wcsnlen(text, size), out, size) : 0;
}
