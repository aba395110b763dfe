/* SPDX-License-Identifier: Apache-2.0 */
/* A locale whose decimal point is a comma, as many users' are: made for the test, because machines
 * have few. */
#ifndef TESTS_SUPPORT_COMMA_H
#define TESTS_SUPPORT_COMMA_H

#include <stdbool.h>

/* Makes it in `folder` and sets it for this process. False: this machine cannot make it, which is
 * said. */
bool comma_locale(const char *folder);

#endif
