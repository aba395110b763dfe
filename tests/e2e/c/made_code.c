/* SPDX-License-Identifier: Apache-2.0 */
/* Marks made below code that was made at run time and that nothing tells how to unwind, with anything at all in the frame pointer. Prints
 * how many came back. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/cprof.h"

static void mark(void)
{
    cprof_mark("made");
    __asm__ volatile("" ::: "memory");
}

/* void call(void (*function)(void), uintptr_t frame_pointer) */
#if defined(__x86_64__)
static const uint8_t code[] = {
    0x55,                   /* push %rbp */
    0x48, 0x89, 0xf5,       /* mov  %rsi, %rbp */
    0x48, 0x83, 0xec, 0x20, /* sub  $32, %rsp */
    0xff, 0xd7,             /* call *%rdi */
    0x48, 0x83, 0xc4, 0x20, /* add  $32, %rsp */
    0x5d,                   /* pop  %rbp */
    0xc3,                   /* ret */
};
#else
static const uint8_t code[1];
#endif

int main(void)
{
    unsigned n = 0;
    cprof_mark("wake");
    if (sizeof code > 1) {
        char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(page + 4096, 4096);
        memcpy(page, code, sizeof code);
        mprotect(page, 4096, PROT_READ | PROT_EXEC);
        uintptr_t near = (uintptr_t)&n, end = (uintptr_t)page + 4096;
        const uintptr_t pointers[] = {0,
                                      1,
                                      8,
                                      16,
                                      4096,
                                      near,
                                      end,
                                      end - 8,
                                      end - 4,
                                      end - 16,
                                      ~(uintptr_t)0,
                                      ~(uintptr_t)7,
                                      INT64_MAX,
                                      (uintptr_t)1 << 63,
                                      (uintptr_t)1 << 47,
                                      near + (8 << 20),
                                      near | 1};
        void (*call)(void (*)(void), uintptr_t);
        memcpy(&call, &page, sizeof call);
        for (int i = 0; i < 3; i++)
            for (unsigned k = 0; k < sizeof pointers / sizeof *pointers; k++, n++)
                call(mark, pointers[k]);
    }
    printf("%u\n", n);
    return 0;
}
