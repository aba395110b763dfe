/* SPDX-License-Identifier: Apache-2.0 */
/* Asks addr2line for source lines. A question holds addresses of one file; a few run at the same
 * time. Files whose answers take long are not waited for: their lines appear once they come. */
#define _GNU_SOURCE
#include "preload/stacks/lines.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "preload/delivery/delivery.h"
#include "preload/core/core.h"
#include "writer/writer.h"

#define QUESTIONS    4u          /* at the same time */
#define BATCH        1024u       /* addresses per question; they fit into a pipe */
#define OUTPUT_BYTES (1u << 20)  /* of answers; addresses beyond are asked again */
#define WAIT_NS      100000000u  /* per pass, while no ring fills up */
#define LAST_WAIT_NS 1000000000u /* in all, when the process ends */
#define ADDRESS_MOST 20u         /* "0x", 16 digits, a newline, a zero byte */

/* A frame whose line is wanted. */
struct want {
    uint64_t at;
    uint32_t frame;
    uint16_t file;
};

struct question {
    struct spawn *running; /* NULL: not asked */
    struct spawn_request request;
    const char *argv[6];
    const char **environment;
    uint16_t file;
    unsigned n; /* number of wants */
    struct want wants[BATCH];
    char input[BATCH * ADDRESS_MOST];
    char output[OUTPUT_BYTES];
};

static char program[PATH_MAX]; /* "": there is none */
static bool column;            /* the program prints columns, too */

static struct want *wants; /* owned; oldest first */
static uint32_t n_wants, wants_room;
static const char *paths[DSO_MOST]; /* of files with wants */
static bool slow[DSO_MOST];         /* not waited for any more */
static bool failed[DSO_MOST];       /* not asked any more */

static struct question *questions[QUESTIONS]; /* owned, allocated when needed */
static uint64_t last_wait_left = LAST_WAIT_NS;

/* An answer that lines_answer() has not returned yet. */
struct answer {
    uint32_t file, file_len; /* offset and length in `texts` */
    uint32_t frame;
    int32_t line;
};
static struct answer *answers;
static uint32_t n_answers, answers_room, fetched;
static char *texts;
static uint32_t texts_used, texts_room;

void lines_start(void)
{
    child_env_take(cprof_path());
    column = child_env_search("eu-addr2line", program, sizeof program);
    if (!column)
        child_env_search("addr2line", program, sizeof program);
}

/* ---- wanted lines ---- */

/* Makes room for `more` elements behind `used`; false: no memory. */
static bool make_array_room(void **array, uint32_t used, uint32_t more, uint32_t *room, size_t size)
{
    uint32_t wanted = *room ? *room : BATCH;
    while (wanted - used < more)
        wanted *= 2;
    if (wanted == *room)
        return true;
    void *bigger = realloc(*array, wanted * size);
    if (!bigger)
        return false;
    *array = bigger;
    *room = wanted;
    return true;
}

static void add_want(const struct want *w)
{
    if (make_array_room((void **)&wants, n_wants, 1, &wants_room, sizeof *wants))
        wants[n_wants++] = *w;
}

/* Logs once in the process. */
static void log_once(const char *why, const char *about)
{
    if (once_here())
        log_info("native stacks are without lines%s%s", why, about);
}

void lines_want(uint32_t frame, uint64_t pc, uint32_t object)
{
    struct symbol_place place;
    if (!symbols_place(pc, object, &place) || !place.has_lines || failed[place.file])
        return;
    if (!program[0]) {
        log_once(": there is no eu-addr2line (Debian: elfutils) and no addr2line (binutils)", "");
        return;
    }
    paths[place.file] = place.path;
    add_want(&(struct want){place.at, frame, (uint16_t)place.file});
}

/* ---- questions ---- */

static bool is_asked(uint16_t file)
{
    for (unsigned i = 0; i < QUESTIONS; i++)
        if (questions[i] && questions[i]->running && questions[i]->file == file)
            return true;
    return false;
}

/* Moves wants of one file into the question: the file of the oldest want that is not being asked.
 * Other wants stay in order. */
static void take_wants(struct question *q)
{
    uint32_t kept = 0;
    q->n = 0;
    for (uint32_t i = 0; i < n_wants; i++) {
        struct want *w = &wants[i];
        if (failed[w->file])
            continue;
        if (q->n == 0 && !is_asked(w->file))
            q->file = w->file;
        bool taken = q->n < BATCH && w->file == q->file && !is_asked(w->file);
        if (taken)
            q->wants[q->n++] = *w;
        else
            wants[kept++] = *w;
    }
    n_wants = kept;
}

static void begin_question(struct question *q)
{
    static const char *const variables[] = {"DEBUGINFOD_URLS=", "LC_ALL=C"}; /* no network */
    size_t len = 0;
    int error;
    for (unsigned i = 0; i < q->n; i++)
        len += (size_t)snprintf(q->input + len, ADDRESS_MOST, "0x%" PRIx64 "\n", q->wants[i].at);
    const char *argv[] = {program, "-a", "-i", "-e", paths[q->file], NULL};
    memcpy(q->argv, argv, sizeof argv);
    q->environment = child_env_with(variables, sizeof variables / sizeof *variables);
    q->request = (struct spawn_request){.argv = q->argv,
                                        .envp = q->environment,
                                        .input = q->input,
                                        .input_len = len,
                                        .output = q->output,
                                        .output_size = OUTPUT_BYTES,
                                        .modest = true};
    q->running = q->environment ? spawn_start(&q->request, &error) : NULL;
    if (q->running)
        return;
    failed[q->file] = true;
    free(q->environment);
}

