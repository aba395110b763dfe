/* SPDX-License-Identifier: Apache-2.0 */
/* Records calls of NCCL and MPI as spans. Application threads; no lock. Only the loader allocates,
 * at the first lookup of a call. */
#include "preload/collectives/collectives.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "preload/link/link.h"
#include "preload/core/core.h"
#include "preload/settings/settings.h"
#include "preload/stacks/stacks.h"
#include "preload/collectives/torch_comms.h"
#include "preload/collectives/torch_groups.h"

#define NUMBERS_MOST 30u /* of a list, as in Kineto (kTruncatLength) */

/* a power of two; communicators beyond it have no size and no Seq */
#define COMMUNICATORS 256u

/* A communicator of NCCL; for MPI, its sequence numbers. */
struct communicator {
    _Atomic(const void *) handle; /* NULL: free; any thread takes and frees it */
    /* `seq` counts collectives, `between` sends and receives, whose number differs between ranks */
    _Atomic uint64_t seq, between;
    _Atomic int size, rank; /* 0 and -1: unknown; relaxed */
};

/* The amount of data that a transfer moves. */
struct amount {
    const char *name;
    const char *dtype;   /* NULL: none, or several */
    uint64_t in, out;    /* in elements */
    uint64_t bytes : 63; /* of the larger side, as nccl-tests counts */
    uint64_t known : 1;  /* the element size is known; a bit-field saves thread-local storage */
};

static struct callee_slot slots[COLLECTIVE_COUNT];
static struct communicator communicators[COMMUNICATORS];

static const char symbols[COLLECTIVE_COUNT][32] = {
#define COLLECTIVE(family, symbol, ...) #symbol,
#include "preload/collectives/collectives.def"
};

static const uint8_t families[COLLECTIVE_COUNT] = {
#define COLLECTIVE(family, symbol, ...) FAMILY_##family,
#include "preload/collectives/collectives.def"
};

static const struct resolve_library libraries[FAMILY_COUNT] = {
    [FAMILY_NCCL] = {NULL, {"libnccl.so.2"}, "libnccl"},
    [FAMILY_MPI] = {NULL, {"libmpi.so.40", "libmpich.so.12", "libmpi.so.12"}, "libmpi"},
};

static void restart_numbers(struct communicator *c)
{
    atomic_store_explicit(&c->seq, 0, memory_order_relaxed);
    atomic_store_explicit(&c->between, 0, memory_order_relaxed);
}

static uint64_t number_of(struct communicator *c, enum collective_peer peer_is)
{
    bool between = peer_is == PEER_TO || peer_is == PEER_FROM;
    return atomic_fetch_add_explicit(between ? &c->between : &c->seq, 1, memory_order_relaxed);
}

/* This thread's open NCCL group, from the outermost ncclGroupStart() to its end. */
static __thread struct {
    uint32_t depth, transfers;
    /* The current transfer of this thread (on its stack), or NULL. A library may implement one call
     * by another, as ncclBcast() by ncclBroadcast(); the inner call is no transfer of its own. */
    const struct collective_call *current;
    struct amount sum;
} group;

/* ---- queries to the library ---- */

enum question { NCCL_COUNT, NCCL_RANK, MPI_SIZE, MPI_RANK, MPI_INTER, MPI_TYPE, QUESTIONS };

static struct callee_slot question_slots[QUESTIONS];

/* Calls `int f(handle, int *)` of the caller's library. Returns -1 if it fails or is missing. */
static int ask(enum question which, const void *handle, const void *caller)
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
    int (*f)(const void *, int *) = callee_find(&question_slots[which], questions[which].symbol,
                                                &libraries[questions[which].family], caller);
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
    return callee_find(&open_mpi_slot, OPEN_MPI_NULL, &libraries[FAMILY_MPI], caller);
}

/* Whether MPI handles are ints, as in MPICH and libraries with its ABI. They export a function that
 * is named in MPICH's mpi.h. */
static bool has_int_handles(const void *caller)
{
    if (callee_in_front(&open_mpi_slot, caller))
        return false;
    return callee_in_front(&mpich_slot, caller) ||
           (!open_mpi_null(caller) &&
            callee_find(&mpich_slot, "MPIR_Dup_fn", &libraries[FAMILY_MPI], caller));
}

/* Cuts a handle that is an int: its upper half is undefined, because the parameter is declared as a
 * pointer. */
static const void *low_half(const void *handle)
{
    return (const void *)(uintptr_t)(uint32_t)(uintptr_t)handle;
}

static void read_handles(struct collective *what, const void *caller)
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
static bool is_null_type(const void *type, const void *caller)
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

