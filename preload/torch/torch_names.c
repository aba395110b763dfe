/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for operators' names. A name gets its number when it is seen a second time in the same
 * place: names that are made for one call (of ranges in C++) would use up the numbers. */
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

const struct known_name *torch_name_look(struct thread_log *log, const char *text,
                                         struct known_name *room)
{
    size_t len = strlen(text);
    struct known_name *known = may_be_kept(text, len) ? choose(log, text) : room;
    if (known != room && known->at == text && torch_name_stands(known, text)) {
        known->name = numbered_name(text, (uint32_t)len);
        return known;
    }
    known->about = flops_find(text, (uint32_t)len);
    if (!known->about)
        known->about = flops_guess(text);
    known->about_c10d = torch_is_transfer(text) ? C10D_TRANSFER
                        : torch_is_comms(text)  ? C10D_COMMS
                                                : C10D_NONE;
    known->name = (uint32_t)len;
    known->len = known == room ? 0 : (uint8_t)len;
    known->at = text;
    if (known != room)
        memcpy(known->text, text, len + 1);
    return known;
}
