/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a locale whose decimal point is a comma, by localedef. localedef is part of libc, but its
 * input files may be missing (Debian: package locales). */
#include "tests/support/comma.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool comma_locale(const char *folder)
{
    static const char make[] =
        "cd '%s' && printf '%%s\n' LC_NUMERIC 'decimal_point \",\"' 'thousands_sep \".\"' "
        "'grouping 3;3' 'END LC_NUMERIC' >source && localedef --no-archive -c -i source "
        "-f ANSI_X3.4-1968 ./comma >/dev/null 2>&1; test -e comma/LC_NUMERIC";
    char command[512];
    snprintf(command, sizeof command, make, folder);
    bool made = system(command) == 0 && setenv("LOCPATH", folder, 1) == 0 &&
                setlocale(LC_NUMERIC, "comma") && strcmp(localeconv()->decimal_point, ",") == 0;
    if (!made)
        fprintf(stderr, "skipped: localedef cannot make a locale here\n");
    return made;
}
