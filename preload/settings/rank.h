/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process of a launch this is, from what launchers put into the environment. Asks through a
 * lookup function (config_env in the library), so it has no state of its own. Read at wake-up and
 * again when the first file is opened, because programs set RANK themselves too; on an application
 * thread, since getenv is not safe beside setenv.
 */
#ifndef PRELOAD_SETTINGS_RANK_H
#define PRELOAD_SETTINGS_RANK_H

#include <stdbool.h>
#include <stdint.h>

/* Always 0 <= rank < world_size and 0 <= local_rank < local_world_size. */
struct rank_info {
    int64_t rank;
    int64_t local_rank;
    int64_t world_size; /* at least rank + 1 while world_known is false */
    int64_t local_world_size;
    int64_t node_rank;
    bool local_known; /* a launcher said which local rank, or all ranks are on this host */
    bool one_host;    /* all ranks are: they meet at this host's loopback address (MASTER_ADDR) */
    bool known;       /* a launcher said which rank this is; else rank 0 of 1 */
    bool world_known; /* a launcher said how many ranks there are */
    /* "torchrun", "Open MPI", "PMI", "PMIx", "Slurm", "LOCAL_RANK" or "default" */
    const char *source;
};

/* The value of an environment variable, or NULL; the string belongs to the environment. */
typedef const char *rank_lookup(const char *name);

/*
 * Fills *info. The first of these that gives a valid rank decides:
 *   RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK|NODE_RANK (torchrun)
 *   OMPI_COMM_WORLD_RANK _SIZE _LOCAL_RANK _LOCAL_SIZE (Open MPI)
 *   PMI_RANK PMI_SIZE MPI_LOCALRANKID MPI_LOCALNRANKS (MPICH, Intel MPI, Hydra)
 *   PMIX_RANK (PMIx)
 *   SLURM_PROCID SLURM_STEP_NUM_TASKS|SLURM_NTASKS SLURM_LOCALID
 *     SLURM_STEP_TASKS_PER_NODE|SLURM_NTASKS_PER_NODE SLURM_NODEID (srun)
 *   LOCAL_RANK WORLD_SIZE on node 0, without RANK (Lightning's own launcher)
 * What it leaves open comes from a later one that tells the same rank of the same world. A node's
 * number that nobody tells is rank / local_world_size where ranks fill node after node, else 0;
 * OMPI_COMM_WORLD_NODE_RANK is not read, because it counts processes on a node, not nodes. A local
 * rank that nobody tells is the rank where one_host is set.
 *
 * Slurm counts only inside a job step: the batch script of sbatch has SLURM_PROCID=0 and
 * SLURM_NTASKS=n but is one process, so without SLURM_STEP_ID and SLURM_STEP_NUM_TASKS it is rank 0
 * of 1, not known.
 *
 * A value that is no whole number or contradicts the others is ignored, with one line when warn is
 * set.
 */
void rank_read(struct rank_info *info, rank_lookup *lookup, bool warn);

#endif
