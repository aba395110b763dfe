/* SPDX-License-Identifier: Apache-2.0 */
/* Demangles C++ names in bounded time and memory. */
#include "writer/stack/demangle.h"

#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

#ifndef CPROF_NO_DEMANGLE
/* Of libsupc++. Delivers the text piecewise and allocates nothing. 0: success. */
int __gcclibcxx_demangle_callback(const char *mangled,
                                  void (*piece)(const char *text, size_t len, void *arg),
                                  void *arg);

struct demangled {
    jmp_buf full;
    size_t len;
    char text[DEMANGLED_MOST];
};

static void add_piece(const char *text, size_t len, void *arg)
{
    struct demangled *d = arg;
    size_t room = sizeof(d->text) - d->len;
    len = len < room ? len : room;
    memcpy(d->text + d->len, text, len);
    d->len += len;
    if (d->len == sizeof(d->text))
        longjmp(d->full, 1);
}

/* True when there is some text. Each type can name the one before twice, so 200 bytes may stand for
 * terabytes. longjmp() leaves the demangler when the room is full; it holds only stack. */
static bool demangle_bounded(const char *name, struct demangled *d)
{
    d->len = 0;
    if (setjmp(d->full) != 0)
        return true;
    return __gcclibcxx_demangle_callback(name, add_piece, d) == 0 && d->len != 0;
}
#endif

const char *demangle(const char *name, size_t *len)
{
#ifndef CPROF_NO_DEMANGLE
    static struct demangled d;
    if (name[0] == '_' && name[1] == 'Z' && *len <= DEMANGLED_MOST && demangle_bounded(name, &d)) {
        *len = d.len;
        return d.text;
    }
#endif
    *len = *len < DEMANGLED_MOST ? *len : DEMANGLED_MOST;
    return name;
}
