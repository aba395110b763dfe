/* SPDX-License-Identifier: Apache-2.0 */
/* Reads completed buffers on the cprof thread and translates their records. */
#include "cupti/collect.h"

#include <stdlib.h>

#include "cupti/buffers.h"
#include "cupti/clock_map.h"
#include "cupti/clock_pairs.h"
#include "cupti/devices.h"
#include "cupti/dump.h"
#include "cupti/gpu_names.h"
#include "cupti/records.h"
#include "cupti/translate.h"

#define PAIR_NS         5000000u /* between two readings of the clocks: one in each pass, not two */
#define NEAR            (UINT64_C(1) << 47) /* ticks, half a day or more; closer: one clock */
#define OUT_OF_ORDER    5000u               /* ticks */
#define RECORDS_AT_ONCE 50000u     /* then the rings are drained; CUPTI's buffers can wait */
#define DEVICE_NS       500000000u /* two flushes */
#define KERNELS_LOOKED  16u        /* first kernels; if none of them has a time, CUPTI gives none */

static const struct cupti *api;
static struct translate reader;
static struct cupti_clock clocks;
/* any thread sets, cprof thread reads; seq_cst: session.c's begin_work() */
static _Atomic bool stopped;
static const char *folder;
static uint64_t paired_ns, ticks_now;
static struct buffer *waiting; /* completed buffers, oldest first */
static bool distinct;          /* stamps of CLOCK_REALTIME and ticks differ by NEAR or more */
static bool cupti_uses_ticks;  /* a client has made clock_ticks() CUPTI's clock */
static unsigned kernels, kernels_untimed;

/* ---- time ---- */

static bool near(uint64_t a, uint64_t b)
{
    return (a > b ? a - b : b - a) < NEAR;
}

static int system_time(uint64_t *ns)
{
    *ns = (uint64_t)clock_wall_now();
    return CUPTI_OK;
}

/* Whether CUPTI's clock is clock_ticks(): then its reading lies between two of clock_ticks(),
 * except for out-of-order execution. */
static bool reads_ticks(void)
{
    uint64_t stamp = 0, before = clock_ticks();
    bool done = api->get_timestamp(&stamp) == CUPTI_OK;
    uint64_t after = clock_ticks();
    return done && stamp + OUT_OF_ORDER >= before && stamp <= after + OUT_OF_ORDER;
}

/* Kineto gives CUPTI a clock that counts like clock_ticks(). Stamps of CLOCK_REALTIME may still
 * come, so the map continues with that clock. */
static void read_clocks(void)
{
    ticks_now = clock_ticks();
    cupti_uses_ticks = reads_ticks();
    struct clock_pair own;
    bool done =
        cupti_clock_read(&clocks, cupti_uses_ticks ? system_time : api->get_timestamp, &own);
    /* the older pairs first: while this thread is preempted, calls read newer ones */
    clock_pairs_take(&clocks, api->get_timestamp, done ? own.ticks : clock_ticks());
    if (done)
        cupti_clock_add(&clocks, own.cupti, own.ticks);
    const struct clock_pair *last = cupti_clock_last(&clocks);
    distinct = last && !near(last->cupti, ticks_now);
}

void collect_clock(void)
{
    uint64_t now = clock_monotonic_ns();
    if (now - paired_ns < PAIR_NS)
        return;
    paired_ns = now;
    clocks.rate = clock_ticks_per_second() / 1e9;
    read_clocks();
}

/* Decides for each stamp which clock it is from, because another client can change CUPTI's. Kineto
 * sets a clock that counts ticks and leaves it set, but CLOCK_REALTIME may still stamp the first
 * kernels (pytorch#192021). After cuptiFinalize() CUPTI uses CLOCK_REALTIME again. The two differ
 * by decades. A stamp in ticks is returned as it is: the map is for nanoseconds. */
uint64_t collect_ticks(uint64_t cupti_time)
{
    if ((distinct || cupti_uses_ticks) && near(cupti_time, ticks_now))
        return cupti_time;
    return cupti_clock_ticks(&clocks, cupti_time);
}

/* ---- records ---- */

/* CUPTI 12.6 Update 2 to 13.0 were seen to give kernels no times while a client's clock is set. */
static void note_kernel_time(bool untimed)
{
    if (kernels >= KERNELS_LOOKED)
        return;
    kernels_untimed += untimed;
    if (++kernels == KERNELS_LOOKED && kernels_untimed == KERNELS_LOOKED) {
        log_warn("CUPTI %u (%s) gives kernels no times; they are counted and left out",
                 api->version, api->path);
        writer_note("CUPTI gave kernels no times");
    }
}

