/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads complete traces, runs the user's command and deletes old traces. Runs on the cprof
 * thread, except post_save_start() and post_save_edge_before(). */
#include "preload/delivery/post_save.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>

#include "preload/delivery/child_env.h"
#include "preload/delivery/saved.h"
#include "preload/delivery/spawn.h"
#include "preload/delivery/upload.h"

#define WAITING_MOST 64   /* traces with an unfinished upload or command */
#define CHECK_MS     50   /* pause between checks of a running program */
#define SAY_AFTER_MS 1000 /* then the user is told what the exit waits for */
#define WORDS_MOST   256
#define VARIABLES    4

/* A trace in the queue. */
struct item {
    struct item *next;
    struct saved_file file;
    struct file_identity summary; /* the file beside it; inode 0: none */
    char *remote;                 /* name of the upload, or NULL; owned */
    char variables[VARIABLES][PATH_MAX + 32];
    unsigned tries;
    bool of_summary; /* the trace is uploaded, and its summary follows */
    bool failed;     /* its upload or command failed: the file stays */
};

static enum { IDLE, UPLOADING, PAUSING, COMMANDING } stage;
static struct item *first, **end = &first;
static unsigned n_waiting;
static struct spawn *running;
static char *input;        /* stdin of the running program; holds secrets */
static const char **given; /* environment of the running program */
static uint64_t due_ns;    /* end of the pause, while PAUSING */
static uint64_t left_out, upload_failures, uploads, command_failures, commands;
static uint64_t stop_ns; /* when the exit began to wait; 0: not yet */
static bool gave_up;

/* Written at wake-up, read-only afterwards. */
static const struct config *config;
static bool uploading, commanding; /* requested by the settings */
static char curl[PATH_MAX], command_path[PATH_MAX], command_text[4001]; /* "": not found */
static const char *command_words[WORDS_MOST + 2];
static size_t n_words;

/* ---- settings -------------------------------------------------------------------------------- */

/* Finds the end of a word, and copies it to *to without its quotes. NULL: a quote is not closed. */
static char *take_word(char *text, char **to)
{
    char quote = 0;
    for (; *text && (quote || !strchr(" \t\r\n", *text)); text++) {
        if (*text == quote)
            quote = 0;
        else if (!quote && (*text == '\'' || *text == '"'))
            quote = *text;
        else if (*text == '\\' && text[1] && (!quote || (quote == '"' && strchr("\"\\", text[1]))))
            *(*to)++ = *++text;
        else
            *(*to)++ = *text;
    }
    return quote ? NULL : text;
}

bool post_save_split(char *text, const char **words, size_t most)
{
    size_t n = 0;
    char *to = text;
    for (text += strspn(text, " \t\r\n"); *text; text += strspn(text, " \t\r\n")) {
        if (n + 1 >= most)
            return false;
        words[n++] = to;
        text = take_word(text, &to);
        if (!text)
            return false;
        text += *text != '\0'; /* before the NUL overwrites this byte */
        *to++ = '\0';
    }
    words[n] = NULL;
    return n > 0;
}

static void read_command(void)
{
    static const char shell[] = "sh:";
    snprintf(command_text, sizeof command_text, "%s", config->on_trace_ready);
    commanding = true;
    if (strncmp(command_text, shell, sizeof shell - 1) == 0) {
        static const char *const words[] = {"/bin/sh", "-c", command_text + sizeof shell - 1, "sh"};
        memcpy(command_words, words, sizeof words);
        n_words = sizeof words / sizeof words[0];
    } else if (post_save_split(command_text, command_words, WORDS_MOST)) {
        while (command_words[n_words])
            n_words++;
    } else {
        log_warn("CPROF_ON_TRACE_READY=%s: a quote is not closed, or there are more than %d words; "
                 "it is not run",
                 config->on_trace_ready, WORDS_MOST - 1);
        return;
    }
    if (child_env_search(command_words[0], command_path, sizeof command_path))
        command_words[0] = command_path;
    else
        log_warn("CPROF_ON_TRACE_READY: %s: no such program; it is not run", command_words[0]);
}

