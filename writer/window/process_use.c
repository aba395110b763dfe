/* SPDX-License-Identifier: Apache-2.0 */
/* Processor time and page faults of a window, from the kernel's accounts of the threads. cprof
 * thread. */
#include "writer/window/process_use.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "writer/record/record.h"
#include "writer/window/window.h"

#define SECOND_NS    1000000000u
#define THREADS_MOST 512u      /* of more threads none is read: each costs an open and a read */
#define FRESH_NS     10000000u /* windows that follow each other faster share a reading */

/* Adds a thread from its schedstat file: ns on a processor, ns in the run queue, slices. */
static void add_thread(const char *path, bool is_main, struct process_use *use)
{
    char text[96];
    unsigned long long ran, queued;
    if (read_file(path, text, sizeof text) && sscanf(text, "%llu %llu", &ran, &queued) == 2) {
        use->ran_ns += ran;
        use->queued_ns += queued;
        use->threads++;
        if (is_main) {
            use->main_ran_ns = ran;
            use->main_queued_ns = queued;
        }
    }
}

static unsigned long long since(uint64_t before, uint64_t after)
{
    return after > before ? after - before : 0; /* the sum loses the time of a thread that ended */
}

static uint64_t system_ns(const struct rusage *use)
{
    return (uint64_t)use->ru_stime.tv_sec * SECOND_NS + (uint64_t)use->ru_stime.tv_usec * 1000;
}

static struct process_use read_sums(void)
{
    static struct process_use use;
    struct rusage self, cprof;
    glob_t found;
    char own[64], main_thread[64];
    if (use.at_ns && clock_monotonic_ns() - use.at_ns < FRESH_NS)
        return use;
    use = (struct process_use){0};
    snprintf(own, sizeof own, "/proc/self/task/%ld/schedstat", syscall(SYS_gettid));
    snprintf(main_thread, sizeof main_thread, "/proc/self/task/%ld/schedstat", (long)getpid());
    if (getrusage(RUSAGE_SELF, &self) != 0 || getrusage(RUSAGE_THREAD, &cprof) != 0 ||
        !find_files("/proc/self/task/*/schedstat", &found))
        return use;
    for (size_t i = 0; i < found.gl_pathc && found.gl_pathc <= THREADS_MOST; i++)
        if (strcmp(found.gl_pathv[i], own) != 0)
            add_thread(found.gl_pathv[i], strcmp(found.gl_pathv[i], main_thread) == 0, &use);
    globfree(&found);
    use.system_ns = since(system_ns(&cprof), system_ns(&self));
    use.page_faults = (uint64_t)(self.ru_minflt - cprof.ru_minflt);
    use.at_ns = use.threads ? clock_monotonic_ns() : 0;
    return use;
}

struct process_use process_use_now(uint64_t due_ns)
{
    struct process_use use = read_sums();
    use.due_ns = due_ns;
    return use;
}

static bool in_time(const struct process_use *before, const struct process_use *after)
{
    return before->at_ns && after->at_ns && after->due_ns > before->due_ns &&
           since(before->at_ns, after->at_ns) >= (after->due_ns - before->due_ns) / 2;
}

void process_use_account(const struct process_use use[USE_COUNT],
                         const struct writer_options *options, struct buf *b)
{
    const struct process_use *after = &use[USE_END];
    const struct process_use *before =
        &use[in_time(&use[USE_FIRST], after) ? USE_FIRST : USE_START];
    if (!options->affinity || !in_time(before, after))
        return;
    buf_printf(b,
               "\"process\": {\"cores\": %d, \"threads\": %llu, \"wall_ns\": %llu, \"ran_ns\": "
               "%llu, \"queued_ns\": %llu, \"system_ns\": %llu, \"page_faults\": %llu, "
               "\"main_ran_ns\": %llu, \"main_queued_ns\": %llu}, ",
               CPU_COUNT_S(options->affinity_size, options->affinity),
               (unsigned long long)after->threads, since(before->at_ns, after->at_ns),
               since(before->ran_ns, after->ran_ns), since(before->queued_ns, after->queued_ns),
               since(before->system_ns, after->system_ns),
               since(before->page_faults, after->page_faults),
               since(before->main_ran_ns, after->main_ran_ns),
               since(before->main_queued_ns, after->main_queued_ns));
}
