/* SPDX-License-Identifier: Apache-2.0 */
/* Between its steps: vfork children that call _exit() in the parent's memory, and one that
 * executes another program. Prints the sum of their exit statuses. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "preload/cprof.h"

int main(void)
{
    volatile int sum = 0; /* volatile: the children run in this memory */
    int status;
    for (volatile int i = 0; i < 6; i++) {
        cprof_range_push("work");
        pid_t child = vfork();
        if (child == 0) {
            if (i == 3)
                execl("/bin/true", "true", (char *)NULL);
            _exit(i);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
            return 2;
        sum += WEXITSTATUS(status);
        cprof_range_pop();
        cprof_step();
    }
    printf("sum %d\n", sum);
    return 0;
}
