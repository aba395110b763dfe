/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of writer/record/thread_log.h: one log per thread, its end and reuse, threads that get
 * no log, forked children. The test plays the cprof thread. */
#include "writer/writer.h"

#include <check.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/alloc.h"
#include "tests/support/capture.h"

#define RING_BYTES 65536u

static unsigned count_logs(void)
{
    unsigned n = 0;
    for (struct thread_log *log = thread_log_first(); log; log = log->next)
        n++;
    return n;
}

static uint64_t lost(enum loss cause)
{
    return atomic_load(&process_losses[cause]);
}

static void in_thread(void *(*body)(void *), void *arg)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, body, arg), 0);
    pthread_join(thread, NULL);
}

static int state_of(struct thread_log *log)
{
    return atomic_load(&log->state);
}

static void *get(void *out)
{
    *(struct thread_log **)out = thread_log_get();
    return NULL;
}

START_TEST(gives_no_log_before_the_start)
{
    ck_assert_ptr_null(thread_log_get());
    ck_assert_ptr_null(thread_log_first());
    ck_assert_uint_eq(lost(LOSS_NO_THREAD), 0); /* nobody asked for recording */
}
END_TEST

START_TEST(gives_each_thread_its_own_log)
{
    ck_assert(thread_log_start(RING_BYTES));
    struct thread_log *mine = thread_log_get(), *other = NULL;
    ck_assert_ptr_nonnull(mine);
    ck_assert_ptr_eq(thread_log_get(), mine);
    ck_assert_ptr_eq(thread_log_self, mine);
    ck_assert_uint_eq(atomic_load(&mine->tid), (uint32_t)syscall(SYS_gettid));
    ck_assert_int_eq(state_of(mine), THREAD_LIVE);
    ck_assert_uint_ge(mine->ring.slots * RECORD_SLOT, RING_BYTES);
    in_thread(get, &other);
    ck_assert_ptr_nonnull(other);
    ck_assert_ptr_ne(other, mine);
    ck_assert_uint_ne(other->number, mine->number);
    ck_assert_int_eq(state_of(other), THREAD_ENDED);
    ck_assert_uint_eq(count_logs(), 2);
}
END_TEST

START_TEST(rounds_rings_up_to_powers_of_two)
{
    static const struct {
        uint64_t bytes, slots;
    } cases[] = {{0, 64},       {4096, 64},     {4097, 128},
                 {65536, 1024}, {100000, 2048}, {8u << 20, 131072}};
    const unsigned i = (unsigned)_i;
    ck_assert(thread_log_start(cases[i].bytes));
    for (unsigned n = 0; n < 3; n++) {
        struct thread_log *log = thread_log_get();
        ck_assert_ptr_nonnull(log);
        ck_assert_uint_eq(log->ring.slots, cases[i].slots);
        ck_assert_uint_eq((uintptr_t)log->ring.base % 4096,
                          0); /* MADV_POPULATE_WRITE needs whole pages */
        memset(log->ring.base, (int)n, cases[i].slots * RECORD_SLOT);
        ck_assert_uint_eq(log->number, n + 1);
        ck_assert_int_eq(state_of(log), THREAD_LIVE);
        thread_log_self = NULL; /* as if by another thread */
    }
}
END_TEST

START_TEST(keeps_an_ended_log_until_it_is_recycled)
{
    ck_assert(thread_log_start(RING_BYTES));
    struct thread_log *first = NULL, *second = NULL, *third = NULL;
    in_thread(get, &first);
    in_thread(get, &second);
    ck_assert_ptr_ne(first, second);
    uint64_t ids = first->next_id;
    thread_log_recycle(first);
    in_thread(get, &third);
    ck_assert_ptr_eq(third, first);
    ck_assert_uint_eq(count_logs(), 2);
    ck_assert_uint_ge(third->next_id, ids); /* an id is never used twice */
    ck_assert_int_eq(state_of(third), THREAD_ENDED);
}
END_TEST

