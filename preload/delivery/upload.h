/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What curl is told for one upload, and what its end means. Pure but for the lookup; curl runs
 * elsewhere (post_save.c). Everything goes to curl as a config on its standard input (curl(1),
 * --config): a command line is visible to all users of the machine, and these texts hold passwords
 * and keys.
 *
 * http://, https://  PUT to URL/NAME; a query (?...) stays behind the name. User and password in
 * the URL, or those of ~/.netrc. s3://BUCKET/PREFIX PUT to the object PREFIX/NAME with AWS
 * Signature Version 4, which curl makes (--aws-sigv4). Read are AWS_ACCESS_KEY_ID,
 *                    AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION or AWS_DEFAULT_REGION
 *                    (us-east-1), and for other servers than Amazon's AWS_ENDPOINT_URL_S3 or
 *                    AWS_ENDPOINT_URL (path style: ENDPOINT/BUCKET/PREFIX/NAME).
 */
#ifndef PRELOAD_DELIVERY_UPLOAD_H
#define PRELOAD_DELIVERY_UPLOAD_H

#include <stdbool.h>
#include <stddef.h>

enum { UPLOAD_TRIES = 4 };

/* The value of an environment variable, or NULL. */
typedef const char *upload_lookup(const char *name);

/* NULL when uploads to this URL are possible, else why not, in words. */
const char *upload_refusal(const char *url);

/* The URL as people may see it: without user, password and query. Cut at size, terminated. */
void upload_shown(const char *url, char *out, size_t size);

/* curl's config for the upload of its file SPAWN_FILE_PATH (spawn.h) as `name` below url into out,
 * terminated. Returns its length; 0: *why says what is wrong. */
size_t upload_config(const char *url, const char *name, upload_lookup *lookup, char *out,
                     size_t size, const char **why);

/* What the end of curl means: its exit status (negative: it did not end by itself) and its output
 * with `write-out` in it. */
enum upload_end { UPLOAD_DONE, UPLOAD_AGAIN, UPLOAD_FAILED };

/* Judges it; the reason in words into why. AGAIN: another try may help (no connection, time-out,
 * HTTP 408, 429, 5xx). */
enum upload_end upload_judge(int exit_status, const char *output, char *why, size_t size);

/* Milliseconds between the try (1 ...) that ended and the next. */
int upload_pause_ms(unsigned tries);

#endif
