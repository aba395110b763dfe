/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/settings/rank.h on environments as launchers set them. The real environment
 * is not used. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload/settings/rank.h"

Suite *suite_rank(void);

/* A test's environment: NAME=value strings up to NULL. */
static const char *const *environment;

static const char *lookup(const char *name)
{
    size_t length = strlen(name);
    for (const char *const *entry = environment; *entry; entry++)
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return *entry + length + 1;
    return NULL;
}

/* What the last read wrote to standard error. */
static char lines[2048];

/* Reads the rank from these entries. */
static struct rank_info read_rank(const char *const *entries, bool warn)
{
    struct rank_info info;
    memset(&info, 0x55, sizeof info);
    int saved = dup(STDERR_FILENO);
    int sink = memfd_create("stderr", MFD_CLOEXEC);
    /* cprof writes messages into a file only if it was opened for appending */
    ck_assert_int_eq(fcntl(sink, F_SETFL, O_APPEND), 0);
    ck_assert(saved >= 0 && sink >= 0 && dup2(sink, STDERR_FILENO) >= 0);
    environment = entries;
    rank_read(&info, lookup, warn);
    ck_assert(dup2(saved, STDERR_FILENO) >= 0);
    ssize_t length = pread(sink, lines, sizeof lines - 1, 0);
    lines[length < 0 ? 0 : length] = '\0';
    close(saved);
    close(sink);
    ck_assert_int_ge(info.rank, 0);
    ck_assert_int_lt(info.rank, info.world_size);
    ck_assert_int_ge(info.local_rank, 0);
    ck_assert_int_lt(info.local_rank, info.local_world_size);
    return info;
}

#define READ(...) read_rank((const char *const[]){__VA_ARGS__, NULL}, true)

static void expect(struct rank_info info, const char *source, int rank, int world, int local,
                   int local_world, int node)
{
    ck_assert_str_eq(info.source, source);
    ck_assert_int_eq(info.rank, rank);
    ck_assert_int_eq(info.world_size, world);
    ck_assert_int_eq(info.local_rank, local);
    ck_assert_int_eq(info.local_world_size, local_world);
    ck_assert_int_eq(info.node_rank, node);
}

START_TEST(defaults_to_rank_0_of_1)
{
    struct rank_info info = READ("PATH=/bin");
    expect(info, "default", 0, 1, 0, 1, 0);
    ck_assert(!info.known && !info.world_known);
    ck_assert_str_eq(lines, "");
}
END_TEST

START_TEST(reads_torchrun_variables)
{
    struct rank_info info = READ("RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4",
                                 "GROUP_RANK=1", "NODE_RANK=7");
    expect(info, "torchrun", 5, 8, 1, 4, 1);
    ck_assert(info.known && info.world_known);
    /* The launchers of composer and accelerate set NODE_RANK only. */
    expect(READ("RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4", "NODE_RANK=1"),
           "torchrun", 5, 8, 1, 4, 1);
    /* Without either variable, the node follows from the rank if ranks fill one node after
     * another. */
    expect(READ("RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4"), "torchrun", 5, 8,
           1, 4, 1);
    expect(READ("RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=4"), "torchrun", 5, 8,
           2, 4, 0);
}
END_TEST

START_TEST(accepts_a_rank_without_world_size)
{
    struct rank_info info = READ("RANK=3");
    expect(info, "torchrun", 3, 4, 0, 1, 0);
    ck_assert(info.known && !info.world_known);
}
END_TEST

