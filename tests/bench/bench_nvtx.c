/* SPDX-License-Identifier: Apache-2.0 */
/* What a pair of NVTX calls costs, next to the same pair of cprof_range_push() and
 * cprof_range_pop(): through tables as a client library has them, which are filled by the library's
 * InitializeInjectionNvtx2(). Idle (a step that is skipped), and recording. Runs on the main thread
 * under LD_PRELOAD=libcprof.so with CPROF_WAIT=2 CPROF_WARMUP=0 CPROF_ACTIVE=1. Prints `name value
 * unit` lines for scripts/bench. Usage: bench_nvtx [rounds] */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "preload/markers/nvtx_abi.h"
#include "tests/bench/pair.h"

static nvtx_function core[16], core2[16];
static nvtx_function *core_table[16], *core2_table[16];
static const void *domain;
static struct nvtx_attributes event;

static int module_table(int module, nvtx_function ***table, unsigned *n)
{
    *table = module == NVTX_CORE ? core_table : core2_table;
    *n = 16;
    return module == NVTX_CORE || module == NVTX_CORE2;
}

static const void *export_table(uint32_t id)
{
    static const struct nvtx_callbacks callbacks = {sizeof callbacks, module_table};
    return id == NVTX_CALLBACKS ? &callbacks : NULL;
}

static void push_pop(void)
{
    ((int (*)(const char *))core[9])("range");
    ((int (*)(void))core[11])();
}

static void domain_push_pop(void)
{
    ((int (*)(const void *, const void *))core2[4])(domain, &event);
    ((int (*)(const void *))core2[5])(domain);
}

static void start_end(void)
{
    typedef uint64_t start_function(const char *);
    ((void (*)(uint64_t))core[7])(((start_function *)core[5])("range"));
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 200;
    int (*attach)(nvtx_get_export_table *) =
        (int (*)(nvtx_get_export_table *))dlsym(RTLD_DEFAULT, "InitializeInjectionNvtx2");
    for (int i = 1; i < 16; i++) {
        core_table[i] = &core[i];
        core2_table[i] = &core2[i];
    }
    if (!attach || !attach(export_table) || !core[9])
        return 1;
    domain = ((const void *(*)(const char *))core2[12])("domain");
    event = (struct nvtx_attributes){.version = 3,
                                     .size = sizeof event,
                                     .payload_type = NVTX_UINT64,
                                     .payload.u64 = 7,
                                     .message_type = NVTX_ASCII,
                                     .message.ascii = "range"};
    cprof_step(); /* away from step 0, which may be kept */
    while (cprof_action() >= CPROF_ACTIVE)
        cprof_step();
    printf("nvtx_pair_idle %.1f ns\n", measure(push_pop, rounds));
    for (int i = 0; i < 1000 && cprof_action() < CPROF_ACTIVE; i++)
        cprof_step();
    printf("range_pair %.1f ns\n", measure(range_pair, rounds));
    printf("nvtx_pair %.1f ns\n", measure(push_pop, rounds));
    printf("nvtx_domain_pair %.1f ns\n", measure(domain_push_pop, rounds));
    printf("nvtx_start_end %.1f ns\n", measure(start_end, rounds));
    cprof_step();
    return 0;
}