/* ---- communicators --------------------------------------------------------------------------- */

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

static struct communicator *communicator_of(const void *handle)
{
    struct communicator *c = find_communicator(handle);
    for (uint32_t i = 0; handle && !c && i < COMMUNICATORS; i++) {
        struct communicator *place = communicator_place(handle, i);
        const void *there = atomic_load_explicit(&place->handle, memory_order_relaxed);
        if (!there && atomic_compare_exchange_strong(&place->handle, &there, handle)) {
            restart_numbers(place);
            return place;
        }
        c = there == handle ? place : NULL; /* another thread stored it meanwhile */
    }
    return c;
}

/* Frees the communicator's place, because a new communicator may get its address. */
static void forget(const void *handle)
{
    struct communicator *c = find_communicator(handle);
    if (!c)
        return;
    atomic_store_explicit(&c->size, 0, memory_order_relaxed);
    atomic_store_explicit(&c->handle, NULL, memory_order_release);
}

/* Reads size and rank of a communicator, or 0 and -1. MPI is asked each time, because a handle may
 * be freed unseen. */
static void read_size_and_rank(struct communicator *c, enum collective_family family,
                               const void *handle, const void *caller, int *size, int *rank)
{
    bool nccl = family == FAMILY_NCCL;
    *size = nccl && c ? atomic_load_explicit(&c->size, memory_order_relaxed) : 0;
    *rank = nccl && c ? atomic_load_explicit(&c->rank, memory_order_relaxed) : -1;
    if (*size > 0 || !handle)
        return;
    *size = ask(nccl ? NCCL_COUNT : MPI_SIZE, handle, caller);
    *rank = *size > 0 ? ask(nccl ? NCCL_RANK : MPI_RANK, handle, caller) : -1;
    *size = *size > 0 ? *size : 0;
    if (c && *size > 0 && atomic_load_explicit(&c->size, memory_order_relaxed) != *size)
        identity_communicator(*rank, *size, nccl ? "NCCL" : "MPI");
    if (c && *size > 0) {
        atomic_store_explicit(&c->rank, *rank, memory_order_relaxed);
        atomic_store_explicit(&c->size, *size, memory_order_relaxed);
    }
}

/* ---- amounts --------------------------------------------------------------------------------- */

/* By ncclDataType_t (nccl.h), with torch's names of the types. */
static const struct {
    char name[14];
    uint8_t bytes;
} nccl_types[] = {{"Char", 1},   {"Byte", 1},     {"Int", 4},           {"UInt32", 4},
                  {"Long", 8},   {"UInt64", 8},   {"Half", 2},          {"Float", 4},
                  {"Double", 8}, {"BFloat16", 2}, {"Float8_e4m3fn", 1}, {"Float8_e5m2", 1}};

/* Size of an element in bytes; 0: unknown. */
static uint64_t element_size(enum collective_family family, const struct collective *what,
                             const void *caller, const char **name)
{
    if (family == FAMILY_NCCL) {
        bool known = (unsigned)what->dtype < sizeof nccl_types / sizeof *nccl_types;
        *name = known ? nccl_types[what->dtype].name : NULL;
        return known ? nccl_types[what->dtype].bytes : 0;
    }
    *name = NULL;
    if (is_null_type(what->type, caller))
        return 0;
    int size = ask(MPI_TYPE, what->type, caller);
    return size > 0 ? (uint64_t)size : 0;
}

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
    if (lists && size > 0 && ask(MPI_INTER, what->comm, caller) == 0)
        add_counts(what, size, rank, &a);
    uint64_t bytes = element_size(family, what, caller, &a.dtype);
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

struct args {
    uint8_t *at, *end;
};

static bool put_key(struct args *to, enum arg_type type, const char *key, size_t more)
{
    uint16_t len = (uint16_t)strlen(key);
    if ((size_t)(to->end - to->at) < 3 + len + more)
        return false;
    *to->at++ = (uint8_t)type;
    memcpy(to->at, &len, 2);
    memcpy(to->at + 2, key, len);
    to->at += 2 + len;
    return true;
}

static void put_int(struct args *to, const char *key, int64_t value)
{
    if (!put_key(to, ARG_INT, key, sizeof value))
        return;
    memcpy(to->at, &value, sizeof value);
    to->at += sizeof value;
}

static void put_bytes(struct args *to, const char *key, const char *text, uint32_t len)
{
    if (!put_key(to, ARG_TEXT, key, sizeof len + len))
        return;
    memcpy(to->at, &len, sizeof len);
    memcpy(to->at + sizeof len, text, len);
    to->at += sizeof len + len;
}

