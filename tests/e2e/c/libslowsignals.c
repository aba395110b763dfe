/* SPDX-License-Identifier: Apache-2.0 */
/* Adds half a second between the cprof thread's check of a signal and its reaction. */
#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int sigaction(int number, const struct sigaction *to, struct sigaction *was)
{
    static int (*next)(int, const struct sigaction *, struct sigaction *);
    char name[17] = "";
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "sigaction");
    int result = next(number, to, was);
    prctl(PR_GET_NAME, name);
    if (!to && strcmp(name, "cprof") == 0 && was->sa_handler == SIG_DFL)
        usleep(500000);
    return result;
}