static void read_upload(void)
{
    const char *name = config->remote_file_name, *why = upload_refusal(config->remote_url);
    char shown[512];
    if (parse_is_blank(name) || strcasecmp(name, "none") == 0)
        return;
    uploading = true;
    upload_shown(config->remote_url, shown, sizeof shown);
    if (why)
        log_warn("CPROF_REMOTE_URL=%s: %s; nothing is uploaded", shown, why);
    else if (!child_env_search("curl", curl, sizeof curl))
        log_warn("CPROF_REMOTE_URL=%s: uploads need the program curl, which is not in PATH; "
                 "nothing is uploaded",
                 shown);
}

void post_save_start(const struct config *settings)
{
    config = settings;
    bool command = !parse_is_blank(config->on_trace_ready);
    bool upload = !parse_is_blank(config->remote_url);
    if (command || upload)
        child_env_take(cprof_path());
    if (command)
        read_command();
    if (upload)
        read_upload();
}

void post_save_edge_before(const struct edge_change *change)
{
    if (!change->ranked)
        return;
    if (uploading || commanding)
        child_env_take(cprof_path());
}

/* ---- new traces
 * --------------------------------------------------------------------------------- */

static bool make_remote_name(void *trace, unsigned number, char *name, unsigned long size)
{
    return identity_remote_name(&((const struct saved_trace *)trace)->time, number, name, size);
}

/* A name for the upload that no earlier trace of this run has. NULL: no upload. */
static char *remote_name(const struct saved_trace *trace)
{
    static struct remote_names names;
    char name[PATH_MAX];
    if (!uploading ||
        !remote_names_take(&names, make_remote_name, (void *)trace, name, sizeof name))
        return NULL;
    return strdup(name);
}

static void fill_variables(struct item *item, const struct saved_trace *trace)
{
    struct trace_identity id = {0};
    identity_fill(&id);
    size_t size = sizeof item->variables[0];
    snprintf(item->variables[0], size, "CPROF_TRACE_PATH=%s", item->file.path);
    snprintf(item->variables[1], size, "CPROF_TRACE_RANK=%" PRId64, id.rank);
    snprintf(item->variables[2], size, "CPROF_TRACE_FIRST_STEP=%" PRId64, trace->first_step);
    snprintf(item->variables[3], size, "CPROF_TRACE_LAST_STEP=%" PRId64, trace->last_step);
}

static void leave_out(const char *path)
{
    if (left_out++ == 0)
        log_warn("%s: %u traces wait for their upload or command already; this one stays a local "
                 "file, as do others until the queue has room",
                 saved_shown(path), WAITING_MOST);
}

static void enqueue(const struct saved_trace *trace, const struct saved_file *file, char *remote)
{
    struct item *item = n_waiting < WAITING_MOST ? malloc(sizeof *item) : NULL;
    if (!item) {
        leave_out(file->path);
        free(file->path);
        free(remote);
        return;
    }
    *item = (struct item){.file = *file, .summary = trace->summary, .remote = remote};
    fill_variables(item, trace);
    *end = item;
    end = &item->next;
    n_waiting++;
}

void post_save_trace(const struct saved_trace *trace)
{
    struct saved_file file;
    if (!saved_look(&file, trace))
        return;
    char *remote = remote_name(trace);
    saved_add_line(trace, &file, remote, config->num_traces_to_keep);
    if (uploading || commanding)
        enqueue(trace, &file, remote);
    else
        saved_retain(&file, config->num_traces_to_keep);
}

/* ---- programs -------------------------------------------------------------------------------- */

static bool run(struct spawn_request *request, const char *const *variables, size_t n)
{
    int error = ENOMEM;
    given = child_env_with(variables, n);
    request->envp = given;
    running = given ? spawn_start(request, &error) : NULL;
    if (!running)
        log_warn("cannot start %s: %s", request->argv[0], strerror(error));
    return running != NULL;
}

