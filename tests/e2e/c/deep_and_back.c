/* SPDX-License-Identifier: Apache-2.0 */
/* Opens 200 ranges with long names: the trace's trailer, which contains open ranges, becomes
 * long. Closes them, so that it becomes short, and waits. Prints its position on stdout and
 * continues at a line on stdin. */
#include <stdio.h>
#include <string.h>

#include "preload/cprof.h"

#define DEPTH 200

static void say_and_wait(const char *where)
{
    char line[16];
    printf("%s\n", where);
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return;
}

int main(void)
{
    char name[200];
    memset(name, 'n', sizeof name);
    cprof_step();
    for (int i = 0; i < DEPTH; i++) {
        snprintf(name + 190, sizeof name - 190, "%d", i);
        cprof_range_push(name);
    }
    say_and_wait("deep");
    while (cprof_range_pop() > 0)
        ;
    say_and_wait("back");
    cprof_step();
    return 0;
}
