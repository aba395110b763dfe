/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps a second copy of this library inert. */
#include "preload/link/copies.h"

#include <stddef.h>
#include <string.h>

#include "preload/link/resolve.h"
#include "writer/writer.h"

/* Written in the constructor. */
static const char *first, *hidden;
static bool first_is_own, own_is_hidden;

/* For loader_walk(): finds copies that were preloaded or linked, which precede the C library.
 * Copies opened later, for the driver, NVTX or ITT, are found only by those that open them. */
static int look_at_copy(struct dl_phdr_info *info, size_t size, void *unused)
{
    struct elf_loaded o;
    (void)size, (void)unused;
    if (!elf_loaded(info, &o))
        return 0;
    if (strcmp(o.soname, "libc.so.6") == 0)
        return 1;
    const void *version =
        strcmp(o.soname, "libcprof.so") == 0 ? elf_loaded_function(&o, "cprof_version") : NULL;
    if (!version)
        return 0;
    if (!first) {
        first = info->dlpi_name;
        first_is_own = resolve_is_own(version);
    } else if (elf_loaded_hide(&o)) {
        own_is_hidden = own_is_hidden || resolve_is_own(version);
        hidden = info->dlpi_name;
    }
    return 0;
}

bool copies_hide(void)
{
    loader_walk(look_at_copy, NULL);
    return !first || first_is_own;
}

const char *copies_first(void)
{
    return own_is_hidden ? first : NULL;
}

const char *copies_hidden(void)
{
    return first_is_own ? hidden : NULL;
}
