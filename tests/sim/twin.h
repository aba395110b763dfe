/* SPDX-License-Identifier: Apache-2.0 */
/* The _ptsz and _ptds twins of functions. Programs compiled with a default stream per thread
 * call them. A twin sets a flag on its thread and jumps to the plain function with its arguments
 * untouched. The plain function clears the flag. So all prototypes are those of the CUDA
 * headers. */
#pragma once

#include <stdbool.h>

/* Whether the function was entered through its twin. Clears the flag. */
bool sim_take_twin(void);
/* Called by the twins only. */
__attribute__((visibility("hidden"))) void sim_note_twin(void);

#ifdef SIM_HIDDEN /* libcudart_static.a */
#define TWIN_VISIBILITY ".hidden "
#else
#define TWIN_VISIBILITY ".globl "
#endif

#if defined(__x86_64__)
#define TWIN(name, suffix)                                                                         \
    __asm__(".pushsection .text\n"                                                                 \
            ".globl " #name #suffix "\n" TWIN_VISIBILITY #name #suffix "\n"                        \
            ".type " #name #suffix ", @function\n" #name #suffix ":\n"                             \
            "push %rdi\n push %rsi\n push %rdx\n push %rcx\n push %r8\n push %r9\n"                \
            "sub $8, %rsp\n call sim_note_twin\n add $8, %rsp\n"                                   \
            "pop %r9\n pop %r8\n pop %rcx\n pop %rdx\n pop %rsi\n pop %rdi\n"                      \
            "jmp " #name "\n"                                                                      \
            ".size " #name #suffix ", . - " #name #suffix "\n"                                     \
            ".popsection\n")
#elif defined(__aarch64__)
#define TWIN(name, suffix)                                                                         \
    __asm__(".pushsection .text\n"                                                                 \
            ".globl " #name #suffix "\n" TWIN_VISIBILITY #name #suffix "\n"                        \
            ".type " #name #suffix ", %function\n" #name #suffix ":\n"                             \
            "stp x29, x30, [sp, -96]!\n stp x0, x1, [sp, 16]\n stp x2, x3, [sp, 32]\n"             \
            "stp x4, x5, [sp, 48]\n stp x6, x7, [sp, 64]\n str x8, [sp, 80]\n bl sim_note_twin\n"  \
            "ldr x8, [sp, 80]\n ldp x6, x7, [sp, 64]\n ldp x4, x5, [sp, 48]\n"                     \
            "ldp x2, x3, [sp, 32]\n ldp x0, x1, [sp, 16]\n ldp x29, x30, [sp], 96\n"               \
            "b " #name "\n"                                                                        \
            ".size " #name #suffix ", . - " #name #suffix "\n"                                     \
            ".popsection\n")
#else
#error "write the twins of this processor"
#endif
