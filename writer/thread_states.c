/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what the threads do. */
#define _GNU_SOURCE
#include "writer/thread_states.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "writer/base/base.h"
#include "writer/stack/stack.h"

#define NATIVE_FRAMES  32u
#define NATIVE_THREADS 64u /* besides the main thread */
#define CHILDREN_DEPTH 4u
#define CHILDREN_MOST  256u
#define THREADS_READ   256u /* each takes three system calls for a file, and the kernel waits */

/* The Python frames of a thread: a part of `lines`, the elements of a JSON array. */
struct frames {
    uint32_t tid;
    size_t at, len;
};

/* What a thread did at the look. */
struct look {
    uint32_t tid;
    uint64_t print;
};

static struct buf lines;      /* of all threads */
static struct frames *frames; /* owned */
static unsigned n_frames, frames_room;
static struct look *looks; /* owned; NULL: there was no look */
static unsigned n_looks;

/* ---- Python ---- */

/* The frames of the thread, begun if it has none yet; NULL: no memory. */
static struct frames *frames_to_add(uint32_t tid)
{
    if (n_frames && frames[n_frames - 1].tid == tid)
        return &frames[n_frames - 1];
    if (n_frames == frames_room) {
        unsigned room = frames_room ? 2 * frames_room : 64;
        struct frames *more = realloc(frames, room * sizeof *more);
        if (!more)
            return NULL;
        frames = more;
        frames_room = room;
    }
    frames[n_frames] = (struct frames){tid, lines.len, 0};
    return &frames[n_frames++];
}

