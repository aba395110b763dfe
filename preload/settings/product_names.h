/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an operator's name says that it multiplies matrices. Pure; any thread. */
#ifndef PRELOAD_SETTINGS_PRODUCT_NAMES_H
#define PRELOAD_SETTINGS_PRODUCT_NAMES_H

#include <stdbool.h>

/* True for NAMESPACE::NAME where a word of NAME (between underscores) is one of those for products,
 * as `mm` or `linear`, and none says that it prepares one, as `prepack`. */
bool product_name(const char *name);

#endif
