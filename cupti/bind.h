/* SPDX-License-Identifier: Apache-2.0 */
/* libcupti found at run time: the copy that the process has, or the one that belongs to its CUDA
 * runtime. Functions by dlsym() only: a NEEDED libcupti would be another copy than the
 * program's. */
#ifndef CUPTI_BIND_H
#define CUPTI_BIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti/constants.h"

#define CUPTI_OLDEST 18 /* 11.8: the record layouts that translate.c knows begin here */

/* Bound functions; one that this version does not have is NULL, never a NEEDED one. */
struct cupti {
#define CUPTI(field, function, since, parameters) int(*field) parameters;
#include "cupti/bind.def"
#undef CUPTI
    uint32_t version; /* cuptiGetVersion() */
    int error;        /* and its result */
    char path[1024];  /* of the library */
};

enum bind_result {
    BIND_DONE,
    BIND_NOT_FOUND,
    BIND_TOO_OLD, /* path and version say which */
    BIND_BROKEN,  /* it lacks a function that cprof needs */
    BIND_NO_GPU,  /* it does not tell its version; error says why */
    BIND_NO_DRIVER,
    BIND_IN_TORCH, /* the process has a CUPTI that cprof cannot watch */
};

/* Finds, opens and binds libcupti. Once; any thread, inside a dlopen too. */
enum bind_result bind_open(struct cupti *c);

/* One line that says why bind_open() found no CUPTI, for all but BIND_DONE and BIND_NO_GPU. */
void bind_say_missing(const struct cupti *c, enum bind_result found);

/* CUPTI's text for a result. Any thread. */
const char *bind_error(const struct cupti *c, int result);

/* Version of the loaded runtime as CUDA numbers it (12040), from the name of its file; 0: none is
 * loaded, or its name does not tell (a wheel's does not). Any thread. */
int bind_runtime_version(void);

/* Members of a trace's head, each with a comma and a newline: the versions of CUPTI and of the
 * runtime, where known. Valid until the next call. cprof thread. */
const char *bind_versions_json(const struct cupti *c);

/* Major and *minor version in a library's file name: 12 and 4 of libcudart.so.12.4.127; 0 and -1
 * where there is none. Pure. */
int bind_file_version(const char *path, int *minor);

/* The newest major CUDA version that a driver of this release runs (13 for 580.65), 0: too old.
 * Pure. */
int bind_driver_cuda(int release);

/* For tests: the paths below which a libcupti of `major` would lie, seen from a loaded library at
 * `loaded`: place `n`, false when there are no more. */
bool bind_place(const char *loaded, int major, unsigned n, char *path, size_t size);

#endif