static void *leave_open(void *out)
{
    struct thread_log *log = thread_log_get();
    static const char data[] = "data";
    struct open_span *span = span_open(log, &log, CAT_CPU_OP, "outer", 5);
    memcpy(span_data_room(log, span, 4), data, 4);
    span_data_done(log, span, DATA_ARGS, 4);
    span_open(log, log, CAT_USER_ANNOTATION, "inner", 5);
    atomic_store(&log->torch_thread, 7);
    *(struct thread_log **)out = log;
    return NULL;
}

START_TEST(thread_end_marks_open_spans_unfinished)
{
    ck_assert(thread_log_start(RING_BYTES));
    struct thread_log *log = NULL;
    in_thread(leave_open, &log);
    const struct record *r = ring_peek(&log->ring, ring_head(&log->ring));
    ck_assert_ptr_nonnull(r);
    ck_assert_int_eq(strncmp(record_name(r).at, "inner", 5), 0); /* children first */
    ck_assert_uint_eq(r->flags, REC_UNFINISHED);
    uint64_t parent = r->parent;
    ring_take(&log->ring, r);
    r = ring_peek(&log->ring, ring_head(&log->ring));
    ck_assert_int_eq(strncmp(record_name(r).at, "outerdata", 9), 0);
    ck_assert_uint_eq(r->flags, REC_UNFINISHED);
    ck_assert_uint_eq(r->id, parent);
    ring_take(&log->ring, r);
    ck_assert_ptr_null(ring_peek(&log->ring, ring_head(&log->ring)));
    thread_log_recycle(log);
    ck_assert_int_eq(state_of(log), THREAD_FREE);
    ck_assert_uint_eq(atomic_load(&log->depth), 0);
    ck_assert_uint_eq(log->text_used, 0);
    ck_assert_uint_eq(log->data_used, 0);
    ck_assert_uint_eq(atomic_load(&log->torch_thread), 0);
}
END_TEST

/* ---- destructors of others that run after ours ---- */

static pthread_key_t late_key;
static struct thread_log *late_log;
static unsigned late_rounds;

static void late_destructor(void *log)
{
    late_log = thread_log_get();
    if (late_rounds++ == 0)
        pthread_setspecific(late_key, log); /* once more, in the next round of destructors */
}

static void *with_late_destructor(void *unused)
{
    pthread_setspecific(late_key, thread_log_get());
    return unused;
}

/* Records of such a destructor are lost and counted. */
START_TEST(later_destructors_get_no_log)
{
    ck_assert(thread_log_start(RING_BYTES));
    pthread_key_create(&late_key, late_destructor);
    in_thread(with_late_destructor, NULL);
    ck_assert_uint_eq(late_rounds, 2);
    ck_assert_ptr_null(late_log);
    ck_assert_uint_eq(lost(LOSS_NO_THREAD), 2);
}
END_TEST

START_TEST(counts_each_log_without_memory)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return; /* their shadow memory is above any limit */
#endif
    ck_assert(thread_log_start(UINT64_C(1) << 48)); /* more than the address space has */
    uint64_t before = lost(LOSS_NO_THREAD);
    ck_assert_ptr_null(thread_log_get());
    ck_assert_ptr_null(thread_log_get());
    ck_assert_uint_eq(lost(LOSS_NO_THREAD), before + 2);
    ck_assert_uint_eq(count_logs(), 0);
}
END_TEST

/* Whether the mapping of the address opts out of huge pages ("nh" in smaps, proc(5)). */
static bool has_small_pages(const void *address)
{
    char line[512];
    uintptr_t from, to;
    bool here = false, small = false;
    FILE *f = fopen("/proc/self/smaps", "re");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
            here = (uintptr_t)address >= from && (uintptr_t)address < to;
        else if (here && strncmp(line, "VmFlags:", 8) == 0)
            small = strstr(line, " nh") != NULL;
    }
    if (f)
        fclose(f);
    return small;
}