static void put_args_text(struct args *to, const char *key, const char *text)
{
    put_bytes(to, key, text, (uint32_t)strlen(text));
}

/* Appends digits to `to`, which has room for 21. */
static char *add_digits(char *to, int64_t value)
{
    char digits[20];
    int n = 0;
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    do
        digits[n++] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0)
        *to++ = '-';
    while (n > 0)
        *to++ = digits[--n];
    return to;
}

/* Writes a list as Kineto does: beyond NUMBERS_MOST, only the last number follows "...". */
static void put_numbers(struct args *to, const char *key, const struct torch_numbers *list)
{
    char text[NUMBERS_MOST * 23 + 8], *at = text;
    size_t most = list->count > NUMBERS_MOST ? NUMBERS_MOST - 1 : list->count;
    *at++ = '[';
    for (size_t i = 0; i < most; i++) {
        if (i > 0)
            at = stpcpy(at, ", ");
        at = add_digits(at, list->at[i]);
    }
    if (most < list->count)
        at = add_digits(stpcpy(at, ", ..., "), list->at[list->count - 1]);
    *at++ = ']';
    put_bytes(to, key, text, (uint32_t)(at - text));
}

/* Copies the shapes of inputs, from which TensorBoard takes a transfer's size. */
static void put_shapes(struct args *to, const uint8_t *shapes, uint32_t n)
{
    if (n == 0 || !put_key(to, ARG_SHAPES, "", sizeof n + n))
        return;
    memcpy(to->at, &n, sizeof n);
    memcpy(to->at + sizeof n, shapes, n);
    to->at += sizeof n + n;
}

static void put_amount(struct args *to, const struct amount *a)
{
    if (!a->name)
        return;
    put_args_text(to, "Collective name", a->name);
    put_int(to, "In msg nelems", (int64_t)a->in);
    put_int(to, "Out msg nelems", (int64_t)a->out);
    if (a->dtype)
        put_args_text(to, "dtype", a->dtype);
    if (a->known)
        put_int(to, "bytes", (int64_t)a->bytes);
}

static void put_peer(struct args *to, const struct collective *what)
{
    static const char keys[][12] = {
        [PEER_ROOT] = "Root rank", [PEER_TO] = "Dst Rank", [PEER_FROM] = "Src Rank"};
    if (what->peer_is != PEER_NONE && what->peer >= 0)
        put_int(to, keys[what->peer_is], what->peer);
}

static void put_communicator(struct args *to, const void *handle, int size, int rank)
{
    char text[24];
    if (size > 0)
        put_int(to, "Group size", size);
    if (rank >= 0)
        put_int(to, "Rank", rank);
    snprintf(text, sizeof text, "%#llx", (unsigned long long)(uintptr_t)handle);
    if (handle)
        put_args_text(to, "Comms Id", text);
}

/* If c10d makes the call: its name for the group, and the ranks in it. */
static void put_process_group(struct args *to, const struct torch_comms *comms)
{
    if (comms->group.len)
        put_bytes(to, "Process Group Name", comms->group.at, (uint32_t)comms->group.len);
    if (comms->about.len)
        put_bytes(to, "Process Group Description", comms->about.at, (uint32_t)comms->about.len);
    put_numbers(to, "Process Group Ranks", &comms->ranks);
}

/* Describes a group by the sum of its transfers. False: the group has none, or is not the
 * outermost. */
static bool put_group(struct args *to)
{
    if (group.transfers == 0 || group.depth > 1)
        return false;
    put_amount(to, &group.sum);
    put_int(to, "Coalesced", group.transfers);
    return true;
}

static void put_transfer(struct args *to, enum collective_family family,
                         const struct collective *what, struct communicator *c, uint64_t number,
                         const void *caller)
{
    int size, rank;
    read_size_and_rank(c, family, what->comm, caller, &size, &rank);
    struct amount a = amount_of(family, what, caller, size, rank);
    put_amount(to, &a);
    put_peer(to, what);
    put_communicator(to, what->comm, size, rank);
    if (c)
        put_int(to, "Seq", (int64_t)number);
    if (what->immediate)
        put_int(to, "Immediate", 1);
    if (group.depth > 0 && family == FAMILY_NCCL)
        add_to_group(&a);
}

