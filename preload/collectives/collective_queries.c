/* SPDX-License-Identifier: Apache-2.0 */
/* What cprof asks NCCL and MPI: sizes and ranks of communicators, and their types. Application
 * threads, before the call. */
#include "preload/collectives/collective_queries.h"

#include <string.h>

#include "preload/core/core.h"

const struct resolve_library collective_libraries[FAMILY_COUNT] = {
    [FAMILY_NCCL] = {NULL, {"libnccl.so.2"}, "libnccl"},
    [FAMILY_MPI] = {NULL, {"libmpi.so.40", "libmpich.so.12", "libmpi.so.12"}, "libmpi"},
};

static struct callee_slot question_slots[QUESTIONS];

int collective_ask(enum question which, const void *handle, const void *caller)
{
    static const struct {
        char symbol[24];
        uint8_t family;
    } questions[QUESTIONS] = {
        [NCCL_COUNT] = {"ncclCommCount", FAMILY_NCCL},
        [NCCL_RANK] = {"ncclCommUserRank", FAMILY_NCCL},
        [MPI_SIZE] = {"MPI_Comm_size", FAMILY_MPI},
        [MPI_RANK] = {"MPI_Comm_rank", FAMILY_MPI},
        [MPI_INTER] = {"MPI_Comm_test_inter", FAMILY_MPI},
        [MPI_TYPE] = {"MPI_Type_size", FAMILY_MPI},
    };
    int (*f)(const void *, int *) =
        callee_find(&question_slots[which], questions[which].symbol,
                    &collective_libraries[questions[which].family], caller);
    int answer = -1;
    uint8_t before = guard_ask();
    bool told = f && f(handle, &answer) == 0;
    guard_asked(before);
    return told ? answer : -1;
}

static struct callee_slot open_mpi_slot, mpich_slot;

#define OPEN_MPI_NULL "ompi_mpi_datatype_null"

/* Open MPI's MPI_DATATYPE_NULL; NULL: another library. */
static const void *open_mpi_null(const void *caller)
{
    return callee_find(&open_mpi_slot, OPEN_MPI_NULL, &collective_libraries[FAMILY_MPI], caller);
}

/* Whether MPI handles are ints, as in MPICH and libraries with its ABI. They export a function that
 * is named in MPICH's mpi.h. */
static bool has_int_handles(const void *caller)
{
    if (callee_in_front(&open_mpi_slot, caller))
        return false;
    return callee_in_front(&mpich_slot, caller) ||
           (!open_mpi_null(caller) &&
            callee_find(&mpich_slot, "MPIR_Dup_fn", &collective_libraries[FAMILY_MPI], caller));
}

/* Cuts a handle that is an int: its upper half is undefined, because the parameter is declared as a
 * pointer. */
static const void *low_half(const void *handle)
{
    return (const void *)(uintptr_t)(uint32_t)(uintptr_t)handle;
}

void mpi_read_handles(struct collective *what, const void *caller)
{
    bool ints = has_int_handles(caller);
    if (what->comm_at && ints) {
        uint32_t handle;
        memcpy(&handle, what->comm_at, sizeof handle);
        what->comm = (const void *)(uintptr_t)handle;
    } else if (what->comm_at) {
        memcpy(&what->comm, what->comm_at, sizeof what->comm);
    } else if (ints) {
        what->comm = low_half(what->comm);
        what->type = low_half(what->type);
    }
}

/* The program's copy of Open MPI's null type, if it was linked without -fPIC (copy relocation).
 * Looked up once. */
static const void *copied_null(void)
{
    static _Atomic(const void *) found;
    static atomic_bool looked;
    if (!atomic_load_explicit(&looked, memory_order_acquire)) {
        atomic_store_explicit(&found, resolve_first(OPEN_MPI_NULL), memory_order_relaxed);
        atomic_store_explicit(&looked, true, memory_order_release);
    }
    return atomic_load_explicit(&found, memory_order_relaxed);
}

/* Whether the type is MPI_DATATYPE_NULL. A query about that type would be an error, which is fatal
 * by default. */
static bool mpi_is_null_type(const void *type, const void *caller)
{
    if (!type)
        return true;
    if (has_int_handles(caller))
        return type == (const void *)0x0c000000; /* MPICH's mpi.h */
    const void *null = open_mpi_null(caller);
    if (!null)
        return type == (const void *)0x200; /* mpi_abi.h of MPI 5.0 */
    return type == null || type == copied_null();
}

/* By ncclDataType_t (nccl.h), with torch's names of the types. */
static const struct {
    char name[14];
    uint8_t bytes;
} nccl_types[] = {{"Char", 1},   {"Byte", 1},     {"Int", 4},           {"UInt32", 4},
                  {"Long", 8},   {"UInt64", 8},   {"Half", 2},          {"Float", 4},
                  {"Double", 8}, {"BFloat16", 2}, {"Float8_e4m3fn", 1}, {"Float8_e5m2", 1}};

uint64_t collective_element_size(enum collective_family family, const struct collective *what,
                                 const void *caller, const char **name)
{
    if (family == FAMILY_NCCL) {
        bool known = (unsigned)what->dtype < sizeof nccl_types / sizeof *nccl_types;
        *name = known ? nccl_types[what->dtype].name : NULL;
        return known ? nccl_types[what->dtype].bytes : 0;
    }
    *name = NULL;
    if (mpi_is_null_type(what->type, caller))
        return 0;
    int size = collective_ask(MPI_TYPE, what->type, caller);
    return size > 0 ? (uint64_t)size : 0;
}
