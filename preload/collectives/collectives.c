/* SPDX-License-Identifier: Apache-2.0 */
/* Records calls of NCCL and MPI as spans. Application threads; no lock. Only the loader allocates,
 * at the first lookup of a call. */
#include "preload/collectives/collectives.h"

#include <errno.h>
#include <string.h>

#include "preload/link/link.h"
#include "preload/core/core.h"
#include "preload/settings/settings.h"
#include "preload/stacks/stacks.h"
#include "preload/collectives/collective_args.h"
#include "preload/collectives/collective_queries.h"
#include "preload/collectives/communicators.h"

static struct callee_slot slots[COLLECTIVE_COUNT];

static const char symbols[COLLECTIVE_COUNT][32] = {
#define COLLECTIVE(family, symbol, ...) #symbol,
#include "preload/collectives/collectives.def"
};

static const uint8_t families[COLLECTIVE_COUNT] = {
#define COLLECTIVE(family, symbol, ...) FAMILY_##family,
#include "preload/collectives/collectives.def"
};

/* This thread's open NCCL group, from the outermost ncclGroupStart() to its end. */
static __thread struct {
    uint32_t depth, transfers;
    /* The current transfer of this thread (on its stack), or NULL. A library may implement one call
     * by another, as ncclBcast() by ncclBroadcast(); the inner call is no transfer of its own. */
    const struct collective_call *current;
    struct amount sum;
} group;

/* ---- amounts --------------------------------------------------------------------------------- */

static uint64_t share(enum collective_share share, uint64_t count, int size)
{
    return share == SHARE_NOTHING ? 0 : share == SHARE_ONE ? count : count * (uint64_t)size;
}

static uint64_t sum_of(const int *counts, int size)
{
    uint64_t sum = 0;
    for (int i = 0; i < size; i++)
        sum += counts[i] > 0 ? (uint64_t)counts[i] : 0;
    return sum;
}

/* Sums the elements of a call that has one count per rank. */
static void add_counts(const struct collective *what, int size, int rank, struct amount *a)
{
    if (what->counts_in)
        a->in = sum_of(what->counts_in, size);
    if (what->counts_out)
        a->out = sum_of(what->counts_out, size);
    bool in_range = rank >= 0 && rank < size;
    if (!what->counts_in && in_range && strcmp(what->name, "allgather") == 0)
        a->in = (uint64_t)what->counts_out[rank];
    if (!what->counts_out && in_range)
        a->out = (uint64_t)what->counts_in[rank];
}

static struct amount amount_of(enum collective_family family, const struct collective *what,
                               const void *caller, int size, int rank)
{
    struct amount a = {.name = what->name,
                       .in = share((enum collective_share)what->in, what->count, size),
                       .out = share((enum collective_share)what->out, what->count, size)};
    bool lists = what->counts_in || what->counts_out;
    /* On an intercommunicator, the lists have the other group's length. */
    if (lists && size > 0 && collective_ask(MPI_INTER, what->comm, caller) == 0)
        add_counts(what, size, rank, &a);
    uint64_t bytes = collective_element_size(family, what, caller, &a.dtype);
    a.bytes = bytes * (a.in > a.out ? a.in : a.out);
    bool sized = what->in != SHARE_ALL && what->out != SHARE_ALL && !lists;
    a.known = bytes > 0 && (sized || size > 0);
    return a;
}

static void add_to_group(const struct amount *a)
{
    struct amount *sum = &group.sum;
    if (group.transfers++ == 0) {
        *sum = *a;
        return;
    }
    if (sum->name != a->name && strcmp(sum->name, a->name) != 0)
        sum->name = "coalesced"; /* several kinds of transfers */
    if (sum->dtype != a->dtype)
        sum->dtype = NULL;
    sum->in += a->in;
    sum->out += a->out;
    sum->bytes += a->bytes;
    sum->known = sum->known && a->known;
}

/* ---- args of an event ---- */

static void put_amount(struct args *to, const struct amount *a)
{
    if (!a->name)
        return;
    args_put_text(to, "Collective name", a->name);
    args_put_int(to, "In msg nelems", (int64_t)a->in);
    args_put_int(to, "Out msg nelems", (int64_t)a->out);
    if (a->dtype)
        args_put_text(to, "dtype", a->dtype);
    if (a->known)
        args_put_int(to, "bytes", (int64_t)a->bytes);
}

/* Describes a group by the sum of its transfers. False: the group has none, or is not the
 * outermost. */
static bool put_group(struct args *to)
{
    if (group.transfers == 0 || group.depth > 1)
        return false;
    put_amount(to, &group.sum);
    args_put_int(to, "Coalesced", group.transfers);
    return true;
}

static void put_transfer(struct args *to, enum collective_family family,
                         const struct collective *what, struct communicator *c, uint64_t number,
                         const void *caller)
{
    int size, rank;
    communicator_size_and_rank(c, family, what->comm, caller, &size, &rank);
    struct amount a = amount_of(family, what, caller, size, rank);
    put_amount(to, &a);
    args_put_peer(to, what);
    args_put_communicator(to, what->comm, size, rank);
    if (c)
        args_put_int(to, "Seq", (int64_t)number);
    if (what->immediate)
        args_put_int(to, "Immediate", 1);
    if (group.depth > 0 && family == FAMILY_NCCL)
        add_to_group(&a);
}