static uint32_t describe(enum collective_family family, const struct collective *what,
                         struct communicator *c, uint64_t number, const void *caller, uint8_t *out)
{
    struct args to = {out, out + COLLECTIVE_ARGS};
    const char *backend = family == FAMILY_NCCL ? "nccl" : "mpi";
    identity_backend(backend);
    put_args_text(&to, "backend", backend);
    bool grouped = false;
    if (what->role == ROLE_TRANSFER)
        put_transfer(&to, family, what, c, number, caller);
    else if (what->role == ROLE_GROUP_END)
        grouped = put_group(&to);
    else if (what->role == ROLE_INIT)
        put_communicator(&to, NULL, what->size, what->rank);
    struct torch_comms comms;
    bool sends = what->role == ROLE_TRANSFER || what->role == ROLE_GROUP_END;
    if (sends && family == FAMILY_NCCL && torch_comms_read(&comms)) {
        if (grouped) /* the communicators of the group's transfers are not kept */
            put_int(&to, "Group size", comms.size);
        put_process_group(&to, &comms);
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
        forget(what->comm);
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
    call->real = callee_find(&slots[id], symbols[id], &libraries[families[id]], caller);
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
                read_handles(what, caller);
            note_role(what);
            /* Numbers transfers whether or not they are recorded, so that ranks that record
             * different steps agree. */
            struct communicator *c =
                what->role == ROLE_TRANSFER ? communicator_of(what->comm) : NULL;
            uint64_t number = c ? number_of(c, (enum collective_peer)what->peer_is) : 0;
            if (gate_open(GATE_SPANS))
                open_transfer(call, id, what, c, number, caller);
        }
        guard_leave();
    }
}

