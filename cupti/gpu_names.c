/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps each name of a kernel or CUDA call once, in a hash table by content. A small cache by
 * address in front of it saves the hash, not the comparison: after a module was unloaded, another
 * name may lie at the same address. */
#include "cupti/gpu_names.h"

#include "cupti/translate.h"
#include "writer/writer.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_LEN   UINT16_MAX
#define MOST_BYTES     (64u << 20) /* of all names */
#define CHUNK          (64u << 10) /* names are allocated in pieces of this size */
#define FIRST_TABLE    1024u
#define BY_ADDRESS     1024u
#define CALLS          2048u /* ids that are cached; CUDA 13 has about 900 */
#define TEXT(literal)  ((struct gpu_text){(literal), sizeof(literal) - 1})
#define COUNT_OF(list) (sizeof(list) / sizeof((list)[0]))

/* A name as CUPTI gave it, and its demangled text. */
struct kept {
    struct gpu_text text;
    uint32_t hash;
    size_t len; /* of the name, which follows with its NUL; a text that differs comes behind it */
    char name[];
};

static struct {
    struct kept **slots; /* open addressing; a power of two, at most half full */
    size_t n_slots, used;
    char *chunk; /* unused rest of the newest piece */
    size_t chunk_left;
    size_t bytes; /* of all pieces */
    struct {
        const char *at;
        const struct kept *kept;
    } by_address[BY_ADDRESS];
    struct gpu_call calls[2][CALLS]; /* runtime, driver */
    uint64_t refused;                /* since the last gpu_names_refused() */
} names;

/* ---- keeping --------------------------------------------------------------------------------- */

/* Allocates memory that is never freed; NULL: none left. */
static void *keep_bytes(size_t size)
{
    size = (size + 7) & ~(size_t)7;
    if (size > names.chunk_left) {
        size_t piece = size > CHUNK / 4 ? size : CHUNK;
        if (names.bytes + piece > MOST_BYTES)
            return NULL;
        char *p = malloc(piece);
        if (!p)
            return NULL;
        names.bytes += piece;
        if (piece == size)
            return p;
        names.chunk = p;
        names.chunk_left = piece;
    }
    void *p = names.chunk;
    names.chunk += size;
    names.chunk_left -= size;
    return p;
}

/* Returns the slot of a name, or an empty one for it. */
static struct kept **slot_of(struct kept **slots, size_t n, uint32_t hash, const char *name,
                             size_t len)
{
    size_t i = hash & (n - 1);
    while (slots[i] && (slots[i]->hash != hash || slots[i]->len != len ||
                        memcmp(slots[i]->name, name, len) != 0))
        i = (i + 1) & (n - 1);
    return &slots[i];
}

/* Ensures a free slot; false: no memory. */
static bool grow_names(void)
{
    if (names.used * 2 < names.n_slots)
        return true;
    size_t n = names.n_slots == 0 ? FIRST_TABLE : names.n_slots * 2;
    struct kept **slots = calloc(n, sizeof(struct kept *));
    if (!slots)
        return names.used + 1 < names.n_slots;
    for (size_t i = 0; i < names.n_slots; i++) {
        struct kept *k = names.slots[i];
        if (k)
            *slot_of(slots, n, k->hash, k->name, k->len) = k;
    }
    free(names.slots);
    names.slots = slots;
    names.n_slots = n;
    return true;
}

static const struct kept *add_name(struct kept **slot, uint32_t hash, const char *name, size_t len)
{
    size_t shown = len;
    struct gpu_text text = {.text = demangle(name, &shown)};
    text.len = (uint16_t)shown;
    bool same = text.text == name;
    struct kept *k = keep_bytes(sizeof(struct kept) + len + 1 + (same ? 0 : text.len));
    if (!k)
        return NULL;
    k->hash = hash;
    k->len = len;
    memcpy(k->name, name, len);
    k->name[len] = '\0';
    if (!same)
        memcpy(k->name + len + 1, text.text, text.len);
    k->text = (struct gpu_text){same ? k->name : k->name + len + 1, text.len};
    *slot = k;
    names.used++;
    return k;
}

static struct gpu_text refuse_name(void)
{
    names.refused++;
    return TEXT("(names are full)");
}

uint64_t gpu_names_refused(void)
{
    uint64_t n = names.refused;
    names.refused = 0;
    return n;
}

