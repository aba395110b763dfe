/* SPDX-License-Identifier: Apache-2.0 */
/* Which process group a gloo transfer belongs to, by its tensors. */
#include "preload/collectives/torch_groups.h"

#include <stdatomic.h>

#include "preload/collectives/collectives.h"
#include "preload/core/core.h"

#define PENDING 256u /* a power of two; two that meet in one place: the later one is known */
#define LARGEST (1 << 24)

/* Transfers that were asked for and have not begun, by their first tensor. */
static struct {
    _Atomic(const void *) tensor; /* NULL: none; &busy: a thread fills or empties it */
    struct torch_group group;     /* of the thread that made it busy */
    /* the tensor was asked to be sent in another group, too: which begins first is not known */
    bool several;
} pending[PENDING];

static const char busy;

/* Ranges that have no tensor: of a barrier, and of a scatter where nothing is sent. What was asked
 * for is noted by one of these addresses. */
static const struct {
    char name[16];
} bare[] = {{"c10d::barrier"}, {"c10d::scatter_"}};

static const void *bare_of_operator(const char *name)
{
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        if (strcmp(name, bare[i].name) == 0)
            return &bare[i];
    return NULL;
}

static const void *bare_of_range(const char *name)
{
    const char *what = strchr(name, ':');
    return !what                           ? NULL
           : strcmp(what, ":barrier") == 0 ? &bare[0]
           : strcmp(what, ":scatter") == 0 ? &bare[1]
                                           : NULL;
}

static unsigned group_place(const void *tensor)
{
    return (unsigned)((uint64_t)(uintptr_t)tensor * 0x9e3779b97f4a7c15u >> 40) % PENDING;
}

/* ---- reading ---- */

/* The first tensor of an input: a tensor, a list of them, or a list of such lists. NULL: there is
 * none. */
static const void *tensor_in(const void *value)
{
    const struct torch_layout *l = torch_api.layout;
    for (int depth = 0; depth < 3; depth++) {
        uint32_t tag = value_tag(value);
        const void *payload = value_pointer(value, l->iv_payload);
        if (tag == l->tag_tensor && payload != torch_api.undefined_tensor)
            return payload;
        if (tag != l->tag_generic_list || !payload)
            return NULL;
        value = value_pointer(payload, l->list_begin);
        if (value == value_pointer(payload, l->list_end))
            return NULL;
    }
    return NULL;
}

/* The process group that an input is; false: it is none. Each step is looked at before it is
 * taken. */
static bool group_in(const void *value, struct torch_group *out)
{
    const struct torch_layout *l = torch_api.layout;
    const void *object = value_pointer(value, l->iv_payload);
    if (value_tag(value) != l->tag_object || !object)
        return false;
    const char *slot = value_pointer(object, l->ob_slots);
    if (!slot ||
        (const char *)value_pointer(object, (uint16_t)(l->ob_slots + 8)) != slot + l->iv_size ||
        value_tag(slot) != l->tag_capsule)
        return false;
    out->group = value_pointer(slot, l->iv_payload);
    if (!out->group)
        return false;
    memcpy(&out->rank, (const char *)out->group + l->pg_rank, sizeof out->rank);
    memcpy(&out->size, (const char *)out->group + l->pg_size, sizeof out->size);
    return out->size > 0 && out->size <= LARGEST && out->rank >= 0 && out->rank < out->size;
}

#define NOWHERE 0 /* whoever sends first */

/* Operators with a peer: where it stands behind the group (torch/csrc/distributed/c10d/Ops.cpp). */
static const struct {
    char name[24];
    uint8_t behind, is;
} peers[] = {{"c10d::broadcast_", 1, PEER_ROOT},
             {"c10d::reduce_", 2, PEER_ROOT},
             {"c10d::gather_", 1, PEER_ROOT},
             {"c10d::scatter_", 1, PEER_ROOT},
             {"c10d::send", 1, PEER_TO},
             {"c10d::recv_", 1, PEER_FROM},
             {"c10d::recv_any_source_", NOWHERE, PEER_FROM}};

static void read_peer(const char *name, const char *group, const char *end, struct torch_group *out)
{
    const struct torch_layout *l = torch_api.layout;
    out->peer = -1;
    for (size_t i = 0; i < sizeof peers / sizeof *peers; i++) {
        const char *value = group + peers[i].behind * (size_t)l->iv_size;
        if (strcmp(name, peers[i].name) != 0)
            continue;
        out->peer_is = peers[i].is;
        if (peers[i].behind != NOWHERE && value < end && value_tag(value) == l->tag_int)
            out->peer = (int32_t)value_word(value, l->iv_payload);
    }
}

/* ---- noting and taking ---- */

static void put_group(const void *tensor, const struct torch_group *group)
{
    unsigned at = group_place(tensor);
    const void *there = atomic_exchange(&pending[at].tensor, &busy);
    if (there == &busy)
        return;
    pending[at].several = there == tensor && pending[at].group.group != group->group;
    pending[at].group = *group;
    atomic_store_explicit(&pending[at].tensor, tensor, memory_order_release);
}

void torch_groups_note(const void *function, const char *name)
{
    const struct torch_layout *l = torch_api.layout;
    struct torch_group group = {.peer_is = PEER_NONE};
    uint64_t n;
    const char *value = value_inputs(function, &n), *end = value + n * l->iv_size;
    const char *first = value;
    const void *tensor = NULL;
    if (l->ob_slots == TORCH_LAYOUT_ABSENT)
        return;
    while (value < end && !group_in(value, &group))
        value += l->iv_size;
    if (value >= end)
        return;
    const void *without = bare_of_operator(name);
    bool barrier = without == &bare[0];
    /* What is sent stands just before the group; before that what is received. A barrier's own
     * tensor is none that the range shows, and gone before another gets its address. */
    for (const char *at = value - l->iv_size; at >= first && !tensor && !barrier; at -= l->iv_size)
        tensor = tensor_in(at);
    read_peer(name, value, end, &group);
    group.seq = collective_of_group(group.group, group.size, group.rank, group.peer_is);
    if (tensor)
        put_group(tensor, &group);
    if (barrier || (without && value > first && !tensor_in(value - l->iv_size)))
        put_group(without, &group);
}

bool torch_groups_take(const void *function, const char *name, struct torch_group *out)
{
    uint64_t n;
    const char *value = value_inputs(function, &n);
    const void *tensor = n ? tensor_in(value) : NULL;
    if (!tensor)
        tensor = bare_of_range(name);
    unsigned at = group_place(tensor);
    if (!tensor || !atomic_compare_exchange_strong(&pending[at].tensor, &tensor, &busy))
        return false;
    *out = pending[at].group;
    bool known = !pending[at].several;
    atomic_store_explicit(&pending[at].tensor, NULL, memory_order_release);
    return known;
}
