/* SPDX-License-Identifier: Apache-2.0 */
/* GPU records as Chrome JSON text, in Kineto's keys and units. Pure, as json.h: whole events or
 * nothing. cprof thread. */
#pragma once

#include "writer/json/collective_stats.h"
#include "writer/record/record.h"
#include "writer/json/json.h"

/* The spans and calls that the join found for a GPU record. */
struct json_link {
    uint64_t external_id;      /* span that made the call; 0: none */
    uint64_t captured_by;      /* graph node: span that captured it; 0: unknown */
    struct text captured_name; /* the span's name; length 0: unknown, as in the next ones */
    struct text hlo_op, hlo_module, hlo_source; /* XLA's instruction, module, and line */
    uint32_t captured_module;                   /* id (modules.h); 0: none */
    /* transfer of a communication library's kernel; NULL: unknown */
    const struct transfer *transfer;
    uint64_t flops; /* of a kernel that did all the work of its span; 0: unknown */
};

/* The event recording that a wait waited for; -1: unknown. */
struct json_wait {
    int64_t stream, correlation;
};

/* Appends a call (cuda_runtime, cuda_driver). args: External id (unless 0); cbid and correlation,
 * unless correlation is 0 because CUPTI did not see the call; failed. stack: its id; 0: none. */
void json_gpu_call(struct buf *b, const struct gpu_record *r, const struct json_place *at,
                   uint64_t external_id, uint32_t stack);

#define JSON_NAME_ROOM 64u

/* A row's name, not terminated, and category. */
struct json_name {
    const char *text;
    size_t len;
    enum category category;
};

/* Name and category of a call, of overhead, or of work on the device. room: for a name made
 * here. */
struct json_name json_gpu_name(const struct gpu_record *r, char room[JSON_NAME_ROOM]);

/* Appends kernel, gpu_memcpy, gpu_memset, or a whole graph (category kernel, `graph id`). */
void json_gpu_work(struct buf *b, const struct gpu_record *r, const struct json_place *at,
                   const struct json_link *link);

/* Appends cuda_sync. */
void json_gpu_sync(struct buf *b, const struct gpu_record *r, const struct json_place *at,
                   uint64_t external_id, const struct json_wait *wait);

/* Appends overhead. */
void json_gpu_overhead(struct buf *b, const struct gpu_record *r, const struct json_place *at);

/* Appends driver memory: an instant `[driver memory]` on the caller's row, and a counter. Its name
 * differs from that of tensor memory. allocated: live bytes of this device and kind that cprof
 * saw. */
void json_gpu_memory(struct buf *b, const struct gpu_record *r, const struct json_place *at,
                     uint64_t external_id, uint64_t allocated);

/* Appends an object: the peak of driver memory of a device (GPU_NONE: of no device) and kind.
 * peak_ns: after the file's base time. */
void json_gpu_memory_peak(struct buf *b, uint32_t device, uint8_t kind, uint64_t bytes,
                          int64_t peak_ns);

/* Appends gpu_user_annotation: a range of the user where its kernels ran. */
void json_gpu_annotation(struct buf *b, const char *name, uint32_t name_len,
                         const struct json_place *at, uint64_t external_id);

/* Append the ends of an arrow from a call to its work, cat and name "ac2g": `s` once per id, then
 * any number of `f` (bp "e"). */
void json_gpu_arrow_start(struct buf *b, uint64_t id, const struct json_place *at);
void json_gpu_arrow_end(struct buf *b, uint64_t id, const struct json_place *at); /* as above */
