/* SPDX-License-Identifier: Apache-2.0 */
/* Tells from an operator's name whether it multiplies matrices. Pure; any thread. */
#pragma once

#include <stdbool.h>

/* True for NAMESPACE::NAME if a word of NAME names a product (`mm`, `linear`) and none names a
 * preparation (`prepack`). Underscores separate words. */
bool product_name(const char *name);
