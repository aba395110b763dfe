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
#define LIBRARY "libtorch_cpu.so"
#define VISIBLE __attribute__((visibility("default")))
#define STUB    __attribute__((used, visibility("hidden"))) /* called by the stub of aarch64 */

static __thread uint16_t asked; /* communicator_index() of its group; 0: none */

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

/* Keeps the name of the group, which is the same on all ranks. */
static void keep_name(struct communicator *c, const void *group)
{
    const struct cxx_string *(*name_of)(const void *);
    *(void **)&name_of = resolve_in(LIBRARY, "_ZNK4c10d12ProcessGroup12getGroupNameB5cxx11Ev");
    const struct cxx_string *name = name_of ? name_of(group) : NULL;
    communicator_set_name(c, name ? name->text : "", name ? name->len : 0);
}

/* After the real function, which throws if the group has no such backend. */
STUB void torch_backend_asked(const void *group)
{
    struct torch_group known = {.group = group};
    int saved = errno;
    asked = 0;
    if (torch_groups_read(&known)) {
        struct communicator *c = communicator_of_group(group, known.size, known.rank);
        if (c && !communicator_name(c))
            keep_name(c, group);
        asked = c ? communicator_index(c) : 0;
    }
    errno = saved;
}

bool torch_backend_take(struct torch_group *out)
{
    const struct communicator *c = communicator_at(asked);
    asked = 0;
    *out = (struct torch_group){.group = c ? communicator_handle(c) : NULL, .peer = -1};
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

/* work: the address of an intrusive_ptr, an object that the callee owns. */
VISIBLE void enqueue(void *gloo, void **work)
{
    static void *_Atomic real;
    void (*next)(void *, void **);
    struct torch_group group;
    *(void **)&next = real_of(&real, ENQUEUE);
    if (torch_backend_take(&group) && *work)
        torch_groups_put(*work, &group);
    if (next)
        next(gloo, work);
}

VISIBLE void execute(void *const *work)
{
    static void *_Atomic real;
    void (*next)(void *const *);
    struct torch_group group;
    *(void **)&next = real_of(&real, EXECUTE);
    bool known = *work && torch_groups_get(*work, &group);
    const struct communicator *c = known ? communicator_of(group.group) : NULL;
    asked = c ? communicator_index(c) : 0;
    if (next)
        next(work);
    asked = 0;
}
