/* SPDX-License-Identifier: Apache-2.0 */
/* Start and stop, in this order.
 *
 *   constructor   every process the job starts runs it, or before it the first hook that is reached
 *                 (take_start()): copy settings, read the affinity mask, set three variables. No
 *                 thread, no file, no output.
 *   wake-up       first CUDA call, driver injection, marker or tensor allocation: settings, clock,
 *                 rank, fork handlers, exit handler, then torch's callbacks and step 0. The cprof
 *                 thread starts when the first step needs it.
 *   CUDA          the driver calls InitializeInjection at cuInit: the GPU side starts, before the
 *                 first context.
 *   exit          stop calling torch, last edge, let the cprof thread finish its files, one line.
 *   forked child  inert for good. */
#define _GNU_SOURCE
#include "preload/core/core.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cupti/gpu_trace.h"
#include "preload/delivery/delivery.h"
#include "preload/settings/settings.h"
#include "preload/link/link.h"
#include "preload/hooks/hooks.h"
#include "preload/markers/markers.h"
#include "preload/injection.h"
#include "preload/stacks/stacks.h"
#include "preload/steps/steps.h"
#include "preload/torch/torch.h"
#include "writer/writer.h"

#define ADDRESS_SPACE_MB 256ull /* rings of some threads, tables, two stacks */
#define HELD_BYTES       64000000u
#define HOLD_BYTES       (4u << 20)
#define FLIGHT_BYTES     64000000u
#define FLIGHT_DEFAULT   32000000u
#define SAVE_MORE_MS     1000 /* after CPROF_DRAIN_DEADLINE_MS another thread may end the process */

static _Atomic pid_t exit_by; /* the thread that saves; 0: none yet */
static _Atomic bool exit_done;
static cpu_set_t affinity;
static bool affinity_known;

/* False: no memory. What the user has set stays, but for another copy of this library, which would
 * do nothing. */
static bool inject(const char *variable, const char *path)
{
    const char *told = config_env(variable), *slash = told ? strrchr(told, '/') : NULL;
    bool is_copy = slash && strcmp(slash, strrchr(path, '/')) == 0;
    return setenv(variable, path, is_copy && strcmp(told, path) != 0) == 0;
}

/* Gives the driver, NVTX and ITT this path of the library, so that they call it when they come
 * alive. */
static void inject_all(const char *path)
{
    bool done = inject("CUDA_INJECTION64_PATH", path);
    const char *told = config_env("CUDA_INJECTION64_PATH");
    life_set_injected(told && strcmp(told, path) == 0);
    done &= inject("NVTX_INJECTION64_PATH", path);
    done &= inject("INTEL_LIBITTNOTIFY64", path);
    if (!done)
        log_warn("no memory for variables: the GPU is recorded from the first CUDA call on, NVTX "
                 "and ITT may be missing");
}

/* Another copy of this library is the one: it came with the program first, or this one is in a
 * namespace of its own (dlmopen()), where the three variables lead NVTX and ITT clients, too. A
 * process has one profiler. */
static bool is_second(const struct link_map *self)
{
    Lmid_t space = LM_ID_BASE;
    return !copies_hide() || dlinfo((void *)(uintptr_t)self, RTLD_DI_LMID, &space) != 0 ||
           space != LM_ID_BASE;
}

/* True when the library came with the program (LD_PRELOAD, ld.so.preload, linked): the C library
 * stands behind it in the loader's list, or LD_PRELOAD names it. One that was opened late, through
 * one of the three variables, stays inert. */
static bool loaded_first(const struct link_map *self)
{
    const char *name = strrchr(self->l_name, '/') + 1;
    const char *preload = config_env("LD_PRELOAD");
    if (is_second(self))
        return false;
    if (preload && strstr(preload, name))
        return true;
    for (const struct link_map *before = self->l_prev; before; before = before->l_prev)
        if (strstr(before->l_name, "/libc.so"))
            return false;
    return true;
}

/* Makes a path of LD_PRELOAD absolute, because the program may change its folder. NULL: it has no
 * slash, so the loader searched for it, or there is no such file. */