static void count_faults(enum translate_result result, struct gpu_faults *faults)
{
    faults->untimed += result == TRANSLATE_UNTIMED;
    faults->unfinished += result == TRANSLATE_UNFINISHED;
    faults->invalid += result == TRANSLATE_INVALID;
}

void collect_stop(void)
{
    atomic_store(&stopped, true);
}

bool collect_stopped(void)
{
    return atomic_load(&stopped);
}

static uint64_t walk(const struct buffer *b, void (*each)(const struct gpu_record *r, void *arg),
                     void *arg, struct gpu_faults *faults)
{
    uint64_t records = 0;
    void *activity = NULL;
    int result = CUPTI_MAX_LIMIT_REACHED;
    while (!collect_stopped() &&
           (result = api->get_next_record(b->data, b->valid, &activity)) == CUPTI_OK) {
        struct gpu_record record;
        if (folder)
            dump_record(activity);
        enum translate_result done = translate(&reader, activity, &record);
        if (*(const uint32_t *)activity == CUPTI_KIND_CONCURRENT_KERNEL)
            note_kernel_time(done == TRANSLATE_UNTIMED);
        count_faults(done, faults);
        if (done != TRANSLATE_RECORD)
            continue;
        records++;
        each(&record, arg);
    }
    if (!collect_stopped() &&
        result != CUPTI_MAX_LIMIT_REACHED) /* at least one record is lost: its stride is unknown */
        ++*(b->forced ? &faults->unfinished : &faults->invalid);
    return records;
}

/* Learns devices and contexts first: kernels in other buffers need them. */
static void learn_devices(const struct buffer *b)
{
    struct gpu_record unused;
    void *activity = NULL;
    while (!collect_stopped() && api->get_next_record(b->data, b->valid, &activity) == CUPTI_OK) {
        uint32_t kind = *(const uint32_t *)activity;
        if (kind == CUPTI_KIND_DEVICE || kind == CUPTI_KIND_CONTEXT)
            translate(&reader, activity, &unused);
    }
}

static void take_completed(void)
{
    struct buffer **end = &waiting;
    while (*end)
        end = &(*end)->next;
    *end = buffers_take();
    if (!*end)
        return;
    read_clocks(); /* before translating, so that no stamp lies ahead of the newest pair */
    cupti_clock_keep(&clocks);
    for (const struct buffer *b = *end; b; b = b->next)
        if (b->valid)
            learn_devices(b);
}

/* Whether buffers may be translated. A kernel's occupancy needs its device, whose record may come
 * later in another thread's buffer. Waits DEVICE_NS at most, because CUPTI withholds that buffer
 * while a kernel in it is unfinished. */
static bool may_translate(bool last)
{
    static uint64_t since;
    uint64_t now = clock_monotonic_ns();
    if (!since && waiting)
        since = now;
    return last || gpu_devices_known() || (since && now - since > DEVICE_NS);
}

/* The oldest completed buffer that may be translated, or NULL. */
static struct buffer *next_buffer(bool last)
{
    static bool go; /* once true, stays true */
    if (!waiting || !go)
        take_completed();
    go = go || may_translate(last);
    struct buffer *b = go ? waiting : NULL;
    if (b)
        waiting = b->next;
    return b;
}

uint64_t collect_buffers(bool ours, bool last, void (*each)(const struct gpu_record *r, void *arg),
                         void *arg, struct gpu_faults *faults)
{
    uint64_t records = 0;
    struct buffer *b;
    while (records < RECORDS_AT_ONCE && !collect_stopped() && (b = next_buffer(last))) {
        size_t dropped = 0;
        if (folder)
            dump_begin(b);
        if (b->valid)
            records += walk(b, each, arg, faults);
        faults->unnamed += gpu_names_refused();
        if (folder && b->valid)
            dump_end(folder, api->version, b->forced ? DUMP_FORCED : 0);
        if (ours && !collect_stopped() &&
            api->get_num_dropped_records(NULL, 0, &dropped) == CUPTI_OK)
            faults->dropped += dropped;
        buffers_recycle(b);
    }
    return records;
}

void collect_start(const struct cupti *c, const char *dump_folder)
{
    api = c;
    folder = dump_folder;
    reader = (struct translate){c->version, collect_ticks, c->get_callback_name};
    paired_ns = clock_monotonic_ns();
    read_clocks();
}