/* ---- answers ---- */

/* Cuts ":NUMBER" off the end of text[0..*len) and returns the number; -1: there is none. */
static int64_t cut_number(const char *text, uint32_t *len)
{
    uint32_t at = *len;
    int64_t value = 0, unit = 1;
    for (; at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9' && unit < 10000000000; at--) {
        value += (text[at - 1] - '0') * unit;
        unit *= 10;
    }
    if (at == *len || at == 0 || text[at - 1] != ':')
        return -1;
    *len = at - 1;
    return value;
}

uint32_t lines_parse(const char *text, uint32_t len, bool with_column, int32_t *line)
{
    const char *note = memmem(text, len, " (discriminator ", strlen(" (discriminator "));
    uint32_t used = note ? (uint32_t)(note - text) : len;
    int64_t number = cut_number(text, &used);
    uint32_t file = used;
    int64_t before = with_column ? cut_number(text, &file) : -1;
    if (before >= 0) {
        number = before;
        used = file;
    }
    if (number <= 0 || number > INT32_MAX || used == 0 || memcmp(text, "??", used < 2 ? 1 : 2) == 0)
        return 0;
    *line = (int32_t)number;
    return used;
}

static void add_answer(uint32_t frame, const char *text, uint32_t len)
{
    struct answer a = {.file = texts_used, .frame = frame};
    a.file_len = lines_parse(text, len, column, &a.line);
    if (a.file_len == 0 ||
        !make_array_room((void **)&texts, texts_used, a.file_len, &texts_room, 1) ||
        !make_array_room((void **)&answers, n_answers, 1, &answers_room, sizeof *answers))
        return;
    memcpy(texts + texts_used, text, a.file_len);
    texts_used += a.file_len;
    answers[n_answers++] = a;
}

/* The output has each address, then its lines: the innermost inlined function first, the function
 * that the symbol names last. Uses the last. Returns the number of answered addresses. */
static unsigned read_answers(struct question *q, size_t len)
{
    unsigned n = 0;
    const char *end = q->output + len, *last = NULL, *stop;
    uint32_t last_len = 0;
    for (const char *at = q->output; (stop = memchr(at, '\n', (size_t)(end - at))); at = stop + 1) {
        bool next = n < q->n && stop - at > 2 && memcmp(at, "0x", 2) == 0 &&
                    strtoull(at, NULL, 16) == q->wants[n].at;
        if (next && last)
            add_answer(q->wants[n - 1].frame, last, last_len);
        n += next;
        last = next || n == 0 ? NULL : at;
        last_len = (uint32_t)(stop - at);
    }
    bool cut = len == OUTPUT_BYTES; /* then the last answer may be incomplete */
    if (last && !cut)
        add_answer(q->wants[n - 1].frame, last, last_len);
    return cut && n > 0 ? n - 1 : n;
}

/* Asks again for addresses whose answers did not fit; never again for a file without any answer. */
static void take_answers(struct question *q, const struct spawn_result *result)
{
    unsigned n = read_answers(q, result->output_len);
    if (n == 0) {
        failed[q->file] = true;
        log_once(result->exec_error ? ": cannot run " : " of ",
                 result->exec_error ? program : paths[q->file]);
    }
    for (unsigned i = n; n > 0 && result->output_len == OUTPUT_BYTES && i < q->n; i++)
        add_want(&q->wants[i]);
}

/* Whether the question has ended; takes its answers. */
static bool ended(struct question *q)
{
    struct spawn_result result;
    if (!q || !q->running)
        return true;
    if (!spawn_poll(q->running, &result))
        return false;
    q->running = NULL;
    free(q->environment);
    take_answers(q, &result);
    return true;
}

/* Ends and begins questions. Returns whether one runs that is worth waiting for. */
static bool advance(bool all)
{
    bool waits = false;
    for (unsigned i = 0; i < QUESTIONS; i++) {
        struct question *q = questions[i];
        if (!ended(q))
            waits = waits || all || !slow[q->file];
    }
    for (unsigned i = 0; i < QUESTIONS && n_wants > 0; i++) {
        struct question *q = questions[i] ? questions[i] : calloc(1, sizeof *q);
        questions[i] = q;
        if (!q || q->running)
            continue;
        take_wants(q);
        if (q->n > 0)
            begin_question(q);
        waits = waits || (q->running && (all || !slow[q->file]));
    }
    return waits;
}

void lines_ask(bool stopping)
{
    uint64_t start = clock_monotonic_ns(), took = 0;
    uint64_t most = stopping ? last_wait_left : WAIT_NS;
    while (advance(stopping) && took < most && (stopping || !thread_log_fills())) {
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
        took = clock_monotonic_ns() - start;
    }
    if (stopping)
        last_wait_left -= took < most ? took : most;
    for (unsigned i = 0; took >= most && i < QUESTIONS; i++)
        if (questions[i] && questions[i]->running)
            slow[questions[i]->file] = true;
}

uint32_t lines_answer(const char **file, uint32_t *len, int32_t *line)
{
    if (fetched == n_answers) {
        fetched = n_answers = texts_used = 0;
        return 0;
    }
    const struct answer *a = &answers[fetched++];
    *file = texts + a->file;
    *len = a->file_len;
    *line = a->line;
    return a->frame;
}
