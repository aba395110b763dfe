/* SPDX-License-Identifier: Apache-2.0 */
/* The next version of libreload.c. */
#define WHICH 2
#include "tests/e2e/c/libreload.c"
