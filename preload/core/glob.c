/* SPDX-License-Identifier: Apache-2.0 */
/* Matches shell patterns. A mismatch only extends the last *, so time is at most pattern times
 * text. */
#include "preload/core/glob.h"

/* Matches one byte against the set after a '['; *end is what follows the set. *is_set is false when
 * there is no ']'. */
static bool in_set(const char *p, unsigned char c, const char **end, bool *is_set)
{
    bool negated = *p == '!' || *p == '^', found = false;
    p += negated;
    for (const char *first = p; *p && (*p != ']' || p == first); p++) {
        unsigned char from = (unsigned char)*p, to = from;
        if (p[1] == '-' && p[2] && p[2] != ']') {
            to = (unsigned char)p[2];
            p += 2;
        }
        found |= c >= from && c <= to;
    }
    *is_set = *p == ']';
    *end = p + 1;
    return found != negated;
}

/* Matches one byte against the pattern's first element, which is no '*'. Returns the next element,
 * or NULL. */
static const char *step(const char *p, unsigned char c)
{
    const char *end;
    bool is_set;
    if (*p == '?')
        return p + 1;
    if (*p == '[') {
        bool matches = in_set(p + 1, c, &end, &is_set);
        if (is_set)
            return matches ? end : NULL;
    }
    if (*p == '\\' && p[1])
        p++;
    return *p && (unsigned char)*p == c ? p + 1 : NULL;
}

bool glob_match(const char *pattern, const char *text, size_t len)
{
    const char *p = pattern, *after_star = NULL;
    size_t at = 0, star_at = 0;
    while (at < len) {
        const char *next;
        if (*p == '*') {
            after_star = ++p;
            star_at = at;
        } else if ((next = step(p, (unsigned char)text[at]))) {
            p = next;
            at++;
        } else if (after_star) {
            p = after_star;
            at = ++star_at;
        } else {
            return false;
        }
    }
    while (*p == '*')
        p++;
    return *p == '\0';
}
