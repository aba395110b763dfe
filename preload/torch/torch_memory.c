/* SPDX-License-Identifier: Apache-2.0 */
/* Records tensor memory. On the CPU, this file interposes c10::alloc_cpu and c10::free_cpu, which
 * libc10 calls through its own PLT. It keeps sizes in a table, because torch's own reporter would
 * serialise all threads. On CUDA, the caching allocator calls c10::reportMemoryUsageToProfiler,
 * which this file interposes and forwards. Application threads; no lock, no allocation. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "preload/core/core.h"
#include "preload/link/link.h"
#include "preload/stacks/stacks.h"
#include "preload/torch/torch.h"
#include "writer/writer.h"

#define TABLE       (1u << 17) /* entries for live allocations; 2 MB */
#define PROBES      64u        /* longest search; an allocation that finds no entry is lost */
#define NEAR        8u         /* first probes, next to the entries of neighbours in memory */
#define DELETED     1u         /* key of a removed entry; no allocation has this address */
#define OOM_WAIT_MS 50u /* wait for the event to reach the disk, because the program may die */
#define BUSY        2u  /* key of an entry whose size is being written */

/* One live allocation. Any thread that allocates or frees writes it, with atomics. Memory at an
 * address is allocated once at a time, so no two threads work on entries with the same key. */
struct entry {
    _Atomic uint64_t key;  /* address, BUSY or DELETED; 0: never used */
    _Atomic uint64_t size; /* bytes << 16 | window */
};

static struct entry table[TABLE];
/* number of the window, at most 16 bits: entries of other windows are void; stepping thread
 * writes */
static _Atomic uint32_t window = 1;
/* bytes alive on the CPU, of allocations since the window began; all threads add */
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

/* Empties the table when window numbers wrap, because entries of an old window would count for the
 * new window of that number. Entries written meanwhile are of window 0, which is void. */
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

/* The entry for the i-th probe. The first probes keep neighbours in memory together (tensors start
 * at multiples of 64): a training step reuses few pages of memory, so it needs few pages of the
 * table. Later probes are scattered, because a crowded run has no free entry nearby. */
static struct entry *allocation_place(uint64_t address, unsigned i)
{
    uint64_t at = i < NEAR ? (address >> 6) + scatter(address >> 23) + i
                           : scatter((address >> 6) + i * UINT64_C(0x632be59bd9b4e019));
    return &table[at & (TABLE - 1)];
}

/* Whether an entry may be overwritten: never used, removed, or of another window. */
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

/* Removes an allocation of this window. Returns its bytes; 0: not in the table. */
static uint64_t forget_allocation(uint64_t address)
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
        /* a thread in a newer window may have reused the entry */
        bool taken = atomic_compare_exchange_strong_explicit(
            &e->key, &key, DELETED, memory_order_relaxed, memory_order_relaxed);
        return taken ? size >> 16 : 0;
    }
    return 0;
}

/* The stack of an allocation. Releases are half of the records and get none: who frees a tensor
 * tells little. */
static const struct extras *allocation_stack(struct thread_log *log, int64_t bytes,
                                             struct extras *out)
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
        emit_memory(log, address, bytes, state, allocation_stack(log, bytes, &stack));
    guard_leave();
}

/* Whether a window, or the flight recorder alone, wants a piece of memory. */
static bool wants(int64_t bytes)
{
    return gate_open(GATE_WINDOW) || flight_wants_bytes(bytes);
}

static void record_cpu_change(uint64_t address, int64_t bytes)
{
    int64_t total = atomic_fetch_add_explicit(&allocated, bytes, memory_order_relaxed) + bytes;
    if (!wants(bytes))
        return;
    struct record_memory state = {total, 0, 0, -1};
    put_allocation(address, bytes, &state);
}

static _Atomic bool settled; /* torch_here() need not be called any more; any thread */

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
    else if (posix_memalign(&address, 64, bytes) != 0) /* no known torch lacks alloc_cpu */
        address = NULL;
    if (__builtin_expect(gate_open(GATE_MEMORY), 0) && address && wants((int64_t)bytes)) {
        if (remember_allocation((uint64_t)(uintptr_t)address, bytes))
            record_cpu_change((uint64_t)(uintptr_t)address, (int64_t)bytes);
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
        /* before the allocator can reuse the address */
        uint64_t bytes = forget_allocation((uint64_t)(uintptr_t)address);
        if (bytes)
            record_cpu_change((uint64_t)(uintptr_t)address, -(int64_t)bytes);
    }
    if (__builtin_expect(next != NULL, 1))
        next(address);
    else
        free(address);
}

/* Records a GPU allocation or release. The caching allocator reports each, whether or not a
 * profiler runs. Reports for the CPU are skipped, because alloc_cpu and free_cpu record those. */
static void record_gpu_change(void *address, int64_t bytes, int64_t total_allocated,
                              int64_t total_reserved, struct c10_device device)
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
    record_gpu_change(address, bytes, (int64_t)total_allocated, (int64_t)total_reserved, device);
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
    record_gpu_change(address, bytes, total_allocated, total_reserved, device);
    if (next)
        next(address, bytes, total_allocated, total_reserved, device);
}

/* ---- allocations that fail ---- */

static void record_failure(int64_t bytes, int64_t total_allocated, int64_t total_reserved,
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
        record_failure(bytes, (int64_t)total_allocated, (int64_t)total_reserved, device);
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
        record_failure(bytes, total_allocated, total_reserved, device);
    if (next)
        next(bytes, total_allocated, total_reserved, device);
}

/* The CPU allocator calls this after alloc_cpu has thrown, whether or not a profiler runs. */
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
    record_failure(wanted, atomic_load_explicit(&allocated, memory_order_relaxed), 0, cpu);
    if (next)
        next(self, bytes);
}
