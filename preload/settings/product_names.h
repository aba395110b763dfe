/* SPDX-License-Identifier: Apache-2.0 */
/* Tells from an operator's name whether it multiplies matrices. Pure; any thread. */
#ifndef PRELOAD_SETTINGS_PRODUCT_NAMES_H
#define PRELOAD_SETTINGS_PRODUCT_NAMES_H

#include <stdbool.h>

/* True for NAMESPACE::NAME if a word of NAME names a product (`mm`, `linear`) and none names a
 * preparation (`prepack`). Underscores separate words. */
bool product_name(const char *name);

#endif
