/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run's name and the values of the format variables of CPROF_FOLDER and CPROF_FILENAME.
 * names_capture() runs in the constructor; the run's name is made once on an application thread at
 * wake-up; names_fill() runs on the cprof thread for each file.
 */
#ifndef PRELOAD_SETTINGS_RUN_NAMES_H
#define PRELOAD_SETTINGS_RUN_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/settings/rank.h"
#include "writer/writer.h"

enum {
    NAMES_RUN_VARIABLES = 6, /* what CPROF_FOLDER takes: run_name to node_rank */
    NAMES_VARIABLES = 16,    /* what CPROF_FILENAME takes */
    NAMES_RUN_SIZE = 161,    /* room for a run name with its NUL */
    NAMES_SCRIPT_SIZE = 97   /* room for a script name with its NUL */
};

/* Names of the variables, no braces; the first NAMES_RUN_VARIABLES are the same for a whole run. */
extern const char *const names_variables[NAMES_VARIABLES];

/* Values of the sixteen variables; vars points into numbers and to the caller's run name. */
struct names_values {
    struct path_var vars[NAMES_VARIABLES];
    char numbers[NAMES_VARIABLES][24];
};

/* Copies the program's arguments, from which its name comes. In the constructor, once, before
 * names_capture(); without it /proc is read. */
void names_take_arguments(int argc, char **argv);

/*
 * Decides the start time of the launch and hands it on in CPROF_START_TIME. A process that a
 * launcher made one of several ranks, or that Python's multiprocessing made, keeps the time it
 * inherited; every other process starts a launch of its own and sets its own time, so that neither
 * a shell with the library preloaded nor a script that runs one training after another gives two
 * runs one name. Shells and terminals set nothing. Nothing happens with CPROF_ENABLED=0. In the
 * constructor, after config_capture(), once.
 */
void names_capture(void);

/* When the launch started: seconds since the epoch. Known after names_capture(). Any thread. */
int64_t names_start_time(void);

/* The same in nanoseconds, by the clock from which files get their times: what this launch writes
 * is not older. */
int64_t names_start_ns(void);

/*
 * The name of what runs here into out[0..size): Python's script without folder and .py, the last
 * part of a -m module, "python" for -c and standard input, the program's own name elsewhere; for a
 * child made by Python's multiprocessing its parent's. Bytes that do not belong into a file name
 * are '_'. Reads /proc of parents; at wake-up, any thread.
 */
void names_script(char *out, size_t size);

/* names_script() on the bytes of a /proc/PID/cmdline (arguments ended by NUL). Pure. */
void names_script_of(const char *cmdline, size_t length, char *out, size_t size);

/* Whether a /proc/PID/cmdline is that of a child made by Python's multiprocessing. Pure. */
bool names_is_multiprocessing(const char *cmdline, size_t length);

/*
 * The run's name into out[0..size), the same for all ranks of a launch; the first that is set of:
 *   setting (CPROF_RUN_NAME)
 *   COMPOSER_RUN_NAME, RUN_NAME
 *   TORCHELASTIC_RUN_ID, unless it is "none"
 *   PMIX_NAMESPACE, OMPI_MCA_ess_base_jobid, PMI_JOBID, when MPI started several ranks
 *   SLURM_JOB_ID.SLURM_STEP_ID, when srun started several tasks
 *   SLURM_JOB_ID-20261120-151203 elsewhere in a Slurm job
 *   script-20261120-151203 with the local time of start
 * A launcher's id gets -restartN where Slurm starts the job for the N-th time again
 * (SLURM_RESTART_COUNT). MPI's ids come before Slurm's because mpirun's remote ranks run in a Slurm
 * step and its local ones do not; a job's id alone never names a run, because one job can hold
 * many. '/' and control characters become '_'; longer names are cut. Asks lookup, has no state; on
 * an application thread.
 */
void names_run(char *out, size_t size, const char *setting, rank_lookup *lookup,
               const struct rank_info *rank, const char *script, int64_t start);

/*
 * Fills *values. run_name must outlive them; time may be NULL: its ten variables are then 0. The
 * wct variables are seconds as Python writes a float of microseconds. Pure; any thread.
 */
void names_fill(struct names_values *values, const char *run_name, const struct rank_info *rank,
                const struct train_time *time);

#endif
