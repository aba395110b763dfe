/* SPDX-License-Identifier: Apache-2.0 */
/* See report.h. */
#include "writer/report.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct report report;

/* What a file name without an ending also matches. */
static bool is_table(const char *path)
{
    size_t n = strlen(path), suffix = sizeof TOP_SUFFIX - 1;
    return n > suffix && strcmp(path + n - suffix, TOP_SUFFIX) == 0;
}

bool earlier_run_in_the_way(const struct writer_options *options)
{
    static bool asked;
    char pattern[PATH_MAX];
    if (asked || options->overwrite || !options->trace_pattern ||
        !options->trace_pattern(pattern, sizeof pattern))
        return false;
    asked = true;
    glob_t found;
    if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
        return false;
    bool in_the_way = false;
    for (size_t i = 0; i < found.gl_pathc && !in_the_way; i++) {
        struct stat st;
        if (is_table(found.gl_pathv[i]) || stat(found.gl_pathv[i], &st) != 0)
            continue;
        int64_t changed = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        in_the_way = changed < options->run_started_ns;
        if (in_the_way)
            log_error("%s: a trace of an earlier run is in the way and CPROF_OVERWRITE=0; nothing "
                      "is recorded. "
                      "Set CPROF_OVERWRITE=1 or another CPROF_RUN_NAME",
                      found.gl_pathv[i]);
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

void writer_trace_removed(const char *path)
{
    for (uint64_t i = 0; i < report.named; i++) {
        if (strcmp(report.paths[i], path) != 0)
            continue;
        report.named--;
        for (; i < report.named; i++)
            memcpy(report.paths[i], report.paths[i + 1], sizeof report.paths[i]);
        break;
    }
    report.removed++;
}

/* "A B and 3 more", "A (2 removed)". */
static void list_paths(char *out, size_t size)
{
    uint64_t more = report.traces - report.removed - report.named;
    int used = snprintf(out, size, "%s%s%s", report.named > 0 ? report.paths[0] : "",
                        report.named > 1 ? " " : "", report.named > 1 ? report.paths[1] : "");
    if (more > 0 && used >= 0 && (size_t)used < size)
        used += snprintf(out + used, size - (size_t)used, "%s%llu more",
                         report.named ? " and " : "", (unsigned long long)more);
    if (report.removed > 0 && used >= 0 && (size_t)used < size)
        snprintf(out + used, size - (size_t)used, "%s(%llu removed)", used ? " " : "",
                 (unsigned long long)report.removed);
}

void report_exit(const struct writer_options *options)
{
    struct trace_identity id = {0};
    if (options->identity)
        options->identity(&id);
    char events[32], losts[32], paths[REPORT_PATHS * PATH_MAX + 128];
    list_paths(paths, sizeof paths);
    log_last("rank %lld: %llu trace%s, %s events, %s lost: %s", (long long)id.rank,
             (unsigned long long)report.traces, report.traces == 1 ? "" : "s",
             grouped(report.events, events, sizeof events),
             grouped(report.lost, losts, sizeof losts), paths);
}
