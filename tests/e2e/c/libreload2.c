/* SPDX-License-Identifier: Apache-2.0 */
/* Its next version. */
#define WHICH 2
#include "tests/e2e/c/libreload.c"
