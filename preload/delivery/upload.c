/* SPDX-License-Identifier: Apache-2.0 */
/* Writes curl's configuration for an upload. Syntax: curl(1), --config. S3 addresses: "Virtual
 * hosting of general purpose buckets" in Amazon's guide. */
#include "preload/delivery/upload.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "preload/delivery/spawn.h"

#define CODE_MARK "cprof-http-code "
#define PAUSE_MS  1000
#define URL_MOST  16384

struct config_text {
    char *out;
    size_t size, used;
    bool full;
};

static void put_config(struct config_text *t, const char *text, size_t len)
{
    if (len >= t->size - t->used) {
        t->full = true;
        return;
    }
    memcpy(t->out + t->used, text, len);
    t->used += len;
    t->out[t->used] = '\0';
}

static void puts_to(struct config_text *t, const char *text)
{
    put_config(t, text, strlen(text));
}

static bool has_controls(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return true;
    return false;
}

/* Whether the text can be part of a host name. */
static bool is_name(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z') ||
              (text[i] >= '0' && text[i] <= '9') || strchr("-._", text[i])))
            return false;
    return len > 0;
}

/* Escapes a value in quotes, for --config. */
static void put_escaped(struct config_text *t, const char *value)
{
    for (; *value; value++) {
        if (*value == '\\' || *value == '"')
            puts_to(t, "\\");
        put_config(t, value, 1);
    }
}

/* Writes OPTION = "AB" for a value in two parts without control characters. */
static void put_option(struct config_text *t, const char *option, const char *a, const char *b)
{
    puts_to(t, option);
    puts_to(t, " = \"");
    put_escaped(t, a);
    put_escaped(t, b);
    puts_to(t, "\"\n");
}

/* Percent-encodes a path; slashes stay (RFC 3986, 2.3). */
static void put_encoded(struct config_text *t, const char *name)
{
    static const char hex[] = "0123456789ABCDEF";
    for (; *name; name++) {
        unsigned char c = (unsigned char)*name;
        char code[3] = {'%', hex[c >> 4], hex[c & 15]};
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     strchr("-._~/", c) != NULL;
        plain ? put_config(t, name, 1) : put_config(t, code, 3);
    }
}

static bool is_http(const char *url)
{
    return strncasecmp(url, "http://", 7) == 0 || strncasecmp(url, "https://", 8) == 0;
}

static bool is_s3(const char *url)
{
    return strncasecmp(url, "s3://", 5) == 0;
}

const char *upload_refusal(const char *url)
{
    if (!is_http(url) && !is_s3(url))
        return "must begin with http://, https:// or s3://";
    const char *host = strstr(url, "://") + 3;
    size_t len = strcspn(host, is_s3(url) ? "/" : "/?#");
    if (len == 0)
        return is_s3(url) ? "names no bucket" : "names no host";
    if (is_s3(url) && !is_name(host, len))
        return "must name a bucket of letters, digits and - . _";
    if (has_controls(url))
        return "holds a control character";
    if (strlen(url) >= URL_MOST / 2)
        return "is too long";
    return NULL;
}

void upload_shown(const char *url, char *out, size_t size)
{
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    size_t most = strcspn(host, "/?#");
    /* The '@' may end a password that holds a slash by mistake, or belong to the query after
     * host:port. Hide the rest in both cases. */
    if (memchr(host, ':', most) && strchr(host + most, '@')) {
        snprintf(out, size, "%.*s...", (int)(host - url), url);
        return;
    }
    const char *at = memrchr(host, '@', most), *from = at ? at + 1 : host;
    snprintf(out, size, "%.*s%s%.*s%s", (int)(host - url), url, at ? "...@" : "",
             (int)strcspn(from, "?#"), from, from[strcspn(from, "?#")] ? "?..." : "");
}

/* BASE/NAME?QUERY */
static void put_http_url(struct config_text *t, const char *url, const char *name)
{
    size_t base = strcspn(url, "?#"), query = base;
    while (base > 0 && url[base - 1] == '/')
        base--;
    put_config(t, url, base);
    puts_to(t, "/");
    put_encoded(t, name);
    puts_to(t, url + query);
}

static const char *first_set(upload_lookup *lookup, const char *a, const char *b)
{
    const char *value = lookup(a);
    if (!value || !*value)
        value = lookup(b);
    return value && *value ? value : NULL;
}

static const char *region_of(upload_lookup *lookup)
{
    const char *region = first_set(lookup, "AWS_REGION", "AWS_DEFAULT_REGION");
    return region ? region : "us-east-1";
}