START_TEST(derives_local_ranks_from_a_loopback_master)
{
    static const char *const here[] = {"MASTER_ADDR=localhost", "MASTER_ADDR=127.0.0.1",
                                       "MASTER_ADDR=::1"};
    for (size_t i = 0; i < sizeof here / sizeof here[0]; i++) {
        struct rank_info info = READ("RANK=2", "WORLD_SIZE=4", here[i]);
        expect(info, "torchrun", 2, 4, 2, 4, 0);
        ck_assert(info.local_known && info.one_host);
        ck_assert(READ(here[i]).one_host); /* without a rank, too */
    }
    expect(READ("RANK=2", "WORLD_SIZE=4", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", here[0]),
           "torchrun", 2, 4, 0, 1, 2); /* an explicit value wins */
    static const char *const elsewhere[] = {"MASTER_ADDR=10.0.0.1", "MASTER_ADDR=localhost.example",
                                            "MASTER_ADDR="};
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++)
        ck_assert(!READ("RANK=2", "WORLD_SIZE=4", elsewhere[i]).local_known);
}
END_TEST

START_TEST(reads_open_mpi_variables)
{
    /* OMPI_COMM_WORLD_NODE_RANK counts processes on the node: this is process 1 of node 1. */
    expect(READ("OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_RANK=1",
                "OMPI_COMM_WORLD_LOCAL_SIZE=4", "OMPI_COMM_WORLD_NODE_RANK=1", "PMIX_RANK=5"),
           "Open MPI", 5, 8, 1, 4, 1);
    expect(READ("OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=2",
                "OMPI_COMM_WORLD_LOCAL_SIZE=4", "OMPI_COMM_WORLD_NODE_RANK=2"),
           "Open MPI", 2, 4, 2, 4, 0);
}
END_TEST