/* Many distributions give huge pages to every mapping that does not opt out. Then the first event
 * of each thread would take 2 MB. */
START_TEST(uses_no_huge_pages)
{
    if (access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0)
        return; /* this kernel has none */
    ck_assert(thread_log_start(8u << 20));
    struct thread_log *log = thread_log_get();
    ck_assert_ptr_nonnull(log);
    ck_assert(has_small_pages(log));
    ck_assert(has_small_pages(log->ring.base));
    ck_assert(has_small_pages((char *)log->ring.base + (8u << 20) - 1));
}
END_TEST

static unsigned count_mappings(void)
{
    unsigned n = 0;
    int c;
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && (c = fgetc(f)) != EOF)
        n += c == '\n';
    if (f)
        fclose(f);
    return n;
}

/* A process may have 65,530 mappings (vm.max_map_count). When none is left, it gets no memory and
 * no threads. */
START_TEST(many_threads_take_few_mappings)
{
    enum { THREADS = 256 };
    ck_assert(thread_log_start(8u << 20));
    unsigned before = count_mappings();
    for (unsigned i = 0; i < THREADS; i++) {
        struct thread_log *log = thread_log_get();
        ck_assert_ptr_nonnull(log);
        span_open(log, &log, CAT_CPU_OP, "span", 4);
        ck_assert_uint_ne(span_close(log, &log), 0);
        thread_log_self = NULL; /* as if by another thread */
    }
    ck_assert_uint_eq(count_logs(), THREADS);
    ck_assert_uint_gt(before, 0);
    ck_assert_uint_le(count_mappings(), before + THREADS / 8);
}
END_TEST

/* Rings take an eighth of the rest of the address space. Each ring is no larger than the one
 * before, and in the end threads get no log. */
START_TEST(takes_little_of_a_limited_address_space)
{
    enum { RING = 8 << 20, LEFT = 512 << 20 };
    if (!alloc_is_ours) {
        fprintf(
            stderr,
            "thread_log: takes_little_of_a_limited_address_space is skipped under sanitizers and "
            "valgrind, whose memory is above any limit\n");
        return;
    }
    capture_start();
    ck_assert(thread_log_start(RING));
    ck_assert_uint_eq(writer_space_left(), UINT64_MAX);
    struct rlimit limit = {UINT64_C(1) << 40, UINT64_C(1) << 40};
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = limit.rlim_max = limit.rlim_cur - writer_space_left() + LEFT;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    uint64_t taken = 0, least = RING, before = lost(LOSS_NO_THREAD);
    unsigned n = 0;
    struct thread_log *log;
    while (n < 1000 && (log = thread_log_get())) {
        uint64_t bytes = log->ring.slots * RECORD_SLOT;
        ck_assert_uint_le(bytes, least);
        least = bytes;
        taken += bytes + sizeof *log;
        n++;
        thread_log_self = NULL; /* as if by another thread */
    }
    ck_assert_uint_gt(n, 20);
    ck_assert_uint_le(taken, LEFT / 8);
    ck_assert_uint_le(least, 256 << 10);
    ck_assert_uint_ge(writer_space_left(), LEFT / 8 * 6);
    ck_assert_uint_eq(lost(LOSS_NO_THREAD), before + 1);
    ck_assert_ptr_null(thread_log_get()); /* reported once */
    ck_assert_uint_eq(capture_lines(capture_stderr(), "the address space is limited"), 1);
}
END_TEST

/* ---- many threads at once ---- */

static _Atomic unsigned mistakes;

static void *come_and_go(void *unused)
{
    struct thread_log *log = thread_log_get();
    if (!log || atomic_load(&log->tid) != (uint32_t)syscall(SYS_gettid) ||
        state_of(log) != THREAD_LIVE)
        atomic_fetch_add(&mistakes, 1);
    span_open(log, &log, CAT_CPU_OP, "span", 4);
    if (span_close(log, &log) == 0)
        atomic_fetch_add(&mistakes, 1);
    return unused;
}

