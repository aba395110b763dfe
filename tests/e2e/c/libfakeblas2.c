/* SPDX-License-Identifier: Apache-2.0 */
/* A second copy of libfakeblas.c, for processes with two. */
#define WHICH 2
#include "tests/e2e/c/libfakeblas.c"
