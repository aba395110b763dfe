/* SPDX-License-Identifier: Apache-2.0 */
/* The stubs of steps by symbol: they call a function of unknown type, then mark a step. All
 * argument and result registers pass through unchanged. The first 256 bytes of stack arguments are
 * copied. The stub has a true frame with unwind information, so exceptions, longjmp() and
 * backtraces pass it; replacing the return address would break them. */
#include "preload/link/symbol.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/core/core.h"

void *_Atomic symbol_reals[SYMBOL_STUBS];
_Atomic bool symbol_called;
void (*symbol_mark)(void);

/* The stubs call it after the real function. */
__attribute__((used, visibility("hidden"))) void symbol_returned(void);
void symbol_returned(void)
{
    int saved = errno;
    cprof_wake_once(WAKE_MARKER);
    if (!atomic_load_explicit(&symbol_called, memory_order_relaxed))
        atomic_store_explicit(&symbol_called, true, memory_order_relaxed);
    symbol_mark();
    symbol_look_now();
    errno = saved;
}

#if defined(__x86_64__) && defined(__LP64__)
#include <cpuid.h>

/* Components that xsave keeps: x87, SSE, and AVX and AVX-512 if present; 0: use fxsave. */
__attribute__((used, visibility("hidden"))) uint32_t symbol_xsave;

/* size of these components at the offsets that all processors so far use */
#define XSAVE_ROOM 2752
#define XSAVE_AVX  0x07u
#define XSAVE_512  0xe7u

/* clang-format off */
__asm__(
    ".text\n"
    ".p2align 5\n"
    ".hidden symbol_stubs\n"
    ".globl symbol_stubs\n"
    "symbol_stubs:\n"
    ".set symbol_number, 0\n"
    ".rept 8\n"
    "    .p2align 5\n"
    "    .cfi_startproc\n"
    "    .byte 0xf3, 0x0f, 0x1e, 0xfa\n" /* endbr64 */
    "    movq symbol_reals + 8 * symbol_number(%rip), %r11\n"
    "    jmp symbol_call\n"
    "    .cfi_endproc\n"
    "    .set symbol_number, symbol_number + 1\n"
    ".endr\n"
    ".p2align 5\n"
    ".type symbol_call, @function\n"
    "symbol_call:\n"
    "    .cfi_startproc\n"
    "    pushq %rbp\n"
    "    .cfi_def_cfa_offset 16\n"
    "    .cfi_offset %rbp, -16\n"
    "    movq %rsp, %rbp\n"
    "    .cfi_def_cfa_register %rbp\n"
    "    pushq %r11\n"
    "    pushq %r10\n"
    /* at the top of a stack, copy less: the next page may be unmapped or a guard page */
    "    leaq 271(%rbp), %r11\n"
    "    xorq %rbp, %r11\n"
    "    shrq $12, %r11\n"
    "    jz 1f\n"
    "    pushq %rax\n"
    "    pushq %rdi\n"
    "    pushq %rsi\n"
    "    pushq %rdx\n"
    "    pushq %rcx\n"
    "    movl $-1, %edi\n" /* no valid operation, so the kernel only reads the mask */
    "    leaq 271(%rbp), %rsi\n"
    "    andq $-4096, %rsi\n"
    "    xorl %edx, %edx\n"
    "    movl $8, %r10d\n"
    "    movl $14, %eax\n" /* rt_sigprocmask */
    "    syscall\n"
    "    movl %eax, %r11d\n"
    "    popq %rcx\n"
    "    popq %rdx\n"
    "    popq %rsi\n"
    "    popq %rdi\n"
    "    popq %rax\n"
    "    cmpl $-14, %r11d\n" /* EFAULT; else EINVAL */
    "    je 2f\n"
    "1:\n"
    ".set symbol_offset, 264\n"
    ".rept 32\n"
    "    pushq symbol_offset(%rbp)\n"
    "    .set symbol_offset, symbol_offset - 8\n"
    ".endr\n"
    "2:  call *-8(%rbp)\n"
    "    leaq -16(%rbp), %rsp\n"
    "    pushq %rax\n"
    "    pushq %rdx\n"
    "    subq $2752, %rsp\n"
    "    andq $-64, %rsp\n"
    "    movl symbol_xsave(%rip), %eax\n"
    "    testl %eax, %eax\n"
    "    jz 3f\n"
    ".set symbol_offset, 512\n" /* xsave's header */
    ".rept 8\n"
    "    movq $0, symbol_offset(%rsp)\n"
    "    .set symbol_offset, symbol_offset + 8\n"
    ".endr\n"
    "    xorl %edx, %edx\n"
    "    xsave64 (%rsp)\n"
    "    call symbol_returned\n"
    "    movl symbol_xsave(%rip), %eax\n"
    "    xorl %edx, %edx\n"
    "    xrstor64 (%rsp)\n"
    "    jmp 4f\n"
    "3:  fxsave64 (%rsp)\n"
    "    call symbol_returned\n"
    "    fxrstor64 (%rsp)\n"
    "4:  leaq -32(%rbp), %rsp\n"
    "    popq %rdx\n"
    "    popq %rax\n"
    "    leave\n"
    "    .cfi_def_cfa %rsp, 8\n"
    "    ret\n"
    "    .cfi_endproc\n"
    ".size symbol_call, . - symbol_call\n");
