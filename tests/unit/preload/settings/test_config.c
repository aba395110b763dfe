/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/settings/config.h: values, defaults, and the message for each mistake. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload/settings/config.h"
#include "preload/settings/run_names.h"
#include "preload/core/parse.h"
#include "preload/settings/schedule.h"
#include "writer/writer.h"

Suite *suite_config(void);

/* What the last load wrote to standard error. */
static char lines[16384];

/* Loads the settings from these environment entries alone. */
static const struct config *load_entries(const char *const *entries)
{
    static char copies[128][8192];
    int saved = dup(STDERR_FILENO);
    int sink = memfd_create("stderr", MFD_CLOEXEC);
    /* cprof writes messages into a file only if it was opened for appending */
    ck_assert_int_eq(fcntl(sink, F_SETFL, O_APPEND), 0);
    ck_assert(saved >= 0 && sink >= 0 && dup2(sink, STDERR_FILENO) >= 0);
    clearenv();
    for (size_t i = 0; entries[i]; i++) {
        snprintf(copies[i], sizeof copies[i], "%s", entries[i]);
        putenv(copies[i]);
    }
    config_capture();
    for (size_t i = 0; entries[i]; i++) /* setproctitle() overwrites the strings like this */
        memset(copies[i], '#', sizeof copies[i] - 1);
    clearenv();
    config_load();
    ck_assert(dup2(saved, STDERR_FILENO) >= 0);
    ssize_t length = pread(sink, lines, sizeof lines - 1, 0);
    lines[length < 0 ? 0 : length] = '\0';
    close(saved);
    close(sink);
    return config_get();
}

#define LOAD(...) load_entries((const char *const[]){__VA_ARGS__, NULL})

START_TEST(uses_defaults_without_variables)
{
    const struct config *c = LOAD("PATH=/bin");
    ck_assert_str_eq(lines, "");
    ck_assert_int_eq(c->skip_first, 0);
    ck_assert_int_eq(c->wait, 0);
    ck_assert_int_eq(c->warmup, 1);
    ck_assert_int_eq(c->active, 4);
    ck_assert_int_eq(c->repeat, 1);
    ck_assert(!c->skip_first_wait);
    ck_assert_int_eq(c->schedule_scope, SCHEDULE_RUN);
    ck_assert_int_eq(c->step, CONFIG_STEP_AUTO);
    ck_assert_str_eq(c->folder, "{run_name}/torch_traces");
    ck_assert_str_eq(c->filename, "rank{rank}.{batch}.pt.trace.json");
    ck_assert_str_eq(c->run_name, "");
    ck_assert(!c->overwrite && !c->use_gzip && !c->record_shapes && c->profile_memory);
    ck_assert_uint_eq(c->activities, CONFIG_ACTIVITY_CPU | CONFIG_ACTIVITY_CUDA);
    ck_assert(c->enabled && !c->trace_children);
    ck_assert_int_eq(c->log + LOG_ERROR, LOG_INFO);
    ck_assert_int_eq(c->ring_kb, 8192);
    ck_assert_int_eq(c->gpu_buffer_kb, 256);
    ck_assert_int_eq(c->max_trace_mb, 2048);
    ck_assert_int_eq(c->drain_deadline_ms, 10000);
    ck_assert_int_eq(c->num_traces_to_keep, -1);
    ck_assert_str_eq(c->remote_url, "");
    ck_assert(config_enabled());
}
END_TEST