struct gpu_text gpu_name(const char *name)
{
    if (!name)
        return TEXT("(unnamed kernel)");
    size_t i = ((uintptr_t)name >> 3 ^ (uintptr_t)name >> 13) % BY_ADDRESS;
    const struct kept *k = names.by_address[i].kept;
    if (names.by_address[i].at == name && strcmp(k->name, name) == 0)
        return k->text;
    size_t len = strlen(name);
    uint32_t hash = (uint32_t)hash_text(name, len);
    if (!grow_names())
        return refuse_name();
    struct kept **slot = slot_of(names.slots, names.n_slots, hash, name, len);
    k = *slot ? *slot : add_name(slot, hash, name, len);
    if (!k)
        return refuse_name();
    names.by_address[i].at = name;
    names.by_address[i].kept = k;
    return k->text;
}

struct gpu_text gpu_overhead_name(unsigned kind)
{
    /* CUPTI's own kinds count in the upper 16 bits; 1 is the driver's compiler. */
    static const struct gpu_text texts[] = {
        TEXT("Unknown"),
        TEXT("Buffer Flush"),
        TEXT("Instrumentation"),
        TEXT("Resource"),
        TEXT("Runtime Triggered Module Loading"),
        TEXT("Lazy Function Loading"),
        TEXT("Command Buffer Full"),
        TEXT("Activity Buffer Request"),
        TEXT("UVM Activity Init"),
    };
    if (kind == 1)
        return TEXT("Driver Compiler");
    unsigned i = (kind & 0xffff) == 0 ? kind >> 16 : 0;
    return texts[i < COUNT_OF(texts) ? i : 0];
}

/* ---- calls ----------------------------------------------------------------------------------- */

enum library { RUNTIME, DRIVER };

struct call_rule {
    uint8_t library, effect;
    bool shown, prefix;
    uint8_t len;      /* of the pattern, without its '*' */
    char pattern[43]; /* an array, no pointer: needs no relocation at start-up */
};

static const struct call_rule call_rules[] = {
#define CALL(library, pattern, shown, effect)                                                      \
    {library,                                                                                      \
     effect,                                                                                       \
     shown,                                                                                        \
     (pattern)[sizeof(pattern) - 2] == '*',                                                        \
     sizeof(pattern) - 1 - ((pattern)[sizeof(pattern) - 2] == '*'),                                \
     pattern},
#include "cupti/calls.def"
#undef CALL
};

/* Strips what does not tell what a call does: leading underscores and the suffixes _v2, _v7000,
 * _ptsz, _ptds. */
static struct gpu_text plain_name(const char *name)
{
    name += strspn(name, "_");
    size_t len = strnlen(name, NAME_MAX_LEN);
    for (;;) {
        size_t n = len;
        while (n > 0 && name[n - 1] >= '0' && name[n - 1] <= '9')
            n--;
        if (n < len && n > 2 && name[n - 1] == 'v' && name[n - 2] == '_') {
            len = n - 2;
        } else if (len > 5 && (memcmp(name + len - 5, "_ptsz", 5) == 0 ||
                               memcmp(name + len - 5, "_ptds", 5) == 0)) {
            len -= 5;
        } else {
            return (struct gpu_text){name, (uint16_t)len};
        }
    }
}

/* The rule for a plain name; the last row of each library matches every name. */
static const struct call_rule *rule_of(struct gpu_text name, bool driver)
{
    const struct call_rule *r = call_rules;
    while (r->library != (driver ? DRIVER : RUNTIME) || r->len > name.len ||
           (r->len < name.len && !r->prefix) || memcmp(r->pattern, name.text, r->len) != 0)
        r++;
    return r;
}

const struct gpu_call *gpu_call(int (*callback_name)(int domain, uint32_t cbid, const char **name),
                                bool driver, uint32_t cbid)
{
    static struct gpu_call other;
    struct gpu_call *call = cbid < CALLS ? &names.calls[driver][cbid] : &other;
    if (call != &other && call->name.text)
        return call;
    const char *name = NULL;
    call->name.text = NULL;
    if (callback_name(driver ? 1 : 2, cbid, &name) != 0 || !name)
        return call;
    char copy[256];
    struct gpu_text plain = plain_name(name);
    snprintf(copy, sizeof(copy), "%.*s", plain.len, plain.text);
    const struct call_rule *rule = rule_of(plain, driver);
    call->name = gpu_name(copy);
    call->effect = rule->effect;
    call->shown = rule->shown;
    return call;
}
