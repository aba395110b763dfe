/* SPDX-License-Identifier: Apache-2.0 */
/* The settings: all CPROF_* variables of config.def, read once. config.c is the only file that
 * reads the environment. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/settings/step_ranges.h"

/* What marks a step. The order is that of CPROF_STEP's values in config.def. */
enum config_step {
    CONFIG_STEP_AUTO = 0,
    CONFIG_STEP_MANUAL = 1,     /* cprof_step() only */
    CONFIG_STEP_DATALOADER = 2, /* each batch fetched from a DataLoader */
    CONFIG_STEP_FORWARD = 3,    /* each outermost module call */
    CONFIG_STEP_OPTIMIZER = 4,  /* each step() of an optimizer whose class name matches */
    CONFIG_STEP_NVTX = 5,       /* the end of an NVTX range, or an NVTX mark, whose name matches */
    CONFIG_STEP_ITT = 6,        /* the end of an ITT task, or a mark, whose name matches */
    CONFIG_STEP_SYMBOL = 7,     /* each call of an exported function */
};

/* What opens a window besides the schedule. The order is that of CPROF_TRIGGER's values in
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
enum config_torch_path {
    CONFIG_TORCH_PATH_AUTO,
    CONFIG_TORCH_PATH_CALLBACKS,
    CONFIG_TORCH_PATH_OBJECTS
};

/* The order of CPROF_FLIGHT's values in config.def. */
enum config_flight {
    CONFIG_FLIGHT_OFF,
    CONFIG_FLIGHT_ON,
    CONFIG_FLIGHT_STEPS,
    CONFIG_FLIGHT_SECONDS,
    CONFIG_FLIGHT_MB
};

#define CONFIG_FIELD_BOOL(field)   bool field;
#define CONFIG_FIELD_INT(field)    int64_t field;
#define CONFIG_FIELD_CHOICE(field) int field;
#define CONFIG_FIELD_TEXT(field)   const char *field;
#define CONFIG_FIELD_FOLDER(field) const char *field;
#define CONFIG_FIELD_FILE(field)   const char *field;
#define CONFIG_FIELD_STEP(field)   int field;
#define CONFIG_FIELD_LIST(field)   unsigned field;
#define CONFIG_FIELD_RANGES(field) struct step_ranges field;

/* One field for each row of config.def. Texts are never freed. Written by config_load(), read-only
 * afterwards. schedule_scope, step, trigger and flight are enum schedule_scope, config_step,
 * config_trigger and config_flight; activities are bits of enum config_activity,
 * flight_what of enum flight_what (writer/writer.h); log is enum log_level minus one. */
struct config {
#define X(name, type, field, fallback, min, max, allowed, state, help) CONFIG_FIELD_##type(field)
#include "preload/settings/config.def"
#undef X
};

/* Copies the CPROF_* variables, because programs may overwrite the environment later
 * (setproctitle). No allocation, system call or output. Once, in the constructor. Tests call it
 * again to make config_load() start anew. */
void config_capture(void);

/* False when CPROF_ENABLED is 0 or the process runs with raised privileges (AT_SECURE). Any thread,
 * after config_capture(). */
bool config_enabled(void);

/* Parses the captured variables once and sets the log level. Prints one line for each bad value,
 * unknown name and useless combination, and uses the default there. Allocates nothing. Any
 * application thread; a second caller waits for the first. */
void config_load(void);

/* The text after the colon of CPROF_STEP if its value is of this kind, else "". Without blanks
 * around it; never freed. Any thread, after config_capture(). */
const char *config_step_name(enum config_step kind);

/* The text after the colon of CPROF_TRIGGER, or "". Without blanks around it; never freed. The
 * waking thread, after config_load(). */
const char *config_trigger_name(void);

/* The number after the colon of CPROF_FLIGHT; 0: none. After config_load(). */
int64_t config_flight_most(void);

/* The settings, loaded if necessary. Never NULL. Any thread. */
const struct config *config_get(void);

/* Writes each effective setting as a log_debug line. Any thread, after config_load(). */
void config_print(void);

/* The value of an environment variable, or NULL; always NULL with AT_SECURE. The string belongs to
 * the environment. Application threads only: getenv is unsafe beside setenv. Usable as a
 * rank_lookup. */
const char *config_env(const char *name);
