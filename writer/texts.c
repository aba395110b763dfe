/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata and notes: added by any thread, taken by the cprof thread for each flush. */
#include "writer/texts.h"

#include <pthread.h>
#include <string.h>

#include "writer/buf.h"
#include "writer/json.h"
#include "writer/writer.h"

/* Under the lock, but the last two: cprof thread. */
static pthread_mutex_t texts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct buf user_keys[64], user_values[64];
static unsigned users;
static struct buf notes_text, user_text, notes_copy;
static unsigned notes;

void texts_collect(const char **user_json, const char **notes_json)
{
    buf_reset(&user_text);
    buf_reset(&notes_copy);
    pthread_mutex_lock(&texts_lock);
    for (unsigned i = 0; i < users; i++) {
        json_string(&user_text, user_keys[i].data, user_keys[i].len);
        buf_puts(&user_text, ": ");
        buf_put(&user_text, user_values[i].data, user_values[i].len);
        buf_puts(&user_text, ",\n");
    }
    if (notes_text.len)
        buf_put(&notes_copy, notes_text.data, notes_text.len);
    pthread_mutex_unlock(&texts_lock);
    buf_put(&user_text, "", 1);
    buf_put(&notes_copy, "", 1);
    *user_json = user_text.failed ? "" : user_text.data;
    *notes_json = notes_copy.failed ? "" : notes_copy.data;
}

bool writer_metadata(const char *key, const char *raw_json)
{
    size_t len = strlen(key);
    bool done = false;
    pthread_mutex_lock(&texts_lock);
    unsigned at = 0;
    while (at < users && !(user_keys[at].len == len && memcmp(user_keys[at].data, key, len) == 0))
        at++;
    if (at < sizeof user_keys / sizeof user_keys[0]) {
        buf_reset(&user_keys[at]);
        buf_reset(&user_values[at]);
        buf_put(&user_keys[at], key, len);
        buf_puts(&user_values[at], raw_json);
        done = !user_keys[at].failed && !user_values[at].failed;
        if (done && at == users)
            users++;
    }
    pthread_mutex_unlock(&texts_lock);
    return done;
}

void writer_note(const char *text)
{
    pthread_mutex_lock(&texts_lock);
    if (notes < 16) {
        if (notes++)
            buf_puts(&notes_text, ", ");
        json_string(&notes_text, text, strlen(text));
    }
    pthread_mutex_unlock(&texts_lock);
}
