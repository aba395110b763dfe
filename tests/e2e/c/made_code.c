/* SPDX-License-Identifier: Apache-2.0 */
/* `made_code [FILE]`: makes marks below run-time generated code without unwind information, with
 * arbitrary values in the frame pointer. Prints how many returned. With FILE, also how many of
 * them read from or wrote to FILE, which is opened several times after all other descriptors
 * were closed. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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
#elif defined(__aarch64__)
static const uint8_t code[] = {
    0xfd, 0x7b, 0xbf, 0xa9, /* stp x29, x30, [sp, #-16]! */
    0xfd, 0x03, 0x01, 0xaa, /* mov x29, x1 */
    0xff, 0x83, 0x00, 0xd1, /* sub sp, sp, #32 */
    0x00, 0x00, 0x3f, 0xd6, /* blr x0 */
    0xff, 0x83, 0x00, 0x91, /* add sp, sp, #32 */
    0xfd, 0x7b, 0xc1, 0xa8, /* ldp x29, x30, [sp], #16 */
    0xc0, 0x03, 0x5f, 0xd6, /* ret */
};
#else
static const uint8_t code[1];
#endif

enum { OPEN = 16 };
static int files[OPEN];
static const char text[] = "a file of the program's own";

static void open_files(const char *path)
{
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    int made = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (write(made, text, sizeof text) != (ssize_t)sizeof text)
        return;
    for (int i = 0; i < OPEN; i++)
        files[i] = open(path, O_RDWR);
    close(made);
    files[0] = dup2(files[OPEN - 1], made);
}

static int touched(void)
{
    char now[sizeof text + 1];
    int moved = 0;
    for (int i = 0; i < OPEN; i++) {
        moved += lseek(files[i], 0, SEEK_CUR) != 0;
        lseek(files[i], 0, SEEK_SET);
    }
    ssize_t n = pread(files[0], now, sizeof now, 0);
    return moved || n != (ssize_t)sizeof text || memcmp(now, text, sizeof text) != 0;
}

typedef void made_function(void (*function)(void), uintptr_t frame_pointer);

/* Maps the code on a page that nothing follows. *end receives the page's end. */
static made_function *make(uintptr_t *end)
{
    made_function *call;
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page + 4096, 4096);
    memcpy(page, code, sizeof code);
    __builtin___clear_cache(page, page + sizeof code);
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
    memcpy(&call, &page, sizeof call);
    *end = (uintptr_t)page + 4096;
    return call;
}

int main(int argc, char **argv)
{
    unsigned n = 0, n_touched = 0;
    uintptr_t end, near = (uintptr_t)&n;
    cprof_mark("wake");
    for (int i = 0; sizeof code > 1 && i < 4; i++) {
        /* libunwind has not checked this page yet */
        made_function *call = make(&end);
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
        for (unsigned k = 0; k < sizeof pointers / sizeof *pointers; k++, n++) {
            call(mark, pointers[k]);
            n_touched += i > 0 && argc > 1 && touched();
        }
        if (i == 0 && argc > 1)
            open_files(argv[1]);
    }
    printf("%u %u\n", n, n_touched);
    return 0;
}
