/* SPDX-License-Identifier: Apache-2.0 */
/* Replays raw CUPTI buffers (CPROF_GPU_DUMP, cupti/dump.h) through cupti/translate.c, which must
 * accept every record. tests/fixtures/<program>-<version>.bin are dumps of the simulated GPU,
 * <program>-cupti-<version>-<number>.bin dumps of an H200 with CUDA 13.0 that
 * scripts/gpu_check.sh collected. The pointers of the records are invalid: texts are restored from
 * the dump, other pointers are cleared. */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cupti/devices.h"
#include "cupti/records.h"
#include "cupti/translate.h"
#include "tests/sim/cupti_names.h"

#define FOLDER "tests/fixtures"

struct dump {
    uint8_t *bytes;   /* the whole file */
    uint8_t *records; /* 8-byte aligned */
    uint8_t *offsets; /* 4 bytes each */
    uint8_t *texts, *end;
    uint32_t version, n;
    uint64_t valid;
};

/* ---- reading --------------------------------------------------------------------------------- */

static uint64_t take(const uint8_t **at, size_t size)
{
    uint64_t value = 0;
    memcpy(&value, *at, size);
    *at += size;
    return value;
}

/* The file's bytes; the caller frees them. */
static uint8_t *slurp(const char *path, size_t *size)
{
    FILE *f = fopen(path, "re");
    ck_assert_msg(f != NULL, "%s", path);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    uint8_t *bytes = malloc(*size);
    ck_assert_uint_eq(fread(bytes, 1, *size, f), *size);
    fclose(f);
    return bytes;
}

static struct dump load(const char *path)
{
    size_t size;
    struct dump d = {.bytes = slurp(path, &size)};
    const uint8_t *at = d.bytes + 8;
    ck_assert_uint_gt(size, 40);
    ck_assert_mem_eq(d.bytes, "CPROFGPU", 8);
    ck_assert_uint_eq(take(&at, 4), 1);
    d.version = (uint32_t)take(&at, 4);
    at += 4 + 8; /* flags, address */
    d.valid = take(&at, 8);
    d.n = (uint32_t)take(&at, 4);
    ck_assert_uint_le((size_t)(at - d.bytes) + d.valid + d.n * UINT64_C(4), size);
    d.records = malloc(d.valid);
    memcpy(d.records, at, d.valid);
    d.offsets = d.bytes + (at - d.bytes) + d.valid;
    d.texts = d.offsets + d.n * (size_t)4;
    d.end = d.bytes + size;
    return d;
}

static void *record_of(const struct dump *d, uint32_t i)
{
    uint32_t offset;
    memcpy(&offset, d->offsets + i * (size_t)4, 4);
    ck_assert_uint_lt(offset, d->valid);
    return d->records + offset;
}

/* A copy that is never freed, because names are identified by address. */
static const char *keep(const uint8_t *text, uint32_t len)
{
    static char kept[1 << 20];
    static size_t used;
    char *copy = kept + used;
    ck_assert_uint_lt(used + len, sizeof kept);
    memcpy(copy, text, len);
    used += len + (size_t)1;
    return copy;
}

/* A copy of the text that was at this address, or NULL. */
static const char *text_at(const struct dump *d, uint64_t address)
{
    for (const uint8_t *at = d->texts; at < d->end;) {
        uint64_t its = take(&at, 8);
        uint32_t len = (uint32_t)take(&at, 4);
        if (its == address)
            return keep(at, len);
        at += len;
    }
    return NULL;
}

static const char *revived(const struct dump *d, const char *dead)
{
    return dead ? text_at(d, (uint64_t)(uintptr_t)dead) : NULL;
}