static void forget_program(void)
{
    if (input)
        explicit_bzero(input, SPAWN_INPUT_MOST);
    free(input);
    free(given);
    input = NULL;
    given = NULL;
    running = NULL;
}

static void upload_failed(struct item *item, const char *why)
{
    item->failed = true;
    if (upload_failures++ == 0)
        log_warn("%s%s: the upload failed: %s; the file stays", saved_shown(item->file.path),
                 item->of_summary ? SUMMARY_SUFFIX : "", why);
}

static void command_failed(struct item *item, const char *what)
{
    item->failed = true;
    if (command_failures++ == 0)
        log_warn("CPROF_ON_TRACE_READY: %s for %s; the file stays", what,
                 saved_shown(item->file.path));
}

static void finish_item(void)
{
    struct item *item = first;
    first = item->next;
    if (!first)
        end = &first;
    n_waiting--;
    saved_drop_summary(item->file.path);
    if (item->failed)
        free(item->file.path);
    else
        saved_retain(&item->file, config->num_traces_to_keep);
    free(item->remote);
    free(item);
    stage = IDLE;
}

static void start_command(void)
{
    static const char *words[WORDS_MOST + 2];
    static struct spawn_request request;
    struct item *item = first;
    const char *variables[VARIABLES];
    if (!commanding) {
        finish_item();
        return;
    }
    if (!command_path[0]) { /* post_save_start() has warned */
        item->failed = true;
        finish_item();
        return;
    }
    commands++;
    if (!file_identity_has_name(&item->file.identity, item->file.path)) {
        command_failed(item, "not run, because another file has the name,");
        finish_item();
        return;
    }
    memcpy(words, command_words, n_words * sizeof words[0]);
    words[n_words] = item->file.path;
    words[n_words + 1] = NULL;
    for (int i = 0; i < VARIABLES; i++)
        variables[i] = item->variables[i];
    request = (struct spawn_request){.argv = words, .relay = true};
    stage = COMMANDING;
    if (!run(&request, variables, VARIABLES)) {
        command_failures++;
        item->failed = true;
        forget_program();
        finish_item();
    }
}

static void start_upload(void)
{
    static char path[PATH_MAX + sizeof SUMMARY_SUFFIX], name[sizeof path];
    static const char *const words[] = {curl, "--disable", "--config", "-", NULL};
    static const char *const secrets[] = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
                                          "AWS_SESSION_TOKEN", "CPROF_REMOTE_URL"};
    static struct spawn_request request;
    struct item *item = first;
    const char *why = "no memory";
    if (!item->remote || !curl[0]) {
        item->failed = item->failed || uploading;
        start_command();
        return;
    }
    const char *suffix = item->of_summary ? SUMMARY_SUFFIX : "";
    snprintf(path, sizeof path, "%s%s", item->file.path, suffix);
    snprintf(name, sizeof name, "%s%s", item->remote, suffix);
    uploads += item->tries == 0 && !item->of_summary;
    item->tries++;
    input = malloc(SPAWN_INPUT_MOST);
    size_t len = input ? upload_config(config->remote_url, name, child_env_get, input,
                                       SPAWN_INPUT_MOST, &why)
                       : 0;
    request =
        (struct spawn_request){.argv = words,
                               .input = input,
                               .input_len = len,
                               .file = path,
                               .identity = item->of_summary ? item->summary : item->file.identity};
    stage = UPLOADING;
    if (len > 0 && run(&request, secrets, sizeof secrets / sizeof secrets[0]))
        return;
    upload_failed(item, len ? "curl could not be started" : why);
    forget_program();
    start_command();
}

