/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor memory. CPU: c10::alloc_cpu and c10::free_cpu are interposed (they pass through the PLT of
 * libc10 itself) and sizes are kept in a table of our own, because forcing torch's own reporter
 * serialises every thread (T5). CUDA: the caching allocator reports through
 * c10::reportMemoryUsageToProfiler, which is interposed and forwarded. Application threads; no
 * lock, no allocation. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "preload/core/core.h"
#include "preload/link/link.h"
#include "preload/stacks/stacks.h"
#include "preload/torch/torch.h"
#include "writer/writer.h"

#define TABLE       (1u << 17) /* live tensor allocations that can be told apart: 2 MB */
#define PROBES      64u        /* longest search; beyond it the allocation is counted as lost */
#define NEAR        8u         /* of them near the entries of its neighbours in memory */
#define DELETED     1u  /* key of an entry that was taken out: no allocation has this address */
#define OOM_WAIT_MS 50u /* for the event to be on disk: the program may not live on */
#define BUSY        2u  /* key of an entry whose size is being written */

/* One live allocation. Written with atomics by whichever thread allocates or frees; an address is
 * alive once, so no two threads ever work on one entry with the same key. */
struct entry {
    _Atomic uint64_t key;  /* address, 0 = never used, DELETED */
    _Atomic uint64_t size; /* bytes << 16 | window */
};

static struct entry table[TABLE];
/* 16 bits are kept with each entry: entries of earlier windows are void */
static _Atomic uint32_t window = 1;
/* bytes alive on the CPU of those allocated since the window began; all threads add */
static _Atomic int64_t allocated;

#define VISIBLE __attribute__((visibility("default")))

void *_ZN3c109alloc_cpuEm(size_t bytes);
void _ZN3c108free_cpuEPv(void *address);

/* c10::Device in a register: type in the low byte, index above it. */
struct c10_device {
    int8_t type, index;
};
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *address, int64_t bytes,
                                                           uint64_t total_allocated,
                                                           uint64_t total_reserved,
                                                           struct c10_device device);
void _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE(void *address, int64_t bytes,
                                                           int64_t total_allocated,
                                                           int64_t total_reserved,
                                                           struct c10_device device);

void _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(int64_t bytes, uint64_t total_allocated,
                                                         uint64_t total_reserved,
                                                         struct c10_device device);
void _ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE(int64_t bytes, int64_t total_allocated,
                                                         int64_t total_reserved,
                                                         struct c10_device device);
void _ZN3c1025ProfiledCPUMemoryReporter11OutOfMemoryEm(void *self, size_t bytes);

/* The numbers of windows begin anew: what is of the first ones would be taken for this week's. What
 * is written meanwhile is of no window. */
static void forget_all(void)
{
    atomic_store(&window, 0);
    for (struct entry *e = table; e < table + TABLE; e++) {
        uint64_t key = atomic_load_explicit(&e->key, memory_order_relaxed);
        if (key > BUSY)
            atomic_compare_exchange_strong(&e->key, &key, DELETED);
    }
}

void torch_memory_restart(void)
{
    uint32_t next = (atomic_load(&window) + 1) & 0xffff;
    if (!next)
        forget_all();
    atomic_store(&window, next ? next : 1);
    atomic_store(&allocated, 0);
}

static uint64_t scatter(uint64_t number)
{
    return number * UINT64_C(0x9e3779b97f4a7c15) >> 40;
}

/* The entry to look at in the i-th place. Neighbours in memory (tensors stand at multiples of 64)
 * are neighbours here first: a training step uses the same few pages over and over, which are then
 * few pages of the table, too. Where it is crowded, anywhere, each time elsewhere: a place in a
 * long run of neighbours has no free one beside it. */
static struct entry *allocation_place(uint64_t address, unsigned i)
{
    uint64_t at = i < NEAR ? (address >> 6) + scatter(address >> 23) + i
                           : scatter((address >> 6) + i * UINT64_C(0x632be59bd9b4e019));
    return &table[at & (TABLE - 1)];
}

/* An entry that may be overwritten: never used, taken out, or of an earlier window. */
static bool is_void(const struct entry *e, uint64_t key, uint32_t now)
{
    if (key <= BUSY)
        return key != BUSY;
    return (atomic_load_explicit(&e->size, memory_order_relaxed) & 0xffff) != now;
}

