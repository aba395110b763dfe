/* SPDX-License-Identifier: Apache-2.0 */
/* The counts of the run, the exit line, and the check for traces of an earlier run. */
#include "writer/window/report.h"

#include <stdio.h>
#include <string.h>

#include "writer/base/base.h"
#include "writer/record/record.h"

#define SECOND_NS INT64_C(1000000000)

struct report report;

/* A pattern without a file name ending also matches the summaries. */
static bool is_summary(const char *path)
{
    size_t n = strlen(path), suffix = sizeof SUMMARY_SUFFIX - 1;
    return n > suffix && strcmp(path + n - suffix, SUMMARY_SUFFIX) == 0;
}

static bool is_before(const struct stat *st, int64_t ns)
{
    return (int64_t)st->st_mtim.tv_sec * SECOND_NS + st->st_mtim.tv_nsec < ns;
}

bool is_of_earlier_run(const struct stat *st, const struct writer_options *options)
{
    int64_t started = options->run_started_ns;
    return is_before(st, st->st_mtim.tv_nsec == 0 ? started - started % SECOND_NS : started);
}

bool earlier_run_in_the_way(const struct writer_options *options)
{
    static bool asked;
    char pattern[PATTERN_SIZE];
    if (asked || options->overwrite || !options->trace_pattern ||
        !options->trace_pattern(pattern, sizeof pattern))
        return false;
    asked = true;
    glob_t found;
    if (!find_files(pattern, &found))
        return false;
    bool in_the_way = false;
    for (size_t i = 0; i < found.gl_pathc && !in_the_way; i++) {
        struct stat st;
        /* Another user's file is not this user's earlier run, and is never replaced. Nor is one
         * with a second name: another user may have linked it here. */
        if (is_summary(found.gl_pathv[i]) || !owner_is_trusted_file(found.gl_pathv[i], &st) ||
            st.st_nlink != 1)
            continue;
        int64_t second = options->run_started_ns - options->run_started_ns % SECOND_NS;
        in_the_way = options->shares_second
                         /* runs of the same second share a name and number their files */
                         ? is_before(&st, second)
                         : is_of_earlier_run(&st, options);
        if (in_the_way)
            log_error("%s: a trace of an earlier run is in the way and CPROF_OVERWRITE=0; nothing "
                      "is recorded. "
                      "Set CPROF_OVERWRITE=1 or another %s",
                      found.gl_pathv[i], options->renamed_by);
    }
    globfree(&found);
    return in_the_way;
}

static const char *grouped(uint64_t n, char *text, size_t size)
{
    char plain[32];
    int digits = snprintf(plain, sizeof plain, "%llu", (unsigned long long)n);
    size_t used = 0;
    for (int i = 0; i < digits && used + 2 < size; i++) {
        if (i && (digits - i) % 3 == 0)
            text[used++] = ',';
        text[used++] = plain[i];
    }
    text[used] = '\0';
    return text;
}

static void remove_path(struct report_paths *paths, const char *path)
{
    for (uint64_t i = 0; i < paths->n; i++) {
        if (strcmp(paths->of[i], path) != 0)
            continue;
        paths->n--;
        memmove(paths->of[i], paths->of[i + 1], (paths->n - i) * sizeof paths->of[0]);
        return;
    }
}

static void add_path(struct report_paths *paths, const char *path)
{
    snprintf(paths->of[paths->n++], sizeof paths->of[0], "%s", path);
}

void report_lost_more(uint64_t n)
{
    report.lost += n;
    report.lost_more = true;
}

void report_trace(const char *path)
{
    report.traces++;
    if (report.oldest.n < REPORT_PATHS)
        add_path(&report.oldest, path);
    if (report.newest.n == REPORT_PATHS)
        remove_path(&report.newest, report.newest.of[0]);
    add_path(&report.newest, path);
}

void writer_trace_removed(const char *path)
{
    remove_path(&report.oldest, path);
    remove_path(&report.newest, path);
    report.removed++;
}

/* The thread with the most losses, for the exit line. */
static struct {
    uint64_t lost, since; /* since: ticks of its first loss */
    uint32_t tid;
    enum loss cause;  /* the most frequent cause */
    unsigned threads; /* how many threads lost anything */
} worst_thread;

