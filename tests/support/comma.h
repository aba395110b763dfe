/* SPDX-License-Identifier: Apache-2.0 */
/* A locale whose decimal point is a comma, as many users have. The test makes the locale, because
 * few are installed. */
#pragma once

#include <stdbool.h>

/* Makes the locale in `folder` and sets it for this process. False if this machine cannot make it,
 * after a message on stderr. */
bool comma_locale(const char *folder);
