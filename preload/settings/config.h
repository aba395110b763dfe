/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings: every CPROF_* variable of config.def, read once. config_capture() runs in the
 * constructor, config_load() on the thread that wakes cprof up, the rest on any thread after that.
 * config.c is the only file that reads the environment.
 */
#ifndef PRELOAD_SETTINGS_CONFIG_H
#define PRELOAD_SETTINGS_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/settings/step_ranges.h"

/* What marks a step. The order is that of CPROF_STEP's values in config.def. */
enum config_step {
    CONFIG_STEP_AUTO = 0,
    CONFIG_STEP_MANUAL = 1,     /* cprof_step() only */
    CONFIG_STEP_DATALOADER = 2, /* each batch taken from a DataLoader */
    CONFIG_STEP_FORWARD = 3,    /* each outermost module call */
    CONFIG_STEP_OPTIMIZER = 4,  /* each step() of an optimizer whose class matches */
    CONFIG_STEP_NVTX = 5,       /* the end of an NVTX range, or a mark, whose name matches */
    CONFIG_STEP_ITT = 6,        /* the end of an ITT task, or a mark, whose name matches */
    CONFIG_STEP_SYMBOL = 7,     /* each call of an exported function */
};

/* What starts a recording besides the schedule. The order is that of CPROF_TRIGGER's values in
 * config.def. */
enum config_trigger {
    CONFIG_TRIGGER_OFF = 0,
    CONFIG_TRIGGER_SIGNAL,
    CONFIG_TRIGGER_FILE,
    CONFIG_TRIGGER_SOCKET,
    CONFIG_TRIGGER_NVTX,
    CONFIG_TRIGGER_CUDA,
};

/* Bits of activities in struct config, in the order of CPROF_ACTIVITIES's values in config.def. */
enum config_activity {
    CONFIG_ACTIVITY_CPU = 1u << 0,
    CONFIG_ACTIVITY_CUDA = 1u << 1,
};

/* The order of CPROF_GPU_GRAPHS's values in config.def. */
enum config_graphs { CONFIG_GRAPHS_NODES, CONFIG_GRAPHS_WHOLE };

/* The order of CPROF_TORCH_PATH's values in config.def. */
enum config_torch_path { CONFIG_TORCH_PATH_AUTO, CONFIG_TORCH_PATH_CALLBACKS };

#define CONFIG_FIELD_BOOL(field)   bool field;
#define CONFIG_FIELD_INT(field)    int64_t field;
#define CONFIG_FIELD_CHOICE(field) int field;
#define CONFIG_FIELD_TEXT(field)   const char *field;
#define CONFIG_FIELD_FOLDER(field) const char *field;
#define CONFIG_FIELD_FILE(field)   const char *field;
#define CONFIG_FIELD_STEP(field)   int field;
#define CONFIG_FIELD_LIST(field)   unsigned field;
#define CONFIG_FIELD_RANGES(field) struct step_ranges field;

/*
 * One field per row of config.def, under the row's field name and type. Texts live as long as the
 * library. Written by config_load(), read-only after it. schedule_scope is an enum schedule_scope,
 * step an enum config_step, trigger an enum config_trigger, activities bits of enum
 * config_activity, log one less than the enum log_level.
 */
struct config {
#define X(name, type, field, fallback, min, max, allowed, state, help) CONFIG_FIELD_##type(field)
#include "preload/settings/config.def"
#undef X
};

/*
 * Copies the CPROF_* variables out of the environment, because programs may overwrite the strings
 * later (setproctitle). No allocation, no system call, no output. In the constructor, once; calling
 * it again (tests) makes the next config_load() start anew.
 */
void config_capture(void);

/*
 * False when CPROF_ENABLED is 0 or the process runs with more rights than its user (AT_SECURE).
 * Known as soon as config_capture() has run. Any thread.
 */
bool config_enabled(void);

/*
 * Parses what config_capture() copied, on the first call only: sets the level of messages, writes
 * one line for each bad value, unknown name, setting whose part is not there yet and combination
 * that cannot work, and keeps the default there. Allocates nothing. Any application thread; a
 * second caller waits for the first.
 */
void config_load(void);

/*
 * What stands behind the colon of CPROF_STEP when its value is of this kind, without blanks around
 * it; "" when it is of another. Lives as long as the library; known as soon as config_capture() has
 * run. Any thread.
 */
const char *config_step_name(enum config_step kind);

/* What stands behind the colon of CPROF_TRIGGER, without blanks around it; "" when nothing does.
 * Lives as long as the library. The waking thread, after config_load(). */
const char *config_trigger_name(void);

/* The settings; loads them if config_load() has not run. Never NULL. Any thread. */
const struct config *config_get(void);

/* Writes each setting's effective value as one log_debug line. Any thread after config_load(). */
void config_print(void);

/*
 * The value of any environment variable, or NULL; always NULL in a process with AT_SECURE. The
 * string belongs to the environment and lasts until somebody changes it. Call on an application
 * thread only: getenv is not safe beside setenv. A rank_lookup.
 */
const char *config_env(const char *name);

#endif