void report_thread(struct thread_log *log)
{
    uint64_t all = 0, most = 0;
    enum loss cause = LOSS_COUNT;
    for (int i = 0; i < LOSS_COUNT; i++) {
        uint64_t n = atomic_load_explicit(&log->losses[i], memory_order_relaxed);
        uint64_t own = n - log->reported[i];
        log->reported[i] = n;
        all += own;
        if (own > most) {
            most = own;
            cause = (enum loss)i;
        }
    }
    worst_thread.threads += all > 0;
    if (all > worst_thread.lost) {
        worst_thread.lost = all;
        worst_thread.cause = cause;
        worst_thread.since = atomic_load_explicit(&log->lost_since, memory_order_relaxed);
        worst_thread.tid = atomic_load_explicit(&log->tid, memory_order_relaxed);
    }
    atomic_store_explicit(&log->lost_since, 0, memory_order_relaxed);
}

void report_hold(void)
{
    for (struct thread_log *log = thread_log_first(); log; log = log->next)
        for (int i = 0; i < LOSS_COUNT; i++)
            log->at_hold[i] = atomic_load_explicit(&log->losses[i], memory_order_relaxed);
}

void report_discard(void)
{
    for (struct thread_log *log = thread_log_first(); log; log = log->next) {
        bool told = false;
        for (int i = 0; i < LOSS_COUNT; i++) {
            uint64_t n = atomic_load_explicit(&log->losses[i], memory_order_relaxed);
            log->reported[i] += n - log->at_hold[i];
            told |= n != log->reported[i];
        }
        if (!told)
            atomic_store_explicit(&log->lost_since, 0, memory_order_relaxed);
    }
}

/* Writes " (thread 4711 lost 759, too_deep, from 14:03:22 UTC on; 2 others lost less)". */
static void put_worst_thread(char *out, size_t size)
{
    static const char *const keys[] = {
#define LOSS(id, key, what) key,
#include "writer/record/losses.def"
#undef LOSS
    };
    char lost[32], others[48] = "";
    for (struct thread_log *log = thread_log_first(); log; log = log->next)
        report_thread(log);
    *out = '\0';
    if (worst_thread.lost == 0)
        return;
    if (worst_thread.threads > 1)
        snprintf(others, sizeof others, "; %u other%s lost less", worst_thread.threads - 1,
                 worst_thread.threads > 2 ? "s" : "");
    int64_t second = clock_wall_ns(worst_thread.since) / SECOND_NS % 86400;
    snprintf(out, size, " (thread %u lost %s, %s, from %02d:%02d:%02d UTC on%s)", worst_thread.tid,
             grouped(worst_thread.lost, lost, sizeof lost), keys[worst_thread.cause],
             (int)(second / 3600), (int)(second / 60 % 60), (int)(second % 60), others);
}

/* Writes "A B and 3 more", "A (2 removed)" or "none left here (1 removed)". Names the newest traces
 * once any was removed. */
static void list_paths(char *out, size_t size)
{
    uint64_t there = report.traces - report.removed;
    const struct report_paths *named =
        report.removed && report.newest.n ? &report.newest : &report.oldest;
    uint64_t more = there - named->n;
    const char *first = named->n > 0               ? named->of[0]
                        : there || !report.removed ? ""
                                                   : "none left here";
    int used = snprintf(out, size, "%s%s%s", first, named->n > 1 ? " " : "",
                        named->n > 1 ? named->of[1] : "");
    if (more > 0 && used >= 0 && (size_t)used < size)
        used += snprintf(out + used, size - (size_t)used, "%s%llu more", named->n ? " and " : "",
                         (unsigned long long)more);
    if (report.removed > 0 && used >= 0 && (size_t)used < size)
        snprintf(out + used, size - (size_t)used, "%s(%llu removed)", used ? " " : "",
                 (unsigned long long)report.removed);
}

void report_exit(const struct writer_options *options)
{
    struct trace_identity id = {0};
    if (options->identity)
        options->identity(&id);
    static char paths[REPORT_PATHS * PATH_MAX +
                      128]; /* static: a signal handler may exit on a small stack */
    char events[32], losts[32], who[160] = "", optimizers[OPTIMIZERS_TEXT + 128];
    if (report.lost)
        put_worst_thread(who, sizeof who);
    optimizers_exit(optimizers, sizeof optimizers);
    bool elsewhere = options->told_elsewhere && options->told_elsewhere();
    if (elsewhere && !report.lost && !*optimizers)
        return;
    *paths = '\0';
    if (!elsewhere)
        list_paths(paths, sizeof paths);
    log_last("rank %lld: %llu trace%s, %s events, %s%s lost%s%s%s%s", (long long)id.rank,
             (unsigned long long)report.traces, report.traces == 1 ? "" : "s",
             grouped(report.events, events, sizeof events),
             report.lost && report.lost_more ? "at least " : "",
             grouped(report.lost, losts, sizeof losts), *paths ? ": " : "", paths, who, optimizers);
}
