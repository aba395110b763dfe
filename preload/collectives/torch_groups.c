/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the process group of a gloo transfer by its tensors. */
#include "preload/collectives/torch_groups.h"

#include <stdatomic.h>

#include "preload/collectives/collectives.h"
#include "preload/collectives/communicators.h"
#include "preload/collectives/torch_backend.h"
#include "preload/core/core.h"

#define PENDING 4096u /* a power of two */
#define PROBES  8u    /* places of a transfer; where all are taken, it replaces the first */
#define LARGEST (1 << 24)

/* Requested transfers that have not begun, by their first tensor or by gloo's object of the
 * transfer. */
static struct pending {
    _Atomic(const void *) tensor; /* NULL: free; &busy: a thread is using the place */
    struct torch_group group;     /* belongs to the thread that set busy */
    /* the tensor is also sent in another group, so the group is ambiguous */
    bool several;
} pending[PENDING];

static const char busy;

/* Ranges without a tensor: a barrier, and a scatter that sends nothing. The address of an element
 * stands for the tensor. */
static const struct {
    char name[16];
} tensorless[] = {{"c10d::barrier"}, {"c10d::scatter_"}};

static const void *tensorless_operator(const char *name)
{
    for (size_t i = 0; i < sizeof tensorless / sizeof *tensorless; i++)
        if (strcmp(name, tensorless[i].name) == 0)
            return &tensorless[i];
    return NULL;
}

static const void *tensorless_range(const char *name)
{
    const char *what = strchr(name, ':');
    return !what                           ? NULL
           : strcmp(what, ":barrier") == 0 ? &tensorless[0]
           : strcmp(what, ":scatter") == 0 ? &tensorless[1]
                                           : NULL;
}

static unsigned group_place(const void *tensor)
{
    return (unsigned)((uint64_t)(uintptr_t)tensor * 0x9e3779b97f4a7c15u >> 40) % PENDING;
}

/* ---- reading ---- */

/* The first tensor of an input: a tensor, a list of tensors, or a list of such lists. NULL:
 * none. */