static void revive(const struct dump *d, void *record)
{
    switch (*(const uint32_t *)record) {
    case CUPTI_KIND_CONCURRENT_KERNEL:
        ((struct cupti_kernel *)record)->name = revived(d, ((struct cupti_kernel *)record)->name);
        break;
    case CUPTI_KIND_MEMORY2:
        ((struct cupti_memory *)record)->name = revived(d, ((struct cupti_memory *)record)->name);
        break;
    case CUPTI_KIND_DEVICE:
        ((struct cupti_device *)record)->name = revived(d, ((struct cupti_device *)record)->name);
        break;
    case CUPTI_KIND_OVERHEAD:
        if (d->version >= CUPTI_12_4)
            ((struct cupti_overhead *)record)->data = NULL;
        break;
    default:
        break;
    }
}

/* ---- translating ----------------------------------------------------------------------------- */

static uint64_t same(uint64_t time)
{
    return time;
}

static int name_of(int domain, uint32_t cbid, const char **name)
{
    static const char *const driver[] = {
#define X(name, id) [id] = #name,
        DRIVER_CALLS(X)};
    static const char *const runtime[] = {RUNTIME_CALLS(X)};
#undef X
    size_t n = domain == 1 ? sizeof driver / sizeof *driver : sizeof runtime / sizeof *runtime;
    *name = cbid < n ? (domain == 1 ? driver : runtime)[cbid] : NULL;
    return *name ? 0 : 1;
}

struct counts {
    unsigned results[TRANSLATE_INVALID + 1];
    unsigned kinds[GPU_MEMORY + 1];
    unsigned named, in_graphs;
};

static void check_record(const struct gpu_record *r, struct counts *c)
{
    c->kinds[r->kind]++;
    ck_assert_uint_le(r->start, r->end);
    ck_assert_msg(r->start > 0 || r->kind == GPU_EVENT, "no time");
    if (r->kind == GPU_KERNEL) {
        ck_assert_ptr_nonnull(r->name);
        c->named += r->name_len && memcmp(r->name, "(unnamed", 8) != 0;
        c->in_graphs += r->graph != 0;
        ck_assert_int_gt(r->kernel.grid[0], 0);
        ck_assert_int_gt(r->kernel.block[0], 0);
    }
    if (r->kind == GPU_KERNEL || r->kind == GPU_COPY || r->kind == GPU_FILL) {
        ck_assert_uint_ne(r->correlation, 0);
        ck_assert_uint_ne(r->device, GPU_NONE);
    }
}

