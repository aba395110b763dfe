/* SPDX-License-Identifier: Apache-2.0 */
/* Reads rank and world size from launchers' environments. */
#include "preload/settings/rank.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "preload/core/core.h"
#include "writer/writer.h"

enum { UNKNOWN = -1 };

/* The variables of one launcher; NULL: it has none. */
struct launcher {
    const char *source;
    const char *rank;
    const char *world_size[2];
    const char *local_rank;
    const char *local_world_size[2];
    const char *node_rank[2];
};

/* In order of precedence. */
/* clang-format off */
static const struct launcher launchers[] = {
    {"torchrun", "RANK", {"WORLD_SIZE"},
     "LOCAL_RANK", {"LOCAL_WORLD_SIZE"}, {"GROUP_RANK", "NODE_RANK"}},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", {"OMPI_COMM_WORLD_SIZE"},
     "OMPI_COMM_WORLD_LOCAL_RANK", {"OMPI_COMM_WORLD_LOCAL_SIZE"}, {NULL}},
    {"PMI", "PMI_RANK", {"PMI_SIZE"},
     "MPI_LOCALRANKID", {"MPI_LOCALNRANKS"}, {NULL}},
    {"PMIx", "PMIX_RANK", {NULL}, NULL, {NULL}, {NULL}},
    {"Slurm", "SLURM_PROCID", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     "SLURM_LOCALID", {"SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"}, {"SLURM_NODEID"}},
    /* Lightning sets LOCAL_RANK and WORLD_SIZE for its processes; RANK appears later, inside
     * them. */
    {"LOCAL_RANK", "LOCAL_RANK", {"WORLD_SIZE"},
     "LOCAL_RANK", {"LOCAL_WORLD_SIZE"}, {"NODE_RANK"}},
};
/* clang-format on */

enum { LAUNCHERS = sizeof launchers / sizeof launchers[0] };

/* warn: report bad values. */
struct reader {
    rank_lookup *lookup;
    bool warn;
};

/* The values of one launcher; UNKNOWN where it sets none. */
struct claim {
    int64_t rank, world_size, local_rank, local_world_size, node_rank;
};

static int64_t read_number(const struct reader *reader, const char *name, int64_t min)
{
    int64_t value;
    const char *text = name ? reader->lookup(name) : NULL;
    if (parse_is_blank(text))
        return UNKNOWN;
    if (parse_int(text, min, INT32_MAX, &value))
        return value;
    if (reader->warn)
        log_warn("%s=%.40s: must be a whole number from %d to %d; ignored", name, text, (int)min,
                 INT32_MAX);
    return UNKNOWN;
}

static int64_t read_either(const struct reader *reader, const char *const names[2], int64_t min)
{
    int64_t value = read_number(reader, names[0], min);
    return value == UNKNOWN ? read_number(reader, names[1], min) : value;
}

/* The entry of `node` in Slurm's "4(x2),3" (4, 4, 3). UNKNOWN for a short or malformed list. */
static int64_t tasks_of_node(const char *list, int64_t node)
{
    if (parse_is_blank(list) || node < 0)
        return UNKNOWN;
    while (*list >= '0' && *list <= '9') {
        char *end;
        long tasks = strtol(list, &end, 10);
        long nodes = 1;
        if (strncmp(end, "(x", 2) == 0 && end[2] >= '0' && end[2] <= '9') {
            nodes = strtol(end + 2, &end, 10);
            if (*end++ != ')')
                return UNKNOWN;
        }
        if (node < nodes)
            return tasks >= 1 && tasks <= INT32_MAX ? tasks : UNKNOWN;
        node -= nodes;
        if (*end != ',')
            return UNKNOWN;
        list = end + 1;
    }
    return UNKNOWN;
}

static int64_t read_local_world(const struct reader *reader, const struct launcher *from,
                                int64_t node)
{
    const char *first = from->local_world_size[0];
    if (!first || strcmp(first, "SLURM_STEP_TASKS_PER_NODE") != 0)
        return read_either(reader, from->local_world_size, 1);
    int64_t tasks = tasks_of_node(reader->lookup(first), node);
    return tasks == UNKNOWN ? read_number(reader, from->local_world_size[1], 1) : tasks;
}

