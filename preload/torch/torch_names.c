/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the properties of operators' names. A name gets a number at its second use, because names
 * that are used once would exhaust the numbers. The autograd engine builds the names of its ranges,
 * and of some nodes, anew for each call, at new addresses. Those are found by their hash. */
#include "preload/torch/torch_names.h"

#include "preload/flops/flops.h"
#include "preload/collectives/collectives.h"

#define SHORTEST 7u    /* with its terminator it fills a word */
#define PAGE     4096u /* the smallest page size, in bytes */

/* Whether the text may be cached by its address. It must lie within one page, so that reading it
 * again is safe: the page stays mapped. */
static bool can_be_cached(const char *text, size_t len)
{
    return len >= SHORTEST && len < KNOWN_TEXT && (uintptr_t)text % PAGE + len < PAGE;
}

/* One of the two cache entries for the text: its own or a free one, else the first. */
static struct known_name *cache_entry(struct thread_log *log, const char *text)
{
    struct known_name *first = torch_name_place(log, text);
    struct known_name *second = &log->known[(first - log->known) ^ 1];
    if (first->at == text || !first->at)
        return first;
    return second->at == text || !second->at ? second : first;
}

static void fill_in_text(struct known_text *known, const char *text, uint32_t len)
{
    known->about = flops_find(text, len);
    if (!known->about)
        known->about = flops_guess(text);
    known->about_c10d = torch_is_transfer(text) ? C10D_TRANSFER
                        : torch_is_comms(text)  ? C10D_COMMS
                                                : C10D_NONE;
}

/* The entry for the text, by its hash. Only a numbered name can be compared with the text; any
 * other entry is filled in anew. */
static const struct known_text *find_text(struct thread_log *log, const char *text, uint32_t len)
{
    uint64_t hash = hash_text(text, len);
    struct known_text *known = &log->texts[hash >> (64 - TEXT_BITS)];
    bool again = known->hash == hash;
    if (again && known->name & NAME_NUMBERED) {
        struct text same = name_text(known->name, NULL);
        if (same.len == len && memcmp(same.at, text, len) == 0)
            return known;
    }
    fill_in_text(known, text, len);
    known->hash = hash;
    known->name = again ? numbered_name(text, len) : 0;
    return known;
}

const struct known_name *torch_name_look(struct thread_log *log, const char *text,
                                         struct known_name *room)
{
    size_t len = strlen(text);
    struct known_name *known = can_be_cached(text, len) ? cache_entry(log, text) : room;
    if (known != room && known->at == text && torch_name_stands(known, text)) {
        known->name = numbered_name(text, (uint32_t)len);
        return known;
    }
    const struct known_text *same = find_text(log, text, (uint32_t)len);
    known->about = same->about;
    known->about_c10d = same->about_c10d;
    known->name = same->name ? same->name : (uint32_t)len;
    known->len = known == room ? 0 : (uint8_t)len;
    known->at = text;
    if (known != room)
        memcpy(known->text, text, len + 1);
    return known;
}
