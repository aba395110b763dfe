/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a GPU's state by NVML, in the units of gpu_values.def. */
#include "cupti/device_values.h"

#include <stdio.h>
#include <string.h>

#define STALE_NS  400000000u /* a rate since an older reading would tell of another time */
#define UUID_TEXT 48u

#define BIT(value) (UINT32_C(1) << (value))
/* of a GPU as a whole, so wrong for one of its instances */
#define NOT_OF_MIG                                                                                 \
    (BIT(GPU_MEMORY_USED) | BIT(GPU_PCIE_SENT) | BIT(GPU_PCIE_RECEIVED) | BIT(GPU_NVLINK_SENT) |   \
     BIT(GPU_NVLINK_RECEIVED) | BIT(GPU_SM_ACTIVITY) | BIT(GPU_TENSOR_ACTIVITY) |                  \
     BIT(GPU_DRAM_BANDWIDTH))

static const struct {
    enum gpu_value value;
    unsigned metric;
} gpm_metrics[] = {{GPU_SM_ACTIVITY, NVML_GPM_SM},
                   {GPU_TENSOR_ACTIVITY, NVML_GPM_TENSOR},
                   {GPU_DRAM_BANDWIDTH, NVML_GPM_DRAM}};

#define GPM_METRICS (sizeof gpm_metrics / sizeof *gpm_metrics)

/* Whether a call that gave this result would give it again. */
static bool is_final(int result)
{
    switch (result) {
    case NVML_INVALID_ARGUMENT:
    case NVML_NOT_SUPPORTED:
    case NVML_NO_PERMISSION:
    case NVML_NO_FUNCTION:
    case NVML_GPU_IS_LOST:
    case NVML_VERSION_MISMATCH:
        return true;
    default:
        return false;
    }
}

static bool wants(const struct device_values *d, enum gpu_value value)
{
    return !(d->refused & BIT(value));
}

/* Notes whether a value was read. */
static bool took(struct device_values *d, struct gpu_state *out, enum gpu_value value, int result)
{
    if (result == NVML_OK)
        out->known |= BIT(value);
    else if (is_final(result))
        d->refused |= BIT(value);
    return result == NVML_OK;
}

static void set(struct device_values *d, struct gpu_state *out, enum gpu_value value, int result,
                double number)
{
    if (__builtin_isfinite(number) && took(d, out, value, result))
        out->value[value] = number;
}

/* ---- opening ---- */

static void start_gpm(struct device_values *d, const struct nvml *api)
{
    struct nvml_gpm_support support = {.version = NVML_GPM_VERSION};
    if (wants(d, GPU_SM_ACTIVITY) && NVML_CALL(api, gpm_support, d->device, &support) == NVML_OK &&
        support.is_supported && NVML_CALL(api, gpm_alloc, &d->gpm[0]) == NVML_OK &&
        NVML_CALL(api, gpm_alloc, &d->gpm[1]) == NVML_OK)
        return;
    d->gpm[0] = NULL;
}