/* False when the launcher's variables are set but describe another process. */
static bool applies(const struct reader *reader, const struct launcher *from)
{
    if (strcmp(from->rank, "SLURM_PROCID") == 0)
        return !parse_is_blank(reader->lookup("SLURM_STEP_ID")) ||
               !parse_is_blank(reader->lookup("SLURM_STEP_NUM_TASKS"));
    if (from == &launchers[LAUNCHERS - 1]) {
        const char *node = reader->lookup("NODE_RANK");
        int64_t number;
        return !parse_is_blank(reader->lookup("WORLD_SIZE")) &&
               (parse_is_blank(node) || parse_int(node, 0, 0, &number));
    }
    return true;
}

static struct claim read_claim(const struct reader *reader, const struct launcher *from)
{
    struct claim claim = {UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN};

    if (!applies(reader, from))
        return claim;
    claim.rank = read_number(reader, from->rank, 0);
    if (claim.rank == UNKNOWN)
        return claim;
    claim.world_size = read_either(reader, from->world_size, 1);
    claim.local_rank = read_number(reader, from->local_rank, 0);
    claim.node_rank = read_either(reader, from->node_rank, 0);
    claim.local_world_size = read_local_world(reader, from, claim.node_rank);

    if (claim.world_size != UNKNOWN && claim.world_size <= claim.rank) {
        if (reader->warn)
            log_warn("%s=%d does not fit %s=%d; the size is ignored", from->world_size[0],
                     (int)claim.world_size, from->rank, (int)claim.rank);
        claim.world_size = UNKNOWN;
    }
    if (claim.local_world_size != UNKNOWN && claim.local_world_size <= claim.local_rank) {
        if (reader->warn)
            log_warn("%s=%d does not fit %s=%d; the size is ignored", from->local_world_size[0],
                     (int)claim.local_world_size, from->local_rank, (int)claim.local_rank);
        claim.local_world_size = UNKNOWN;
    }
    return claim;
}

static void fill(int64_t *value, int64_t other)
{
    if (*value == UNKNOWN)
        *value = other;
}

/* Fills the unknown values of `claim` from `more`, which describes the same rank. */
static void complete(struct claim *claim, const struct claim *more)
{
    fill(&claim->world_size, more->world_size);
    fill(&claim->local_rank, more->local_rank);
    fill(&claim->node_rank, more->node_rank);
    if (more->local_world_size > claim->local_rank)
        fill(&claim->local_world_size, more->local_world_size);
}

/* torch.multiprocessing.spawn sets no variables, but its programs set MASTER_ADDR. */
static bool is_loopback(const char *address)
{
    return address && (strcasecmp(address, "localhost") == 0 || strcmp(address, "::1") == 0 ||
                       strncmp(address, "127.", 4) == 0);
}

/* Derives the missing numbers, and makes all of them consistent. */
static void settle(struct rank_info *info, const struct claim *claim)
{
    info->world_known = claim->world_size != UNKNOWN;
    info->rank = claim->rank;
    info->world_size = info->world_known ? claim->world_size : claim->rank + 1;
    info->local_known = claim->local_rank != UNKNOWN || info->world_size == 1 || info->one_host;
    info->local_rank = claim->local_rank != UNKNOWN ? claim->local_rank
                       : info->one_host             ? claim->rank
                                                    : 0;
    info->local_world_size = claim->local_world_size == UNKNOWN && info->one_host
                                 ? info->world_size
                                 : claim->local_world_size;
    if (info->local_world_size <= info->local_rank)
        info->local_world_size = info->local_rank + 1;
    info->node_rank = claim->node_rank;
    if (info->node_rank == UNKNOWN) {
        bool in_order = claim->local_rank != UNKNOWN && claim->local_world_size != UNKNOWN &&
                        info->rank % info->local_world_size == info->local_rank;
        info->node_rank = in_order ? info->rank / info->local_world_size : 0;
    }
}

void rank_read(struct rank_info *info, rank_lookup *lookup, bool warn)
{
    struct reader reader = {lookup, warn};
    struct claim claim = {UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN};

    *info = (struct rank_info){
        .world_size = 1, .local_world_size = 1, .local_known = true, .source = "default"};
    info->one_host = is_loopback(lookup("MASTER_ADDR"));
    for (unsigned i = 0; i < LAUNCHERS; i++) {
        struct claim more = read_claim(&reader, &launchers[i]);
        if (more.rank == UNKNOWN)
            continue;
        if (!info->known) {
            info->known = true;
            info->source = launchers[i].source;
            claim = more;
            /* later launchers only complete the first; their bad values need no message */
            reader.warn = false;
        } else if (more.rank == claim.rank &&
                   (more.world_size == claim.world_size || claim.world_size == UNKNOWN ||
                    more.world_size == UNKNOWN)) {
            complete(&claim, &more);
        }
    }
    if (info->known)
        settle(info, &claim);
}
