/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of each GPU and the occupancy of kernels. The occupancy follows the CUDA toolkit's
 * published calculation (cuda_occupancy.h of 13.0), as in Kineto. One difference: Kineto uses the
 * shared memory limit without opt-in and gets 0 for each kernel with more than 48 KB. A kernel that
 * ran did fit. */
#include "cupti/devices.h"
#include "cupti/gpu_peaks.h"

#include <stdio.h>
#include <string.h>

#define DEVICES   128u
#define CONTEXTS  1024u
#define NAME_SIZE 96u
#define JSON_SIZE 640u /* one device */
#define JSON_MOST                                                                                  \
    12288u /* all: the room in a file's head (writer/window/trace_text.c), 25 of today's */
/* bytes of shared memory that the driver reserves per block, compute capability 8.0 and newer */
#define SHARED_OF_CUDA 1024u

struct device {
    bool known;
    char name[NAME_SIZE]; /* needs no escaping in JSON */
    uint64_t memory;
    uint32_t major, minor;
    uint32_t warp_size, sms;
    uint32_t clock_khz;
    uint32_t warps_per_sm, blocks_per_sm, shared_per_sm, registers_per_sm;
    uint32_t registers_per_block, shared_per_block, threads_per_block;
    struct gpu_identity identity;
};

static struct {
    struct device list[DEVICES];
    struct {
        uint32_t context, device;
    } contexts[CONTEXTS]; /* by id modulo CONTEXTS; a later context replaces an earlier one */
    bool used[DEVICES];   /* has had a context */
    char json[JSON_MOST];
} devices;

static const struct device *known_device(uint32_t id)
{
    return id < DEVICES && devices.list[id].known ? &devices.list[id] : NULL;
}

void gpu_device_learn(const struct cupti_device *d)
{
    if (d->id >= DEVICES || !d->is_visible)
        return;
    struct device *to = &devices.list[d->id];
    memset(to, 0, sizeof(*to));
    snprintf(to->name, sizeof(to->name), "%s", d->name ? d->name : "GPU");
    for (char *c = to->name; *c != '\0'; c++) {
        if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\')
            *c = '?';
    }
    to->memory = d->memory;
    to->major = d->major;
    to->minor = d->minor;
    to->warp_size = d->warp_size;
    to->sms = d->sms;
    to->clock_khz = d->clock_rate;
    to->warps_per_sm = d->warps_per_sm;
    to->blocks_per_sm = d->blocks_per_sm;
    to->shared_per_sm = d->shared_per_sm;
    to->registers_per_sm = d->registers_per_sm;
    to->registers_per_block = d->registers_per_block;
    to->shared_per_block = d->shared_per_block;
    to->threads_per_block = d->threads_per_block;
    memcpy(to->identity.uuid, d->uuid, sizeof to->identity.uuid);
    to->identity.is_mig = d->is_mig != 0;
    to->known = true;
}

const struct gpu_identity *gpu_device_used(uint32_t device)
{
    const struct device *d = known_device(device);
    return d && devices.used[device] ? &d->identity : NULL;
}

bool gpu_devices_known(void)
{
    for (unsigned i = 0; i < DEVICES; i++)
        if (devices.list[i].known)
            return true;
    return false;
}

void gpu_context_learn(uint32_t context, uint32_t device)
{
    unsigned i = context % CONTEXTS;
    devices.contexts[i].context = context;
    devices.contexts[i].device = device;
    if (device < DEVICES)
        devices.used[device] = true;
}

uint32_t gpu_device_of(uint32_t context)
{
    unsigned i = context % CONTEXTS;
    /* Ids begin at 1: 0 is an empty slot. */
    return context != 0 && devices.contexts[i].context == context ? devices.contexts[i].device
                                                                  : GPU_NONE;
}

const char *gpu_device_name(uint32_t device)
{
    const struct device *d = known_device(device);
    return d ? d->name : NULL;
}

double gpu_device_peak(uint32_t device, unsigned flop_class)
{
    const struct device *d = known_device(device);
    if (!d)
        return 0;
    struct peak_device known = {d->name, d->major, d->minor, d->sms, d->clock_khz};
    return peak_tflops(&known, flop_class);
}

/* Most shared memory per block with opt-in: the SM's, without the driver's share. There is no
 * opt-in before 7.0. */
static uint32_t shared_opt_in(const struct device *d)
{
    if (d->major < 7 || d->shared_per_sm < d->shared_per_block)
        return d->shared_per_block;
    return d->major >= 8 ? d->shared_per_sm - SHARED_OF_CUDA : d->shared_per_sm;
}

