/* SPDX-License-Identifier: Apache-2.0 */
/* Two CUDA runtimes in one process, each used by one library. A launch that reached the wrong
 * runtime would fail, because that runtime does not know the kernel. --launches N by each
 * library. */
#include "tests/gpu/program.h"

/* libgpu.c, built for each runtime. */
int gpu_work_12(int n);
int gpu_work_13(int n);

int main(int argc, char **argv)
{
    int n = (int)number(argc, argv, "launches", 20);
    for (int round = 0; round < 2; round++) {
        int twelve = gpu_work_12(n), thirteen = gpu_work_13(n);
        if (twelve < 12000 || twelve >= 13000 || thirteen < 13000) {
            fprintf(stderr, "two_runtimes: %d %d\n", twelve, thirteen);
            return 2;
        }
        tally.kernels += 2 * (uint64_t)n;
        tally.device_syncs += 2;
    }
    return report();
}