static struct counts replay(const char *path)
{
    struct counts c = {0};
    struct dump d = load(path);
    struct translate t = {.version = d.version, .ticks = same, .callback_name = name_of};
    gpu_devices_forget();
    for (uint32_t i = 0; i < d.n; i++) {
        struct gpu_record r;
        void *record = record_of(&d, i);
        revive(&d, record);
        enum translate_result result = translate(&t, record, &r);
        c.results[result]++;
        if (result == TRANSLATE_RECORD)
            check_record(&r, &c);
    }
    free(d.records);
    free(d.bytes);
    return c;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* All dumps of all programs and versions. */
START_TEST(accepts_every_record_of_every_dump)
{
    DIR *folder = opendir(FOLDER);
    unsigned files = 0;
    ck_assert_ptr_nonnull(folder);
    for (const struct dirent *e; (e = readdir(folder));) {
        char path[512];
        if (!strstr(e->d_name, ".bin"))
            continue;
        snprintf(path, sizeof path, FOLDER "/%s", e->d_name);
        struct counts c = replay(path);
        files++;
        ck_assert_msg(c.results[TRANSLATE_RECORD] > 0, "%s: no record", path);
        ck_assert_msg(c.results[TRANSLATE_INVALID] == 0, "%s: %u invalid", path,
                      c.results[TRANSLATE_INVALID]);
        ck_assert_msg(c.results[TRANSLATE_UNTIMED] == 0, "%s: %u without a time", path,
                      c.results[TRANSLATE_UNTIMED]);
        ck_assert_msg(c.results[TRANSLATE_UNFINISHED] == 0, "%s: unfinished", path);
        ck_assert_msg(c.named == c.kinds[GPU_KERNEL], "%s: kernels without a name", path);
    }
    closedir(folder);
    ck_assert_uint_ge(files, 6);
}
END_TEST

/* The launches of tests/gpu/graphs --launches 1 and pools --rounds 1. */
START_TEST(finds_every_launch_of_the_simulated_gpu)
{
    static const char *const versions[] = {"18", "26", "130000"};
    for (unsigned i = 0; i < 3; i++) {
        char path[64];
        snprintf(path, sizeof path, FOLDER "/graphs-%s.bin", versions[i]);
        struct counts graphs = replay(path);
        ck_assert_uint_eq(graphs.kinds[GPU_KERNEL], 4 + 4 + 2);
        ck_assert_uint_eq(graphs.in_graphs, 4 + 4 + 2);
        ck_assert_uint_eq(graphs.kinds[GPU_COPY], 3 + 1);
        ck_assert_uint_eq(graphs.kinds[GPU_FILL], 3 + 1);
        snprintf(path, sizeof path, FOLDER "/pools-%s.bin", versions[i]);
        struct counts pools = replay(path);
        ck_assert_uint_eq(pools.kinds[GPU_KERNEL], 1);
        ck_assert_uint_eq(pools.kinds[GPU_COPY], 2);
        ck_assert_uint_eq(pools.kinds[GPU_FILL], 1);
        ck_assert_uint_ge(pools.kinds[GPU_MEMORY], 4);
        ck_assert_uint_eq(pools.kinds[GPU_SYNC], 1);
    }
}
END_TEST

/* Dumps of the programs of tests/gpu on real hardware, made by run_raw() of scripts/gpu_check. */
START_TEST(finds_every_record_of_a_real_gpu)
{
    static const struct {
        const char *program;
        unsigned files, kernels, in_graphs, copies, fills, memory, syncs, events;
    } runs[] = {
        {"copies", 2, 0, 0, 20, 6, 18, 14, 0}, {"events", 2, 10, 0, 2, 2, 2, 12, 6},
        {"graphs", 2, 20, 20, 7, 7, 6, 8, 0},  {"many", 4, 40, 0, 0, 0, 0, 4, 0},
        {"pools", 2, 2, 0, 4, 2, 16, 2, 0},    {"reset", 3, 12, 0, 0, 1, 1, 1, 0},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct counts all = {0};
        for (unsigned n = 0; n < runs[i].files; n++) {
            char path[128];
            snprintf(path, sizeof path, FOLDER "/%s-cupti-130001-%u.bin", runs[i].program, n);
            struct counts c = replay(path);
            for (unsigned kind = 0; kind <= GPU_MEMORY; kind++)
                all.kinds[kind] += c.kinds[kind];
            all.in_graphs += c.in_graphs;
        }
        ck_assert_uint_eq(all.kinds[GPU_KERNEL], runs[i].kernels);
        ck_assert_uint_eq(all.in_graphs, runs[i].in_graphs);
        ck_assert_uint_eq(all.kinds[GPU_COPY], runs[i].copies);
        ck_assert_uint_eq(all.kinds[GPU_FILL], runs[i].fills);
        ck_assert_uint_eq(all.kinds[GPU_MEMORY], runs[i].memory);
        ck_assert_uint_eq(all.kinds[GPU_SYNC], runs[i].syncs);
        ck_assert_uint_eq(all.kinds[GPU_EVENT], runs[i].events);
    }
}
END_TEST

Suite *suite_translate_replay(void)
{
    Suite *suite = suite_create("translate_replay");
    TCase *tcase = tcase_create("translate_replay");
    tcase_add_test(tcase, accepts_every_record_of_every_dump);
    tcase_add_test(tcase, finds_every_launch_of_the_simulated_gpu);
    tcase_add_test(tcase, finds_every_record_of_a_real_gpu);
    suite_add_tcase(suite, tcase);
    return suite;
}
