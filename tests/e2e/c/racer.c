/* SPDX-License-Identifier: Apache-2.0 */
/* racer FILE NAME SECONDS: gives FILE a second name for instants, as often as possible, until FILE
 * is gone or the time is over. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    time_t end = time(NULL) + atoi(argv[3]);
    while (time(NULL) < end && access(argv[1], F_OK) == 0) {
        for (int i = 0; i < 100; i++) {
            if (link(argv[1], argv[2]) == 0)
                unlink(argv[2]);
        }
    }
    return 0;
}
