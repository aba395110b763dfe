/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, calls and closes a plugin whose file is replaced meanwhile. Arguments: the plugin's
 * versions. Prints their answers. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/cprof.h"

/* Replaces the plugin as installers do: writes a new file, then renames it. */
static void install(const char *from)
{
    char buf[65536];
    size_t n;
    FILE *in = fopen(from, "re"), *out = fopen("plugin.so.new", "we");
    if (!in || !out)
        exit(2);
    while ((n = fread(buf, 1, sizeof buf, in)) > 0)
        fwrite(buf, 1, n, out);
    fclose(in);
    fclose(out);
    if (rename("plugin.so.new", "plugin.so") != 0)
        exit(2);
}

static int answer(const char *path)
{
    int (*plugin)(void);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        exit(3);
    *(void **)&plugin = dlsym(library, "plugin");
    int got = plugin();
    dlclose(library);
    return got;
}

int main(int argc, char **argv)
{
    cprof_mark("awake");
    for (int i = 1; i < argc; i++) {
        install(argv[i]);
        printf("%d ", answer("./plugin.so"));
    }
    for (int i = 1; i < argc; i++) /* each version is likely to get the previous one's address */
        printf("%d ", answer(argv[i]));
    puts("");
    return 0;
}
