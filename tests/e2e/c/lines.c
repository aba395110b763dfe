/* SPDX-License-Identifier: Apache-2.0 */
/* `lines [N]`: makes marks in functions that know their own lines. Prints "FUNCTION FILE:LINE"
 * for each function, outermost first. Then makes N more marks; if N is 0, until stdin ends. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "preload/cprof.h"

#define HERE(call)                                                                                 \
    do {                                                                                           \
        printf("%s %s:%d\n", __func__, __FILE__, __LINE__);                                        \
        call;                                                                                      \
        __asm__ volatile("" ::: "memory"); /* not a tail call */                                   \
    } while (0)

static __attribute__((noinline)) void innermost(void)
{
    HERE(cprof_mark("here"));
}

static __attribute__((noinline)) void in_between(int n)
{
    if (n > 1)
        in_between(n - 1);
    else
        HERE(innermost());
    __asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
    long n = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
    cprof_mark("wake");
    usleep(1000);
    HERE(in_between(1));
    fflush(stdout);
    for (char c; n == 0 ? read(STDIN_FILENO, &c, 1) > 0 : n-- > 1;)
        cprof_mark("more");
    return 0;
}
