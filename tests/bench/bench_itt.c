/* SPDX-License-Identifier: Apache-2.0 */
/* What a pair of ITT calls costs, next to the same pair of cprof_range_push() and
 * cprof_range_pop(): through a table as a client's static part has it, which the library's
 * __itt_api_init() fills. Idle (a step that is skipped), and recording. Runs on the main thread
 * under LD_PRELOAD=libcprof.so with CPROF_WAIT=2 CPROF_WARMUP=0 CPROF_ACTIVE=1. Prints `name value
 * unit` lines for scripts/bench. Usage: bench_itt [rounds] */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/markers/itt.h"
#include "tests/bench/pair.h"

static struct itt_domain *(*domain_create)(const char *name);
static struct itt_string *(*string_create)(const char *text);
static void (*task_begin)(const struct itt_domain *domain, struct itt_id id, struct itt_id parent,
                          const struct itt_string *name);
static void (*task_end)(const struct itt_domain *domain);

static struct itt_function functions[] = {
    {"__itt_domain_create", (void **)&domain_create, NULL, NULL, 0},
    {"__itt_string_handle_create", (void **)&string_create, NULL, NULL, 0},
    {"__itt_task_begin", (void **)&task_begin, NULL, NULL, 0},
    {"__itt_task_end", (void **)&task_end, NULL, NULL, 0},
    {NULL, NULL, NULL, NULL, 0},
};
static struct itt_global global = {.functions = functions};
static struct itt_domain *domain;
static struct itt_string *name;

static void task_pair(void)
{
    static const struct itt_id none;
    task_begin(domain, none, none, name);
    task_end(domain);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 200;
    void (*init)(void *, int) = (void (*)(void *, int))dlsym(RTLD_DEFAULT, "__itt_api_init");
    memcpy(global.magic, ITT_MAGIC, sizeof global.magic);
    if (init)
        init(&global, -1);
    if (!domain_create || !string_create || !task_begin || !task_end)
        return 1;
    domain = domain_create("domain");
    name = string_create("range");
    cprof_step(); /* away from step 0, which may be kept */
    while (cprof_action() >= CPROF_ACTIVE)
        cprof_step();
    printf("itt_pair_idle %.1f ns\n", measure(task_pair, rounds));
    for (int i = 0; i < 1000 && cprof_action() < CPROF_ACTIVE; i++)
        cprof_step();
    printf("range_pair %.1f ns\n", measure(range_pair, rounds));
    printf("itt_pair %.1f ns\n", measure(task_pair, rounds));
    cprof_step();
    return 0;
}
