/* SPDX-License-Identifier: Apache-2.0 */
/* The image that a program passes to __cudaRegisterFatBinary() or cuModuleLoadData() instead of
 * GPU code: a list of kernels with names, durations and effects on memory. Any other image is
 * accepted: every name is found, and kernels take SIM_KERNEL_NS and do nothing. A kernel with
 * "spin" in its name takes its first argument, a uint64_t, as its duration in ns. */
#pragma once

#include <stdint.h>

#define SIM_IMAGE_MAGIC 0x0055504741544144ull
#define SIM_KERNEL_NS   2000
#define SIM_MAX_ARGS    8
#define SIM_ARGS_BYTES  96

struct sim_kernel {
    const char *name; /* mangled */
    uint64_t ns;      /* duration; 0: SIM_KERNEL_NS */
    int duration_arg; /* index of the uint64_t argument that is the duration, -1: none */
    /* Sizes of the arguments in bytes, 0 after the last. Their sum is at most SIM_ARGS_BYTES. */
    unsigned char sizes[SIM_MAX_ARGS];
    /* called by the stream's thread when the kernel starts; may be NULL */
    void (*run)(void **args);
    unsigned registers, static_shared;
};

struct sim_image {
    uint64_t magic; /* SIM_IMAGE_MAGIC */
    const struct sim_kernel *kernels;
    int n_kernels;
};
