/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the calls of cprof.h that describe a training's progress. tests/e2e/test_training.py
 * runs it and reads the traces. Each `mode` is a function below. Usage: training mode */
#include "preload/cprof.h"

#include <stdio.h>
#include <string.h>

/* A step with a mark that holds its number, so that a trace shows its steps. */
static void step(void)
{
    char name[32];
    snprintf(name, sizeof name, "in step %lld", (long long)cprof_step_number());
    cprof_range_push(name);
    cprof_range_pop();
    cprof_step();
}

/* Prints what each call returns. Makes two traces; the second has the calls after the first. */
static void metadata(void)
{
    printf("%d", cprof_add_metadata("model", "resnet"));
    printf("%d", cprof_add_metadata("model", "caf\xc3\xa9 \"50\"\n\xff"));
    printf("%d", cprof_add_metadata_json(
                     "config", " {\"lr\": 1e-3, \"dims\": [1, 2],\n\"x\": \"\\u00e9\"} "));
    step();
    step();
    printf("%d", cprof_add_metadata_json("config", "{\"lr\": NaN}"));
    printf("%d", cprof_add_metadata_json("config", "{} {}"));
    printf("%d", cprof_add_metadata_json("traceEvents", "[]"));
    printf("%d", cprof_add_metadata(NULL, "x"));
    printf("%d", cprof_add_metadata("x", NULL));
    printf("%d\n", cprof_add_metadata("later", "1"));
    step();
    step();
}

/* Three epochs of five batches of four samples. A validation, which is no batch, follows each. */
static void epochs(void)
{
    for (int epoch = 0; epoch < 3; epoch++) {
        for (int batch = 0; batch < 5; batch++) {
            char name[32];
            snprintf(name, sizeof name, "in step %lld", (long long)cprof_step_number());
            cprof_range_push(name);
            cprof_range_pop();
            cprof_step_samples(4, 100);
        }
        cprof_mark("validation");
        cprof_epoch();
    }
}

/* Two regions in a program of nine steps, the second without its end. */
static void regions(void)
{
    cprof_range_push("setup");
    cprof_range_pop();
    step();
    cprof_stop(); /* no region is open */
    cprof_start();
    step();
    cprof_start(); /* nested */
    step();
    cprof_stop();
    step();
    step();
    cprof_stop();
    step();
    cprof_start();
    step();
    step();
    step();
}

/* A region in a program without steps. */
static void region_without_steps(void)
{
    cprof_range_push("outside");
    cprof_range_pop();
    cprof_start();
    cprof_range_push("inside");
    cprof_range_pop();
    cprof_stop();
    cprof_range_push("outside");
    cprof_range_pop();
}

/* Records the steps whose samples are a multiple of 8. Returns an invalid action once. */
static int choose(const struct cprof_time *time, void *arg)
{
    printf("%s %lld %lld\n", (const char *)arg, (long long)time->step, (long long)time->sample);
    if (time->sample == 12)
        return 1000;
    return time->sample % 8 == 0 ? CPROF_ACTIVE_AND_SAVE : CPROF_SKIP;
}

static void schedule(void)
{
    static char arg[] = "asked";
    cprof_set_schedule(choose, arg);
    for (int i = 0; i < 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "in step %d", i);
        cprof_range_push(name);
        cprof_range_pop();
        cprof_step_samples(4, 0);
    }
    cprof_set_schedule(NULL, NULL);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"metadata", metadata},
                 {"epochs", epochs},
                 {"regions", regions},
                 {"region", region_without_steps},
                 {"schedule", schedule}};
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(argv[1], modes[i].name) == 0) {
            modes[i].run();
            return 0;
        }
    }
    return 2;
}
