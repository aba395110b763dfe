/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: texts from users. The first byte chooses the kind: a path template with values,
 * a number, a glob pattern with a name, the environment of a launcher, or JSON metadata. Checks
 * what each function promises. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "preload/core/glob.h"
#include "preload/core/parse.h"
#include "preload/settings/rank.h"
#include "tests/fuzz/json_valid.h"
#include "writer/base/path.h"
#include "writer/writer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            __builtin_trap();                                                                      \
    } while (0)

enum { TEXTS = 6 };

/* The input split at its zero bytes into up to TEXTS terminated strings; missing strings are "".
 * Each has its exact size, for ASan. */
static char *texts[TEXTS];

static void split(const uint8_t *bytes, size_t size)
{
    for (int i = 0; i < TEXTS; i++) {
        const uint8_t *end = memchr(bytes, 0, size);
        size_t n = i < TEXTS - 1 && end ? (size_t)(end - bytes) : size;
        texts[i] = malloc(n + 1);
        REQUIRE(texts[i]);
        memcpy(texts[i], bytes, n);
        texts[i][n] = '\0';
        n += end && i < TEXTS - 1;
        bytes += n;
        size -= n;
    }
}

static void check_components(const char *path)
{
    while (*path) {
        size_t n = strcspn(path, "/");
        REQUIRE(n <= PATH_NAME_MAX);
        path += n + (path[n] == '/');
    }
}

static void templates(void)
{
    struct path_var vars[] = {{"rank", texts[2]}, {"batch", texts[3]}, {"run_name", texts[4]}};
    const char *names[] = {"rank", "batch", "run_name"};
    char out[PATH_SIZE], part[PATH_SIZE], words[300];
    bool gzip = texts[5][0] == 'z', is_cut;
    struct path_error error;
    enum path_status status =
        path_trace(texts[0], texts[1], vars, 3, gzip, out, sizeof out, &is_cut, &error);
    if (status == PATH_OK) {
        check_components(out);
        REQUIRE(strlen(out) + PATH_PART_MAX < PATH_SIZE);
        REQUIRE(path_is_gzip(out) || !gzip);
        REQUIRE(path_ending(out) >= out && path_ending(out) <= out + strlen(out));
        REQUIRE(path_part_name(out, 4194304, INT64_MAX, part, sizeof part));
        REQUIRE(!is_cut || strchr(out, '~'));
        REQUIRE(strcmp(part + strlen(part) - 5, ".part") == 0);
    } else {
        REQUIRE(path_describe(&error, names, 3, words, sizeof words) < sizeof words);
    }
    bool fine = path_check(texts[0], names, 3, &error) == PATH_OK;
    status = path_expand(texts[0], vars, 3, out, sizeof out, &error);
    /* A text that is too long is not read to its end. */
    REQUIRE(status == PATH_TOO_LONG ||
            fine == (status != PATH_UNKNOWN_VARIABLE && status != PATH_UNBALANCED));
    status = path_expand(texts[0], vars, 3, out, 8, &error);
    REQUIRE(status != PATH_OK || strlen(out) < 8);
}

static void numbers(void)
{
    int64_t value;
    bool yes;
    int choice;
    unsigned bits;
    if (parse_int(texts[0], -1000, 1000, &value))
        REQUIRE(value >= -1000 && value <= 1000 && value == strtoll(texts[0], NULL, 10));
    parse_bool(texts[0], &yes);
    if (parse_choice(texts[0], "run|epoch|none", &choice))
        REQUIRE(choice >= 0 && choice < 3);
    if (parse_list(texts[0], "cpu|cuda|xpu", &bits))
        REQUIRE(bits < 8);
    REQUIRE(parse_distance(texts[0], texts[0]) == 0);
    REQUIRE(parse_distance(texts[0], texts[1]) == parse_distance(texts[1], texts[0]));
}

static bool same_as_glob(const char *pattern, const char *text)
{
    if (*pattern == '*')
        return same_as_glob(pattern + 1, text) || (*text && same_as_glob(pattern, text + 1));
    if (*text == '\0' || *pattern == '\0')
        return *text == *pattern;
    return (*pattern == '?' || *pattern == *text) && same_as_glob(pattern + 1, text + 1);
}

static void patterns(void)
{
    bool matches = glob_match(texts[0], texts[1], strlen(texts[1]));
    if (!strpbrk(texts[0], "[\\") && strlen(texts[0]) < 8 && strlen(texts[1]) < 12)
        REQUIRE(matches == same_as_glob(texts[0], texts[1]));
    REQUIRE(glob_match("*", texts[1], strlen(texts[1])));
}

/* texts[0] lists the variables that are set, one letter each. The other texts are their values. */
static const char *variable(const char *name)
{
    static const char *const names[] = {"RANK",
                                        "WORLD_SIZE",
                                        "LOCAL_RANK",
                                        "LOCAL_WORLD_SIZE",
                                        "GROUP_RANK",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "PMIX_RANK",
                                        "SLURM_PROCID",
                                        "SLURM_STEP_NUM_TASKS",
                                        "SLURM_STEP_ID",
                                        "SLURM_LOCALID",
                                        "SLURM_STEP_TASKS_PER_NODE",
                                        "SLURM_NODEID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *at = strchr(texts[0], 'a' + (int)i);
        if (strcmp(name, names[i]) == 0)
            return at ? texts[1 + (size_t)(at - texts[0]) % (TEXTS - 1)] : NULL;
    }
    return NULL;
}

static void launchers(void)
{
    struct rank_info info;
    rank_read(&info, variable, false);
    REQUIRE(info.rank >= 0 && info.rank < info.world_size);
    REQUIRE(info.local_rank >= 0 && info.local_rank < info.local_world_size);
    REQUIRE(info.node_rank >= 0 && info.source);
}

static void metadata(const uint8_t *bytes, size_t size)
{
    char *out = malloc(size + 1);
    struct json_fault fault = {0, NULL};
    REQUIRE(out);
    size_t n = writer_check_json((const char *)bytes, size, out, &fault);
    if (n == 0)
        REQUIRE(fault.what && fault.at <= size);
    else
        REQUIRE(n <= size && json_valid(out, n) && !memchr(out, '\n', n));
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static void (*const kinds[])(void) = {templates, numbers, patterns, launchers};
    if (size == 0 || size > 4096)
        return 0;
    uint8_t kind = (uint8_t)(*bytes++ + 2) % 5; /* the digits 0 to 4 are the kinds */
    size--;
    if (kind == 4) {
        metadata(bytes, size);
        return 0;
    }
    split(bytes, size);
    kinds[kind]();
    for (int i = 0; i < TEXTS; i++)
        free(texts[i]);
    return 0;
}