void collective_end(struct collective_call *call, const struct collective *what)
{
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

/* ---- torch's ranges -------------------------------------------------------------------------- */

/* By c10::ScalarType, up to BFloat16. */
static const struct {
    char name[14];
    uint8_t bytes;
} torch_types[] = {{"Byte", 1},        {"Char", 1},         {"Short", 2},          {"Int", 4},
                   {"Long", 8},        {"Half", 2},         {"Float", 4},          {"Double", 8},
                   {"ComplexHalf", 4}, {"ComplexFloat", 8}, {"ComplexDouble", 16}, {"Bool", 1},
                   {"QInt8", 1},       {"QUInt8", 1},       {"QInt32", 4},         {"BFloat16", 2}};

/* Adds a tensor to the amount, and its element size to *size. *at points to its dtype, number of
 * dimensions and sizes, and moves past them. */
static bool add_tensor(const uint8_t **at, const uint8_t *end, struct amount *a, uint64_t *size)
{
    if (end - *at < 2 || (size_t)(end - *at) < shape_body_size(*at))
        return false;
    uint8_t dtype = (*at)[0], dims = (*at)[1] & SHAPE_NDIM;
    uint64_t n = 1;
    for (unsigned i = 0; i < dims; i++) {
        int64_t d;
        memcpy(&d, *at + 2 + 8 * i, sizeof d);
        n *= (uint64_t)d;
    }
    *at += shape_body_size(*at);
    bool known = dtype < sizeof torch_types / sizeof *torch_types;
    a->dtype = known ? torch_types[dtype].name : NULL;
    *size = known ? torch_types[dtype].bytes : 0;
    a->in += n;
    return true;
}

static void add_shapes(const uint8_t *at, uint32_t n, struct amount *a)
{
    const uint8_t *end = at + n;
    uint64_t size = 0;
    bool fits = true;
    while (fits && at < end) {
        uint8_t tag = *at++;
        unsigned tensors = tag == SHAPE_TENSOR;
        if (tag == SHAPE_LIST && at < end)
            tensors = *at++;
        for (; fits && tensors > 0; tensors--)
            fits = add_tensor(&at, end, a, &size);
    }
    a->bytes = a->in * size;
    a->known = size > 0 && fits;
}

bool collective_is_range(const char *name)
{
    return strncmp(name, "gloo:", 5) == 0 || strncmp(name, "mpi:", 4) == 0 ||
           strncmp(name, "ucc:", 4) == 0;
}

uint64_t collective_of_group(const void *handle, int size, int rank, enum collective_peer peer_is)
{
    struct communicator *c = communicator_of(handle);
    if (!c)
        return 0;
    int known = atomic_load_explicit(&c->size, memory_order_relaxed);
    if (known != size || atomic_load_explicit(&c->rank, memory_order_relaxed) != rank) {
        /* another group got this address; nothing tells when a group is freed */
        if (known > 0)
            restart_numbers(c);
        identity_communicator(rank, size, "torch.distributed");
        atomic_store_explicit(&c->rank, rank, memory_order_relaxed);
        atomic_store_explicit(&c->size, size, memory_order_relaxed);
    }
    return number_of(c, peer_is);
}

/* How the number of output elements follows from the input. OUT_OTHER: no output, or only other
 * ranks know it. OUT_UNKNOWN: the bytes are unknown as well. */
enum torch_out { OUT_SAME, OUT_ALL, OUT_OTHER, OUT_UNKNOWN };

static const struct torch_transfer {
    char range[12], shown[12];
    uint8_t out; /* enum torch_out */
} torch_transfers[] = {
    {"all_reduce", "allreduce", OUT_SAME}, {"broadcast", "broadcast", OUT_SAME},
    {"reduce", "reduce", OUT_SAME},        {"all_to_all", "all_to_all", OUT_OTHER},
    {"all_gather", "allgather", OUT_ALL},  {"gather", "gather", OUT_ALL},
    {"send", "send", OUT_OTHER},           {"recv", "recv", OUT_OTHER},
};

static void put_torch_group(struct args *to, const struct torch_group *of)
{
    struct collective peer = {.peer = of->peer, .peer_is = of->peer_is};
    put_peer(to, &peer);
    put_communicator(to, of->group, of->size, of->rank);
    put_int(to, "Seq", (int64_t)of->seq);
}

uint32_t collective_of_shapes(const char *name, const uint8_t *shapes, uint32_t n,
                              const struct torch_group *of, uint8_t *out)
{
    const char *colon = strchr(name, ':');
    char backend[8] = "";
    memcpy(backend, name, (size_t)(colon - name));
    struct amount a = {.name = colon + 1};
    struct args to = {out, out + COLLECTIVE_ARGS};
    enum torch_out what = OUT_UNKNOWN;
    for (size_t i = 0; i < sizeof torch_transfers / sizeof *torch_transfers; i++) {
        if (strcmp(colon + 1, torch_transfers[i].range) != 0)
            continue;
        a.name = torch_transfers[i].shown;
        what = (enum torch_out)torch_transfers[i].out;
    }
    add_shapes(shapes, n, &a);
    if (what == OUT_ALL && !of)
        what = OUT_UNKNOWN;
    uint64_t times = what == OUT_ALL ? (uint64_t)of->size : 1;
    identity_backend(backend);
    put_args_text(&to, "backend", backend);
    put_args_text(&to, "Collective name", a.name);
    put_int(&to, "In msg nelems", (int64_t)a.in);
    if (what == OUT_SAME || what == OUT_ALL)
        put_int(&to, "Out msg nelems", (int64_t)(a.in * times));
    if (a.dtype)
        put_args_text(&to, "dtype", a.dtype);
    if (what != OUT_UNKNOWN && a.known)
        put_int(&to, "bytes", (int64_t)(a.bytes * times));
    if (of)
        put_torch_group(&to, of);
    put_shapes(&to, shapes, n);
    return (uint32_t)(to.at - out);
}

static bool text_is(const struct torch_text *text, const char *what)
{
    return text->len == strlen(what) && memcmp(text->at, what, text->len) == 0;
}

/* The world rank of the peer of a send or recv. comms->rank is the peer's rank in the group. Known
 * only if the group's ranks are listed, which torch does not do for odd distances. */
static void put_peer_world_rank(struct args *to, const struct torch_comms *comms)
{
    if (comms->rank < 0 || (size_t)comms->rank >= comms->ranks.count)
        return;
    if (text_is(&comms->name, "send"))
        put_int(to, "Dst Rank", comms->ranks.at[comms->rank]);
    else if (text_is(&comms->name, "recv"))
        put_int(to, "Src Rank", comms->ranks.at[comms->rank]);
}

uint32_t collective_of_comms(const struct torch_comms *comms, const uint8_t *shapes, uint32_t n,
                             uint8_t *out)
{
    struct args to = {out, out + COLLECTIVE_ARGS};
    put_bytes(&to, "Collective name", comms->name.at, (uint32_t)comms->name.len);
    put_int(&to, "In msg nelems", comms->in);
    put_int(&to, "Out msg nelems", comms->out);
    if (comms->dtype)
        put_args_text(&to, "dtype", comms->dtype);
    put_int(&to, "Group size", comms->size);
    put_int(&to, "Rank", comms->rank);
    put_peer_world_rank(&to, comms);
    if (comms->seq >= 0)
        put_int(&to, "Seq", comms->seq);
    if (comms->async >= 0)
        put_int(&to, "Is asynchronized op", comms->async);
    if (comms->start >= 0)
        put_int(&to, "Global rank start", comms->start);
    if (comms->stride > 0)
        put_int(&to, "Global rank stride", comms->stride);
    put_process_group(&to, comms);
    put_numbers(&to, "In split size", &comms->in_split);
    put_numbers(&to, "Out split size", &comms->out_split);
    put_shapes(&to, shapes, n);
    return (uint32_t)(to.at - out);
}
