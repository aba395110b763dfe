/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration of curl for an upload, and the meaning of its end. Pure but for the lookup;
 * post_save.c runs curl. The whole configuration goes through curl's stdin (curl(1), --config),
 * because it holds passwords and keys, and command lines are visible to all users.
 *
 * http://, https://  PUT to URL/NAME; a query (?...) stays after the name. User and password come
 *                    from the URL or ~/.netrc.
 * s3://BUCKET/PREFIX PUT to the object PREFIX/NAME with AWS Signature Version 4, which curl makes
 *                    (--aws-sigv4). Reads AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
 *                    AWS_SESSION_TOKEN, and AWS_REGION or AWS_DEFAULT_REGION (us-east-1). For other
 *                    servers: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL (path style:
 *                    ENDPOINT/BUCKET/PREFIX/NAME).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { UPLOAD_TRIES = 4 };

/* The value of an environment variable, or NULL. */
typedef const char *upload_lookup(const char *name);

/* NULL if uploads to this URL are possible, else the reason. */
const char *upload_refusal(const char *url);

/* Copies the URL without user, password and query, for messages. Cut at size. */
void upload_shown(const char *url, char *out, size_t size);

/* Writes curl's config to upload SPAWN_FILE_PATH (spawn.h) as `name` below url. Returns its length;
 * 0: *why has the reason. */
size_t upload_config(const char *url, const char *name, upload_lookup *lookup, char *out,
                     size_t size, const char **why);

/* The result of an upload. */
enum upload_end { UPLOAD_DONE, UPLOAD_AGAIN, UPLOAD_FAILED };

/* Judges curl's exit status (negative: killed) and its output with `write-out`; writes the reason
 * into why. UPLOAD_AGAIN: another try may help (no connection, time-out, HTTP 408, 429, 5xx). */
enum upload_end upload_judge(int exit_status, const char *output, char *why, size_t size);

/* Milliseconds to wait after try number `tries` (from 1). */
int upload_pause_ms(unsigned tries);
