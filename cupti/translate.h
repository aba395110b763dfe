/* SPDX-License-Identifier: Apache-2.0 */
/* Translates one CUPTI activity record to a gpu_record. Apart from learning names, devices and
 * contexts it is pure, so tests need no GPU. cprof thread. */
#pragma once

#include "writer/writer.h"

enum translate_result {
    TRANSLATE_RECORD,  /* *out is filled in */
    TRANSLATE_TAKEN,   /* a device or context, for later records; nothing for the trace */
    TRANSLATE_SKIPPED, /* a call that traces do not show */
    TRANSLATE_UNTIMED, /* start and end are 0: CUPTI could not time it */
    /* started but not ended: returned by a forced flush before it was finished */
    TRANSLATE_UNFINISHED,
    TRANSLATE_INVALID, /* ends before it starts, unknown kind … */
};

struct translate {
    /* cuptiGetVersion(); says which appended fields exist */
    uint32_t version;
    /* converts a CUPTI time stamp to clock_ticks() */
    uint64_t (*ticks)(uint64_t cupti_time);
    /* cuptiGetCallbackName(); domain 1: driver, 2: runtime. Returns 0 on success. */
    int (*callback_name)(int domain, uint32_t cbid, const char **name);
};

/* Translates the record at `activity`, from cuptiActivityGetNextRecord(). *out is valid only for
 * TRANSLATE_RECORD. Frees what the client must free of the record (Overhead3.overheadData). */
enum translate_result translate(const struct translate *t, const void *activity,
                                struct gpu_record *out);