static const void *tensor_in(const void *value)
{
    const struct torch_layout *l = torch_api.layout;
    for (int depth = 0; depth < 3; depth++) {
        uint32_t tag = value_tag(torch_api.layout, value);
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

bool torch_groups_read(struct torch_group *out)
{
    const struct torch_layout *l = torch_api.layout;
    if (!l || l->ob_slots == TORCH_LAYOUT_ABSENT)
        return false;
    memcpy(&out->rank, (const char *)out->group + l->pg_rank, sizeof out->rank);
    memcpy(&out->size, (const char *)out->group + l->pg_size, sizeof out->size);
    return out->size > 0 && out->size <= LARGEST && out->rank >= 0 && out->rank < out->size;
}

/* Whether an input is a process group; fills *out. Checks each pointer before following it. */
static bool group_in(const void *value, struct torch_group *out)
{
    const struct torch_layout *l = torch_api.layout;
    const void *object = value_pointer(value, l->iv_payload);
    if (value_tag(torch_api.layout, value) != l->tag_object || !object)
        return false;
    const char *slot = value_pointer(object, l->ob_slots);
    if (!slot ||
        (const char *)value_pointer(object, (uint16_t)(l->ob_slots + 8)) != slot + l->iv_size ||
        value_tag(torch_api.layout, slot) != l->tag_capsule)
        return false;
    out->group = value_pointer(slot, l->iv_payload);
    if (!out->group)
        return false;
    return torch_groups_read(out);
}

#define ANY_SENDER 0 /* any sender */

/* Operators with a peer, and its position after the group (torch/csrc/distributed/c10d/Ops.cpp). */
static const struct {
    char name[24];
    uint8_t behind, is;
} peers[] = {{"c10d::broadcast_", 1, PEER_ROOT},
             {"c10d::reduce_", 2, PEER_ROOT},
             {"c10d::gather_", 1, PEER_ROOT},
             {"c10d::scatter_", 1, PEER_ROOT},
             {"c10d::send", 1, PEER_TO},
             {"c10d::recv_", 1, PEER_FROM},
             {"c10d::recv_any_source_", ANY_SENDER, PEER_FROM}};

static void read_peer(const char *name, const char *group, const char *end, struct torch_group *out)
{
    const struct torch_layout *l = torch_api.layout;
    out->peer = -1;
    for (size_t i = 0; i < sizeof peers / sizeof *peers; i++) {
        const char *value = group + peers[i].behind * (size_t)l->iv_size;
        if (strcmp(name, peers[i].name) != 0)
            continue;
        out->peer_is = peers[i].is;
        if (peers[i].behind != ANY_SENDER && value < end &&
            value_tag(torch_api.layout, value) == l->tag_int)
            out->peer = (int32_t)value_word(value, l->iv_payload);
    }
}

/* ---- store and take ---- */

/* Marks the first place of `tensor` as busy that holds `there`; NULL: there is none. */
static struct pending *claim(const void *tensor, const void *there)
{
    for (unsigned i = 0; i < PROBES; i++) {
        struct pending *p = &pending[(group_place(tensor) + i) % PENDING];
        const void *seen = there;
        if (atomic_load_explicit(&p->tensor, memory_order_relaxed) == there &&
            atomic_compare_exchange_strong(&p->tensor, &seen, &busy))
            return p;
    }
    return NULL;
}

void torch_groups_put(const void *tensor, const struct torch_group *group)
{
    struct pending *p = claim(tensor, tensor);
    bool again = p != NULL;
    if (!p)
        p = claim(tensor, NULL);
    if (!p) {
        p = &pending[group_place(tensor)];
        if (atomic_exchange(&p->tensor, &busy) == &busy)
            return;
    }
    p->several = again && p->group.group != group->group;
    p->group = *group;
    atomic_store_explicit(&p->tensor, tensor, memory_order_release);
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
    const void *without = tensorless_operator(name);
    bool barrier = without == &tensorless[0];
    /* The sent tensors directly precede the group; before them are the received ones. A barrier's
     * tensor is left out: its range does not show it, and another tensor may get its address
     * later. */
    for (const char *at = value - l->iv_size; at >= first && !tensor && !barrier; at -= l->iv_size)
        tensor = tensor_in(at);
    read_peer(name, value, end, &group);
    communicator_of_group(group.group, group.size, group.rank);
    if (tensor)
        torch_groups_put(tensor, &group);
    if (barrier || (without && value > first && !tensor_in(value - l->iv_size)))
        torch_groups_put(without, &group);
}

bool torch_groups_get(const void *tensor, struct torch_group *out)
{
    struct pending *p = claim(tensor, tensor);
    if (!p)
        return false;
    *out = p->group;
    bool known = !p->several;
    atomic_store_explicit(&p->tensor, NULL, memory_order_release);
    return known;
}

/* What the operator stored for the range. False: nothing, or it is ambiguous. */
static bool take_stored(const void *function, const char *name, struct torch_group *out)
{
    uint64_t n;
    const char *value = value_inputs(function, &n);
    const void *tensor = n ? tensor_in(value) : NULL;
    if (!tensor)
        tensor = tensorless_range(name);
    return tensor && torch_groups_get(tensor, out);
}

/* What a range of this name has at its other side. */
static enum collective_peer peer_of_range(const char *name)
{
    const char *what = strchr(name, ':');
    return !what                            ? PEER_NONE
           : strncmp(what, ":send", 5) == 0 ? PEER_TO
           : strncmp(what, ":recv", 5) == 0 ? PEER_FROM
                                            : PEER_NONE;
}

bool torch_groups_take(const void *function, const char *name, struct torch_group *out)
{
    struct torch_group asked;
    bool stored = take_stored(function, name, out), known = torch_backend_take(&asked);
    if (known && !(stored && out->group == asked.group)) {
        *out = asked;
        out->peer_is = peer_of_range(name);
    } else if (known) {
        out->numbered = asked.numbered;
        out->seq = asked.seq;
    } else if (!stored) {
        return false;
    }
    if (!out->numbered)
        torch_groups_number(out);
    return true;
}

void torch_groups_number(struct torch_group *group)
{
    struct communicator *c = communicator_of_group(group->group, group->size, group->rank);
    group->seq = c ? communicator_number(c, (enum collective_peer)group->peer_is) : 0;
    group->numbered = true;
}
