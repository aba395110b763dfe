/* SPDX-License-Identifier: Apache-2.0 */
/* This process's rank, from variables of launchers. Read at wake-up and again when the first file
 * is opened, because programs also set RANK themselves. Application threads, since getenv is unsafe
 * beside setenv. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Always 0 <= rank < world_size and 0 <= local_rank < local_world_size. */
struct rank_info {
    int64_t rank;
    int64_t local_rank;
    int64_t world_size; /* at least rank + 1 while world_known is false */
    int64_t local_world_size;
    int64_t node_rank;
    bool local_known; /* a launcher set the local rank, or all ranks are on this host */
    bool one_host;    /* all ranks share this host: MASTER_ADDR is a loopback address */
    bool known;       /* a launcher set the rank; else it is rank 0 of 1 */
    bool world_known; /* a launcher set the number of ranks */
    /* "torchrun", "Open MPI", "PMI", "PMIx", "Slurm", "LOCAL_RANK" or "default" */
    const char *source;
};

/* The value of an environment variable, or NULL; the string belongs to the environment. */
typedef const char *rank_lookup(const char *name);

/*
 * Fills *info from the first of these launchers that sets a valid rank:
 *
 *   RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK|NODE_RANK (torchrun)
 *   OMPI_COMM_WORLD_RANK _SIZE _LOCAL_RANK _LOCAL_SIZE (Open MPI)
 *   PMI_RANK PMI_SIZE MPI_LOCALRANKID MPI_LOCALNRANKS (MPICH, Intel MPI, Hydra)
 *   PMIX_RANK (PMIx)
 *   SLURM_PROCID SLURM_STEP_NUM_TASKS|SLURM_NTASKS SLURM_LOCALID
 *     SLURM_STEP_TASKS_PER_NODE|SLURM_NTASKS_PER_NODE SLURM_NODEID (srun)
 *   LOCAL_RANK WORLD_SIZE on node 0, without RANK (Lightning's own launcher)
 *
 * A later launcher with the same rank and world fills the gaps. An unknown node rank is rank /
 * local_world_size where ranks fill one node after the other, else 0. OMPI_COMM_WORLD_NODE_RANK is
 * not read: it counts processes on a node. An unknown local rank is the rank if one_host is set.
 *
 * Slurm counts only inside a job step. The batch script of sbatch has SLURM_PROCID=0 and
 * SLURM_NTASKS=n but is one process: without SLURM_STEP_ID and SLURM_STEP_NUM_TASKS, its rank is
 * not known.
 *
 * Values that are no whole number or contradict others are ignored; with `warn`, a message says so.
 */
void rank_read(struct rank_info *info, rank_lookup *lookup, bool warn);
