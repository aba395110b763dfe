/* SPDX-License-Identifier: Apache-2.0 */
/* Describes torch's own ranges around transfers: those of gloo, MPI and UCC, and
 * record_param_comms. Application threads, in torch's callbacks. */
#include "preload/collectives/torch_transfers.h"

#include <string.h>

#include "preload/collectives/collective_args.h"
#include "preload/collectives/communicators.h"
#include "preload/settings/settings.h"

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
    args_put_peer(to, &peer);
    args_put_communicator(to, of->group, of->size, of->rank);
    args_put_int(to, "Seq", (int64_t)of->seq);
    const struct communicator *c = communicator_of(of->group);
    const char *group = c ? communicator_name(c) : "";
    if (group[0])
        args_put_text(to, "Process Group Name", group);
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
    args_put_text(&to, "backend", backend);
    args_put_text(&to, "Collective name", a.name);
    args_put_int(&to, "In msg nelems", (int64_t)a.in);
    if (what == OUT_SAME || what == OUT_ALL)
        args_put_int(&to, "Out msg nelems", (int64_t)(a.in * times));
    if (a.dtype)
        args_put_text(&to, "dtype", a.dtype);
    if (what != OUT_UNKNOWN && a.known)
        args_put_int(&to, "bytes", (int64_t)(a.bytes * times));
    if (of)
        put_torch_group(&to, of);
    args_put_shapes(&to, shapes, n);
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
        args_put_int(to, "Dst Rank", comms->ranks.at[comms->rank]);
    else if (text_is(&comms->name, "recv"))
        args_put_int(to, "Src Rank", comms->ranks.at[comms->rank]);
}

uint32_t collective_of_comms(const struct torch_comms *comms, const uint8_t *shapes, uint32_t n,
                             uint8_t *out)
{
    struct args to = {out, out + COLLECTIVE_ARGS};
    args_put_bytes(&to, "Collective name", comms->name.at, (uint32_t)comms->name.len);
    args_put_int(&to, "In msg nelems", comms->in);
    args_put_int(&to, "Out msg nelems", comms->out);
    if (comms->dtype)
        args_put_text(&to, "dtype", comms->dtype);
    args_put_int(&to, "Group size", comms->size);
    args_put_int(&to, "Rank", comms->rank);
    put_peer_world_rank(&to, comms);
    if (comms->seq >= 0)
        args_put_int(&to, "Seq", comms->seq);
    if (comms->async >= 0)
        args_put_int(&to, "Is asynchronized op", comms->async);
    if (comms->start >= 0)
        args_put_int(&to, "Global rank start", comms->start);
    if (comms->stride > 0)
        args_put_int(&to, "Global rank stride", comms->stride);
    args_put_process_group(&to, comms);
    args_put_numbers(&to, "In split size", &comms->in_split);
    args_put_numbers(&to, "Out split size", &comms->out_split);
    args_put_shapes(&to, shapes, n);
    return (uint32_t)(to.at - out);
}