static bool remember_allocation(uint64_t address, uint64_t bytes)
{
    uint32_t now = atomic_load_explicit(&window, memory_order_relaxed);
    for (unsigned i = 0; i < PROBES; i++) {
        struct entry *e = allocation_place(address, i);
        uint64_t key = atomic_load_explicit(&e->key, memory_order_relaxed);
        if (!is_void(e, key, now) ||
            !atomic_compare_exchange_strong_explicit(&e->key, &key, BUSY, memory_order_acquire,
                                                     memory_order_relaxed))
            continue;
        atomic_store_explicit(&e->size, bytes << 16 | now, memory_order_relaxed);
        atomic_store_explicit(&e->key, address, memory_order_release);
        return true;
    }
    return false;
}

/* Bytes of an allocation of this window, taken out of the table; 0: not seen being made. */
static uint64_t forget(uint64_t address)
{
    uint32_t now = atomic_load_explicit(&window, memory_order_relaxed);
    for (unsigned i = 0; i < PROBES; i++) {
        struct entry *e = allocation_place(address, i);
        uint64_t key = atomic_load_explicit(&e->key, memory_order_acquire);
        if (key == 0)
            return 0;
        if (key != address)
            continue;
        uint64_t size = atomic_load_explicit(&e->size, memory_order_relaxed);
        if ((size & 0xffff) != now)
            continue;
        /* a window that has just begun may have given the entry to another allocation */
        bool taken = atomic_compare_exchange_strong_explicit(
            &e->key, &key, DELETED, memory_order_relaxed, memory_order_relaxed);
        return taken ? size >> 16 : 0;
    }
    return 0;
}

/* A release has none: who frees a tensor says little, and frees are half of all. */
static const struct extras *stack_of(struct thread_log *log, int64_t bytes, struct extras *out)
{
    return gate_open(GATE_STACKS) && bytes > 0 ? stack_capture_extras(log, out) : NULL;
}

static void put_allocation(uint64_t address, int64_t bytes, const struct record_memory *state)
{
    if (!guard_enter())
        return;
    struct thread_log *log = thread_log_get();
    struct extras stack;
    if (log)
        emit_memory(log, address, bytes, state, stack_of(log, bytes, &stack));
    guard_leave();
}

static void record(uint64_t address, int64_t bytes)
{
    int64_t total = atomic_fetch_add_explicit(&allocated, bytes, memory_order_relaxed) + bytes;
    struct record_memory state = {total, 0, 0, -1};
    put_allocation(address, bytes, &state);
}

static _Atomic bool settled; /* torch_here() need not be called any more */

void torch_memory_in_child(void)
{
    atomic_store(&settled, false);
}

VISIBLE void *_ZN3c109alloc_cpuEm(size_t bytes)
{
    static void *(*_Atomic real)(size_t);
    void *(*next)(size_t) = atomic_load_explicit(&real, memory_order_relaxed);
    if (__builtin_expect(!next, 0)) {
        next = (void *(*)(size_t))resolve_in("libc10.so", "_ZN3c109alloc_cpuEm");
        atomic_store_explicit(&real, next, memory_order_relaxed);
    }
    if (__builtin_expect(!atomic_load_explicit(&settled, memory_order_relaxed), 0))
        atomic_store_explicit(&settled, torch_here(), memory_order_relaxed);
    void *address = NULL;
    if (__builtin_expect(next != NULL, 1))
        address = next(bytes);
    else if (posix_memalign(&address, 64, bytes) !=
             0) /* a torch that calls it but does not define it: none is known */
        address = NULL;
    if (__builtin_expect(gate_open(GATE_MEMORY), 0) && address) {
        if (remember_allocation((uint64_t)(uintptr_t)address, bytes))
            record((uint64_t)(uintptr_t)address, (int64_t)bytes);
        else
            thread_log_lost(NULL, LOSS_MEMORY_TABLE, 1);
    }
    return address;
}

VISIBLE void _ZN3c108free_cpuEPv(void *address)
{
    static void (*_Atomic real)(void *);
    void (*next)(void *) = atomic_load_explicit(&real, memory_order_relaxed);
    if (__builtin_expect(!next, 0)) {
        next = (void (*)(void *))resolve_in("libc10.so", "_ZN3c108free_cpuEPv");
        atomic_store_explicit(&real, next, memory_order_relaxed);
    }
    if (__builtin_expect(gate_open(GATE_MEMORY), 0) && address) {
        /* before the address can be given out again */
        uint64_t bytes = forget((uint64_t)(uintptr_t)address);
        if (bytes)
            record((uint64_t)(uintptr_t)address, -(int64_t)bytes);
    }
    if (__builtin_expect(next != NULL, 1))
        next(address);
    else
        free(address);
}

/* GPU allocations as the caching allocator reports them, whether or not anybody listens. CPU
 * reports are torch's own profiler's and only forwarded: ours come from alloc_cpu. */
