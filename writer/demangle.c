/* SPDX-License-Identifier: Apache-2.0 */
/* See demangle.h. */
#include "writer/demangle.h"

#include <string.h>

#ifndef CPROF_NO_DEMANGLE
/* Of libsupc++. Gives the text piece by piece and allocates nothing; 0 = success. */
int __gcclibcxx_demangle_callback(const char *mangled,
                                  void (*piece)(const char *text, size_t len, void *arg),
                                  void *arg);

struct demangled {
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
}
#endif

const char *demangle(const char *name, size_t *len)
{
#ifndef CPROF_NO_DEMANGLE
    static struct demangled d;
    if (name[0] == '_' && name[1] == 'Z' && *len <= DEMANGLED_MOST) {
        d.len = 0;
        if (__gcclibcxx_demangle_callback(name, add_piece, &d) == 0 && d.len != 0) {
            *len = d.len;
            return d.text;
        }
    }
#endif
    *len = *len < DEMANGLED_MOST ? *len : DEMANGLED_MOST;
    return name;
}