const char *gpu_devices_json(void)
{
    size_t len = 1;
    devices.json[0] = '[';
    for (unsigned i = 0; i < DEVICES && len + JSON_SIZE <= JSON_MOST; i++) {
        const struct device *d = known_device(i);
        if (!d)
            continue;
        int n = snprintf(
            devices.json + len, sizeof(devices.json) - len,
            "%s\n  {\"id\": %u, \"name\": \"%s\", \"totalGlobalMem\": %llu, \"computeMajor\": %u, "
            "\"computeMinor\": %u, \"maxThreadsPerBlock\": %u, \"maxThreadsPerMultiprocessor\": "
            "%llu, \"regsPerBlock\": %u, \"warpSize\": %u, \"sharedMemPerBlock\": %u, \"numSms\": "
            "%u, \"regsPerMultiprocessor\": %u, \"sharedMemPerBlockOptin\": %u, "
            "\"sharedMemPerMultiprocessor\": %u}",
            len > 1 ? "," : "", i, d->name, (unsigned long long)d->memory, d->major, d->minor,
            d->threads_per_block, (unsigned long long)d->warps_per_sm * d->warp_size,
            d->registers_per_block, d->warp_size, d->shared_per_block, d->sms, d->registers_per_sm,
            shared_opt_in(d), d->shared_per_sm);
        len += (size_t)n;
    }
    memcpy(devices.json + len, len > 1 ? "\n]" : "]", len > 1 ? 3 : 2);
    return devices.json;
}

/* ---- occupancy ------------------------------------------------------------------------------- */

static uint64_t round_up(uint64_t v, uint64_t step)
{
    return (v + step - 1) / step * step;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Blocks of the kernel that one SM can hold; at least 1. */
static uint64_t active_blocks(const struct device *d, const struct cupti_kernel *k,
                              uint64_t threads)
{
    uint64_t warps = (threads + d->warp_size - 1) / d->warp_size;
    uint64_t most = d->warps_per_sm / warps;
    if (d->blocks_per_sm != 0)
        most = least(most, d->blocks_per_sm);
    /* A warp gets registers in units of 256, out of the quarter of the SM that runs it (half on
     * 6.0). */
    uint64_t per_warp = round_up((uint64_t)k->registers * d->warp_size, 256);
    if (per_warp != 0 && d->registers_per_sm != 0) {
        unsigned parts = d->major == 6 && d->minor == 0 ? 2 : 4;
        most = least(most, d->registers_per_sm / parts / per_warp * parts / warps);
    }
    /* Shared memory comes in units of 128 bytes, 256 before 8.0. Assumes the largest carveout. */
    int64_t asked = (int64_t)k->static_shared + k->dynamic_shared;
    uint64_t shared =
        round_up((asked > 0 ? (uint64_t)asked : 0) + (d->major >= 8 ? SHARED_OF_CUDA : 0),
                 d->major >= 8 ? 128 : 256);
    if (shared != 0 && d->shared_per_sm != 0)
        most = least(most, d->shared_per_sm / shared);
    return most != 0 ? most : 1;
}

void gpu_occupancy(const struct cupti_kernel *k, struct gpu_record *out)
{
    const struct device *d = known_device(k->device);
    out->kernel.occupancy = -1;
    out->kernel.blocks_per_sm = out->kernel.warps_per_sm = -1;
    if (!d || d->sms == 0 || d->warp_size == 0 || d->warps_per_sm == 0)
        return;
    for (unsigned i = 0; i < 3; i++) {
        if (k->grid[i] <= 0 || k->block[i] <= 0 || k->block[i] > 1 << 16)
            return;
    }
    uint64_t threads = (uint64_t)k->block[0] * (uint64_t)k->block[1] * (uint64_t)k->block[2];
    double blocks = (double)k->grid[0] * k->grid[1] * k->grid[2] / d->sms;
    out->kernel.blocks_per_sm = (float)blocks;
    out->kernel.warps_per_sm = (float)(blocks * (double)threads / d->warp_size);
    double active = (double)active_blocks(d, k, threads);
    double most = (double)d->warps_per_sm * d->warp_size;
    double percent = (active < blocks ? active : blocks) * (double)threads / most * 100;
    out->kernel.occupancy = (int16_t)(percent < 100 ? percent + 0.5 : 100);
}

void gpu_devices_forget(void)
{
    memset(&devices, 0, sizeof(devices));
}
