/* SPDX-License-Identifier: Apache-2.0 */
/* The table of communicators and torch's process groups, with the numbers of their transfers. Any
 * thread; no lock. */
#include "preload/collectives/communicators.h"

#include <stdatomic.h>
#include <string.h>

#include "preload/collectives/collective_queries.h"
#include "preload/settings/settings.h"

/* a power of two; communicators beyond it have no size and no Seq */
#define COMMUNICATORS 1024u

/* A communicator of NCCL; for MPI, its sequence numbers. */
struct communicator {
    _Atomic(const void *) handle; /* NULL: free; any thread takes and frees it */
    /* `seq` counts collectives, `between` sends and receives, whose number differs between ranks */
    _Atomic uint64_t seq, between;
    _Atomic int size, rank; /* 0 and -1: unknown; relaxed */
    _Atomic int name_is;    /* enum name_state; a thread that sets NAME_SETTING writes `name` */
    char name[COMMUNICATOR_NAME];
};

enum name_state { NAME_NONE, NAME_SETTING, NAME_SET };

static struct communicator communicators[COMMUNICATORS];

static void restart(struct communicator *c)
{
    atomic_store_explicit(&c->seq, 0, memory_order_relaxed);
    atomic_store_explicit(&c->between, 0, memory_order_relaxed);
}

uint64_t communicator_number(struct communicator *c, enum collective_peer peer_is)
{
    bool between = peer_is == PEER_TO || peer_is == PEER_FROM;
    return atomic_fetch_add_explicit(between ? &c->between : &c->seq, 1, memory_order_relaxed);
}

static struct communicator *communicator_place(const void *handle, uint32_t i)
{
    uint64_t hash = (uint64_t)(uintptr_t)handle * 0x9e3779b97f4a7c15u;
    return &communicators[((hash >> 40) + i) % COMMUNICATORS];
}

/* Checks all places, because the communicator may be stored after a place that has become free
 * since. */
static struct communicator *find_communicator(const void *handle)
{
    for (uint32_t i = 0; handle && i < COMMUNICATORS; i++) {
        struct communicator *c = communicator_place(handle, i);
        if (atomic_load_explicit(&c->handle, memory_order_acquire) == handle)
            return c;
    }
    return NULL;
}

struct communicator *communicator_of(const void *handle)
{
    struct communicator *c = find_communicator(handle);
    for (uint32_t i = 0; handle && !c && i < COMMUNICATORS; i++) {
        struct communicator *place = communicator_place(handle, i);
        const void *there = atomic_load_explicit(&place->handle, memory_order_relaxed);
        if (!there && atomic_compare_exchange_strong(&place->handle, &there, handle)) {
            restart(place);
            atomic_store_explicit(&place->name_is, NAME_NONE, memory_order_relaxed);
            return place;
        }
        c = there == handle ? place : NULL; /* another thread stored it meanwhile */
    }
    return c;
}

void communicator_forget(const void *handle)
{
    struct communicator *c = find_communicator(handle);
    if (!c)
        return;
    atomic_store_explicit(&c->size, 0, memory_order_relaxed);
    atomic_store_explicit(&c->handle, NULL, memory_order_release);
}

void communicator_size_and_rank(struct communicator *c, enum collective_family family,
                                const void *handle, const void *caller, int *size, int *rank)
{
    bool nccl = family == FAMILY_NCCL;
    *size = nccl && c ? atomic_load_explicit(&c->size, memory_order_relaxed) : 0;
    *rank = nccl && c ? atomic_load_explicit(&c->rank, memory_order_relaxed) : -1;
    if (*size > 0 || !handle)
        return;
    *size = collective_ask(nccl ? NCCL_COUNT : MPI_SIZE, handle, caller);
    *rank = *size > 0 ? collective_ask(nccl ? NCCL_RANK : MPI_RANK, handle, caller) : -1;
    *size = *size > 0 ? *size : 0;
    if (c && *size > 0 && atomic_load_explicit(&c->size, memory_order_relaxed) != *size)
        identity_communicator(*rank, *size, nccl ? "NCCL" : "MPI");
    if (c && *size > 0) {
        atomic_store_explicit(&c->rank, *rank, memory_order_relaxed);
        atomic_store_explicit(&c->size, *size, memory_order_relaxed);
    }
}

struct communicator *communicator_of_group(const void *handle, int size, int rank)
{
    struct communicator *c = communicator_of(handle);
    if (!c)
        return NULL;
    int known = atomic_load_explicit(&c->size, memory_order_relaxed);
    if (known != size || atomic_load_explicit(&c->rank, memory_order_relaxed) != rank) {
        /* another group got this address; nothing tells when a group is freed */
        if (known > 0)
            restart(c);
        identity_communicator(rank, size, "torch.distributed");
        atomic_store_explicit(&c->rank, rank, memory_order_relaxed);
        atomic_store_explicit(&c->size, size, memory_order_relaxed);
    }
    return c;
}

bool communicator_known(const struct communicator *c, int *size, int *rank)
{
    *size = atomic_load_explicit(&c->size, memory_order_relaxed);
    *rank = atomic_load_explicit(&c->rank, memory_order_relaxed);
    return *size > 0;
}

const void *communicator_handle(const struct communicator *c)
{
    return atomic_load_explicit(&c->handle, memory_order_relaxed);
}

unsigned communicator_index(const struct communicator *c)
{
    return (unsigned)(c - communicators) + 1;
}

struct communicator *communicator_at(uint64_t index)
{
    return index ? &communicators[index - 1] : NULL;
}

const char *communicator_name(const struct communicator *c)
{
    return atomic_load_explicit(&c->name_is, memory_order_acquire) == NAME_SET ? c->name : "";
}

void communicator_is_called(struct communicator *c, const char *name, size_t len)
{
    int is = atomic_load_explicit(&c->name_is, memory_order_acquire);
    size_t kept = len < sizeof c->name ? len : sizeof c->name - 1;
    if (is == NAME_SET && memcmp(c->name, name, kept) == 0 && c->name[kept] == '\0')
        return;
    if (is == NAME_SETTING || !atomic_compare_exchange_strong(&c->name_is, &is, NAME_SETTING))
        return;
    if (is == NAME_SET)
        restart(c);
    memcpy(c->name, name, kept);
    c->name[kept] = '\0';
    atomic_store_explicit(&c->name_is, NAME_SET, memory_order_release);
}
