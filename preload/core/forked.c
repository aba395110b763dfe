/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of forked children; see forked.h. */
#include "preload/core/forked.h"

#include <link.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload/core/life.h"
#include "writer/writer.h"

/* The line of forked_works() is written. In a page that a traced process and all that it forks
 * share; each of them writes and reads. NULL: this process is not traced, or there was no
 * memory. */
static _Atomic bool *said; /* pointer: written at wake-up */

/* This is a forked child in which the one or the other has not happened yet. */
static _Atomic bool before_tensor, before_mark;

/* The code of libtorch_python.so; all threads write the same. 0: not loaded. */
static _Atomic uintptr_t code_from, code_to;

void forked_start(void)
{
    void *page =
        mmap(NULL, sizeof *said, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED)
        said = page;
}

static int find_code(struct dl_phdr_info *info, size_t size, void *arg)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    (void)size, (void)arg;
    if (!slash || strncmp(slash + 1, "libtorch_python.so", sizeof "libtorch_python.so" - 1) != 0)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
            continue;
        atomic_store(&code_from, info->dlpi_addr + part->p_vaddr);
        atomic_store(&code_to, info->dlpi_addr + part->p_vaddr + part->p_memsz);
    }
    return 1;
}

void forked_note_torch(void)
{
    loader_walk(find_code, NULL);
}

void forked_in_child(void)
{
    atomic_store(&before_tensor, true);
    atomic_store(&before_mark, true);
}

/* torch's module handles SIGBUS in the workers of DataLoaders and nowhere else. They ask for that
 * before they do anything else (torch.utils.data._utils.worker). */
static bool is_worker(void)
{
    struct sigaction action;
    uintptr_t handler = 0;
    if (sigaction(SIGBUS, NULL, &action) == 0)
        memcpy(&handler, &action.sa_sigaction, sizeof handler);
    return handler >= atomic_load(&code_from) && handler < atomic_load(&code_to);
}

void forked_works(void)
{
    if (!atomic_load_explicit(&before_tensor, memory_order_relaxed) ||
        !atomic_exchange(&before_tensor, false))
        return;
    if (said && !is_worker() && !atomic_exchange(said, true))
        log_warn("processes that %d has forked run operators, which are not recorded; those of "
                 "processes that it spawns are, with CPROF_TRACE_CHILDREN=1",
                 cprof_owner_pid());
}

void forked_marks(void)
{
    if (atomic_load_explicit(&before_mark, memory_order_relaxed) &&
        atomic_exchange(&before_mark, false) && !(said && atomic_load(said)))
        log_warn("process %d was forked from a traced one: its steps are not traced (start ranks "
                 "with torchrun or spawn)",
                 (int)getpid());
}