START_TEST(reads_pmi_and_pmix_variables)
{
    expect(READ("PMI_RANK=3", "PMI_SIZE=4", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2"), "PMI", 3, 4,
           1, 2, 1);
    struct rank_info info = READ("PMIX_RANK=3", "PMIX_NAMESPACE=x");
    expect(info, "PMIx", 3, 4, 0, 1, 0);
    ck_assert(!info.world_known);
    /* srun --mpi=pmix: PMIx sets the rank, Slurm the rest. */
    info = READ("PMIX_RANK=3", "SLURM_PROCID=3", "SLURM_STEP_ID=0", "SLURM_NTASKS=4",
                "SLURM_LOCALID=1", "SLURM_NODEID=1", "SLURM_STEP_TASKS_PER_NODE=2(x2)");
    expect(info, "PMIx", 3, 4, 1, 2, 1);
    ck_assert(info.world_known);
}
END_TEST

START_TEST(reads_slurm_variables)
{
    expect(READ("SLURM_PROCID=6", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=7", "SLURM_NTASKS=9",
                "SLURM_LOCALID=2", "SLURM_NODEID=1", "SLURM_STEP_TASKS_PER_NODE=4,3"),
           "Slurm", 6, 7, 2, 3, 1);
    /* An old Slurm, without the step's own numbers. */
    expect(READ("SLURM_PROCID=6", "SLURM_STEP_ID=0", "SLURM_NTASKS=8", "SLURM_LOCALID=2",
                "SLURM_NODEID=1", "SLURM_NTASKS_PER_NODE=4"),
           "Slurm", 6, 8, 2, 4, 1);
}
END_TEST

START_TEST(parses_slurm_tasks_per_node)
{
    static const struct {
        const char *list, *node;
        int tasks;
    } rows[] = {
        {"4(x2),3", "0", 4},     {"4(x2),3", "1", 4}, {"4(x2),3", "2", 3},
        {"4(x2),3", "3", 1},     {"5", "0", 5},       {"5,6,7(x10)", "12", 1},
        {"5,6,7(x10)", "11", 7}, {"4(x2", "0", 1},    {"x", "0", 1},
        {"4;3", "1", 1},         {"0,3", "0", 1},     {"99999999999999999999", "0", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char list[64], node[64];
        snprintf(list, sizeof list, "SLURM_STEP_TASKS_PER_NODE=%s", rows[i].list);
        snprintf(node, sizeof node, "SLURM_NODEID=%s", rows[i].node);
        struct rank_info info = READ("SLURM_PROCID=0", "SLURM_STEP_ID=0", "SLURM_LOCALID=0",
                                     "SLURM_NTASKS=90", list, node);
        ck_assert_msg(info.local_world_size == rows[i].tasks, "%s node %s: %d", rows[i].list,
                      rows[i].node, (int)info.local_world_size);
    }
}
END_TEST

START_TEST(treats_slurm_without_a_step_as_one_process)
{
    /* Plain python in the script of sbatch. */
    struct rank_info info = READ("SLURM_JOB_ID=77", "SLURM_PROCID=0", "SLURM_NTASKS=16",
                                 "SLURM_LOCALID=0", "SLURM_NODEID=0", "SLURM_NTASKS_PER_NODE=8");
    expect(info, "default", 0, 1, 0, 1, 0);
    ck_assert(!info.known);
    ck_assert_str_eq(lines, "");
    /* salloc's shell on the login node has no SLURM_PROCID. */
    info = READ("SLURM_JOB_ID=77", "SLURM_NTASKS=16");
    ck_assert(!info.known);
    /* srun --pty bash inside a big job: one task. */
    info = READ("SLURM_PROCID=0", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=1", "SLURM_NTASKS=16");
    expect(info, "Slurm", 0, 1, 0, 1, 0);
}
END_TEST

START_TEST(reads_lightning_variables)
{
    struct rank_info info = READ("LOCAL_RANK=2", "WORLD_SIZE=4", "NODE_RANK=0");
    expect(info, "LOCAL_RANK", 2, 4, 2, 3, 0);
    expect(READ("LOCAL_RANK=2", "WORLD_SIZE=4"), "LOCAL_RANK", 2, 4, 2, 3, 0);
    /* On another node the rank does not follow. */
    ck_assert(!READ("LOCAL_RANK=2", "WORLD_SIZE=8", "NODE_RANK=1").known);
    ck_assert(!READ("LOCAL_RANK=2").known);
    /* MPI's values take precedence. */
    expect(READ("LOCAL_RANK=2", "WORLD_SIZE=8", "OMPI_COMM_WORLD_RANK=6", "OMPI_COMM_WORLD_SIZE=8"),
           "Open MPI", 6, 8, 0, 1, 0);
}
END_TEST

START_TEST(prefers_torchrun_then_mpi_then_slurm)
{
    expect(READ("RANK=1", "WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4",
                "OMPI_COMM_WORLD_LOCAL_RANK=3", "SLURM_PROCID=5", "SLURM_STEP_ID=0"),
           "torchrun", 1, 2, 0, 1, 0);
    expect(READ("OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4", "PMI_RANK=0", "PMI_SIZE=9",
                "SLURM_PROCID=5", "SLURM_STEP_ID=0"),
           "Open MPI", 3, 4, 0, 1, 0);
    expect(READ("PMI_RANK=1", "PMI_SIZE=9", "SLURM_PROCID=5", "SLURM_STEP_ID=0"), "PMI", 1, 9, 0, 1,
           0);
}
END_TEST

START_TEST(fills_gaps_from_launchers_that_agree)
{
    /* sbatch scripts export RANK and WORLD_SIZE from Slurm's variables. */
    expect(READ("RANK=5", "WORLD_SIZE=8", "SLURM_PROCID=5", "SLURM_STEP_ID=0", "SLURM_NTASKS=8",
                "SLURM_LOCALID=1", "SLURM_NODEID=1", "SLURM_NTASKS_PER_NODE=4"),
           "torchrun", 5, 8, 1, 4, 1);
    /* torchrun under srun: Slurm's numbers are those of the agents and do not apply to ranks. */
    expect(READ("RANK=1", "WORLD_SIZE=8", "SLURM_PROCID=1", "SLURM_STEP_ID=0", "SLURM_NTASKS=2",
                "SLURM_LOCALID=0", "SLURM_NODEID=1", "SLURM_NTASKS_PER_NODE=1"),
           "torchrun", 1, 8, 0, 1, 0);
}
END_TEST

START_TEST(leaves_an_unset_local_rank_unknown)
{
    ck_assert(!READ("RANK=1", "WORLD_SIZE=2").local_known);
    ck_assert(!READ("PMIX_RANK=1").local_known);
    ck_assert(READ("RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1").local_known);
    ck_assert(READ("RANK=0", "WORLD_SIZE=1").local_known);
    ck_assert(READ("HOME=/").local_known); /* one process */
}
END_TEST

START_TEST(ignores_invalid_numbers_with_one_line)
{
    struct rank_info info = READ("RANK=abc", "WORLD_SIZE=8");
    ck_assert(!info.known);
    ck_assert_str_eq(lines,
                     "cprof: RANK=abc: must be a whole number from 0 to 2147483647; ignored\n");
    info = READ("RANK=-1", "OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4");
    expect(info, "Open MPI", 2, 4, 0, 1, 0);
    ck_assert_str_eq(lines,
                     "cprof: RANK=-1: must be a whole number from 0 to 2147483647; ignored\n");
    info = READ("RANK=1", "WORLD_SIZE=0x8", "LOCAL_RANK=", "LOCAL_WORLD_SIZE= ");
    expect(info, "torchrun", 1, 2, 0, 1, 0);
    ck_assert_str_eq(
        lines, "cprof: WORLD_SIZE=0x8: must be a whole number from 1 to 2147483647; ignored\n");
    info = READ("RANK=4294967296");
    ck_assert(!info.known);
    read_rank((const char *const[]){"RANK=abc", NULL}, false);
    ck_assert_str_eq(lines, "");
}
END_TEST

START_TEST(ignores_contradictory_sizes_with_one_line)
{
    struct rank_info info = READ("RANK=7", "WORLD_SIZE=4");
    expect(info, "torchrun", 7, 8, 0, 1, 0);
    ck_assert(!info.world_known);
    ck_assert_str_eq(lines, "cprof: WORLD_SIZE=4 does not fit RANK=7; the size is ignored\n");
    ck_assert(!READ("RANK=4", "WORLD_SIZE=4").world_known);
    info = READ("RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=3", "LOCAL_WORLD_SIZE=2");
    expect(info, "torchrun", 1, 4, 3, 4, 0);
    ck_assert_str_eq(lines,
                     "cprof: LOCAL_WORLD_SIZE=2 does not fit LOCAL_RANK=3; the size is ignored\n");
    /* Two launchers that agree only in part still give consistent numbers. */
    info = READ("RANK=5", "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=2", "SLURM_PROCID=5", "SLURM_STEP_ID=0",
                "SLURM_NTASKS=8", "SLURM_LOCALID=5");
    ck_assert_int_eq(info.local_rank, 5);
    ck_assert_int_eq(info.local_world_size, 6);
}
END_TEST

Suite *suite_rank(void)
{
    Suite *suite = suite_create("rank");
    TCase *tcase = tcase_create("rank");
    tcase_add_test(tcase, defaults_to_rank_0_of_1);
    tcase_add_test(tcase, reads_torchrun_variables);
    tcase_add_test(tcase, accepts_a_rank_without_world_size);
    tcase_add_test(tcase, derives_local_ranks_from_a_loopback_master);
    tcase_add_test(tcase, reads_open_mpi_variables);
    tcase_add_test(tcase, reads_pmi_and_pmix_variables);
    tcase_add_test(tcase, reads_slurm_variables);
    tcase_add_test(tcase, parses_slurm_tasks_per_node);
    tcase_add_test(tcase, treats_slurm_without_a_step_as_one_process);
    tcase_add_test(tcase, reads_lightning_variables);
    tcase_add_test(tcase, prefers_torchrun_then_mpi_then_slurm);
    tcase_add_test(tcase, fills_gaps_from_launchers_that_agree);
    tcase_add_test(tcase, leaves_an_unset_local_rank_unknown);
    tcase_add_test(tcase, ignores_invalid_numbers_with_one_line);
    tcase_add_test(tcase, ignores_contradictory_sizes_with_one_line);
    suite_add_tcase(suite, tcase);
    return suite;
}
