/* SPDX-License-Identifier: Apache-2.0 */
/* Calls every wrapper of hooks.def with a stub of its type. Arguments, result and errno must
 * pass through unchanged: while idle, at the first call and while recording. Runs on the main
 * thread. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "cupti/gpu_trace.h"
#include "preload/core/guard.h"
#include "preload/hooks/hooks.h"
#include "preload/core/life.h"

/* ---- what the stub received, and what the caller passed ---- */

struct bytes {
    unsigned char data[256];
    size_t used;
};

static struct bytes given, seen;
static int seen_id, seen_errno;

static void put(struct bytes *to, const void *value, size_t size)
{
    memcpy(to->data + to->used, value, size);
    to->used += size;
}

/* Fills a parameter with bytes that no other parameter has. */
static void fill(void *value, size_t size)
{
    unsigned char *byte = value;
    for (size_t i = 0; i < size; i++)
        byte[i] = (unsigned char)(given.used + i + 1);
    put(&given, value, size);
}

#define GIVE(name) fill(&name, sizeof name);
#define TAKE(name) put(&seen, &name, sizeof name);

#define EACH_0(DO)
#define EACH_1(DO)    DO(a)
#define EACH_2(DO)    EACH_1(DO) DO(b)
#define EACH_3(DO)    EACH_2(DO) DO(c)
#define EACH_4(DO)    EACH_3(DO) DO(d)
#define EACH_5(DO)    EACH_4(DO) DO(e)
#define EACH_6(DO)    EACH_5(DO) DO(f)
#define EACH_7(DO)    EACH_6(DO) DO(g)
#define EACH_8(DO)    EACH_7(DO) DO(h)
#define EACH_9(DO)    EACH_8(DO) DO(i)
#define EACH_10(DO)   EACH_9(DO) DO(j)
#define EACH_11(DO)   EACH_10(DO) DO(k)
#define EACH(DO, ...) HOOK_PICK(EACH_, HOOK_ARITY(__VA_ARGS__))(DO)

#define LOCALS_0(...)
#define LOCALS_1(A, ...)                             A a;
#define LOCALS_2(A, B, ...)                          LOCALS_1(A) B b;
#define LOCALS_3(A, B, C, ...)                       LOCALS_2(A, B) C c;
#define LOCALS_4(A, B, C, D, ...)                    LOCALS_3(A, B, C) D d;
#define LOCALS_5(A, B, C, D, E, ...)                 LOCALS_4(A, B, C, D) E e;
#define LOCALS_6(A, B, C, D, E, F, ...)              LOCALS_5(A, B, C, D, E) F f;
#define LOCALS_7(A, B, C, D, E, F, G, ...)           LOCALS_6(A, B, C, D, E, F) G g;
#define LOCALS_8(A, B, C, D, E, F, G, H, ...)        LOCALS_7(A, B, C, D, E, F, G) H h;
#define LOCALS_9(A, B, C, D, E, F, G, H, I, ...)     LOCALS_8(A, B, C, D, E, F, G, H) I i;
#define LOCALS_10(A, B, C, D, E, F, G, H, I, J, ...) LOCALS_9(A, B, C, D, E, F, G, H, I) J j;
#define LOCALS_11(A, B, C, D, E, F, G, H, I, J, K)   LOCALS_10(A, B, C, D, E, F, G, H, I, J) K k;

#define LOCALS(...) HOOK_PICK(LOCALS_, HOOK_ARITY(__VA_ARGS__))(__VA_ARGS__)

/* A stub and a caller for each wrapper. */
#define HOOK(node, symbol, shown, ret, missing, category, ...)                                     \
    ret hook_##node##_##symbol HOOK_PARAMS(__VA_ARGS__);                                           \
    static ret stub_##node##_##symbol HOOK_PARAMS(__VA_ARGS__)                                     \
    {                                                                                              \
        seen_id = HOOK_##node##_##symbol;                                                          \
        seen_errno = errno;                                                                        \
        EACH(TAKE, __VA_ARGS__)                                                                    \
        errno = 2000 + HOOK_##node##_##symbol;                                                     \
        return 1000 + HOOK_##node##_##symbol;                                                      \
    }                                                                                              \
    static int64_t call_##node##_##symbol(void)                                                    \
    {                                                                                              \
        LOCALS(__VA_ARGS__)                                                                        \
        EACH(GIVE, __VA_ARGS__)                                                                    \
        return (int64_t)hook_##node##_##symbol HOOK_ARGS(__VA_ARGS__);                             \
    }
#include "preload/hooks/hooks.def"

struct row {
    void *stub;
    int64_t (*call)(void);
    int64_t missing;
    const char *symbol;
    const char *shown;
    enum category category;
};

