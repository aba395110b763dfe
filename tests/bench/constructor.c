/* SPDX-License-Identifier: Apache-2.0 */
/* CPU time of loading the library given as argument: with LD_PRELOAD naming it, as an unrelated
 * process would see it, or ("inert" behind it) without, when the constructor returns at its first
 * line. The difference is the constructor's work. Prints `name value unit`. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double thread_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 1;
    setenv("LD_PRELOAD", argc > 2 ? "/none" : argv[1], 1);
    double before = thread_us();
    void *library = dlopen(argv[1], RTLD_NOW);
    double whole = thread_us() - before;
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    printf("%s %.2f us\n", argc > 2 ? "load" : "constructor", whole);
    return 0;
}
