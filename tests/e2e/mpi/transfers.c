/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers between two ranks of MPI, each checked. What goes with MPI_IN_PLACE is nothing that may
 * be looked at. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: not true: %s\n", __LINE__, #condition);                      \
            MPI_Abort(MPI_COMM_WORLD, 2);                                                          \
        }                                                                                          \
    } while (0)

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double numbers[100], sums[100];
    for (int i = 0; i < 100; i++)
        numbers[i] = i + rank;
    EXPECT(MPI_Allreduce(numbers, sums, 100, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) == 0);
    EXPECT(sums[99] == 199);
    int words[7] = {rank ? 0 : 42};
    EXPECT(MPI_Bcast(words, 7, MPI_INT, 0, MPI_COMM_WORLD) == 0 && words[0] == 42);
    double all[6] = {[3] = rank, [0] = 0};
    EXPECT(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 3, MPI_DOUBLE, MPI_COMM_WORLD) ==
           0);
    int counts[2] = {1, 2}, at[2] = {0, 1}, own[2] = {rank + 1, rank + 1},
        own_at[2] = {0, rank + 1};
    int out[3] = {10 * rank, 10 * rank + 1, 10 * rank + 2}, in[4];
    (void)own, (void)own_at;
    int from[2] = {rank + 1, 3 - (rank + 1)}; /* in all 3 come in and go out */
    int from_at[2] = {0, rank + 1};
    int to[2] = {1, 2};
    /* rank 0 sends 1 to itself and 2 to rank 1; rank 1 sends 2 to rank 0 and 1 to itself */
    if (rank == 1)
        to[0] = 2, to[1] = 1, at[1] = 2;
    from[0] = rank == 0 ? 1 : 2;
    from[1] = rank == 0 ? 2 : 1;
    from_at[1] = from[0];
    EXPECT(MPI_Alltoallv(out, to, at, MPI_INT, in, from, from_at, MPI_INT, MPI_COMM_WORLD) == 0);
    counts[0] = 2, counts[1] = 3;
    int part[3], whole[5] = {1, 1, 1, 1, 1};
    EXPECT(MPI_Reduce_scatter(whole, part, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == 0);
    EXPECT(part[0] == 2);
    int gathered[8], four[4] = {rank, rank, rank, rank};
    if (rank == 0) {
        for (int i = 0; i < 4; i++)
            gathered[i] = four[i];
        EXPECT(MPI_Gather(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, gathered, 4, MPI_INT, 0,
                          MPI_COMM_WORLD) == 0);
        EXPECT(gathered[7] == 1);
    } else {
        EXPECT(MPI_Gather(four, 4, MPI_INT, NULL, -1, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD) == 0);
    }
    char hello[9] = "12345678", back[9];
    EXPECT(MPI_Sendrecv(hello, 9, MPI_CHAR, !rank, 1, back, 9, MPI_CHAR, !rank, 1, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE) == 0 &&
           back[7] == '8');
    MPI_Request request;
    EXPECT(MPI_Iallreduce(numbers, sums, 50, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request) == 0);
    EXPECT(MPI_Wait(&request, MPI_STATUS_IGNORE) == 0 && sums[49] == 99);
    EXPECT(MPI_Barrier(MPI_COMM_WORLD) == 0);
    printf("fine\n");
    MPI_Finalize();
    return size == 2 ? 0 : 1;
}
