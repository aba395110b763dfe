/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: any bytes as an activity record of CUPTI. The record has the size of the chosen
 * CUPTI version, so that ASan sees a read of a field that this version lacks. Pointers are valid,
 * as CUPTI's are: a name is NULL or a text, data is NULL or allocated. Input: version, kind, the
 * bytes of the record, its name. */
#include "cupti/devices.h"
#include "cupti/records.h"
#include "cupti/translate.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const uint32_t versions[] = {18, 19, 20, 22, 24, 26, 28, 130000, 130100, 130500, 999999};

/* Bytes of a kind's struct by version, from the headers of 11.8 to 13.5. */
static size_t size_of(uint32_t kind, uint32_t version)
{
    switch (kind) {
    case CUPTI_KIND_CONCURRENT_KERNEL:
        return version < 19 ? 200 : version < 130000 ? 208 : version < 130100 ? 216 : 224;
    case CUPTI_KIND_MEMCPY:
        return version < 26 ? 88 : 96;
    case CUPTI_KIND_MEMCPY2:
        return 96;
    case CUPTI_KIND_MEMSET:
        return 88;
    case CUPTI_KIND_OVERHEAD:
        return version < 20 ? 40 : version < 22 ? 48 : 56;
    case CUPTI_KIND_SYNCHRONIZATION:
        return version < 26 ? 40 : 56;
    case CUPTI_KIND_CUDA_EVENT:
        return version < 26 ? 24 : version < 130500 ? 56 : 80;
    case CUPTI_KIND_MEMORY2:
        return version < 24 ? 120 : 128;
    case CUPTI_KIND_MEMORY_POOL:
        return version < 130000 ? 72 : 80;
    case CUPTI_KIND_GRAPH_TRACE:
        return version < 22 ? 48 : 56;
    case CUPTI_KIND_DEVICE:
        return version < 22 ? 176 : 184;
    case CUPTI_KIND_CONTEXT:
        return version < 22 ? 16 : version < 24 ? 24 : 32;
    default:
        return 40;
    }
}

static uint64_t ticks(uint64_t time)
{
    return time * 3;
}

static int callback_name(int domain, uint32_t cbid, const char **name)
{
    static const char *const names[] = {
        "cudaLaunchKernel_v7000", "cuMemcpyHtoD_v2_ptds", "", "_v1", "_ptsz", NULL};
    *name = names[(cbid + (uint32_t)domain) % 6];
    return cbid % 7 == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 2)
        return 0;
    struct translate t = {
        versions[bytes[0] % (sizeof(versions) / sizeof(versions[0]))],
        ticks,
        callback_name,
    };
    uint32_t kind = bytes[1] % 64;
    size_t room = size_of(kind, t.version);
    size_t given = size - 2 < room ? size - 2 : room;
    size_t name_len = size - 2 - given;
    uint8_t *record = calloc(1, room); /* exact size, so that ASan sees an overread */
    char *name = calloc(1, name_len + 1);
    if (!record || !name) {
        free(record);
        free(name);
        return 0;
    }
    memcpy(record, bytes + 2, given);
    memcpy(name, bytes + 2 + given, name_len);
    memcpy(record, &kind, sizeof(kind));
    const char *text = name_len != 0 ? name : NULL;
    if (kind == CUPTI_KIND_CONCURRENT_KERNEL) {
        memcpy(record + offsetof(struct cupti_kernel, name), &text, sizeof(text));
    } else if (kind == CUPTI_KIND_DEVICE) {
        memcpy(record + offsetof(struct cupti_device, name), &text, sizeof(text));
    } else if (kind == CUPTI_KIND_OVERHEAD && room == 56) {
        /* One kind of overhead has data; in others the field may hold anything. */
        struct cupti_overhead *o = (struct cupti_overhead *)record;
        o->data = o->overhead_kind == 6u << 16 ? malloc(12) : o->data;
    }
    struct gpu_record out;
    memset(&out, 0xEE, sizeof(out));
    if (translate(&t, record, &out) == TRANSLATE_RECORD) {
        bool named = out.kind == GPU_KERNEL || out.kind == GPU_CALL || out.kind == GPU_OVERHEAD;
        if (out.end < out.start || out.kind > GPU_MEMORY || (bool)out.name != named)
            __builtin_trap();
        /* ASan sees a name that is shorter than its length. */
        volatile char last = out.name_len != 0 ? out.name[out.name_len - 1] : 0;
        (void)last;
    }
    if (strncmp(gpu_devices_json(), "[", 1) != 0)
        __builtin_trap();
    free(record);
    free(name);
    return 0;
}
