/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of forked children. */
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

/* True once forked_works() has printed its line. In a page that a traced process shares with all
 * its forked children. NULL: not traced, or no memory. */
static _Atomic bool *shared_said; /* the pointer is written at wake-up */

/* In a forked child: it has made no tensor, or no mark, yet. */
static _Atomic bool before_tensor, before_mark;

/* Code range of libtorch_python.so; all threads write the same. 0: not loaded. */
static _Atomic uintptr_t code_from, code_to;

void forked_start(void)
{
    void *page =
        mmap(NULL, sizeof *shared_said, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED)
        shared_said = page;
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

/* torch handles SIGBUS only in DataLoader workers, which install that handler before anything else
 * (torch.utils.data._utils.worker). */
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
    if (shared_said && !is_worker() && !atomic_exchange(shared_said, true))
        log_warn("processes forked by %d run operators, which cprof does not record; it records "
                 "spawned processes, with CPROF_TRACE_CHILDREN=1",
                 cprof_owner_pid());
}

void forked_marks(void)
{
    if (atomic_load_explicit(&before_mark, memory_order_relaxed) &&
        atomic_exchange(&before_mark, false) && !(shared_said && atomic_load(shared_said)))
        log_warn("process %d was forked from a traced one: its steps are not traced (start ranks "
                 "with torchrun or spawn)",
                 (int)getpid());
}
