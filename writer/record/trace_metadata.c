/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata and notes: any thread adds, the cprof thread reads them at each flush. */
#include "writer/record/trace_metadata.h"

#include <pthread.h>
#include <string.h>

#include "writer/base/base.h"
#include "writer/os/os.h"
#include "writer/writer.h"

#define USERS_MAX  64u        /* most keys of metadata */
#define USER_BYTES (1u << 20) /* most bytes of keys and values, which each flush writes again */
#define GAPS_MAX   64u        /* most gaps; beyond, the last ones are merged */

/* Both as JSON, so that keys that are repaired to the same text count as one. */
struct user {
    struct buf key, value;
};

/* Guarded by texts_lock, except user_text and notes_copy, which only the cprof thread uses. */
static pthread_mutex_t texts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct user user[USERS_MAX];
static unsigned users;
static size_t user_bytes;
static struct buf notes_text, user_text, notes_copy;
static unsigned notes;
static struct {
    uint64_t from, until;
} gaps[GAPS_MAX];
static unsigned n_gaps;
static const char *gap_text;
static struct {
    uint64_t from; /* ticks */
    const char *words;
} record_paths[2]; /* the newest first */

void metadata_collect(const char **user_json, const char **notes_json)
{
    buf_reset(&user_text);
    buf_reset(&notes_copy);
    pthread_mutex_lock(&texts_lock);
    for (unsigned i = 0; i < users; i++) {
        buf_put(&user_text, user[i].key.data, user[i].key.len);
        buf_puts(&user_text, ": ");
        buf_put(&user_text, user[i].value.data, user[i].value.len);
        buf_puts(&user_text, ",\n");
    }
    if (notes_text.len)
        buf_put(&notes_copy, notes_text.data, notes_text.len);
    pthread_mutex_unlock(&texts_lock);
    buf_put(&user_text, "", 1);
    buf_put(&notes_copy, "", 1);
    static bool told;
    if ((user_text.failed || notes_copy.failed) && !told) {
        told = true;
        log_warn("no memory: metadata and notes are missing in what is written now");
    }
    *user_json = user_text.failed ? "" : user_text.data;
    *notes_json = notes_copy.failed ? "" : notes_copy.data;
}

/* Stores an entry under its key, and returns the replaced one in *entry. False: no room. Under the
 * lock. */
static bool put_user(struct user *entry)
{
    unsigned at = 0;
    while (at < users && !(user[at].key.len == entry->key.len &&
                           memcmp(user[at].key.data, entry->key.data, entry->key.len) == 0))
        at++;
    if (at == USERS_MAX)
        return false;
    size_t bytes =
        user_bytes - user[at].key.len - user[at].value.len + entry->key.len + entry->value.len;
    if (bytes > USER_BYTES)
        return false;
    struct user before = user[at];
    user[at] = *entry;
    *entry = before;
    user_bytes = bytes;
    users += at == users;
    return true;
}

bool writer_metadata(const char *key, const char *raw_json)
{
    struct user entry = {0};
    json_string(&entry.key, key, strlen(key));
    buf_puts(&entry.value, raw_json);
    bool done = !entry.key.failed && !entry.value.failed;
    if (done) {
        pthread_mutex_lock(&texts_lock);
        done = put_user(&entry);
        pthread_mutex_unlock(&texts_lock);
    }
    buf_free(&entry.key);
    buf_free(&entry.value);
    return done;
}

char *writer_quote(const char *text)
{
    struct buf quoted = {0};
    json_string(&quoted, text, strlen(text));
    buf_put(&quoted, "", 1);
    if (!quoted.failed)
        return quoted.data;
    buf_free(&quoted);
    return NULL;
}

void writer_note(const char *text)
{
    struct held_back before = hold_back();
    pthread_mutex_lock(&texts_lock);
    if (notes < 16) {
        if (notes++)
            buf_puts(&notes_text, ", ");
        json_string(&notes_text, text, strlen(text));
    }
    pthread_mutex_unlock(&texts_lock);
    hold_back_end(&before);
}

void writer_record_path(const char *words)
{
    uint64_t now = clock_ticks();
    struct held_back before = hold_back();
    pthread_mutex_lock(&texts_lock);
    if (record_paths[0].words != words) {
        record_paths[1] = record_paths[0];
        record_paths[0].from = now;
        record_paths[0].words = words;
    }
    pthread_mutex_unlock(&texts_lock);
    hold_back_end(&before);
}

const char *metadata_record_path(uint64_t until)
{
    pthread_mutex_lock(&texts_lock);
    bool last = record_paths[0].from <= until || !record_paths[1].words;
    const char *words = record_paths[last ? 0 : 1].words;
    pthread_mutex_unlock(&texts_lock);
    return words;
}

void writer_gap(const char *text, bool begins)
{
    uint64_t now = clock_ticks();
    struct held_back before = hold_back();
    pthread_mutex_lock(&texts_lock);
    gap_text = text;
    if (!begins && n_gaps) {
        gaps[n_gaps - 1].until = now;
    } else if (begins) {
        n_gaps += n_gaps < GAPS_MAX;
        if (!gaps[n_gaps - 1].from)
            gaps[n_gaps - 1].from = now;
        gaps[n_gaps - 1].until = UINT64_MAX;
    }
    pthread_mutex_unlock(&texts_lock);
    hold_back_end(&before);
}

const char *metadata_gap(uint64_t from, uint64_t to)
{
    bool found = false;
    pthread_mutex_lock(&texts_lock);
    for (unsigned i = 0; i < n_gaps && !found; i++)
        found = gaps[i].from < to && from < gaps[i].until;
    const char *text = found ? gap_text : NULL;
    pthread_mutex_unlock(&texts_lock);
    return text;
}