static void report(void *address, int64_t bytes, int64_t total_allocated, int64_t total_reserved,
                   struct c10_device device)
{
    cprof_wake_once(WAKE_TORCH);
    symbol_look();
    if (device.type == 0 || !gate_open(GATE_MEMORY))
        return;
    struct record_memory state = {total_allocated, total_reserved, device.type, device.index};
    put_allocation((uint64_t)(uintptr_t)address, bytes, &state);
}

VISIBLE void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *address, int64_t bytes,
                                                                   uint64_t total_allocated,
                                                                   uint64_t total_reserved,
                                                                   struct c10_device device)
{
    static void (*_Atomic real)(void *, int64_t, uint64_t, uint64_t, struct c10_device);
    void (*next)(void *, int64_t, uint64_t, uint64_t, struct c10_device) = atomic_load(&real);
    if (!next) {
        *(void **)&next =
            resolve_in("libc10.so", "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
        atomic_store(&real, next);
    }
    report(address, bytes, (int64_t)total_allocated, (int64_t)total_reserved, device);
    if (next)
        next(address, bytes, total_allocated, total_reserved, device);
}

VISIBLE void _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE(void *address, int64_t bytes,
                                                                   int64_t total_allocated,
                                                                   int64_t total_reserved,
                                                                   struct c10_device device)
{
    static void (*_Atomic real)(void *, int64_t, int64_t, int64_t, struct c10_device);
    void (*next)(void *, int64_t, int64_t, int64_t, struct c10_device) = atomic_load(&real);
    if (!next) {
        *(void **)&next =
            resolve_in("libc10.so", "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE");
        atomic_store(&real, next);
    }
    report(address, bytes, total_allocated, total_reserved, device);
    if (next)
        next(address, bytes, total_allocated, total_reserved, device);
}

/* ---- allocations that fail ---- */

static void failed(int64_t bytes, int64_t total_allocated, int64_t total_reserved,
                   struct c10_device device)
{
    if (!gate_open(GATE_MEMORY) || !guard_enter())
        return;
    struct thread_log *log = thread_log_get();
    struct record_memory state = {total_allocated, total_reserved, device.type, device.index};
    if (log)
        emit_out_of_memory(log, bytes, &state, NULL);
    guard_leave();
    if (log)
        writer_flush_now(OOM_WAIT_MS);
}

VISIBLE void _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(int64_t bytes,
                                                                 uint64_t total_allocated,
                                                                 uint64_t total_reserved,
                                                                 struct c10_device device)
{
    static void (*_Atomic real)(int64_t, uint64_t, uint64_t, struct c10_device);
    void (*next)(int64_t, uint64_t, uint64_t, struct c10_device) = atomic_load(&real);
    if (!next) {
        *(void **)&next =
            resolve_in("libc10.so", "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");
        atomic_store(&real, next);
    }
    if (device.type != 0)
        failed(bytes, (int64_t)total_allocated, (int64_t)total_reserved, device);
    if (next)
        next(bytes, total_allocated, total_reserved, device);
}

VISIBLE void _ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE(int64_t bytes,
                                                                 int64_t total_allocated,
                                                                 int64_t total_reserved,
                                                                 struct c10_device device)
{
    static void (*_Atomic real)(int64_t, int64_t, int64_t, struct c10_device);
    void (*next)(int64_t, int64_t, int64_t, struct c10_device) = atomic_load(&real);
    if (!next) {
        *(void **)&next =
            resolve_in("libc10.so", "_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE");
        atomic_store(&real, next);
    }
    if (device.type != 0)
        failed(bytes, total_allocated, total_reserved, device);
    if (next)
        next(bytes, total_allocated, total_reserved, device);
}

/* The CPU's allocator calls it when alloc_cpu has thrown, whoever listens. */
VISIBLE void _ZN3c1025ProfiledCPUMemoryReporter11OutOfMemoryEm(void *self, size_t bytes)
{
    static void (*_Atomic real)(void *, size_t);
    void (*next)(void *, size_t) = atomic_load(&real);
    if (!next) {
        *(void **)&next =
            resolve_in("libc10.so", "_ZN3c1025ProfiledCPUMemoryReporter11OutOfMemoryEm");
        atomic_store(&real, next);
    }
    struct c10_device cpu = {0, -1};
    int64_t wanted = bytes <= INT64_MAX ? (int64_t)bytes : INT64_MAX;
    failed(wanted, atomic_load_explicit(&allocated, memory_order_relaxed), 0, cpu);
    if (next)
        next(self, bytes);
}