static void upload_ended(const struct spawn_result *result)
{
    struct item *item = first;
    char why[512];
    if (result->exec_error) {
        upload_failed(item, result->exec_error == ESTALE ? "another file has the name"
                                                         : strerror(result->exec_error));
    } else {
        int status = WIFEXITED(result->status) ? WEXITSTATUS(result->status) : -1;
        switch (upload_judge(status, result->text, why, sizeof why)) {
        case UPLOAD_DONE:
            log_debug("%s: uploaded as %s%s", item->file.path, item->remote,
                      item->of_summary ? SUMMARY_SUFFIX : "");
            if (item->of_summary || item->summary.inode == 0)
                break;
            item->of_summary = true;
            item->tries = 0;
            start_upload();
            return;
        case UPLOAD_AGAIN:
            if (item->tries < UPLOAD_TRIES && !gave_up) {
                log_debug("%s: upload, try %u: %s", item->file.path, item->tries, why);
                due_ns = clock_monotonic_ns() + (uint64_t)upload_pause_ms(item->tries) * 1000000u;
                stage = PAUSING;
                return;
            }
            /* fall through */
        case UPLOAD_FAILED:
            upload_failed(item, why);
        }
    }
    start_command();
}

static void command_ended(const struct spawn_result *result)
{
    char why[64] = "";
    if (result->exec_error)
        snprintf(why, sizeof why, "could not be started, error %d", result->exec_error);
    else if (WIFSIGNALED(result->status))
        snprintf(why, sizeof why, "ended by signal %d", WTERMSIG(result->status));
    else if (WEXITSTATUS(result->status))
        snprintf(why, sizeof why, "ended with status %d", WEXITSTATUS(result->status));
    if (why[0])
        command_failed(first, why);
    finish_item();
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* Takes one step. False: nothing to do now. */
static bool advance(void)
{
    struct spawn_result result;
    if (running) {
        if (!spawn_poll(running, &result))
            return false;
        forget_program();
        if (stage == UPLOADING)
            upload_ended(&result);
        else
            command_ended(&result);
        return true;
    }
    if (!first || (stage == PAUSING && clock_monotonic_ns() < due_ns))
        return false;
    start_upload();
    return true;
}

/* At exit, after all other work. */
static void report_failures(void)
{
    if (upload_failures > 1)
        log_warn("%" PRIu64 " of %" PRIu64 " uploads failed; their files stay", upload_failures,
                 uploads);
    if (command_failures > 1)
        log_warn("CPROF_ON_TRACE_READY: %" PRIu64 " of %" PRIu64 " commands failed",
                 command_failures, commands);
    if (left_out > 1)
        log_warn("%" PRIu64
                 " traces were neither uploaded nor given to the command: %u waited already",
                 left_out, WAITING_MOST);
}

/* At the deadline: kills the running program; queued traces stay where they are. */
static void give_up_command(void)
{
    gave_up = true;
    log_warn("%u trace%s not uploaded, or the command not run to its end, within "
             "CPROF_UPLOAD_DEADLINE_MS=%" PRId64 "; the files stay",
             n_waiting, n_waiting == 1 ? "" : "s", config->upload_deadline_ms);
    if (running)
        spawn_kill(running);
}

static int poll_at_exit(void)
{
    uint64_t now = clock_monotonic_ns();
    stop_ns = stop_ns ? stop_ns : now;
    uint64_t waited_ms = (now - stop_ns) / 1000000u;
    if (first && waited_ms > SAY_AFTER_MS && once_here())
        log_info("waiting for the upload or the command of %s, at most %" PRId64 " ms",
                 saved_shown(first->file.path), config->upload_deadline_ms);
    if (first && !gave_up && waited_ms >= (uint64_t)config->upload_deadline_ms)
        give_up_command();
    if (!first || (gave_up && !running)) {
        report_failures();
        return -1;
    }
    return CHECK_MS;
}

int post_save_poll(bool stopping)
{
    struct spawn_result result;
    if (gave_up) { /* only reap the killed program */
        if (running && spawn_poll(running, &result))
            forget_program();
    } else {
        while (advance())
            ;
    }
    if (stopping)
        return poll_at_exit();
    return running ? CHECK_MS : stage == PAUSING ? CHECK_MS : -1;
}