START_TEST(keeps_values_after_the_environment_changes)
{
    const struct config *c = LOAD(
        "CPROF_SKIP_FIRST=10", "CPROF_WAIT= 1", "CPROF_WARMUP=0", "CPROF_ACTIVE=3\n",
        "CPROF_REPEAT=0", "CPROF_SKIP_FIRST_WAIT=yes", "CPROF_SCHEDULE_SCOPE=Run",
        "CPROF_STEP=dataloader", "CPROF_FOLDER=/data/{rank}", "CPROF_FILENAME=x{epoch}.json",
        "CPROF_RUN_NAME=a=b", "CPROF_OVERWRITE=1", "CPROF_USE_GZIP=on", "CPROF_ACTIVITIES=cuda",
        "CPROF_RECORD_SHAPES=TRUE", "CPROF_PROFILE_MEMORY=off", "CPROF_TRACE_CHILDREN=1",
        "CPROF_LOG=debug", "CPROF_RING_KB=64", "CPROF_MAX_TRACE_MB=1", "CPROF_DRAIN_DEADLINE_MS=0");
    ck_assert_str_eq(lines, "");
    ck_assert_int_eq(c->skip_first, 10);
    ck_assert_int_eq(c->wait, 1);
    ck_assert_int_eq(c->warmup, 0);
    ck_assert_int_eq(c->active, 3);
    ck_assert_int_eq(c->repeat, 0);
    ck_assert(c->skip_first_wait);
    ck_assert_int_eq(c->schedule_scope, SCHEDULE_RUN);
    ck_assert_int_eq(c->step, CONFIG_STEP_DATALOADER);
    ck_assert_str_eq(c->folder, "/data/{rank}");
    ck_assert_str_eq(c->filename, "x{epoch}.json");
    ck_assert_str_eq(c->run_name, "a=b");
    ck_assert(c->overwrite && c->use_gzip && c->record_shapes && !c->profile_memory);
    ck_assert_uint_eq(c->activities, CONFIG_ACTIVITY_CUDA);
    ck_assert(c->trace_children);
    ck_assert_int_eq(c->log + LOG_ERROR, LOG_DEBUG);
    ck_assert_int_eq(c->ring_kb, 64);
    ck_assert_int_eq(c->max_trace_mb, 1);
    ck_assert_int_eq(c->drain_deadline_ms, 0);
}
END_TEST