static const struct row rows[HOOK_COUNT] = {
#define HOOK(node, symbol, shown, ret, missing, category, ...)                                     \
    {stub_##node##_##symbol, call_##node##_##symbol, missing, #symbol, #shown, category},
#include "preload/hooks/hooks.def"
};

static void begin(void)
{
    /* A call must not wake the real cprof. */
    atomic_store(&cprof_life, LIFE_OVER);
    atomic_store(&writer_gate, 0);
    memset(hook_slots, 0, sizeof(struct hook_slot) * HOOK_COUNT);
    given.used = seen.used = 0;
    seen_id = -1;
    errno = 77;
}

static void check_forwarded(int id, int64_t result, int error)
{
    ck_assert_msg(seen_id == id, "%s reached the stub of id %d", rows[id].symbol, seen_id);
    ck_assert_msg(result == 1000 + id, "%s returned %ld", rows[id].symbol, (long)result);
    ck_assert_msg(seen_errno == 77, "%s called the real function with errno %d", rows[id].symbol,
                  seen_errno);
    ck_assert_msg(error == 2000 + id, "%s left errno %d", rows[id].symbol, error);
    ck_assert_msg(seen.used == given.used && !memcmp(seen.data, given.data, seen.used),
                  "%s changed its arguments", rows[id].symbol);
}

/* Makes one call through the wrapper of `id`, which must reach the stub unchanged. */
static void check_call(int id)
{
    given.used = seen.used = 0;
    seen_id = -1;
    errno = 77;
    int64_t result = rows[id].call();
    int error = errno;
    check_forwarded(id, result, error);
}

START_TEST(forwards_idle_calls)
{
    begin();
    for (int id = 0; id < HOOK_COUNT; id++) {
        atomic_store(&hook_slots[id].fast, rows[id].stub);
        check_call(id);
    }
}
END_TEST

START_TEST(forwards_the_first_call_and_caches_the_function)
{
    begin();
    for (int id = 0; id < HOOK_COUNT; id++) {
        atomic_store(&hook_slots[id].real, rows[id].stub);
        ck_assert_ptr_null(atomic_load(&hook_slots[id].fast));
        check_call(id);
        ck_assert_ptr_eq(atomic_load(&hook_slots[id].fast), rows[id].stub);
        check_call(id);
    }
}
END_TEST

START_TEST(missing_function_returns_the_value_of_its_row)
{
    begin();
    for (int id = 0; id < HOOK_COUNT; id++) {
        given.used = 0;
        errno = 77;
        ck_assert_int_eq(rows[id].call(), rows[id].missing);
        ck_assert_int_eq(errno, 77);
        /* The answer is cached until another object is loaded: the second call must not ask
         * again. */
        ck_assert_uint_ne(atomic_load(&hook_slots[id].missed), 0);
        given.used = 0;
        ck_assert_int_eq(rows[id].call(), rows[id].missing);
    }
}
END_TEST

START_TEST(forwards_recorded_calls_and_leaves_one_span)
{
    begin();
    ck_assert(thread_log_start(1 << 20));
    atomic_store(&writer_gate, GATE_CALLS);
    for (int id = 0; id < HOOK_COUNT; id++) {
        atomic_store(&hook_slots[id].fast, rows[id].stub);
        atomic_store(&hook_slots[id].real, rows[id].stub);
        check_call(id);
        struct thread_log *log = thread_log_get();
        ck_assert_ptr_nonnull(log);
        const struct record *r = ring_peek(&log->ring, ring_head(&log->ring));
        ck_assert_ptr_nonnull(r);
        ck_assert_int_eq(r->kind, REC_SPAN);
        ck_assert_int_eq(r->category, rows[id].category);
        ck_assert_uint_le(r->start, r->end);
        const char *plain = rows[id].shown[0] == '_' ? rows[id].shown + 2 : rows[id].shown;
        size_t length = strlen(plain);
        if (length > 3 && strncmp(plain + length - 3, "_v2", 3) == 0)
            length -= 3;
        ck_assert_uint_eq(record_name(r).len, length);
        ck_assert_mem_eq(record_name(r).at, plain, record_name(r).len);
        ring_take(&log->ring, r);
        ck_assert_ptr_null(ring_peek(&log->ring, ring_head(&log->ring)));
    }
}
END_TEST

/* Clock pairs around a call show where it lies in the system's time, however long the pauses
 * before and inside it. No pair is wanted here, so a look only closes the gate. */
START_TEST(looks_at_the_clocks_before_and_after_a_call)
{
    struct hook_call call;
    begin();
    ck_assert(thread_log_start(1 << 20));
    atomic_store(&writer_gate, GATE_CALLS);
    atomic_store(&hook_slots[0].real, rows[0].stub);
    atomic_store(&gpu_clock_due, 0);
    hook_begin(&call, 0, NULL);
    ck_assert_uint_eq(atomic_load(&gpu_clock_due), UINT64_MAX);
    atomic_store(&gpu_clock_due, 0);
    hook_end(&call, true);
    ck_assert_uint_eq(atomic_load(&gpu_clock_due), UINT64_MAX);
}
END_TEST

/* Fails with "out of memory". Its arguments are in registers, so callers may pass more or fewer. */
static int no_memory(uint64_t a, uint64_t b, uint64_t c)
{
    (void)a, (void)b, (void)c;
    return 2;
}

/* Fails unless this thread's next two records are a failed allocation of so many bytes and the
 * span of its call. */
static void check_failed_allocation(int64_t bytes)
{
    struct thread_log *log = thread_log_get();
    const struct record *r = ring_peek(&log->ring, ring_head(&log->ring));
    ck_assert_ptr_nonnull(r);
    ck_assert_int_eq(r->kind, REC_OUT_OF_MEMORY);
    ck_assert_int_eq(r->memory.bytes, bytes);
    ring_take(&log->ring, r);
    r = ring_peek(&log->ring, ring_head(&log->ring));
    ck_assert_int_eq(r->kind, REC_SPAN);
    ring_take(&log->ring, r);
}

START_TEST(records_the_size_of_failed_allocations)
{
    void *p;
    begin();
    ck_assert(thread_log_start(1 << 20));
    atomic_store(&writer_gate, GATE_CALLS | GATE_MEMORY);
    atomic_store(&hook_slots[HOOK_V12_cudaMalloc].real, (void *)no_memory);
    atomic_store(&hook_slots[HOOK_DRIVER_cuMemCreate].real, (void *)no_memory);
    atomic_store(&hook_slots[HOOK_DRIVER_cuMemcpyDtoH_v2].real, (void *)no_memory);
    atomic_store(&hook_slots[HOOK_V12_cudaMemset2D].real, (void *)no_memory);
    ck_assert_int_eq(hook_V12_cudaMalloc(&p, 4096), 2);
    check_failed_allocation(4096);
    ck_assert_int_eq(hook_DRIVER_cuMemCreate(&p, 8192, NULL, 0), 2);
    check_failed_allocation(8192);
    /* The second argument is an address or a pitch, not a size. */
    ck_assert_int_eq(hook_DRIVER_cuMemcpyDtoH_v2(&p, UINT64_C(0x7f1234000000), 8), 2);
    check_failed_allocation(0);
    ck_assert_int_eq(hook_V12_cudaMemset2D(&p, 1 << 20, 0, 8, 8), 2);
    check_failed_allocation(0);
}
END_TEST

START_TEST(forwards_calls_from_cprof_without_a_span)
{
    begin();
    ck_assert(thread_log_start(1 << 20));
    atomic_store(&hook_slots[0].real, rows[0].stub);
    atomic_store(&writer_gate, GATE_CALLS);
    ck_assert(guard_enter());
    ck_assert(!guard_enter());
    check_call(0);
    guard_leave();
    ck_assert_ptr_null(thread_log_self);
    ck_assert_ptr_null(atomic_load(&hook_slots[0].fast));
    ck_assert(guard_enter());
    guard_leave();
}
END_TEST

START_TEST(hook_names_match_hooks_def)
{
    for (int id = 0; id < HOOK_COUNT; id++) {
        uint32_t length;
        const char *shown = hook_shown((enum hook_id)id, &length);
        ck_assert_uint_gt(length, 4);
        ck_assert_msg(shown[0] == 'c', "%s is shown as %.*s", rows[id].symbol, (int)length, shown);
        ck_assert_msg(!memmem(shown, length, "_pt", 3), "%s is shown with its suffix",
                      rows[id].symbol);
    }
}
END_TEST

START_TEST(shows_variants_under_the_plain_name)
{
    uint32_t length;
    const char *shown = hook_shown(HOOK_V13___cudaLaunchKernel_ptsz, &length);
    ck_assert_uint_eq(length, strlen("cudaLaunchKernel"));
    ck_assert_mem_eq(shown, "cudaLaunchKernel", length);
    shown = hook_shown(HOOK_DRIVER_cuMemcpyHtoDAsync_v2_ptsz, &length);
    ck_assert_uint_eq(length, strlen("cuMemcpyHtoDAsync"));
    ck_assert_mem_eq(shown, "cuMemcpyHtoDAsync", length);
}
END_TEST

Suite *suite_hooks(void)
{
    Suite *suite = suite_create("hooks");

    TCase *forward = tcase_create("forward");
    tcase_add_test(forward, forwards_idle_calls);
    tcase_add_test(forward, forwards_the_first_call_and_caches_the_function);
    tcase_add_test(forward, missing_function_returns_the_value_of_its_row);
    tcase_add_test(forward, forwards_recorded_calls_and_leaves_one_span);
    tcase_add_test(forward, looks_at_the_clocks_before_and_after_a_call);
    tcase_add_test(forward, records_the_size_of_failed_allocations);
    tcase_add_test(forward, forwards_calls_from_cprof_without_a_span);
    suite_add_tcase(suite, forward);

    TCase *names = tcase_create("names");
    tcase_add_test(names, hook_names_match_hooks_def);
    tcase_add_test(names, shows_variants_under_the_plain_name);
    suite_add_tcase(suite, names);
    return suite;
}
