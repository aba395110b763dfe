/* SPDX-License-Identifier: Apache-2.0 */
/* Interposes what leads from a process group to its transfer. */
#include "preload/collectives/torch_backend.h"

#include <errno.h>
#include <stdatomic.h>

#include "preload/collectives/communicators.h"
#include "preload/core/core.h"
#include "preload/link/link.h"

#define SYMBOL     "_ZN4c10d12ProcessGroup10getBackendEN3c1010DeviceTypeE"
#define POINTER_TO "6detail34intrusive_target_default_null_typeI"
#define ENQUEUE                                                                                    \
    "_ZN4c10d16ProcessGroupGloo7enqueueEN3c1013intrusive_ptrINS0_9AsyncWorkENS1_" POINTER_TO       \
    "S3_EEEE"
#define EXECUTE                                                                                    \
    "_ZN4c10d16ProcessGroupGloo9AsyncWork7executeERKN3c1013intrusive_ptrIS1_NS2_" POINTER_TO       \
    "S1_EEEE"
#define FAIL                                                                                       \
    "_ZN4c10d16ProcessGroupGloo9AsyncWork19finishWorkGlooErrorERKNSt15__exception_ptr13"           \
    "exception_ptrE"
#define LIBRARY "libtorch_cpu.so"
#define VISIBLE __attribute__((visibility("default")))
#define STUB    __attribute__((used, visibility("hidden"))) /* called by the stub of aarch64 */

/* The group: communicator_index() in the lowest bits, NUMBERED if its transfer has a number, and
 * that number above. 0: none. */
static __thread uint64_t asked;
#define INDEX_BITS   15u
#define NUMBERED     (UINT64_C(1) << INDEX_BITS)
#define NUMBER_SHIFT (INDEX_BITS + 1)

/* std::string of libstdc++. */
struct cxx_string {
    const char *text;
    size_t len;
};

STUB void *torch_backend_real(void);
STUB void torch_backend_asked(const void *group);

/* The real function behind a wrapper; NULL: none is loaded, which no known torch lets happen. */
static void *real_of(void *_Atomic *kept, const char *symbol)
{
    void *real = atomic_load_explicit(kept, memory_order_relaxed);
    if (__builtin_expect(!real, 0)) {
        real = resolve_in(LIBRARY, symbol);
        atomic_store_explicit(kept, real, memory_order_relaxed);
    }
    return real;
}

STUB void *torch_backend_real(void)
{
    static void *_Atomic real;
    return real_of(&real, SYMBOL);
}

/* The name of the group, which is the same on all ranks; NULL: there is no such function. */
static const struct cxx_string *name_of(const void *group)
{
    static void *_Atomic real;
    const struct cxx_string *(*name)(const void *);
    *(void **)&name = real_of(&real, "_ZNK4c10d12ProcessGroup12getGroupNameB5cxx11Ev");
    return name ? name(group) : NULL;
}

/* The group's entry. Nothing tells when a group is freed: another one may have its address. */
static struct communicator *entry_of(const struct torch_group *group)
{
    struct communicator *c = communicator_of_group(group->group, group->size, group->rank);
    const struct cxx_string *name = c ? name_of(group->group) : NULL;
    if (name)
        communicator_is_called(c, name->text, name->len);
    return c;
}

/* After the real function, which throws if the group has no such backend. */
STUB void torch_backend_asked(const void *group)
{
    struct torch_group known = {.group = group};
    int saved = errno;
    const struct communicator *c = torch_groups_read(&known) ? entry_of(&known) : NULL;
    asked = c ? communicator_index(c) : 0;
    errno = saved;
}

bool torch_backend_take(struct torch_group *out)
{
    const struct communicator *c = communicator_at(asked & (NUMBERED - 1));
    *out = (struct torch_group){.group = c ? communicator_handle(c) : NULL,
                                .peer = -1,
                                .numbered = asked & NUMBERED,
                                .seq = asked >> NUMBER_SHIFT};
    asked = 0;
    return c && communicator_known(c, &out->size, &out->rank);
}

/* The function returns an object, an intrusive_ptr, at the address that it gets. */
#if defined(__x86_64__)
VISIBLE void *_ZN4c10d12ProcessGroup10getBackendEN3c1010DeviceTypeE(void **result, void *group,
                                                                    int8_t device);
VISIBLE void *_ZN4c10d12ProcessGroup10getBackendEN3c1010DeviceTypeE(void **result, void *group,
                                                                    int8_t device)
{
    void *(*next)(void **, void *, int8_t);
    *(void **)&next = torch_backend_real();
    *result = NULL;
    if (next)
        next(result, group, device);
    torch_backend_asked(group);
    return result;
}
#elif defined(__aarch64__)
/* x8 is that address, x0 the group. */
__asm__(".text\n"
        ".globl " SYMBOL "\n"
        ".type " SYMBOL ", %function\n" SYMBOL ":\n"
        ".cfi_startproc\n"
        "hint #34\n"
        "stp x29, x30, [sp, #-48]!\n"
        ".cfi_def_cfa_offset 48\n"
        ".cfi_offset x29, -48\n"
        ".cfi_offset x30, -40\n"
        "mov x29, sp\n"
        "stp x0, x1, [sp, #16]\n"
        "str x8, [sp, #32]\n"
        "bl torch_backend_real\n"
        "mov x16, x0\n"
        "ldp x0, x1, [sp, #16]\n"
        "ldr x8, [sp, #32]\n"
        "str xzr, [x8]\n"
        "cbz x16, 1f\n"
        "blr x16\n"
        "1: ldr x0, [sp, #16]\n"
        "bl torch_backend_asked\n"
        "ldr x0, [sp, #32]\n"
        "ldp x29, x30, [sp], #48\n"
        ".cfi_def_cfa_offset 0\n"
        ".cfi_restore x29\n"
        ".cfi_restore x30\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size " SYMBOL ", .-" SYMBOL "\n");
#endif

/* ---- gloo ---- */

VISIBLE void enqueue(void *gloo, void **work) __asm__(ENQUEUE);
VISIBLE void execute(void *const *work) __asm__(EXECUTE);
VISIBLE void fail(void *work, const void *exception) __asm__(FAIL);

/* work: the address of an intrusive_ptr, an object that the callee owns. */
VISIBLE void enqueue(void *gloo, void **work)
{
    static void *_Atomic real;
    void (*next)(void *, void **);
    struct torch_group group;
    *(void **)&next = real_of(&real, ENQUEUE);
    /* Drawn here: threads run transfers in any order. */
    if (torch_backend_take(&group)) {
        torch_groups_number(&group);
        torch_groups_put(*work, &group);
    }
    if (next)
        next(gloo, work);
}

VISIBLE void execute(void *const *work)
{
    static void *_Atomic real;
    void (*next)(void *const *);
    struct torch_group group;
    *(void **)&next = real_of(&real, EXECUTE);
    bool known = torch_groups_get(*work, &group);
    const struct communicator *c = known ? communicator_of(group.group) : NULL;
    asked = c ? communicator_index(c) | NUMBERED | group.seq << NUMBER_SHIFT : 0;
    if (next)
        next(work);
    asked = 0;
}

VISIBLE void fail(void *work, const void *exception)
{
    static void *_Atomic real;
    void (*next)(void *, const void *);
    *(void **)&next = real_of(&real, FAIL);
    writer_transfer_failed("gloo", -1);
    if (next)
        next(work, exception);
}