START_TEST(reports_each_bad_value_in_one_line)
{
    static const struct {
        const char *entry, *line;
    } rows[] = {
        {"CPROF_ACTIVE=0",
         "CPROF_ACTIVE=0: must be a whole number from 1 to 2147483647; using the default 4"},
        {"CPROF_ACTIVE=2147483648",
         "CPROF_ACTIVE=2147483648: must be a whole number from 1 to 2147483647; using the "
         "default 4"},
        {"CPROF_WAIT=-1",
         "CPROF_WAIT=-1: must be a whole number from 0 to 2147483647; using the default 0"},
        {"CPROF_WAIT=+5",
         "CPROF_WAIT=+5: must be a whole number from 0 to 2147483647; using the default 0"},
        {"CPROF_WAIT=1e3",
         "CPROF_WAIT=1e3: must be a whole number from 0 to 2147483647; using the default 0"},
        {"CPROF_WAIT=0x10",
         "CPROF_WAIT=0x10: must be a whole number from 0 to 2147483647; using the default 0"},
        {"CPROF_WAIT=\xd9\xa3",
         "CPROF_WAIT=\xd9\xa3: must be a whole number from 0 to 2147483647; using the default 0"},
        {"CPROF_RING_KB=63",
         "CPROF_RING_KB=63: must be a whole number from 64 to 1048576; using the default 8192"},
        {"CPROF_USE_GZIP=maybe",
         "CPROF_USE_GZIP=maybe: must be 0 or 1 (or false/true, no/yes, off/on); using the "
         "default 0"},
        {"CPROF_ENABLED=a\x1b[31m\nb",
         "CPROF_ENABLED=a?[31m?b: must be 0 or 1 (or false/true, no/yes, off/on); using the "
         "default 1"},
        {"CPROF_SCHEDULE_SCOPE=all",
         "CPROF_SCHEDULE_SCOPE=all: must be one of run, epoch, none; using the default run"},
        {"CPROF_STEP=nvtx",
         "CPROF_STEP=nvtx: must be one of auto, manual, dataloader, forward, optimizer:GLOB, "
         "nvtx:GLOB, itt:GLOB, symbol:NAME; using the default auto"},
        {"CPROF_LOG=loud",
         "CPROF_LOG=loud: must be one of error, warn, info, debug; using the default info"},
        {"CPROF_ACTIVITIES=cpu,gpu",
         "CPROF_ACTIVITIES=cpu,gpu: must be a comma-separated list of cpu, cuda, xpu, mtia; using "
         "the default cpu,cuda"},
        {"CPROF_FOLDER={batch}",
         "CPROF_FOLDER={batch}: unknown variable {batch}; allowed: {run_name} {rank} {local_rank} "
         "{world_size} {local_world_size} {node_rank}; using the default {run_name}/torch_traces"},
        {"CPROF_FILENAME={nope}",
         "CPROF_FILENAME={nope}: unknown variable {nope}; allowed: {run_name} {rank} {local_rank} "
         "{world_size} {local_world_size} {node_rank} {epoch} {batch} {batch_in_epoch} {sample} "
         "{sample_in_epoch} {token} {token_in_epoch} {total_wct} {epoch_wct} {batch_wct}; using "
         "the default rank{rank}.{batch}.pt.trace.json"},
        {"CPROF_FILENAME=rank{rank",
         "CPROF_FILENAME=rank{rank: unbalanced brace at character 5 (write {{ or }} for a brace); "
         "using the default rank{rank}.{batch}.pt.trace.json"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char expected[1024];
        const struct config *c = LOAD(rows[i].entry);
        snprintf(expected, sizeof expected, "cprof: %s\n", rows[i].line);
        ck_assert_str_eq(lines, expected);
        ck_assert(c->active == 4 && c->wait == 0 && c->ring_kb == 8192 && !c->use_gzip);
        ck_assert(c->enabled && c->step == 0 && c->schedule_scope == 0 && c->activities == 3);
        ck_assert_str_eq(c->folder, "{run_name}/torch_traces");
        ck_assert_str_eq(c->filename, "rank{rank}.{batch}.pt.trace.json");
        ck_assert(config_enabled());
    }
}
END_TEST

START_TEST(uses_the_default_for_empty_values)
{
    const struct config *c =
        LOAD("CPROF_ACTIVE=", "CPROF_FOLDER=", "CPROF_USE_GZIP= ", "CPROF_STEP=\t",
             "CPROF_ACTIVITIES=", "CPROF_LOG=", "CPROF_REMOTE_FILE_NAME=", "CPROF_WITH_FLOPS=");
    ck_assert_str_eq(lines, "");
    ck_assert_int_eq(c->active, 4);
    ck_assert_str_eq(c->folder, "{run_name}/torch_traces");
    ck_assert_uint_eq(c->activities, 3);
}
END_TEST

START_TEST(cuts_long_values_in_messages)
{
    static char entry[6000];
    memset(entry, 'x', sizeof entry - 1);
    memcpy(entry, "CPROF_FOLDER=", 13);
    const struct config *c = LOAD(entry);
    ck_assert_uint_lt(strlen(lines), 300);
    ck_assert_ptr_nonnull(strstr(lines, "xxx...: must be at most 4000 bytes long; using the "
                                        "default {run_name}/torch_traces\n"));
    ck_assert_str_eq(c->folder, "{run_name}/torch_traces");

    /* exactly at the limit */
    entry[13 + 4000] = '\0';
    c = LOAD(entry);
    ck_assert_str_eq(lines, "");
    ck_assert_uint_eq(strlen(c->folder), 4000);

    /* a character is not cut in two */
    static char wide[600] = "CPROF_ACTIVE=x";
    for (size_t i = 14; i + 2 < sizeof wide; i += 2)
        memcpy(wide + i, "\xc3\xa4", 3);
    LOAD(wide);
    ck_assert_ptr_nonnull(strstr(lines, "\xc3\xa4...: must be"));
}
END_TEST

START_TEST(suggests_a_name_for_unknown_settings)
{
    LOAD("CPROF_ACTIVEE=5");
    ck_assert_str_eq(lines, "cprof: CPROF_ACTIVEE: unknown setting; did you mean CPROF_ACTIVE?\n");
    LOAD("CPROF_active=5");
    ck_assert_str_eq(lines, "cprof: CPROF_active: unknown setting; did you mean CPROF_ACTIVE?\n");
    LOAD("CPROF_GZIP=1", "CPROF_WIAT=1");
    ck_assert_str_eq(lines, "cprof: CPROF_GZIP: unknown setting; did you mean CPROF_USE_GZIP?\n"
                            "cprof: CPROF_WIAT: unknown setting; did you mean CPROF_WAIT?\n");
    LOAD("CPROF_=1");
    ck_assert_ptr_nonnull(strstr(lines, "cprof: CPROF_: unknown setting; did you mean CPROF_"));
    LOAD("CPROF=1", "XCPROF_ACTIVE=0", "cprof_active=0", "CPROF_START_TIME=5");
    ck_assert_str_eq(lines, "");
    /* an internal name is never suggested */
    LOAD("CPROF_START_TIM=1");
    ck_assert_ptr_null(strstr(lines, "CPROF_START_TIME?"));
}
END_TEST

START_TEST(accepts_the_default_of_every_setting)
{
#define X(name, type, field, fallback, min, max, allowed, state, help)                             \
    LOAD(#name "=" fallback);                                                                      \
    ck_assert_msg(!strstr(lines, "unknown") && strstr(lines, "must be") == NULL, "%s", lines);     \
    ck_assert_msg(sizeof help > 10 && (help)[sizeof help - 2] != '.', #name);
#include "preload/settings/config.def"
#undef X
}
END_TEST

START_TEST(reads_the_nvtx_step_pattern)
{
    const struct config *c = LOAD("CPROF_STEP=nvtx:train/step:*");
    ck_assert_str_eq(lines, "");
    ck_assert_int_eq(c->step, CONFIG_STEP_NVTX);
    ck_assert_str_eq(config_step_name(CONFIG_STEP_NVTX), "train/step:*");
    LOAD("CPROF_STEP=forward");
    ck_assert_str_eq(config_step_name(CONFIG_STEP_NVTX), "");
}
END_TEST

START_TEST(reads_itt_and_symbol_step_names)
{
    const struct config *c = LOAD("CPROF_STEP=itt:train step *");
    ck_assert_str_eq(lines, "");
    ck_assert_int_eq(c->step, CONFIG_STEP_ITT);
    ck_assert_str_eq(config_step_name(CONFIG_STEP_ITT), "train step *");
    ck_assert_str_eq(config_step_name(CONFIG_STEP_SYMBOL), "");
    c = LOAD("CPROF_STEP= Symbol: my_step\t");
    ck_assert_str_eq(lines, "");
    ck_assert_int_eq(c->step, CONFIG_STEP_SYMBOL);
    ck_assert_str_eq(config_step_name(CONFIG_STEP_SYMBOL), "my_step");
    ck_assert_str_eq(config_step_name(CONFIG_STEP_ITT), "");
    c = LOAD("CPROF_STEP=itt:");
    ck_assert(strstr(lines, "must be one of") != NULL);
    ck_assert_int_eq(c->step, CONFIG_STEP_AUTO);
    ck_assert_str_eq(config_step_name(CONFIG_STEP_ITT), "");
}
END_TEST

START_TEST(reads_the_optimizer_step_pattern)
{
    const struct config *c = LOAD("CPROF_STEP= Optimizer: Adam* ");
    ck_assert_str_eq(lines, "");
    ck_assert_int_eq(c->step, CONFIG_STEP_OPTIMIZER);
    ck_assert_str_eq(config_step_name(CONFIG_STEP_OPTIMIZER), "Adam*");
    ck_assert_str_eq(config_step_name(CONFIG_STEP_NVTX), "");
    c = LOAD("CPROF_STEP=optimizer:");
    ck_assert_str_eq(lines,
                     "cprof: CPROF_STEP=optimizer:: must be one of auto, manual, dataloader, "
                     "forward, optimizer:GLOB, nvtx:GLOB, itt:GLOB, symbol:NAME; using the "
                     "default auto\n");
    ck_assert_int_eq(c->step, CONFIG_STEP_AUTO);
    ck_assert_str_eq(config_step_name(CONFIG_STEP_OPTIMIZER), "");
}
END_TEST

START_TEST(reads_triggers_and_their_arguments)
{
    const struct config *c = LOAD("CPROF_TRIGGER=signal: USR2 ");
    ck_assert_str_eq(lines, "");
    ck_assert_int_eq(c->trigger, CONFIG_TRIGGER_SIGNAL);
    ck_assert_str_eq(config_trigger_name(), "USR2");
    c = LOAD("CPROF_TRIGGER=nvtx:a:b*");
    ck_assert_int_eq(c->trigger, CONFIG_TRIGGER_NVTX);
    ck_assert_str_eq(config_trigger_name(), "a:b*");
    c = LOAD("CPROF_TRIGGER=Cuda");
    ck_assert_int_eq(c->trigger, CONFIG_TRIGGER_CUDA);
    ck_assert_str_eq(config_trigger_name(), "");
    c = LOAD("CPROF_TRIGGER=file");
    ck_assert_str_eq(lines,
                     "cprof: CPROF_TRIGGER=file: must be one of off, signal:NAME, file:PATH, "
                     "socket, nvtx:GLOB, cuda; using the default off\n");
    ck_assert_int_eq(c->trigger, CONFIG_TRIGGER_OFF);
}
END_TEST

START_TEST(tensorboard_dir_overrides_folder_and_filename)
{
    LOAD("CPROF_TENSORBOARD_DIR=tb", "CPROF_FOLDER=a", "CPROF_FILENAME=b.json");
    ck_assert_str_eq(lines,
                     "cprof: CPROF_FOLDER=a: CPROF_TENSORBOARD_DIR says where traces go; ignored\n"
                     "cprof: CPROF_FILENAME=b.json: CPROF_TENSORBOARD_DIR says where traces go; "
                     "ignored\n");
    LOAD("CPROF_TENSORBOARD_DIR=tb", "CPROF_TENSORBOARD_WORKER=w{rank}");
    ck_assert_str_eq(lines, "");
}
END_TEST

START_TEST(hides_the_remote_url_in_messages)
{
    static char url[8000] = "CPROF_REMOTE_URL=https://user:secret@host/";
    memset(url + strlen(url), 'x', 5000);
    LOAD(url, "CPROF_LOG=debug");
    config_print();
    ck_assert_ptr_nonnull(strstr(lines, "CPROF_REMOTE_URL=(set): must be at most 4000 bytes"));
    ck_assert_ptr_null(strstr(lines, "secret"));
}
END_TEST

START_TEST(accepts_keeping_no_trace_with_a_target)
{
    const struct config *c = LOAD("CPROF_NUM_TRACES_TO_KEEP=0", "CPROF_REMOTE_URL=https://h",
                                  "CPROF_REMOTE_FILE_NAME=none");
    ck_assert_int_eq(c->num_traces_to_keep, -1);
    c = LOAD("CPROF_NUM_TRACES_TO_KEEP=0", "CPROF_REMOTE_URL=https://h");
    ck_assert_str_eq(lines, "");
    ck_assert_int_eq(c->num_traces_to_keep, 0);
    c = LOAD("CPROF_NUM_TRACES_TO_KEEP=0", "CPROF_ON_TRACE_READY=ls");
    ck_assert_str_eq(lines, "");
    ck_assert_int_eq(c->num_traces_to_keep, 0);
}
END_TEST

START_TEST(accepts_switched_off_features_silently)
{
    const struct config *c =
        LOAD("CPROF_NUM_TRACES_TO_KEEP=-1", "CPROF_REMOTE_FILE_NAME=None", "CPROF_WITH_STACK=off",
             "CPROF_WITH_FLOPS=0", "CPROF_WITH_MODULES=false", "CPROF_GPU_BUFFER_KB=0256");
    ck_assert_str_eq(lines, "");
    ck_assert(!c->with_flops);
    c = LOAD("X=1");
    ck_assert_str_eq(lines, "");
    ck_assert(c->with_flops);
}
END_TEST

START_TEST(rejects_keeping_no_trace_without_a_target)
{
    const struct config *c = LOAD("CPROF_NUM_TRACES_TO_KEEP=0");
    ck_assert_str_eq(lines, "cprof: CPROF_NUM_TRACES_TO_KEEP=0: keeps no trace at all without "
                            "CPROF_REMOTE_URL or CPROF_ON_TRACE_READY; ignored\n");
    ck_assert_int_eq(c->num_traces_to_keep, -1);
}
END_TEST

START_TEST(ignores_counts_without_a_schedule)
{
    const struct config *c = LOAD("CPROF_SCHEDULE_SCOPE=none", "CPROF_ACTIVE=9");
    ck_assert_str_eq(
        lines, "cprof: CPROF_ACTIVE=9: counts nothing with CPROF_SCHEDULE_SCOPE=none; ignored\n");
    ck_assert_int_eq(c->schedule_scope, SCHEDULE_NONE);
    LOAD("CPROF_SCHEDULE_SCOPE=none");
    ck_assert_str_eq(lines, "");
}
END_TEST

START_TEST(named_steps_override_the_schedule)
{
    const struct config *c =
        LOAD("CPROF_STEPS=10-13", "CPROF_WAIT=3", "CPROF_SCHEDULE_SCOPE=epoch");
    ck_assert_ptr_nonnull(
        strstr(lines, "cprof: CPROF_WAIT=3: CPROF_STEPS says which steps are recorded; ignored\n"));
    ck_assert_ptr_nonnull(strstr(lines, "cprof: CPROF_SCHEDULE_SCOPE=epoch: CPROF_STEPS says"));
    ck_assert(c->steps.n == 1 && c->steps.at[0].last == 13 && c->wait == 0);
    ck_assert_int_eq(c->schedule_scope, SCHEDULE_RUN);
    c = LOAD("CPROF_STEPS=13-10", "CPROF_WAIT=3");
    ck_assert_str_eq(lines,
                     "cprof: CPROF_STEPS=13-10: 13-10 ends before it begins; using the default\n");
    ck_assert(c->steps.n == 0 && c->wait == 3);
}
END_TEST

START_TEST(ignores_unsupported_activities)
{
    const struct config *c = LOAD("CPROF_ACTIVITIES=cpu,xpu");
    ck_assert_str_eq(lines, "cprof: CPROF_ACTIVITIES=cpu,xpu: xpu and mtia are not supported; the "
                            "rest is recorded\n");
    ck_assert_uint_eq(c->activities, CONFIG_ACTIVITY_CPU);
    c = LOAD("CPROF_ACTIVITIES=mtia");
    ck_assert_str_eq(lines, "cprof: CPROF_ACTIVITIES=mtia: xpu and mtia are not supported; using "
                            "the default cpu,cuda\n");
    ck_assert_uint_eq(c->activities, 3);
}
END_TEST

START_TEST(log_level_filters_messages)
{
    LOAD("CPROF_ACTIVE=0", "CPROF_LOG=error");
    ck_assert_str_eq(lines, "");
    LOAD("CPROF_ACTIVE=0", "CPROF_LOG=WARN");
    ck_assert_ptr_nonnull(strstr(lines, "CPROF_ACTIVE=0"));
}
END_TEST

START_TEST(reads_cprof_enabled_at_the_capture)
{
    static const struct {
        const char *entry;
        bool enabled;
    } rows[] = {
        {"CPROF_ENABLED=0", false}, {"CPROF_ENABLED=off", false}, {"CPROF_ENABLED=", true},
        {"CPROF_ENABLED=1", true},  {"CPROF_ENABLED=x", true},    {"CPROF_ENABLED2=0", true},
        {"XCPROF_ENABLED=0", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char copy[64];
        snprintf(copy, sizeof copy, "%s", rows[i].entry);
        clearenv();
        putenv(copy);
        config_capture();
        clearenv();
        ck_assert_msg(config_enabled() == rows[i].enabled, "%s", rows[i].entry);
    }
    char **none = NULL, **saved = environ;
    environ = none;
    config_capture();
    ck_assert(config_enabled());
    environ = saved;
}
END_TEST

START_TEST(uses_the_first_of_duplicate_variables)
{
    char *two[] = {(char[]){"CPROF_ACTIVE=7"}, (char[]){"CPROF_ACTIVE=8"}, (char[]){"CPROF_X"},
                   (char[]){"CPROF_LOG=error"}, NULL};
    char **saved = environ;
    environ = two;
    config_capture();
    environ = saved;
    ck_assert_int_eq(config_get()->active, 7);
}
END_TEST

START_TEST(reports_too_many_variables)
{
    static char entries[120][32];
    const char *list[122];
    for (size_t i = 0; i < 120; i++) {
        snprintf(entries[i], sizeof entries[i], "CPROF_%zu=1", i);
        list[i] = entries[i];
    }
    list[120] = "CPROF_ACTIVE=9";
    list[121] = NULL;
    const struct config *c = load_entries(list);
    ck_assert_ptr_nonnull(strstr(lines, "25 CPROF_* variables are not read"));
    ck_assert_int_eq(c->active, 4);
}
END_TEST

START_TEST(reports_too_large_variables)
{
    static char entries[6][7000];
    const char *list[8];
    for (size_t i = 0; i < 6; i++) {
        memset(entries[i], 'x', sizeof entries[i] - 1);
        memcpy(entries[i], "CPROF_REMOTE_URL=", 17);
        entries[i][14] = (char)('A' + i);
        list[i] = entries[i];
    }
    list[6] = "CPROF_ACTIVE=9";
    list[7] = NULL;
    const struct config *c = load_entries(list);
    ck_assert_ptr_nonnull(strstr(lines, "2 CPROF_* variables are not read"));
    ck_assert_int_eq(c->active, 9); /* a short entry still has room */
}
END_TEST

START_TEST(prints_settings_at_debug_level)
{
    LOAD("CPROF_LOG=debug", "CPROF_ACTIVE=9");
    int saved = dup(STDERR_FILENO);
    int sink = memfd_create("stderr", MFD_CLOEXEC);
    ck_assert_int_eq(fcntl(sink, F_SETFL, O_APPEND), 0);
    ck_assert(dup2(sink, STDERR_FILENO) >= 0);
    config_print();
    ck_assert(dup2(saved, STDERR_FILENO) >= 0);
    ssize_t length = pread(sink, lines, sizeof lines - 1, 0);
    lines[length < 0 ? 0 : length] = '\0';
    ck_assert_ptr_nonnull(strstr(lines, "cprof: CPROF_ACTIVE=9\n"));
    ck_assert_ptr_nonnull(strstr(lines, "cprof: CPROF_WARMUP=1 (default)\n"));
    ck_assert_ptr_nonnull(strstr(lines, "cprof: CPROF_DRAIN_DEADLINE_MS=10000 (default)\n"));
    ck_assert_ptr_null(strstr(lines, "CPROF_START_TIME"));
}
END_TEST

START_TEST(reads_other_variables_on_demand)
{
    unsetenv("CPROF_TEST_RANK");
    ck_assert_ptr_null(config_env("CPROF_TEST_RANK"));
    setenv("CPROF_TEST_RANK", "3", 1);
    ck_assert_str_eq(config_env("CPROF_TEST_RANK"), "3");
}
END_TEST

Suite *suite_config(void)
{
    Suite *suite = suite_create("config");
    TCase *tcase = tcase_create("config");
    tcase_add_test(tcase, uses_defaults_without_variables);
    tcase_add_test(tcase, keeps_values_after_the_environment_changes);
    tcase_add_test(tcase, reports_each_bad_value_in_one_line);
    tcase_add_test(tcase, uses_the_default_for_empty_values);
    tcase_add_test(tcase, cuts_long_values_in_messages);
    tcase_add_test(tcase, suggests_a_name_for_unknown_settings);
    tcase_add_test(tcase, accepts_the_default_of_every_setting);
    tcase_add_test(tcase, reads_the_nvtx_step_pattern);
    tcase_add_test(tcase, reads_triggers_and_their_arguments);
    tcase_add_test(tcase, tensorboard_dir_overrides_folder_and_filename);
    tcase_add_test(tcase, hides_the_remote_url_in_messages);
    tcase_add_test(tcase, accepts_keeping_no_trace_with_a_target);
    tcase_add_test(tcase, accepts_switched_off_features_silently);
    tcase_add_test(tcase, reads_itt_and_symbol_step_names);
    tcase_add_test(tcase, reads_the_optimizer_step_pattern);
    tcase_add_test(tcase, rejects_keeping_no_trace_without_a_target);
    tcase_add_test(tcase, ignores_counts_without_a_schedule);
    tcase_add_test(tcase, named_steps_override_the_schedule);
    tcase_add_test(tcase, ignores_unsupported_activities);
    tcase_add_test(tcase, log_level_filters_messages);
    tcase_add_test(tcase, reads_cprof_enabled_at_the_capture);
    tcase_add_test(tcase, uses_the_first_of_duplicate_variables);
    tcase_add_test(tcase, reports_too_many_variables);
    tcase_add_test(tcase, reports_too_large_variables);
    tcase_add_test(tcase, prints_settings_at_debug_level);
    tcase_add_test(tcase, reads_other_variables_on_demand);
    suite_add_tcase(suite, tcase);
    return suite;
}