/* clang-format on */

static void learn_registers(void)
{
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 27) || __get_cpuid_max(0, NULL) < 0xd)
        return;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    __cpuid_count(0xd, 7, a, b, c, d); /* size and offset of the last AVX-512 component */
    symbol_xsave = low & (a + b <= XSAVE_ROOM ? XSAVE_512 : XSAVE_AVX);
}

#define STUB_BYTES 32u

#elif defined(__aarch64__) && defined(__LP64__)

/* clang-format off */
__asm__(
    ".text\n"
    ".p2align 5\n"
    ".hidden symbol_stubs\n"
    ".globl symbol_stubs\n"
    "symbol_stubs:\n"
    ".set symbol_number, 0\n"
    ".rept 8\n"
    "    .p2align 5\n"
    "    .cfi_startproc\n"
    "    hint #34\n" /* bti c */
    "    adrp x16, symbol_reals\n"
    "    add x16, x16, :lo12:symbol_reals\n"
    "    ldr x16, [x16, #8 * symbol_number]\n"
    "    b symbol_call\n"
    "    .cfi_endproc\n"
    "    .set symbol_number, symbol_number + 1\n"
    ".endr\n"
    ".p2align 5\n"
    ".type symbol_call, %function\n"
    "symbol_call:\n"
    "    .cfi_startproc\n"
    "    stp x29, x30, [sp, #-32]!\n"
    "    .cfi_def_cfa_offset 32\n"
    "    .cfi_offset x29, -32\n"
    "    .cfi_offset x30, -24\n"
    "    mov x29, sp\n"
    "    .cfi_def_cfa_register x29\n"
    "    add x9, x29, #287\n"
    "    eor x10, x9, x29\n"
    "    lsr x10, x10, #12\n"
    "    cbz x10, 1f\n"
    "    stp x0, x1, [sp, #-48]!\n"
    "    stp x2, x3, [sp, #16]\n"
    "    str x8, [sp, #32]\n"
    "    mov x0, #-1\n" /* no valid operation, as above */
    "    and x1, x9, #-4096\n"
    "    mov x2, #0\n"
    "    mov x3, #8\n"
    "    mov x8, #135\n" /* rt_sigprocmask */
    "    svc #0\n"
    "    mov x10, x0\n"
    "    ldr x8, [sp, #32]\n"
    "    ldp x2, x3, [sp, #16]\n"
    "    ldp x0, x1, [sp], #48\n"
    "    cmn x10, #14\n" /* EFAULT; EINVAL: readable (with larger pages always) */
    "    b.eq 2f\n"
    "1:  sub sp, sp, #256\n"
    ".set symbol_offset, 0\n"
    ".rept 16\n"
    "    ldp x10, x11, [x29, #32 + symbol_offset]\n"
    "    stp x10, x11, [sp, #symbol_offset]\n"
    "    .set symbol_offset, symbol_offset + 16\n"
    ".endr\n"
    "2:  blr x16\n"
    "    mov sp, x29\n"
    "    stp x0, x1, [sp, #-80]!\n"
    "    stp q0, q1, [sp, #16]\n"
    "    stp q2, q3, [sp, #48]\n"
    "    bl symbol_returned\n"
    "    ldp q0, q1, [sp, #16]\n"
    "    ldp q2, q3, [sp, #48]\n"
    "    ldp x0, x1, [sp], #80\n"
    "    ldp x29, x30, [sp], #32\n"
    "    .cfi_def_cfa sp, 0\n"
    "    .cfi_restore x29\n"
    "    .cfi_restore x30\n"
    "    ret\n"
    "    .cfi_endproc\n"
    ".size symbol_call, . - symbol_call\n");
/* clang-format on */

static void learn_registers(void)
{
}

#define STUB_BYTES 32u

#else
#define STUB_BYTES 0u
#endif

_Static_assert(SYMBOL_STUBS == 8, "the .rept above");

#if STUB_BYTES
extern const char symbol_stubs[] __attribute__((visibility("hidden")));

void *symbol_stub(unsigned i)
{
    if (i == 0)
        learn_registers();
    return i < SYMBOL_STUBS ? (void *)(uintptr_t)(symbol_stubs + (size_t)STUB_BYTES * i) : NULL;
}
#else
void *symbol_stub(unsigned i)
{
    (void)i;
    return NULL;
}
#endif