/* Empties all logs and recycles those of ended threads, as the cprof thread does. */
static unsigned collect(void)
{
    unsigned records = 0;
    for (struct thread_log *log = thread_log_first(); log; log = log->next) {
        bool ended = state_of(log) == THREAD_ENDED;
        uint64_t until = ring_head(&log->ring);
        const struct record *r;
        while ((r = ring_peek(&log->ring, until))) {
            records++;
            ring_take(&log->ring, r);
        }
        if (ended)
            thread_log_recycle(log);
    }
    return records;
}

/* Pages are never given back. If each thread continued where the last one ended, threads of a few
 * events would touch every page of a ring, one after another. */
START_TEST(short_threads_take_few_pages)
{
    enum { THREADS = 4 * RING_BYTES / RECORD_SLOT, PAGES = RING_BYTES / 4096 };
    unsigned char present[PAGES];
    ck_assert(thread_log_start(RING_BYTES));
    for (unsigned i = 0; i < THREADS; i++) {
        in_thread(come_and_go, NULL);
        ck_assert_uint_eq(collect(), 1);
    }
    ck_assert_uint_eq(atomic_load(&mistakes), 0);
    ck_assert_uint_eq(count_logs(), 1);
    ck_assert_int_eq(mincore(thread_log_first()->ring.base, RING_BYTES, present), 0);
    unsigned n = 0;
    for (unsigned i = 0; i < PAGES; i++)
        n += present[i] & 1u;
    ck_assert_uint_le(n, 2);
}
END_TEST

