/* SPDX-License-Identifier: Apache-2.0 */
/* The run's name, and the format variables of CPROF_FOLDER and CPROF_FILENAME. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/settings/rank.h"
#include "writer/writer.h"

enum {
    NAMES_RUN_VARIABLES = 6, /* for CPROF_FOLDER: run_name to node_rank */
    NAMES_VARIABLES = 16,    /* for CPROF_FILENAME */
    NAMES_RUN_SIZE = 161,    /* size of a run name with its NUL */
    NAMES_SCRIPT_SIZE = 97   /* size of a script name with its NUL */
};

/* Names of the variables without braces. The first NAMES_RUN_VARIABLES do not change during a
 * run. */
extern const char *const names_variables[NAMES_VARIABLES];

/* Values of all variables. `vars` points into `numbers` and to the caller's run name. */
struct names_values {
    struct path_var vars[NAMES_VARIABLES];
    char numbers[NAMES_VARIABLES][24];
};

/* Copies the program's arguments, which give the script's name; without this, /proc is read. Once,
 * in the constructor, before names_capture(). */
void names_take_arguments(int argc, char **argv);

/* Decides when the launch started and exports that as CPROF_START_TIME. A rank of several or a
 * child of Python's multiprocessing keeps the inherited time. Every other process starts a launch
 * of its own, so two runs of one shell or script have different names. Shells and terminals export
 * nothing, nor does cprof with CPROF_ENABLED=0. Once, in the constructor, after
 * config_capture(). */
void names_capture(void);

/* Start of the launch, in seconds since 1970. Any thread, after names_capture(). */
int64_t names_start_time(void);

/* The same in nanoseconds, by the clock of file times: files of this launch are not older. */
int64_t names_start_ns(void);

/* Writes the name of the running script or program. Python: the script without folder and .py, the
 * last part of a -m module, or "python" for -c and stdin. A multiprocessing child has its parent's
 * name. Bytes unfit for a file name become '_'. Reads /proc; at wake-up, any thread. */
void names_script(char *out, size_t size);

/* names_script() for the bytes of a /proc/PID/cmdline. Pure. */
void names_script_of(const char *cmdline, size_t length, char *out, size_t size);

/* Whether a /proc/PID/cmdline is that of a multiprocessing child. Pure. */
bool names_is_multiprocessing(const char *cmdline, size_t length);

/*
 * Writes the run's name, the same for all ranks of a launch. The first that is set counts:
 *
 *   setting (CPROF_RUN_NAME)
 *   COMPOSER_RUN_NAME, RUN_NAME
 *   TORCHELASTIC_RUN_ID, unless it is "none"
 *   PMIX_NAMESPACE, OMPI_MCA_ess_base_jobid, PMI_JOBID, when MPI started several ranks
 *   SLURM_JOB_ID.SLURM_STEP_ID, when srun started several tasks
 *   SLURM_JOB_ID-20261120-151203 elsewhere in a Slurm job
 *   script-20261120-151203 with the local time of start
 *
 * A launcher's id gets -restartN when Slurm has restarted the job (SLURM_RESTART_COUNT). MPI's ids
 * precede Slurm's, because only mpirun's remote ranks run in a Slurm step. A job id alone is no run
 * name, since a job can hold many runs. '/' and control characters become '_'; long names are cut.
 * Asks `lookup`, has no state; application thread.
 */
void names_run(char *out, size_t size, const char *setting, rank_lookup *lookup,
               const struct rank_info *rank, const char *script, int64_t start);

/* Fills *values; run_name must outlive them. time NULL: its ten variables are 0. The wct variables
 * are seconds, in Python's notation. Pure; any thread. */
void names_fill(struct names_values *values, const char *run_name, const struct rank_info *rank,
                const struct train_time *time);
