/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of NVTX v3's binary interface that cprof uses between client library and tool. The
 * build needs no NVTX headers; tests/e2e/c/nvtx.c is built with them. Layouts are from nvToolsExt.h
 * and nvtxTypes.h, 64-bit. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define NVTX_CALLBACKS 1u /* NVTX_ETID_CALLBACKS */

enum nvtx_module { NVTX_CORE = 1, NVTX_CORE2 = 5 };

typedef void (*nvtx_function)(void);

/* What get_export_table(NVTX_CALLBACKS) points to. */
struct nvtx_callbacks {
    size_t size;
    /* On success not 0: *table points to *n pointers to function pointers; [0] is unused. */
    int (*module_table)(int module, nvtx_function ***table, unsigned *n);
};

typedef const void *nvtx_get_export_table(uint32_t id);

enum nvtx_message_type { NVTX_NO_MESSAGE, NVTX_ASCII, NVTX_UNICODE, NVTX_REGISTERED };

union nvtx_message {
    const char *ascii;
    const wchar_t *unicode;
    struct nvtx_string *registered;
};

enum nvtx_payload_type {
    NVTX_NO_PAYLOAD,
    NVTX_UINT64,
    NVTX_INT64,
    NVTX_DOUBLE,
    NVTX_UINT32,
    NVTX_INT32,
    NVTX_FLOAT,
    NVTX_EXTENDED = (int32_t)0xdfbd0009 /* `reserved` structs nvtx_payload */
};

/* nvtxEventAttributes_t of versions 2 and 3. */
struct nvtx_attributes {
    uint16_t version;
    uint16_t size;
    uint32_t category; /* 0: none */
    int32_t color_type;
    uint32_t color;
    int32_t payload_type; /* enum nvtx_payload_type, or an extension's */
    int32_t reserved;
    union {
        uint64_t u64;
        int64_t i64;
        double f64;
        uint32_t u32;
        int32_t i32;
        float f32;
    } payload;
    int32_t message_type; /* enum nvtx_message_type */
    union nvtx_message message;
};
_Static_assert(sizeof(struct nvtx_attributes) == 48, "nvtxEventAttributes_t");

enum { NVTX_THREAD_NATIVE = 0x10003, NVTX_THREAD_POSIX = 0x10004 };

/* nvtxResourceAttributes_t. */
struct nvtx_resource {
    uint16_t version;
    uint16_t size;
    int32_t type; /* type of the identifier: NVTX_THREAD_… */
    uint64_t identifier;
    int32_t message_type;
    union nvtx_message message;
};
_Static_assert(sizeof(struct nvtx_resource) == 32, "nvtxResourceAttributes_t");

/* ---- the extension of structured payloads (nvToolsExtPayload.h) ---- */

/* nvtxPayloadData_t. */
struct nvtx_payload {
    uint64_t schema; /* id */
    size_t size;     /* bytes */
    const void *data;
};

enum { NVTX_ENTRY_INT32 = 15, NVTX_ENTRY_REGISTERED = 80 }; /* types; the latter: a string handle */

/* nvtxPayloadSchemaEntry_t. */
struct nvtx_schema_entry {
    uint64_t flags, type;
    const char *name, *description;
    uint64_t detail, offset;
    const void *semantics, *reserved;
};
_Static_assert(sizeof(struct nvtx_schema_entry) == 64, "nvtxPayloadSchemaEntry_t");

/* members of struct nvtx_schema that are set, in `fields` */
enum {
    NVTX_SCHEMA_TYPE = 1 << 2,
    NVTX_SCHEMA_ENTRIES = 1 << 4,
    NVTX_SCHEMA_N_ENTRIES = 1 << 5,
    NVTX_SCHEMA_ID = 1 << 8
};

enum { NVTX_SCHEMA_STATIC = 1 }; /* a type: fields at fixed offsets, no union */

/* nvtxPayloadSchemaAttr_t, without what later versions append. */
struct nvtx_schema {
    uint64_t fields;
    const char *name;
    uint64_t type, flags;
    const struct nvtx_schema_entry *entries;
    size_t n_entries, size, alignment;
    uint64_t id;
};
_Static_assert(sizeof(struct nvtx_schema) == 72, "nvtxPayloadSchemaAttr_t");

/* nvtxExtModuleSegment_t. */
struct nvtx_segment {
    size_t id, n_slots;
    intptr_t *slots; /* functions; 0: not set, the client makes it a no-op */
};

/* nvtxExtModuleInfo_t. */
struct nvtx_extension {
    uint16_t version, size, module, compatible;
    size_t n_segments;
    const struct nvtx_segment *segments;
    const void *get_export, *info;
};
_Static_assert(sizeof(struct nvtx_extension) == 40, "nvtxExtModuleInfo_t");

enum { NVTX_MODULE_PAYLOAD = 2, NVTX_SLOT_REGISTER_SCHEMA = 0 };

#define NVTX_UNTRACKED (-2) /* NVTX_NO_PUSH_POP_TRACKING: the level is unknown */
