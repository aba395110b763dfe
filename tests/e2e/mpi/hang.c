/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that add up a number in each step; in step 15 the last one waits for ever. */
#include <mpi.h>
#include <unistd.h>

#include "cprof.h"

int main(int argc, char **argv)
{
    int rank, size, mine = 1, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int step = 0; step < 20; step++) {
        if (step == 15 && rank == size - 1)
            pause();
        MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        cprof_step();
        usleep(5000);
    }
    MPI_Finalize();
    return 0;
}
