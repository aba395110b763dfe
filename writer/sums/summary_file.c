/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the summary beside the trace: a line that identifies the trace, a line of steps, a line of
 * collectives, then a line per row of the table. The name ends neither in .json nor .gz, which
 * readers take for traces. Read by scripts/python/cprof/tool/summary_file.py. */
#include "writer/sums/summary_data.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "writer/sums/summary_limits.h"
#include "writer/writer.h"

/* end of the trace whose checksum identifies it: no two traces have the same account */
#define TAIL_BYTES 4096u

/* Identifies the trace of a summary. */
struct trace_known {
    const char *path;
    uint64_t size; /* bytes of the trace */
    uint32_t sum;  /* crc32 of its end */
};

static int know_trace(struct trace_known *k)
{
    unsigned char tail[TAIL_BYTES];
    struct stat st;
    int fd = open_foreign(k->path, O_NOFOLLOW, UINT64_MAX, &st);
    if (fd < 0)
        return errno;
    size_t n = st.st_size < (off_t)sizeof tail ? (size_t)st.st_size : sizeof tail;
    int error = io_pread(fd, tail, n, st.st_size - (off_t)n) == (ssize_t)n ? 0 : EIO;
    k->size = (uint64_t)st.st_size;
    k->sum = error ? 0 : (uint32_t)crc32(0, tail, (unsigned)n);
    io_close(fd);
    return error;
}

/* ---- steps ---- */

/* The steps of a program without any: the whole window. */
static void make_whole_window(struct summary *s)
{
    const struct top *t = s->table;
    struct summary_step whole = {INT64_MAX, INT64_MIN, -1, 1};
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct top_spans *both[] = {&t->rows[i].spans, &t->rows[i].calls};
        for (int k = 0; k < 2; k++) {
            if (both[k]->n && both[k]->at[0].start < whole.start)
                whole.start = both[k]->at[0].start;
            for (size_t n = 0; n < both[k]->n; n++)
                if (both[k]->at[n].end > whole.end)
                    whole.end = both[k]->at[n].end;
        }
    }
    for (size_t i = 0; i < s->works.n; i++) {
        const struct device_work *work = &s->works.at[i];
        whole.start = work->start < whole.start ? work->start : whole.start;
        whole.end = work->end > whole.end ? work->end : whole.end;
    }
    s->steps = malloc(sizeof *s->steps);
    if (s->steps && whole.start < whole.end)
        s->steps[s->n_steps++] = whole;
}

static bool share_row(const struct summary_step *a, const struct summary_step *b, unsigned shift)
{
    return a->number >> shift == b->number >> shift;
}

static size_t count_rows(const struct summary *s, unsigned shift)
{
    size_t rows = s->n_steps != 0;
    for (size_t i = 1; i < s->n_steps; i++)
        rows += !share_row(&s->steps[i - 1], &s->steps[i], shift);
    return rows;
}

static size_t bytes_of_rows(const struct summary *s, size_t rows)
{
    return rows * (FILE_STEP_BYTES + s->n_devices * FILE_PARTS_BYTES) +
           collective_list_bytes(&s->collectives, rows);
}

/* Joins steps whose number / 2^n is the same, with the smallest n for which all rows fit. One row
 * fits always. Returns the bytes that count against the file's limit. */
static size_t join_steps(struct summary *s)
{
    size_t rows = 0;
    while (bytes_of_rows(s, count_rows(s, s->joined_shift)) > FILE_COLUMNS_MOST &&
           s->joined_shift < 62)
        s->joined_shift++;
    for (size_t i = 0; i < s->n_steps; i++) {
        struct summary_step *last = rows ? &s->steps[rows - 1] : NULL;
        if (last && share_row(last, &s->steps[i], s->joined_shift)) {
            last->end = s->steps[i].end;
            last->count += s->steps[i].count;
        } else {
            s->steps[rows++] = s->steps[i];
        }
    }
    s->n_steps = rows;
    return bytes_of_rows(s, rows);
}

/* Which steps explain leaves out: the first one, which has set-up and, on a GPU, lacks work of the
 * step before; and steps that compile. At least one step counts. Same as moments.py. */
static void put_left_out(const struct summary *s, struct buf *out)
{
    bool *compiling = calloc(s->n_steps + 1, sizeof *compiling);
    bool all = true;
    out->failed |= !compiling;
    if (!compiling)
        return;
    step_parts_compiling(s->table, s->steps, s->n_steps, compiling);
    for (size_t i = 1; i < s->n_steps; i++)
        all &= compiling[i];
    buf_puts(out, ", \"left_out\": [");
    for (size_t i = 0; i < s->n_steps; i++) {
        bool counts = all && i == s->n_steps - 1;
        buf_puts(out, i ? "," : "");
        buf_puts(out, counts                     ? "null"
                      : compiling[i]             ? "\"compilation\""
                      : i == 0 && s->n_steps > 1 ? "\"first step\""
                                                 : "null");
    }
    buf_puts(out, "]");
    free(compiling);
}

