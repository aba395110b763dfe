/* SPDX-License-Identifier: Apache-2.0 */
/* One rank: a transfer that is left by longjmp(), handles with a used slot of the stack behind
 * them, communicators at the place of a freed one, a type that is none. */
#include <mpi.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

static jmp_buf back;
static int mine = 1, all[64];

/* Tells another rank of it first, which fails, too. */
static void failed(MPI_Comm *comm, int *code, ...)
{
    static int told;
    (void)comm, (void)code;
    if (told++ == 0)
        MPI_Send(&mine, 1, MPI_INT, 78, 0, MPI_COMM_WORLD);
    longjmp(back, 1);
}

static void leave_a_transfer(void)
{
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(failed, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    if (setjmp(back) == 0)
        MPI_Send(&mine, 1, MPI_INT, 77, 0, MPI_COMM_WORLD); /* there is no such rank */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static __attribute__((noinline)) void use_the_stack(int with)
{
    volatile char room[512];
    memset((char *)room, with, sizeof room);
}

/* Pushes 8 bytes with whatever stands above the int, as compilers do. */
static __attribute__((noinline)) void gather(MPI_Comm comm)
{
    MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, comm);
}

static void make_and_free(int transfers)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < transfers; i++)
        MPI_Allreduce(&mine, all, 1, MPI_INT, MPI_SUM, comm);
    MPI_Comm_free(&comm);
}

/* A mistake that the program wants to be told of, and lives on after. */
static void send_no_type(void)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (MPI_Bcast(&mine, 1, MPI_DATATYPE_NULL, 0, comm) == MPI_SUCCESS)
        puts("no error");
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Allreduce(&mine, all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    leave_a_transfer();
    for (int i = 0; i < 3; i++) {
        use_the_stack(i + 1);
        gather(MPI_COMM_WORLD);
    }
    make_and_free(1);
    make_and_free(2);
    send_no_type();
    MPI_Finalize();
    puts("fine");
    return 0;
}