static const char *absolute_library(const char *path, char room[PATH_MAX])
{
    return path[0] == '/' ? path : strchr(path, '/') ? realpath(path, room) : NULL;
}

static void mark_symbol(void)
{
    steps_mark(STEP_SYMBOL, 0);
}

static void look_around(void)
{
    struct link_map *self = NULL;
    Dl_info info;
    config_capture();
    log_start();
    process_start(); /* their wrappers forward also where cprof is off */
    thread_count_start();
    if (!dladdr1((const void *)(uintptr_t)&cprof_life, &info, (void **)&self, RTLD_DL_LINKMAP))
        self = NULL;
    static char room[PATH_MAX];
    const char *path = self ? absolute_library(self->l_name, room) : NULL;
    if (config_enabled() && path && loaded_first(self)) {
        life_set_path(path);
        names_capture();
        identity_capture();
        affinity_known = sched_getaffinity(0, sizeof affinity, &affinity) == 0;
        inject_all(path);
        symbol_start(mark_symbol);
        last_thread_start();
        thread_log_take_key();
        nvtx_take_key();
    } else {
        atomic_store(&cprof_life, LIFE_OVER);
        path = copies_first() ? absolute_library(copies_first(), room) : NULL;
        if (config_enabled() &&
            path) /* an older build as the first leaves variables that name this copy */
            inject_all(path);
    }
}

/* Reads the environment and arguments of the start, once: in the constructor, or earlier when the
 * constructor of a linked library reaches a hook, because the loader runs those first. False:
 * another thread, or a caller of this function, is reading. */
static bool take_start(void)
{
    enum { NOT_YET, NOW, DONE };
    static _Atomic int state;
    int not_yet = NOT_YET;
    if (atomic_compare_exchange_strong(&state, &not_yet, NOW)) {
        int saved = errno;
        look_around();
        errno = saved;
        atomic_store(&state, DONE);
    }
    return atomic_load(&state) == DONE;
}

/* The C library gives constructors the arguments of main(). */
__attribute__((constructor)) static void loaded(int argc, char **argv)
{
    names_take_arguments(argc, argv);
    take_start();
}

/* CUPTI calls hooked functions on the cprof thread. There they only forward, for good. */
static void cprof_thread_began(void)
{
    guard_enter();
}

/* A program without Python shows native frames: otherwise the args would have no stack at all. */
static int frames_in_args(const struct config *config)
{
    bool python = config->stack_args == STACKS_PYTHON;
    return python && config->with_stack && !python_find() ? STACKS_ALL : config->stack_args;
}

static struct flight_options flight_options(const struct config *config)
{
    struct flight_options o = {.bytes = FLIGHT_BYTES,
                               .slow = (double)config->flight_slow,
                               .hang_ns = (uint64_t)config->flight_hang_s * 1000000000u};
    uint64_t n = (uint64_t)config_flight_most();
    if (config->flight == CONFIG_FLIGHT_OFF)
        return o;
    o.what = config->flight_what;
    if (config->flight == CONFIG_FLIGHT_ON)
        o.bytes = FLIGHT_DEFAULT;
    else if (config->flight == CONFIG_FLIGHT_STEPS)
        o.steps = n;
    else if (config->flight == CONFIG_FLIGHT_SECONDS)
        o.ns = n * 1000000000u;
    else
        o.bytes = n * 1000000u;
    return o;
}