static uint32_t describe(enum collective_family family, const struct collective *what,
                         struct communicator *c, uint64_t number, const void *caller, uint8_t *out)
{
    struct args to = {out, out + COLLECTIVE_ARGS};
    const char *backend = family == FAMILY_NCCL ? "nccl" : "mpi";
    identity_backend(backend);
    args_put_text(&to, "backend", backend);
    bool grouped = false;
    if (what->role == ROLE_TRANSFER)
        put_transfer(&to, family, what, c, number, caller);
    else if (what->role == ROLE_GROUP_END)
        grouped = put_group(&to);
    else if (what->role == ROLE_INIT)
        args_put_communicator(&to, NULL, what->size, what->rank);
    struct torch_comms comms;
    bool sends = what->role == ROLE_TRANSFER || what->role == ROLE_GROUP_END;
    if (sends && family == FAMILY_NCCL && torch_comms_read(&comms)) {
        if (grouped) /* the communicators of the group's transfers are not kept */
            args_put_int(&to, "Group size", comms.size);
        args_put_process_group(&to, &comms);
    }
    return (uint32_t)(to.at - out);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static uint32_t name_of(enum collective_id id)
{
    static _Atomic uint32_t names[COLLECTIVE_COUNT];
    uint32_t name = numbered_before(&names[id]);
    return name ? name : numbered_once(&names[id], symbols[id], (uint32_t)strlen(symbols[id]));
}

static void open_transfer(struct collective_call *call, enum collective_id id,
                          const struct collective *what, struct communicator *c, uint64_t number,
                          const void *caller)
{
    int saved = errno;
    struct thread_log *log = thread_log_get();
    uint8_t args[COLLECTIVE_ARGS];
    if (!log)
        return;
    /* Describes the call before its span opens, so that queries are not part of its time. */
    uint32_t n = describe((enum collective_family)families[id], what, c, number, caller, args);
    struct open_span *span = span_open(log, call, CAT_COLLECTIVE, symbols[id], name_of(id));
    stacks_open_span(log, span);
    uint8_t *room = span ? span_data_room(log, span, n) : NULL;
    if (room) {
        memcpy(room, args, n);
        span_data_done(log, span, DATA_ARGS, n);
    }
    call->log = log;
    errno = saved;
}

/* Counts nested groups on this thread, recorded or not. */
static void note_role(const struct collective *what)
{
    if (what->role == ROLE_GROUP_START && group.depth++ == 0)
        group.transfers = 0;
    if (what->role == ROLE_DESTROY)
        communicator_forget(what->comm);
}

/* Closes transfers that an error handler left by longjmp() or an exception: the stack (which grows
 * down) is back at their caller or above it. */
static __attribute__((noinline)) void close_left_transfers(const struct collective_call *call)
{
    struct thread_log *log = thread_log_self;
    uint32_t depth = log ? atomic_load_explicit(&log->depth, memory_order_relaxed) : 0;
    const void *left = group.current;
    group.current = NULL;
    while (depth-- > 0) { /* also the transfers around it that were left */
        const void *key = span_key(&log->spans[depth]);
        if (log->spans[depth].category != CAT_COLLECTIVE || (uintptr_t)key < (uintptr_t)left)
            continue;
        /* this span's call may have been left too; a later call that is higher in the stack closes
         * it */
        if ((uintptr_t)key > (uintptr_t)call) {
            group.current = key;
            return;
        }
        span_add_flags(&log->spans[depth], REC_UNFINISHED);
        span_close(log, key);
    }
}

void collective_begin(struct collective_call *call, enum collective_id id, struct collective *what,
                      const void *caller)
{
    bool entered = guard_enter();
    call->log = NULL;
    call->real = callee_find(&slots[id], symbols[id], &collective_libraries[families[id]], caller);
    if (entered && group.current && call >= group.current)
        close_left_transfers(call);
    /* An error handler's calls are no part of the transfer. Nor are calls of code that left it by
     * longjmp() and is deeper in the stack now. */
    call->part = group.current && call->real && callee_is_own(&slots[id], caller, call->real);
    call->outer = group.current;
    if (call->real && what->role == ROLE_TRANSFER && !call->part)
        group.current = call;
    if (entered) {
        if (call->real && !call->part) {
            cprof_wake_once(WAKE_COLLECTIVE);
            if (families[id] == FAMILY_MPI)
                mpi_read_handles(what, caller);
            note_role(what);
            /* Numbers transfers whether or not they are recorded, so that ranks that record
             * different steps agree. */
            struct communicator *c =
                what->role == ROLE_TRANSFER ? communicator_of(what->comm) : NULL;
            uint64_t number = c ? communicator_number(c, (enum collective_peer)what->peer_is) : 0;
            if (what->role != ROLE_QUERY && gate_open(GATE_RANGES))
                open_transfer(call, id, what, c, number, caller);
        }
        guard_leave();
    }
}

/* ncclInProgress: a communicator that does not block is still at work. */
#define NCCL_IN_PROGRESS 7

/* Reports an error of the library. */
static void look_for_error(enum collective_id id, const struct collective *what, int result)
{
    if (result == 0 && what->error)
        result = *what->error;
    bool works = families[id] == FAMILY_NCCL && result == NCCL_IN_PROGRESS;
    if (__builtin_expect(result != 0 && !works, 0))
        writer_transfer_failed(symbols[id], result);
}

void collective_end(struct collective_call *call, enum collective_id id,
                    const struct collective *what, int result)
{
    look_for_error(id, what, result);
    bool ends = what->role == ROLE_GROUP_END || what->role == ROLE_GROUP_ESTIMATED;
    if (group.current == call)
        group.current = call->outer;
    if (call->part || (!call->log && !ends))
        return;
    if (guard_enter()) {
        if (call->log)
            span_close(call->log, call);
        if (ends && group.depth > 0)
            group.depth--;
        guard_leave();
    }
}
