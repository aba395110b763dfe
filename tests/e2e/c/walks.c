/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a library that refers to the function of CPROF_STEP=symbol:, makes ranges for half a
 * second, and prints how often all loaded objects were walked meanwhile
 * (tests/e2e/test_step_names.py).
 *
 * Arguments: the library; "writable" makes the parts writable that the loader made read-only;
 * "fork" makes a child print how often it walked the objects at all. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "preload/cprof.h"

typedef int look_function(struct dl_phdr_info *info, size_t size, void *arg);
typedef int walk_function(look_function *look, void *arg);

struct walk {
    look_function *look;
    void *arg;
    unsigned shown;
};

static unsigned asked, walks; /* no lock: one thread at a time */

static int show(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct walk *walk = arg;
    walk->shown++;
    return walk->look(info, size, walk->arg);
}

/* Replaces the C library's function, also for cprof. */
int dl_iterate_phdr(look_function *look, void *arg)
{
    struct walk walk = {look, arg, 0};
    walk_function *next;
    *(void **)&next = dlsym(RTLD_NEXT, "dl_iterate_phdr");
    int answer = next(show, &walk);
    asked++;
    walks += walk.shown > 1;
    return answer;
}

static int make_writable(struct dl_phdr_info *info, size_t size, void *arg)
{
    const struct link_map *map = arg;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum && info->dlpi_addr == map->l_addr; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        ElfW(Addr) at = (info->dlpi_addr + p->p_vaddr) & -(ElfW(Addr))sysconf(_SC_PAGESIZE);
        if (p->p_type == PT_GNU_RELRO)
            mprotect((void *)at, p->p_memsz, PROT_READ | PROT_WRITE);
    }
    return 0;
}

static void mark_ranges(void)
{
    struct timespec pause = {0, 6000000}; /* longer than cprof waits between two searches */
    for (int i = 0; i < 80; i++) {
        cprof_range_push("range");
        cprof_range_pop();
        nanosleep(&pause, NULL);
    }
}

static void in_child(void)
{
    if (fork() == 0) {
        asked = 0;
        mark_ranges();
        printf("asked %u\n", asked);
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
}

int main(int argc, char **argv)
{
    struct link_map *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    const char *mode = argc > 2 ? argv[2] : "";
    if (!library)
        return 2;
    if (strcmp(mode, "writable") == 0)
        dl_iterate_phdr(make_writable, library);
    walks = 0;
    mark_ranges();
    printf("walks %u\n", walks);
    fflush(stdout);
    if (strcmp(mode, "fork") == 0)
        in_child();
    return 0;
}
