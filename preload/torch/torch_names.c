/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for operators' names. A name gets its number when it is seen a second time: texts that
 * never come again would use up the numbers. The engine makes the names of its ranges, and of some
 * nodes, anew for each call, at other addresses: these are known by their hash. */
#include "preload/torch/torch_names.h"

#include "preload/flops/flops.h"
#include "preload/collectives/collectives.h"

#define SHORTEST 7u    /* with its terminator it is a word */
#define PAGE     4096u /* the smallest there is */

/* Reading it again is never reading what is not there: a page that has once held it stays. */
static bool may_be_kept(const char *text, size_t len)
{
    return len >= SHORTEST && len < KNOWN_TEXT && (uintptr_t)text % PAGE + len < PAGE;
}

/* A free place of the two, or the one where the name, or another one, stood before. */
static struct known_name *choose(struct thread_log *log, const char *text)
{
    struct known_name *first = torch_name_place(log, text);
    struct known_name *second = &log->known[(first - log->known) ^ 1];
    if (first->at == text || !first->at)
        return first;
    return second->at == text || !second->at ? second : first;
}

static void read_name(struct known_text *known, const char *text, uint32_t len)
{
    known->about = flops_find(text, len);
    if (!known->about)
        known->about = flops_guess(text);
    known->about_c10d = torch_is_transfer(text) ? C10D_TRANSFER
                        : torch_is_comms(text)  ? C10D_COMMS
                                                : C10D_NONE;
}

/* What is known of the text. Only one with a number is compared, and is known without a doubt. */
static const struct known_text *look_at_text(struct thread_log *log, const char *text, uint32_t len)
{
    uint64_t hash = hash_text(text, len);
    struct known_text *known = &log->texts[hash >> (64 - TEXT_BITS)];
    bool again = known->hash == hash;
    if (again && known->name & NAME_NUMBERED) {
        struct text same = name_text(known->name, NULL);
        if (same.len == len && memcmp(same.at, text, len) == 0)
            return known;
    }
    read_name(known, text, len);
    known->hash = hash;
    known->name = again ? numbered_name(text, len) : 0;
    return known;
}

const struct known_name *torch_name_look(struct thread_log *log, const char *text,
                                         struct known_name *room)
{
    size_t len = strlen(text);
    struct known_name *known = may_be_kept(text, len) ? choose(log, text) : room;
    if (known != room && known->at == text && torch_name_stands(known, text)) {
        known->name = numbered_name(text, (uint32_t)len);
        return known;
    }
    const struct known_text *same = look_at_text(log, text, (uint32_t)len);
    known->about = same->about;
    known->about_c10d = same->about_c10d;
    known->name = same->name ? same->name : (uint32_t)len;
    known->len = known == room ? 0 : (uint8_t)len;
    known->at = text;
    if (known != room)
        memcpy(known->text, text, len + 1);
    return known;
}