static const char *endpoint_of(upload_lookup *lookup)
{
    return first_set(lookup, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
}

/* A bucket with a dot goes into the path: certificates do not cover it as part of the host. */
static void put_s3_url(struct config_text *t, const char *url, const char *name,
                       upload_lookup *lookup)
{
    const char *bucket = url + 5, *prefix = bucket + strcspn(bucket, "/");
    size_t bucket_len = (size_t)(prefix - bucket);
    char key[URL_MOST];
    const char *endpoint = endpoint_of(lookup);
    bool as_host = !endpoint && !memchr(bucket, '.', bucket_len);
    if (endpoint) {
        size_t len = strlen(endpoint);
        while (len > 0 && endpoint[len - 1] == '/')
            len--;
        put_config(t, endpoint, len);
    } else {
        puts_to(t, "https://");
        put_config(t, bucket, as_host ? bucket_len : 0);
        puts_to(t, as_host ? ".s3." : "s3.");
        puts_to(t, region_of(lookup));
        puts_to(t, ".amazonaws.com");
    }
    if (!as_host) {
        puts_to(t, "/");
        put_config(t, bucket, bucket_len);
    }
    prefix += strspn(prefix, "/");
    size_t prefix_len = strlen(prefix);
    while (prefix_len > 0 && prefix[prefix_len - 1] == '/')
        prefix_len--;
    int n = snprintf(key, sizeof key, "/%.*s%s%s", (int)prefix_len, prefix, prefix_len ? "/" : "",
                     name);
    if (n < 0 || (size_t)n >= sizeof key)
        t->full = true;
    else
        put_encoded(t, key);
}

/* What is wrong with the AWS_* variables, or NULL. */
static const char *s3_refusal(upload_lookup *lookup)
{
    static const struct {
        const char *name, *why;
        bool needed;
    } texts[] = {
        {"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY_ID holds a control character", true},
        {"AWS_SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY holds a control character", true},
        {"AWS_SESSION_TOKEN", "AWS_SESSION_TOKEN holds a control character", false},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *value = lookup(texts[i].name);
        if (texts[i].needed && (!value || !*value))
            return "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set";
        if (value && has_controls(value))
            return texts[i].why;
    }
    const char *endpoint = endpoint_of(lookup), *region = region_of(lookup);
    if (endpoint && (!is_http(endpoint) || has_controls(endpoint)))
        return "AWS_ENDPOINT_URL must begin with http:// or https:// and hold no control character";
    return is_name(region, strlen(region)) ? NULL
                                           : "AWS_REGION must consist of letters, digits and - . _";
}

static void put_s3_options(struct config_text *t, upload_lookup *lookup)
{
    const char *token = lookup("AWS_SESSION_TOKEN");
    puts_to(t, "user = \"");
    put_escaped(t, lookup("AWS_ACCESS_KEY_ID"));
    puts_to(t, ":");
    put_escaped(t, lookup("AWS_SECRET_ACCESS_KEY"));
    puts_to(t, "\"\naws-sigv4 = \"aws:amz:");
    put_escaped(t, region_of(lookup));
    puts_to(t, ":s3\"\n");
    put_option(t, "header", "x-amz-content-sha256: UNSIGNED-PAYLOAD", "");
    if (token && *token)
        put_option(t, "header", "x-amz-security-token: ", token);
}

size_t upload_config(const char *url, const char *name, upload_lookup *lookup, char *out,
                     size_t size, const char **why)
{
    struct config_text t = {.out = out, .size = size};
    char target[URL_MOST] = "";
    struct config_text u = {.out = target, .size = sizeof target};
    *why = is_s3(url) ? s3_refusal(lookup) : NULL;
    if (*why)
        return 0;
    if (is_s3(url))
        put_s3_url(&u, url, name, lookup);
    else
        put_http_url(&u, url, name);
    puts_to(&t, "silent\nshow-error\nfail\ngloboff\nconnect-timeout = 10\nspeed-limit = 1\n"
                "speed-time = 30\nproto = \"=http,https\"\noutput = \"/dev/null\"\n"
                "write-out = \"\\n" CODE_MARK "%{http_code}\\n\"\n");
    put_option(&t, "url", target, "");
    put_option(&t, "upload-file", SPAWN_FILE_PATH, "");
    if (is_s3(url))
        put_s3_options(&t, lookup);
    else
        /* not for S3: the signature would cover it */
        puts_to(&t, "netrc-optional\nheader = \"Expect:\"\n");
    *why = "the address or a credential is too long";
    return t.full || u.full ? 0 : t.used;
}

/* Exit codes of curl that another try may fix (curl(1), EXIT CODES): host not found, no answer,
 * connection cut. */
static bool may_pass(int status)
{
    static const int codes[] = {5, 6, 7, 16, 18, 28, 35, 52, 55, 56, 92};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (status == codes[i])
            return true;
    return false;
}

enum upload_end upload_judge(int status, const char *output, char *why, size_t size)
{
    const char *mark = strstr(output, CODE_MARK), *said = strstr(output, "curl: (");
    int code = mark ? atoi(mark + sizeof CODE_MARK - 1) : 0;
    if (status == 0 && code >= 200 && code < 300)
        return UPLOAD_DONE;
    if (status < 0)
        snprintf(why, size, "curl was killed");
    else if (said)
        snprintf(why, size, "%.*s", (int)strcspn(said, "\r\n"), said);
    else
        snprintf(why, size, "curl ended with status %d, HTTP %d", status, code);
    bool busy = code == 408 || code == 429 || code >= 500;
    return busy || may_pass(status) ? UPLOAD_AGAIN : UPLOAD_FAILED;
}

int upload_pause_ms(unsigned tries)
{
    return PAUSE_MS << (tries < 8 ? tries - 1 : 7);
}
