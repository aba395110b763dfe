/* SPDX-License-Identifier: Apache-2.0 */
/* One CUPTI activity record to one gpu_record. Pure but for what it learns: names, devices,
 * contexts. No GPU is needed to test it. cprof thread. */
#ifndef CUPTI_TRANSLATE_H
#define CUPTI_TRANSLATE_H

#include "writer/writer.h"

enum translate_result {
    TRANSLATE_RECORD,  /* *out is filled in */
    TRANSLATE_TAKEN,   /* a fact for later records (device, context); nothing for the trace */
    TRANSLATE_SKIPPED, /* a kind or call that traces do not show */
    TRANSLATE_UNTIMED, /* start and end are 0: CUPTI could not time it */
    /* it has a start and no end: a forced flush took it before it was finished */
    TRANSLATE_UNFINISHED,
    TRANSLATE_INVALID, /* ends before it starts, an unknown kind … */
};

struct translate {
    /* cuptiGetVersion(): tail fields of records are read only where it has them */
    uint32_t version;
    /* A CUPTI time stamp in clock_ticks(). */
    uint64_t (*ticks)(uint64_t cupti_time);
    /* cuptiGetCallbackName(); domain 1 driver, 2 runtime. 0 = success. */
    int (*callback_name)(int domain, uint32_t cbid, const char **name);
};

/* Translates the record at `activity` (as cuptiActivityGetNextRecord gives it). *out is whole only
 * with TRANSLATE_RECORD. Frees what CUPTI gave away with the record (Overhead3.overheadData). */
enum translate_result translate(const struct translate *t, const void *activity,
                                struct gpu_record *out);

/* True for calls that traces show: kept by translate(), and what session.c enables by id where
 * CUPTI can filter (12.5 and newer). */
bool translate_shows_call(const char *plain_name, bool driver);

#endif