START_TEST(reuses_logs_of_ended_threads)
{
    enum { WAVES = 40, THREADS = 16 };
    ck_assert(thread_log_start(RING_BYTES));
    unsigned records = 0;
    for (unsigned wave = 0; wave < WAVES; wave++) {
        pthread_t threads[THREADS];
        for (unsigned i = 0; i < THREADS; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
        records += collect();
        for (unsigned i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        records += collect();
    }
    ck_assert_uint_eq(atomic_load(&mistakes), 0);
    ck_assert_uint_eq(records, WAVES * THREADS);
    ck_assert_uint_le(count_logs(), THREADS); /* logs are reused */
    ck_assert_uint_eq(lost(LOSS_NO_THREAD), 0);
}
END_TEST

/* While the cprof thread is delayed, logs of threads that come and go must not use up the program's
 * memory. */
START_TEST(limits_ended_logs_that_nobody_empties)
{
    enum { THREADS = 6000, MOST = 4096 };
    ck_assert(thread_log_start(RING_BYTES));
    struct thread_log *log;
    for (unsigned i = 0; i < THREADS; i++)
        in_thread(get, &log);
    ck_assert_ptr_null(log);
    ck_assert_uint_eq(count_logs(), MOST);
    ck_assert_uint_eq(lost(LOSS_NO_THREAD), THREADS - MOST);
    collect();
    in_thread(get, &log);
    ck_assert_ptr_nonnull(log);
    ck_assert_uint_eq(count_logs(), MOST);
    ck_assert_uint_eq(lost(LOSS_NO_THREAD), THREADS - MOST);
}
END_TEST

/* The limit is for ended threads. Each live thread gets a log, however many there are. */
START_TEST(live_threads_do_not_count_as_ended)
{
    enum { THREADS = 5000 };
    ck_assert(thread_log_start(RING_BYTES));
    for (unsigned i = 0; i < THREADS; i++) {
        ck_assert_ptr_nonnull(thread_log_get());
        thread_log_self = NULL; /* as if by another thread */
    }
    ck_assert_uint_eq(count_logs(), THREADS);
}
END_TEST

static pthread_barrier_t together;

static void *get_together(void *unused)
{
    pthread_barrier_wait(&together);
    struct thread_log *log = come_and_go(unused);
    pthread_barrier_wait(&together); /* all threads are alive until here, so no log can be reused */
    return log;
}

/* More threads ask at the same time than a slab has logs. */
START_TEST(gives_many_threads_logs_at_once)
{
    enum { THREADS = 100 };
    ck_assert(thread_log_start(RING_BYTES));
    pthread_barrier_init(&together, NULL, THREADS);
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, get_together, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&together);
    ck_assert_uint_eq(atomic_load(&mistakes), 0);
    ck_assert_uint_eq(count_logs(), THREADS);
    ck_assert_uint_eq(collect(), THREADS);
}
END_TEST

static void *count_allocations(void *out)
{
    uint64_t before = alloc_count();
    bool good = thread_log_get() != NULL;
    *(uint64_t *)out = good ? alloc_count() - before : UINT64_MAX;
    return NULL;
}

/* The program may replace calloc(), and its version may hold a lock. */
START_TEST(makes_logs_without_calloc)
{
    pthread_key_t of_program;
    uint64_t allocations = UINT64_MAX;
    if (!alloc_is_ours)
        return;
    thread_log_take_key();
    for (unsigned i = 0; i < 100; i++)
        ck_assert_int_eq(pthread_key_create(&of_program, NULL), 0);
    ck_assert(thread_log_start(RING_BYTES));
    ck_assert_ptr_nonnull(thread_log_get()); /* maps memory for the next log, too */
    in_thread(count_allocations, &allocations);
    ck_assert_uint_eq(allocations, 0);
}
END_TEST

START_TEST(forked_child_gets_no_log)
{
    ck_assert(thread_log_start(RING_BYTES));
    ck_assert_ptr_nonnull(thread_log_get());
    pid_t child = fork();
    if (child == 0) {
        thread_log_abandon();
        struct thread_log *later = thread_log_first();
        bool good = !thread_log_get();
        pthread_t thread;
        good = good && pthread_create(&thread, NULL, get, &later) == 0;
        good = good && pthread_join(thread, NULL) == 0;
        _exit(good && !later ? 0 : 1);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(state_of(thread_log_self), THREAD_LIVE);
}
END_TEST

START_TEST(counts_losses_of_thread_and_process)
{
    ck_assert(thread_log_start(RING_BYTES));
    struct thread_log *log = thread_log_get();
    thread_log_lost(log, LOSS_MARKER, 3);
    thread_log_lost(log, LOSS_MARKER, 4);
    thread_log_lost(NULL, LOSS_MARKER, 5);
    ck_assert_uint_eq(atomic_load(&log->losses[LOSS_MARKER]), 7);
    ck_assert_uint_eq(lost(LOSS_MARKER), 5);
}
END_TEST

Suite *suite_thread_log(void)
{
    Suite *suite = suite_create("thread_log");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 30);
    tcase_add_test(all, gives_no_log_before_the_start);
    tcase_add_test(all, gives_each_thread_its_own_log);
    tcase_add_loop_test(all, rounds_rings_up_to_powers_of_two, 0, 6);
    tcase_add_test(all, keeps_an_ended_log_until_it_is_recycled);
    tcase_add_test(all, thread_end_marks_open_spans_unfinished);
    tcase_add_test(all, later_destructors_get_no_log);
    tcase_add_test(all, counts_each_log_without_memory);
    tcase_add_test(all, uses_no_huge_pages);
    tcase_add_test(all, many_threads_take_few_mappings);
    tcase_add_test(all, takes_little_of_a_limited_address_space);
    tcase_add_test(all, short_threads_take_few_pages);
    tcase_add_test(all, reuses_logs_of_ended_threads);
    tcase_add_test(all, limits_ended_logs_that_nobody_empties);
    tcase_add_test(all, live_threads_do_not_count_as_ended);
    tcase_add_test(all, gives_many_threads_logs_at_once);
    tcase_add_test(all, makes_logs_without_calloc);
    tcase_add_test(all, forked_child_gets_no_log);
    tcase_add_test(all, counts_losses_of_thread_and_process);
    suite_add_tcase(suite, all);
    return suite;
}