static bool start_writer(const struct config *config)
{
    bool records_gpu = config->activities & CONFIG_ACTIVITY_CUDA;
    struct writer_options options = {
        .gzip = identity_gzip(),
        .overwrite = config->overwrite,
        .record_shapes = config->record_shapes,
        .profile_memory = config->profile_memory,
        .with_stack = config->with_stack,
        .stacks_in_args = frames_in_args(config),
        .with_modules = config->with_modules,
        .with_flops = config->with_flops,
        .continuous = config->schedule_scope == SCHEDULE_NONE,
        .ring_bytes = (uint64_t)config->ring_kb << 10,
        .max_trace_bytes = (uint64_t)config->max_trace_mb << 20,
        .summary_bytes = (uint64_t)config->summary_mb << 20,
        .held_bytes = HELD_BYTES,
        .hold_bytes = HOLD_BYTES,
        .flight = flight_options(config),
        .exit_deadline_ms = config->drain_deadline_ms,
        .run_started_ns = names_start_ns(),
        .affinity = affinity_known ? &affinity : NULL,
        .affinity_size = sizeof affinity,
        .gpu = records_gpu ? gpu_source() : NULL,
        .states = records_gpu && config->gpu_telemetry ? gpu_states() : NULL,
        .thread_began = cprof_thread_began,
        .identity = identity_fill,
        .trace_path = identity_trace_path,
        .trace_pattern = identity_trace_pattern,
        .renamed_by = identity_renamed_by(),
        .shares_second = identity_shares_second(),
        .ranks_wrote = identity_ranks_wrote,
        .python_lines = pythreads_read,
        .metrics_path = config->metrics[0] ? identity_metrics_path : NULL,
        .run_name = identity_run_name(),
        .trace_ready = life_trace_ready,
        .told_elsewhere = saved_are_reported,
        .each_pass = life_poll,
        .after_deadline_ms = config->upload_deadline_ms,
    };
    if (config->with_flops)
        peaks_read(config->peak_tflops, &options.peaks);
    if (options.flight.what)
        pythreads_start();
    options.dtype_names = torch_dtype_names(&options.n_dtypes);
    return writer_start(&options);
}

/* Unlike a function of atexit(), it is told the exit code. */
static void at_exit_with(int status, void *unused)
{
    (void)unused;
    if (status)
        writer_ends_by("exit code", status & 0xff);
    cprof_at_exit();
}

/* The driver has registered its own exit handler by the end of cuInit or of the first context. In a
 * program with a static CUDA runtime no CUDA call passes a hook, so this is the only notice. */
static void driver_ready(void)
{
    static _Atomic unsigned times;
    if (atomic_load(&times) < 2 && atomic_fetch_add(&times, 1) < 2)
        on_exit(at_exit_with, NULL);
}

static void configure_gpu(const struct config *config)
{
    struct gpu_options options = {.buffer_bytes = (uint64_t)config->gpu_buffer_kb << 10,
                                  .whole_graphs = config->gpu_graphs == CONFIG_GRAPHS_WHOLE,
                                  .memory = config->profile_memory,
                                  .dump_path = config->gpu_dump[0] ? config->gpu_dump : NULL,
                                  .driver_ready = driver_ready};
    gpu_configure(&options);
}

/* Under a limit of the address space (ulimit -v), memory that cprof maps is missing to the
 * program. */
static bool address_space_allows(void)
{
    uint64_t left = writer_space_left();
    if (left >= ADDRESS_SPACE_MB << 20)
        return true;
    log_warn("the address space is limited (RLIMIT_AS or RLIMIT_DATA, ulimit -v or -d) and %llu MB "
             "of it are left; recording takes up to %u MB, so nothing is recorded",
             (unsigned long long)left >> 20, (unsigned)ADDRESS_SPACE_MB);
    return false;
}

static void start_parts(enum wake_reason reason)
{
    static const char *const wakers[] = {[WAKE_CUDA] = "a CUDA call",
                                         [WAKE_INJECTION] = "the driver, NVTX or ITT",
                                         [WAKE_MARKER] = "a marker",
                                         [WAKE_TORCH] = "torch's allocator",
                                         [WAKE_COLLECTIVE] = "NCCL or MPI"};
    config_load();
    log_debug("woken by %s", wakers[reason]);
    config_print();
    if (copies_hidden())
        log_warn("%s is another copy of cprof, which LD_PRELOAD names, too; it does nothing, %s "
                 "records",
                 copies_hidden(), cprof_path());
    const struct config *config = config_get();
    if (!address_space_allows()) {
        atomic_store(&cprof_life, LIFE_OVER);
        return;
    }
    identity_start(config);
    configure_gpu(config);
    post_save_start(config);
    trigger_configure(config);
    if (!start_writer(config)) {
        atomic_store(&cprof_life, LIFE_OVER);
        return;
    }
    if (!fork_start()) {
        log_error("no memory for the fork handlers; nothing is recorded");
        atomic_store(&cprof_life, LIFE_OVER);
        return;
    }
    on_exit(at_exit_with, NULL);
    at_quick_exit(cprof_at_exit);
    stack_capture_start(config);
    if (config->with_modules && config->activities & CONFIG_ACTIVITY_CPU)
        torch_modules_start();
    torch_start(config);
    bool helper = identity_below_traced() && !config->trace_children;
    handlers_start(config, helper);
    steps_start(config, !helper);
    if (config->step == CONFIG_STEP_FORWARD)
        torch_follow_forward();
    atomic_store_explicit(&cprof_life, LIFE_AWAKE, memory_order_release);
    if (!helper) {
        forked_start();
        trigger_start(config);
        injection_say_taken(config);
    }
    symbol_look();
}