static void take_line(const struct python_line *line, void *unused)
{
    char text[2 * PATH_MAX];
    struct frames *f = frames_to_add(line->tid);
    (void)unused;
    if (!f)
        return;
    int n = snprintf(text, sizeof text, "%.*s(%d): %.*s", (int)line->file_len, line->file,
                     (int)line->line, (int)line->name_len, line->name);
    if (f->len)
        buf_puts(&lines, ", ");
    json_string(&lines, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
    f->len = lines.len - f->at;
}

static void read_python(const struct writer_options *options)
{
    buf_reset(&lines);
    n_frames = 0;
    if (options->python_lines)
        options->python_lines(take_line, NULL);
}

static const struct frames *frames_of(uint32_t tid)
{
    for (unsigned i = 0; i < n_frames; i++)
        if (frames[i].tid == tid && !lines.failed)
            return &frames[i];
    return NULL;
}

static void free_python(void)
{
    buf_free(&lines);
    free(frames);
    frames = NULL;
    n_frames = frames_room = 0;
}

/* ---- the kernel ---- */

static const struct call {
    const char *name;
    long number;
    bool has_file;
} calls[] = {
#define CALL(name)      {#name, SYS_##name, false},
#define FILE_CALL(name) {#name, SYS_##name, true},
#include "writer/waiting_calls.def"
#undef CALL
#undef FILE_CALL
};

struct thread_now {
    uint32_t tid;
    char name[16];
    char state;
    uint64_t print; /* changes with all that the thread does */
    const struct frames *frames;
    long call, argument;  /* call -1: none, or it cannot be told */
    unsigned long sp, pc; /* in that call; 0: unknown */
};

static size_t read_task(uint32_t tid, const char *what, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%" PRIu32 "/%s", tid, what);
    return read_file(path, text, size);
}

/* Whether it is the cprof thread, which is the caller, or the one of io_thread.h. */
static bool is_own(uint32_t tid, const char *name)
{
    return tid == (uint32_t)syscall(SYS_gettid) || strcmp(name, "cprof-files") == 0;
}

/* False: the thread is gone, or is one of cprof's. */
static bool read_thread(uint32_t tid, struct thread_now *now)
{
    char stat[512], call[256];
    *now = (struct thread_now){.tid = tid, .call = -1};
    char *name = read_task(tid, "stat", stat, sizeof stat) ? strchr(stat, '(') : NULL;
    char *end = name ? strrchr(name, ')') : NULL;
    unsigned long user, system;
    if (!end || sscanf(end, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &now->state,
                       &user, &system) != 3)
        return false;
    *end = '\0';
    snprintf(now->name, sizeof now->name, "%.15s", name + 1);
    if (is_own(tid, now->name))
        return false;
    size_t n = read_task(tid, "syscall", call, sizeof call);
    if (sscanf(call, "%ld %lx %*x %*x %*x %*x %*x %lx %lx", &now->call,
               (unsigned long *)&now->argument, &now->sp, &now->pc) != 4)
        now->call = -1;
    now->frames = frames_of(tid);
    now->print = (hash_text(call, n) ^ user) * 31 + system;
    if (now->frames)
        now->print ^= hash_text(lines.data + now->frames->at, now->frames->len);
    return true;
}

/* Calls each() for the main thread and up to THREADS_READ others, but not for cprof's own. */
static void each_thread(void (*each)(const struct thread_now *, void *), void *arg)
{
    static const char all[] = "/proc/self/task/*";
    uint32_t main = (uint32_t)getpid();
    struct thread_now now;
    glob_t tasks;
    if (read_thread(main, &now))
        each(&now, arg);
    if (!find_files(all, &tasks))
        return;
    for (size_t i = 0; i < tasks.gl_pathc && i < THREADS_READ; i++) {
        uint32_t tid = (uint32_t)atol(tasks.gl_pathv[i] + sizeof all - 2);
        if (tid != main && read_thread(tid, &now))
            each(&now, arg);
    }
    globfree(&tasks);
}

/* ---- work besides the threads' CPU time ---- */

struct work_sum {
    struct thread_work work;
    unsigned processes; /* so far */
};

static void add_children(const char *list_path, unsigned depth, struct work_sum *sum);

static void add_process(long pid, unsigned depth, struct work_sum *sum)
{
    char path[64], stat[512];
    unsigned long user, system, waited_user, waited_system;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    const char *end = read_file(path, stat, sizeof stat) ? strrchr(stat, ')') : NULL;
    if (!end || sscanf(end, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu", &user,
                       &system, &waited_user, &waited_system) != 4)
        return;
    long ticks = sysconf(_SC_CLK_TCK);
    sum->work.children_ns += (user + system + waited_user + waited_system) * 1000000000u /
                             (uint64_t)(ticks > 0 ? ticks : 100);
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", pid, pid);
    add_children(path, depth + 1, sum);
}

static void add_children(const char *list_path, unsigned depth, struct work_sum *sum)
{
    char list[4096], *rest = list;
    if (depth > CHILDREN_DEPTH || !read_file(list_path, list, sizeof list))
        return;
    for (char *word; (word = strtok_r(rest, " ", &rest)) && sum->processes++ < CHILDREN_MOST;) {
        if (depth == 1)
            sum->work.children += hash_text(word, strlen(word));
        add_process(atol(word), depth, sum);
    }
}

static void add_work(const struct thread_now *now, void *arg)
{
    struct work_sum *sum = arg;
    char text[512], path[64];
    unsigned long long read, written;
    if (read_task(now->tid, "io", text, sizeof text) &&
        sscanf(text, "rchar: %llu wchar: %llu", &read, &written) == 2)
        sum->work.io_bytes += read + written;
    snprintf(path, sizeof path, "/proc/self/task/%" PRIu32 "/children", now->tid);
    add_children(path, 1, sum);
}

struct thread_work thread_states_work(void)
{
    struct work_sum sum = {.processes = 0};
    struct rusage ended;
    each_thread(add_work, &sum);
    if (getrusage(RUSAGE_CHILDREN, &ended) == 0) {
        sum.work.children_ns +=
            (uint64_t)(ended.ru_utime.tv_sec + ended.ru_stime.tv_sec) * 1000000000u +
            (uint64_t)(ended.ru_utime.tv_usec + ended.ru_stime.tv_usec) * 1000u;
        sum.work.waited_faults = (uint64_t)ended.ru_minflt;
    }
    return sum.work;
}

/* ---- the look ---- */

static void remember(const struct thread_now *now, void *unused)
{
    (void)unused;
    struct look *more = realloc(looks, (n_looks + 1) * sizeof *more);
    if (!more)
        return;
    looks = more;
    looks[n_looks++] = (struct look){now->tid, now->print};
}

static void forget(void)
{
    free(looks);
    looks = NULL;
    n_looks = 0;
}

void thread_states_look(const struct writer_options *options)
{
    forget();
    read_python(options);
    each_thread(remember, NULL);
    free_python();
}

/* ---- JSON ---- */

static void put_call(const struct thread_now *now, struct buf *b)
{
    const struct call *call = NULL;
    for (size_t i = 0; i < sizeof calls / sizeof *calls && !call; i++)
        call = calls[i].number == now->call ? &calls[i] : NULL;
    if (now->call < 0)
        return;
    if (!call) {
        buf_printf(b, ", \"call\": \"system call %ld\"", now->call);
        return;
    }
    buf_printf(b, ", \"call\": \"%s\"", call->name);
    char path[64], file[PATH_MAX];
    snprintf(path, sizeof path, "/proc/self/task/%" PRIu32 "/fd/%ld", now->tid, now->argument);
    ssize_t n = call->has_file ? readlink(path, file, sizeof file) : -1;
    if (n > 0) {
        buf_puts(b, ", \"file\": ");
        json_string(b, file, (size_t)n);
    }
}

/* The return addresses of a thread in a system call, as files and addresses in these. */
static void put_native(const struct thread_now *now, struct buf *b)
{
    uint64_t pcs[NATIVE_FRAMES];
    bool whole;
    unsigned n = now->call < 0 ? 0 : cfi_unwind(now->pc, now->sp, pcs, NATIVE_FRAMES, &whole);
    for (unsigned i = 0; i < n; i++) {
        char text[PATH_MAX + 24];
        const struct elf_object *o = dso_table_find(pcs[i], dso_table_at(pcs[i]));
        int len = snprintf(text, sizeof text, "%s+0x%" PRIx64, o ? o->path : "?",
                           pcs[i] - (o ? o->base : 0));
        buf_puts(b, i ? ", " : ", \"native\": [");
        json_string(b, text, (size_t)len < sizeof text ? (size_t)len : sizeof text - 1);
    }
    if (n)
        buf_puts(b, whole ? "]" : "], \"incomplete\": true");
}

struct put_arg {
    struct buf *b;
    unsigned natives; /* threads with native frames so far */
    bool more;
};

static void put_thread(const struct thread_now *now, void *arg)
{
    struct put_arg *put = arg;
    struct buf *b = put->b;
    buf_printf(b, "%s{\"tid\": %" PRIu32 ", \"name\": ", put->more ? ",\n" : "", now->tid);
    json_string(b, now->name, strlen(now->name));
    buf_printf(b, ", \"state\": \"%c\"", now->state);
    for (unsigned i = 0; i < n_looks; i++)
        if (looks[i].tid == now->tid)
            buf_printf(b, ", \"stands\": %s", looks[i].print == now->print ? "true" : "false");
    put_call(now, b);
    if (now->tid == (uint32_t)getpid() || put->natives++ < NATIVE_THREADS)
        put_native(now, b);
    if (now->frames) {
        buf_puts(b, ", \"python\": [");
        buf_put(b, lines.data + now->frames->at, now->frames->len);
        buf_puts(b, "]");
    }
    buf_puts(b, "}");
    put->more = true;
}

void thread_states_put(const struct writer_options *options, struct buf *b)
{
    struct put_arg put = {.b = b};
    read_python(options);
    buf_puts(b, "[");
    each_thread(put_thread, &put);
    buf_puts(b, "]");
    free_python();
    forget();
}