void device_values_open(struct device_values *d, const struct nvml *api, const uint8_t uuid[16],
                        bool is_mig)
{
    char text[UUID_TEXT];
    unsigned mw = 0;
    int len = snprintf(text, sizeof text, "GPU-");
    for (unsigned i = 0; i < 16; i++)
        len += snprintf(text + len, sizeof text - (size_t)len, "%s%02x",
                        i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    *d = (struct device_values){.refused = is_mig ? NOT_OF_MIG : 0, .is_mig = is_mig};
    int result = NVML_CALL(api, by_uuid, text, &d->device);
    if (result != NVML_OK) {
        d->device = NULL;
        log_debug("NVML has no %s (%d)", text, result);
        return;
    }
    if (NVML_CALL(api, clock_most, d->device, NVML_CLOCK_OF_SM, &d->sm_clock_most) != NVML_OK)
        d->sm_clock_most = 0;
    if (NVML_CALL(api, power_limit, d->device, &mw) == NVML_OK)
        d->power_limit = mw / 1e3;
    start_gpm(d, api);
}

/* ---- reading ---- */

static void read_clock(struct device_values *d, const struct nvml *api, enum gpu_value value,
                       int domain, struct gpu_state *out)
{
    unsigned mhz = 0;
    if (!wants(d, value))
        return;
    int result = NVML_CALL(api, clock, d->device, domain, &mhz);
    set(d, out, value, result, mhz);
}

static void read_temperature(struct device_values *d, const struct nvml *api, struct gpu_state *out)
{
    unsigned celsius = 0;
    if (!wants(d, GPU_TEMPERATURE))
        return;
    int result = NVML_CALL(api, temperature, d->device, NVML_SENSOR_OF_GPU, &celsius);
    set(d, out, GPU_TEMPERATURE, result, celsius);
}

static void read_power(struct device_values *d, const struct nvml *api, struct gpu_state *out)
{
    unsigned mw = 0;
    if (!wants(d, GPU_POWER))
        return;
    int result = NVML_CALL(api, power, d->device, &mw);
    set(d, out, GPU_POWER, result, mw / 1e3);
}

static void read_memory(struct device_values *d, const struct nvml *api, struct gpu_state *out)
{
    struct nvml_memory memory = {.version = NVML_MEMORY_VERSION};
    if (!wants(d, GPU_MEMORY_USED))
        return;
    int result = NVML_CALL(api, memory, d->device, &memory);
    set(d, out, GPU_MEMORY_USED, result, (double)memory.used);
}

static void read_throttled(struct device_values *d, const struct nvml *api, struct gpu_state *out)
{
    unsigned long long bits = 0;
    if (!wants(d, GPU_THROTTLED))
        return;
    int result = api->event_reasons ? NVML_CALL(api, event_reasons, d->device, &bits)
                                    : NVML_CALL(api, throttle_reasons, d->device, &bits);
    if (!took(d, out, GPU_THROTTLED, result))
        return;
    out->is_idle = bits & NVML_IDLE;
    out->throttled = throttles_of(bits);
}

static void add_up_power(struct power_sum *sum, struct gpu_state *out)
{
    uint64_t now = clock_monotonic_ns();
    double power = out->value[GPU_POWER];
    if (!gpu_state_knows(out, GPU_POWER))
        return;
    if (sum->at_ns)
        sum->joules += (sum->power + power) / 2 * (double)(now - sum->at_ns) / 1e9;
    sum->power = power;
    sum->at_ns = now;
    out->joules = sum->joules;
    out->known |= BIT(GPU_ENERGY);
}

static void read_energy(struct device_values *d, const struct nvml *api, struct gpu_state *out)
{
    unsigned long long mj = 0;
    if (d->is_mig)
        return;
    int result = wants(d, GPU_ENERGY) ? NVML_CALL(api, energy, d->device, &mj) : NVML_NOT_SUPPORTED;
    out->is_counted = took(d, out, GPU_ENERGY, result);
    if (out->is_counted)
        out->joules = (double)mj / 1e3;
    else if (!wants(d, GPU_ENERGY))
        add_up_power(&d->sum, out);
}

/* Sets the rate since the last reading of a sum. */
static void set_rate(struct device_values *d, struct gpu_state *out, enum gpu_value value,
                     const struct nvml_field *field, struct byte_count *last)
{
    struct byte_count now = {field->value.whole, clock_monotonic_ns()};
    uint64_t ns = now.at_ns - last->at_ns;
    if (field->result != NVML_OK)
        took(d, out, value, field->result);
    else if (last->at_ns && ns < STALE_NS && now.kib >= last->kib)
        set(d, out, value, NVML_OK, (double)(now.kib - last->kib) * 1024e3 / (double)ns);
    *last = now;
}

static void read_nvlink(struct device_values *d, const struct nvml *api, struct gpu_state *out)
{
    struct nvml_field fields[] = {{.field = NVML_NVLINK_SENT, .scope = NVML_ALL_LINKS},
                                  {.field = NVML_NVLINK_RECEIVED, .scope = NVML_ALL_LINKS}};
    if (!wants(d, GPU_NVLINK_SENT) && !wants(d, GPU_NVLINK_RECEIVED))
        return;
    int result = NVML_CALL(api, fields, d->device, 2, fields);
    for (unsigned i = 0; i < 2 && result != NVML_OK; i++)
        fields[i].result = result;
    set_rate(d, out, GPU_NVLINK_SENT, &fields[0], &d->sent);
    set_rate(d, out, GPU_NVLINK_RECEIVED, &fields[1], &d->received);
}

/* Takes a sample into the older of the two. False: there is none to compare it with. */
static bool take_gpm_sample(struct device_values *d, const struct nvml *api)
{
    uint64_t before = d->gpm_ns;
    int result = NVML_CALL(api, gpm_sample, d->device, d->gpm[d->gpm_next]);
    d->gpm_ns = result == NVML_OK ? clock_monotonic_ns() : 0;
    d->gpm_next ^= result == NVML_OK;
    if (is_final(result))
        d->gpm[0] = NULL;
    return before && d->gpm_ns && d->gpm_ns - before < STALE_NS;
}

/* Means over the time between two samples. */
static void read_gpm(struct device_values *d, const struct nvml *api, struct gpu_state *out)
{
    if (!d->gpm[0] || !take_gpm_sample(d, api))
        return;
    struct nvml_gpm get = {.version = NVML_GPM_VERSION,
                           .n = GPM_METRICS,
                           .from = d->gpm[d->gpm_next],
                           .to = d->gpm[!d->gpm_next]};
    for (unsigned i = 0; i < GPM_METRICS; i++)
        get.metrics[i].metric = gpm_metrics[i].metric;
    int result = NVML_CALL(api, gpm_metrics, &get);
    for (unsigned i = 0; i < GPM_METRICS; i++)
        set(d, out, gpm_metrics[i].value, result ? result : get.metrics[i].result,
            get.metrics[i].value);
}

static struct gpu_state begin_state(const struct device_values *d)
{
    return (struct gpu_state){.sm_clock_most = d->sm_clock_most, .power_limit = d->power_limit};
}

struct gpu_state device_values_read(struct device_values *d, const struct nvml *api, bool rates)
{
    struct gpu_state out = begin_state(d);
    if (rates) {
        read_nvlink(d, api, &out);
        read_gpm(d, api, &out);
    }
    read_clock(d, api, GPU_SM_CLOCK, NVML_CLOCK_OF_SM, &out);
    read_clock(d, api, GPU_MEMORY_CLOCK, NVML_CLOCK_OF_MEMORY, &out);
    read_temperature(d, api, &out);
    read_memory(d, api, &out);
    read_throttled(d, api, &out);
    read_power(d, api, &out);
    read_energy(d, api, &out);
    out.ticks = clock_ticks();
    return out;
}

static void read_pcie(struct device_values *d, const struct nvml *api, enum gpu_value value,
                      int counter, struct gpu_state *out)
{
    unsigned kb_per_s = 0;
    if (!wants(d, value))
        return;
    int result = NVML_CALL(api, pcie, d->device, counter, &kb_per_s);
    set(d, out, value, result, kb_per_s / 1e3);
}

struct gpu_state device_values_read_pcie(struct device_values *d, const struct nvml *api)
{
    struct gpu_state out = begin_state(d);
    read_pcie(d, api, GPU_PCIE_SENT, NVML_PCIE_SENT, &out);
    read_pcie(d, api, GPU_PCIE_RECEIVED, NVML_PCIE_RECEIVED, &out);
    out.ticks = clock_ticks();
    return out;
}
