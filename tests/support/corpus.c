/* SPDX-License-Identifier: Apache-2.0 */
/* Replays seed files of fuzz targets with random changes. */
#include "tests/support/corpus.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 4096u

static uint64_t next_random(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 16;
}

/* Passes a heap copy of the exact size, so that ASan sees an overread. */
static void give(int (*target)(const uint8_t *, size_t), const uint8_t *bytes, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, bytes, n);
    target(copy, n);
    free(copy);
}

static void change(uint8_t *bytes, size_t n)
{
    static const char marks[] = "\"{}[],:0-9eEtn\\u \xff"; /* characters of JSON */
    for (unsigned k = 0; k <= next_random() % 4; k++) {
        uint8_t *at = &bytes[next_random() % n];
        *at = (uint8_t)(next_random() % 2 ? marks[next_random() % (sizeof marks - 1)]
                                          : (int)next_random());
    }
}

unsigned corpus_replay(const char *folder, int (*target)(const uint8_t *, size_t), unsigned changes)
{
    DIR *list = opendir(folder);
    struct dirent *entry;
    unsigned files = 0;
    ck_assert_msg(list != NULL, "%s: run from the repository's root", folder);
    while ((entry = readdir(list)) != NULL) {
        char path[512];
        uint8_t bytes[MOST], changed[MOST];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        FILE *file = entry->d_name[0] != '.' ? fopen(path, "rb") : NULL;
        if (!file)
            continue;
        size_t n = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        ck_assert_uint_gt(n, 0);
        give(target, bytes, n);
        for (unsigned i = 0; i < changes; i++) {
            memcpy(changed, bytes, n);
            change(changed, n);
            give(target, changed, n - next_random() % n);
        }
        files++;
    }
    closedir(list);
    return files;
}