static void wake(enum wake_reason reason)
{
    if (!take_start() || !life_begin_waking())
        return;
    int saved = errno, cancel = cancel_off();
    start_parts(reason);
    cancel_back(cancel);
    errno = saved;
}

/* For `cprof doctor`: writes the warnings of a wake-up about the settings, without starting a part.
 * The process stays without cprof. Returns 0 when cprof is off here. */
__attribute__((visibility("default"))) int cprof_try_settings(void);
int cprof_try_settings(void)
{
    int asleep = LIFE_ASLEEP;
    struct flop_peaks peaks;
    if (!take_start() || !atomic_compare_exchange_strong(&cprof_life, &asleep, LIFE_OVER))
        return false;
    const struct config *config = config_get();
    address_space_allows();
    identity_start(config);
    post_save_start(config);
    if (config->with_flops)
        peaks_read(config->peak_tflops, &peaks);
    handlers_try(config);
    trigger_try(config);
    earlier_run_in_the_way(&(struct writer_options){.overwrite = config->overwrite,
                                                    .run_started_ns = names_start_ns(),
                                                    .trace_pattern = identity_trace_pattern,
                                                    .renamed_by = identity_renamed_by(),
                                                    .shares_second = identity_shares_second()});
    return true;
}

/* Another thread that ends the process (a watchdog's _exit) would end it in the middle of the
 * save. */
static void wait_for_save(pid_t saver)
{
    if (saver == (pid_t)syscall(SYS_gettid))
        return; /* again, or in a signal handler on top of it */
    int64_t most = config_get()->drain_deadline_ms + SAVE_MORE_MS;
    for (int64_t ms = 0; ms < most && !atomic_load(&exit_done); ms++)
        usleep(1000);
}

static void at_exit(void)
{
    pid_t saver = 0;
    int saved = errno;
    if ((int)getpid() != cprof_owner_pid())
        return;
    if (atomic_load(&cprof_life) != LIFE_AWAKE && !atomic_load(&exit_by))
        return;
    if (!atomic_compare_exchange_strong(&exit_by, &saver, (pid_t)syscall(SYS_gettid))) {
        wait_for_save(saver);
        process_say_outlived();
        errno = saved;
        return;
    }
    for (unsigned i = 0; i < life_table.n_parts; i++)
        if (life_table.parts[i].stop)
            life_table.parts[i].stop();
    atomic_store(&cprof_life, LIFE_OVER);
    bool entered = guard_enter();
    if (writer_finish())
        trigger_over();
    else
        handlers_say_stuck();
    atomic_store(&exit_done, true);
    if (entered)
        guard_leave();
    errno = saved;
}

static void in_child(void)
{
    atomic_store(&cprof_life, LIFE_OVER);
    for (unsigned i = 0; i < life_table.n_parts; i++)
        if (life_table.parts[i].child)
            life_table.parts[i].child();
}

/* ---- the table ---- */

static const struct part parts[] = {
#define PART(name, ...) {__VA_ARGS__},
#include "preload/parts.def"
};

const struct life_table life_table = {.wake = wake,
                                      .at_exit = at_exit,
                                      .in_child = in_child,
                                      .parts = parts,
                                      .n_parts = sizeof parts / sizeof *parts};
