/* SPDX-License-Identifier: Apache-2.0 */
/* Characters as UTF-8. Pure, any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Writes a character, at most 4 bytes, and returns the end. Half of a surrogate pair and what is no
 * character become U+FFFD. */
static inline char *put_utf8(char *to, uint32_t c)
{
    c = c > 0x10ffff || c >> 11 == 0xd800 >> 11 ? 0xfffd : c;
    unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const uint8_t first[] = {0, 0xc0, 0xe0, 0xf0};
    *to++ = (char)(first[more] | c >> 6 * more);
    while (more-- > 0)
        *to++ = (char)(0x80 | (c >> 6 * more & 0x3f));
    return to;
}

/* Converts n characters of `width` (1, 2 or 4) bytes, as many as fit whole into out[0..size).
 * Returns the bytes used. */
static inline uint32_t utf8_text(const void *text, unsigned width, size_t n, char *out, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t c = 0; /* little endian */
        memcpy(&c, (const char *)text + i * width, width);
        char bytes[4];
        size_t more = (size_t)(put_utf8(bytes, c) - bytes);
        if (used + more > size)
            break;
        memcpy(out + used, bytes, more);
        used += more;
    }
    return (uint32_t)used;
}
