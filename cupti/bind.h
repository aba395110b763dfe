/* SPDX-License-Identifier: Apache-2.0 */
/* Finds libcupti at run time: the loaded copy, or the copy that belongs to the loaded CUDA runtime.
 * cprof is not linked to libcupti, because that could load a second copy beside the program's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti/constants.h"

#define CUPTI_OLDEST 18 /* 11.8: records.h has no older layouts */

/* Bound functions. One that this version lacks is NULL; a NEEDED one never is. */
struct cupti {
#define CUPTI(field, function, since, parameters) int(*field) parameters;
#include "cupti/bind.def"
#undef CUPTI
    uint32_t version; /* cuptiGetVersion() */
    int error;        /* result of cuptiGetVersion() */
    char path[1024];  /* of the library */
};

enum bind_result {
    BIND_DONE,
    BIND_NOT_FOUND,
    BIND_TOO_OLD, /* see path and version */
    BIND_BROKEN,  /* a function in bind.def that is NEEDED is missing */
    BIND_NO_GPU,  /* cuptiGetVersion() failed with `error` */
    BIND_NO_DRIVER,
    BIND_IN_TORCH, /* CUPTI is linked into libtorch */
};

/* Finds, opens and binds libcupti. Call once, on any thread, also inside a dlopen(). */
enum bind_result bind_open(struct cupti *c);

/* Logs why bind_open() found no CUPTI. Silent for BIND_DONE and BIND_NO_GPU. */
void bind_say_missing(const struct cupti *c, enum bind_result found);

/* CUPTI's name of a result. Any thread. */
const char *bind_error(const struct cupti *c, int result);

/* Version of the loaded CUDA runtime, 12040 for 12.4, from its file name. 0: no runtime is loaded,
 * or its name lacks the minor version, as in wheels. Any thread. */
int bind_runtime_version(void);

/* JSON members for the trace's head, each with a comma and a newline: the known versions of CUPTI
 * and of the runtime. Valid until the next call. cprof thread. */
const char *bind_versions_json(const struct cupti *c);

/* Major and *minor version in a library's file name: 12 and 4 for libcudart.so.12.4.127. Returns 0
 * and -1 where a number is missing. Pure. */
int bind_file_version(const char *path, int *minor);

/* Newest major CUDA version that a driver of this release runs: 13 for 580. 0: too old. Pure. */
int bind_driver_cuda(int release);

/* For tests: writes to `path` the `n`th candidate path of a libcupti of `major` near the library
 * `loaded`. Returns false when there are no more. */
bool bind_place(const char *loaded, int major, unsigned n, char *path, size_t size);