static void keep_shares(struct summary *s, uint32_t device, const struct parts_of_step *parts)
{
    int64_t sums[STEP_PARTS] = {0}, total = 0;
    for (size_t i = s->n_steps > 1; i < s->n_steps; i++)
        for (int part = 0; part < STEP_PARTS; part++) {
            sums[part] += parts[i].ns[part];
            total += parts[i].ns[part];
        }
    if (total <= 0 || s->n_shares == SHARES_MOST)
        return;
    struct step_shares *shares = &s->shares[s->n_shares++];
    shares->device = device;
    for (int part = 0; part < STEP_PARTS; part++)
        shares->share[part] = (double)sums[part] / (double)total;
}

/* Appends the parts of all steps on one device, or on the CPU. */
static bool put_device(struct summary *s, uint64_t main, uint32_t device, struct buf *out)
{
    static const char *const names[] = {
#define PART(id, name) name,
#include "writer/sums/step_parts.def"
#undef PART
    };
    struct parts_of_step *parts = malloc((s->n_steps + 1) * sizeof *parts);
    bool good = parts && step_parts(s->table, main, &s->works, device, s->steps, s->n_steps, parts);
    if (device == GPU_NONE)
        buf_puts(out, "{\"device\": \"cpu\"");
    else
        buf_printf(out, "{\"device\": \"cuda:%u\"", device);
    buf_puts(out, ", \"launches\": [");
    for (size_t i = 0; good && i < s->n_steps; i++)
        buf_printf(out, "%s%llu", i ? "," : "", (unsigned long long)parts[i].launches);
    for (int part = 0; part < STEP_PARTS; part++) {
        buf_printf(out, "], \"%s\": [", names[part]);
        for (size_t i = 0; good && i < s->n_steps; i++) {
            buf_puts(out, i ? "," : "");
            json_int(out, parts[i].ns[part]);
        }
    }
    buf_puts(out, "]}");
    if (good)
        keep_shares(s, device, parts);
    free(parts);
    return good;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Finds the devices with work, ascending, or the CPU alone. None: the parts are unknown, or there
 * are too many. */
static void find_devices(struct summary *s)
{
    const struct device_works *w = &s->works;
    size_t n = 0;
    for (size_t i = 0; i < w->n && n <= FILE_DEVICES_MOST; i++) {
        size_t k = 0;
        while (k < n && s->devices[k] != w->at[i].device)
            k++;
        if (k == n)
            s->devices[n++] = w->at[i].device;
    }
    qsort(s->devices, n, sizeof *s->devices, by_number);
    if (n == 0)
        s->devices[n++] = GPU_NONE;
    s->n_devices = s->no_parts || n > FILE_DEVICES_MOST ? 0 : n;
}

/* Appends the devices with the parts of their steps; null where they are unknown. */
static void put_devices(struct summary *s, struct buf *out)
{
    size_t before = out->len;
    uint64_t main = top_main_thread(s->table);
    bool good = s->n_devices != 0;
    put_left_out(s, out);
    buf_puts(out, ", \"devices\": [");
    for (size_t i = 0; i < s->n_devices && good; i++) {
        buf_puts(out, i ? ", " : "");
        good = put_device(s, main, s->devices[i], out);
    }
    buf_puts(out, "]");
    if (!good) {
        s->n_shares = 0;
        out->len = before;
        buf_puts(out, ", \"left_out\": null, \"devices\": null");
    }
}

enum column { COL_STEP, COL_COUNT, COL_START, COL_TOTAL, COLS };

static void put_column(const struct summary *s, enum column column, struct buf *out)
{
    for (size_t i = 0; i < s->n_steps; i++) {
        const struct summary_step *step = &s->steps[i];
        buf_puts(out, i ? "," : "");
        if (column == COL_STEP && step->number < 0)
            buf_puts(out, "null");
        else
            json_int(out, column == COL_STEP    ? step->number
                          : column == COL_COUNT ? step->count
                          : column == COL_START ? step->start
                                                : step->end - step->start);
    }
}

/* Appends the line of the steps. table: the table is there. */
static void put_steps(struct summary *s, bool table, struct buf *out)
{
    static const char *const names[COLS] = {"step", "count", "start", "total"};
    if (s->n_steps == 0) {
        buf_puts(out, "{\"steps\": null}\n");
        return;
    }
    buf_printf(out, "{\"steps\": {\"joined\": %llu, \"truncated\": %s, ", 1ULL << s->joined_shift,
               s->joined_shift ? "true" : "false");
    for (enum column column = 0; column < COLS; column++) {
        buf_printf(out, "%s\"%s\": [", column ? "], " : "", names[column]);
        put_column(s, column, out);
    }
    buf_puts(out, "]");
    if (table)
        put_devices(s, out);
    else
        buf_puts(out, ", \"left_out\": null, \"devices\": null");
    buf_puts(out, "}}\n");
}

/* ---- the file ---- */

struct summary_file {
    char path[PATH_MAX], made[PATH_MAX]; /* made: the temporary name */
    struct buf text;
};

/* Writes the file under its temporary name, then renames it. */
static int write_file(const struct summary_file *f, struct file_identity *identity)
{
    uint64_t size;
    const char *made = f->made;
    int fd = io_open(made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST && unlink(made) == 0) /* left by a killed process with this pid */
        fd = io_open(made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno;
    int error = io_write_all(fd, f->text.data, f->text.len);
    if (io_look(fd, identity, &size) != 0)
        *identity = (struct file_identity){.inode = 0};
    if (io_close(fd) != 0 && errno != EINTR && !error)
        error = errno;
    if (!error && rename(made, f->path) != 0)
        error = errno;
    if (error) {
        *identity = (struct file_identity){.inode = 0};
        unlink(made);
    }
    return error;
}

/* Appends the modules, and the table with as many rows as the file takes. used: by the columns. */
static void put_table(struct summary *s, size_t used, struct buf *out)
{
    struct buf rows = {0}, modules = {0};
    used += FILE_ABOUT_BYTES;
    size_t most = FILE_TABLE_MOST - used - module_sums_put(s->table, &modules);
    struct top_rows n = top_put(s->table, most, &rows);
    while (most && modules.len + rows.len > FILE_TABLE_MOST - used) { /* JSON makes names longer */
        most /= 2;
        rows.len = 0;
        n = top_put(s->table, most, &rows);
    }
    buf_printf(out, "{\"table\": {\"rows\": %zu, \"truncated\": %s}, \"modules\": ", n.all,
               n.shown < n.all ? "true" : "false");
    buf_put(out, modules.data, modules.len);
    buf_puts(out, "}\n");
    buf_put(out, rows.data, rows.len);
    out->failed |= rows.failed || modules.failed;
    buf_free(&rows);
    buf_free(&modules);
}

static void put_lines(struct summary *s, struct buf *out)
{
    bool table = top_finish(s->table);
    if (s->no_steps)
        s->n_steps = 0;
    else if (s->n_steps == 0 && table && !top_has_other_steps(s->table))
        make_whole_window(s);
    if (table)
        find_devices(s);
    collective_list_finish(&s->collectives);
    size_t used = join_steps(s);
    put_steps(s, table, out);
    buf_puts(out, "{\"collectives\": ");
    collective_list_put(&s->collectives, s->steps, s->n_steps, out);
    buf_puts(out, "}\n");
    if (table)
        put_table(s, used, out);
    else
        buf_puts(out, "{\"table\": null, \"modules\": null}\n");
    buf_puts(out, "{\"end\": true}\n");
}

struct file_identity summary_save(struct summary *s, const char *trace_path,
                                  const struct buf *about)
{
    static struct summary_file file;
    struct trace_known trace = {.path = trace_path};
    struct file_identity identity = {.inode = 0};
    struct buf *text = &file.text;
    if (!s)
        return identity;
    int a = snprintf(file.path, sizeof file.path, "%s" SUMMARY_SUFFIX, trace_path);
    int b = snprintf(file.made, sizeof file.made, "%s" SUMMARY_SUFFIX ".%d~", trace_path,
                     (int)getpid());
    if (a > 0 && (size_t)a < sizeof file.path && b > 0 && (size_t)b < sizeof file.made &&
        know_trace(&trace) == 0 && !about->failed) {
        buf_printf(text,
                   "{\"schema\": {\"name\": \"cprof.window\", \"version\": 2}, \"time_unit\": "
                   "\"ns\", \"cprof\": \"" CPROF_VERSION
                   "\", \"trace_bytes\": %llu, \"trace_tail\": %u",
                   (unsigned long long)trace.size, trace.sum);
        buf_put(text, about->data, about->len);
        buf_puts(text, "}\n");
        put_lines(s, text);
        int error = text->failed ? ENOMEM : write_file(&file, &identity);
        if (error)
            log_debug("%s: %s; the commands read the trace", file.path, strerror(error));
    }
    buf_free(text);
    return identity;
}
