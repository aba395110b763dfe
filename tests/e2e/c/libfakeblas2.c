/* SPDX-License-Identifier: Apache-2.0 */
/* Another copy of the BLAS that computes nothing, for two in one process. */
#define WHICH 2
#include "tests/e2e/c/libfakeblas.c"
