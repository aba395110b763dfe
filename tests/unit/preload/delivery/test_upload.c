/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/delivery/upload.h: curl's configuration, URLs in messages, and what curl's exit
 * status means. */
#include "preload/delivery/upload.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

Suite *suite_upload(void);

static const char *const *variables; /* name, value, ..., NULL */

static const char *lookup(const char *name)
{
    for (const char *const *v = variables; v && *v; v += 2)
        if (strcmp(v[0], name) == 0)
            return v[1];
    return NULL;
}

static char text[32768];
static const char *why;

/* Curl's configuration; on failure "", with the reason in `why`. */
static const char *config_of(const char *url, const char *name)
{
    why = NULL;
    if (upload_config(url, name, lookup, text, sizeof text, &why) == 0)
        text[0] = '\0';
    return text;
}

#define HAS(part) ck_assert_msg(strstr(text, part) != NULL, "%s lacks %s", text, part)

START_TEST(writes_http_urls)
{
    static const struct {
        const char *url, *name, *line;
    } rows[] = {
        {"http://h", "a/b.json", "url = \"http://h/a/b.json\"\n"},
        {"https://h:8/x//", "a b%.json", "url = \"https://h:8/x/a%20b%25.json\"\n"},
        {"https://h/x?sig=1&t=2", "r\xc3\xa4", "url = \"https://h/x/r%C3%A4?sig=1&t=2\"\n"},
        {"HTTP://u:p@h", "a#?", "url = \"HTTP://u:p@h/a%23%3F\"\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        config_of(rows[i].url, rows[i].name);
        HAS(rows[i].line);
        HAS("upload-file = \"/proc/self/fd/3\"\n");
        HAS("proto = \"=http,https\"\n");
        HAS("\nnetrc-optional\n");
        ck_assert_ptr_null(strstr(text, "sigv4"));
    }
}
END_TEST

START_TEST(writes_s3_urls_and_credentials)
{
    static const char *const amazon[] = {"AWS_ACCESS_KEY_ID",
                                         "AK",
                                         "AWS_SECRET_ACCESS_KEY",
                                         "S\"\\K",
                                         "AWS_SESSION_TOKEN",
                                         "tok",
                                         "AWS_DEFAULT_REGION",
                                         "eu-west-1",
                                         NULL};
    variables = amazon;
    config_of("s3://bucket/some/prefix/", "r0/1=.json");
    HAS("url = \"https://bucket.s3.eu-west-1.amazonaws.com/some/prefix/r0/1%3D.json\"\n");
    HAS("user = \"AK:S\\\"\\\\K\"\n");
    HAS("aws-sigv4 = \"aws:amz:eu-west-1:s3\"\n");
    HAS("header = \"x-amz-security-token: tok\"\n");
    config_of("s3://dots.in.it", "n");
    HAS("url = \"https://s3.eu-west-1.amazonaws.com/dots.in.it/n\"\n");
    static const char *const other[] = {
        "AWS_ACCESS_KEY_ID",  "AK", "AWS_SECRET_ACCESS_KEY", "SK", "AWS_ENDPOINT_URL",
        "http://minio:9000/", NULL};
    variables = other;
    config_of("s3://b", "n");
    HAS("url = \"http://minio:9000/b/n\"\n");
    HAS("aws-sigv4 = \"aws:amz:us-east-1:s3\"\n");
    variables = NULL;
    ck_assert_str_eq(config_of("s3://b", "n"), "");
    ck_assert_str_eq(why, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set");
}
END_TEST

static const char *s3_variables[] = {
    "AWS_ACCESS_KEY_ID", "AK", "AWS_SECRET_ACCESS_KEY", "SK", NULL, NULL, NULL};

/* The configuration for s3_variables with one variable added or replaced. */
static const char *s3_config_with(const char *name, const char *value)
{
    size_t at = 0;
    while (at < 4 && strcmp(s3_variables[at], name) != 0)
        at += 2;
    const char *before = s3_variables[at + 1];
    s3_variables[at] = name;
    s3_variables[at + 1] = value;
    variables = s3_variables;
    const char *config = config_of("s3://b", "n");
    s3_variables[at] = at < 4 ? name : NULL;
    s3_variables[at + 1] = before;
    return config;
}

START_TEST(rejects_control_characters_in_values)
{
    static const char *const names[] = {
        "AWS_ACCESS_KEY_ID",  "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",  "AWS_REGION",
        "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL",      "AWS_ENDPOINT_URL_S3"};
    static const char *const values[] = {"http://a\r\nX-Evil: 4", "http://a\nx", "http://a\x7f"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (size_t j = 0; j < sizeof values / sizeof values[0]; j++) {
            ck_assert_str_eq(s3_config_with(names[i], values[j]), "");
            ck_assert_msg(strncmp(why, "AWS_", 4) == 0, "%s: %s", names[i], why);
        }
    ck_assert_str_eq(upload_refusal("http://h/\r\nx"), "holds a control character");
    s3_config_with("AWS_SESSION_TOKEN", "a\"\\b");
    HAS("header = \"x-amz-security-token: a\\\"\\\\b\"\n");
}
END_TEST

START_TEST(rejects_values_that_change_the_server)
{
    static const char *const endpoints[] = {"file:///etc", "ftp://h", "h:9000", "gopher://h"};
    for (size_t i = 0; i < sizeof endpoints / sizeof endpoints[0]; i++) {
        ck_assert_str_eq(s3_config_with("AWS_ENDPOINT_URL", endpoints[i]), "");
        ck_assert_ptr_nonnull(strstr(why, "must begin with http:// or https://"));
    }
    ck_assert_str_eq(s3_config_with("AWS_REGION", "evil.example/"), "");
    ck_assert_str_eq(why, "AWS_REGION must consist of letters, digits and - . _");
    ck_assert_ptr_nonnull(upload_refusal("s3://evil.example#/x"));
    ck_assert_ptr_nonnull(upload_refusal("s3://me@evil.example/x"));
}
END_TEST

START_TEST(never_cuts_long_values)
{
    static char token[20001], bucket[1001], url[1100];
    memset(token, 'T', sizeof token - 1);
    s3_config_with("AWS_SESSION_TOKEN", token);
    HAS(token);
    memset(bucket, 'b', sizeof bucket - 1);
    snprintf(url, sizeof url, "s3://%s/p", bucket);
    variables = s3_variables;
    config_of(url, "n");
    HAS(bucket);
    HAS(".s3.us-east-1.amazonaws.com/p/n\"\n");
    char small[64];
    ck_assert_uint_eq(upload_config("http://h", "n", lookup, small, sizeof small, &why), 0);
    ck_assert_str_eq(why, "the address or a credential is too long");
}
END_TEST

START_TEST(refuses_bad_urls_and_hides_credentials)
{
    char shown[64];
    ck_assert_ptr_null(upload_refusal("https://h"));
    ck_assert_ptr_null(upload_refusal("s3://b/p"));
    ck_assert_str_eq(upload_refusal("ftp://h"), "must begin with http://, https:// or s3://");
    ck_assert_str_eq(upload_refusal("host/x"), "must begin with http://, https:// or s3://");
    ck_assert_str_eq(upload_refusal("http:///x"), "names no host");
    ck_assert_str_eq(upload_refusal("s3://"), "names no bucket");
    upload_shown("https://user:pa@ss@h:1/p?sig=2", shown, sizeof shown);
    ck_assert_str_eq(shown, "https://...@h:1/p?...");
    upload_shown("http://h/a@b", shown, sizeof shown);
    ck_assert_str_eq(shown, "http://h/a@b");
    static const char *const mistakes[] = {"https://me:pa/ss@h/p",
                                           "https://me:p#ss@h/p",
                                           "https://me:p?ss@h/p",
                                           "https://me:p@ss/w@h/p",
                                           "https:/me:pass@h/p",
                                           "https://h:1/p?user=a@b&sig=ss",
                                           "https://me:pa@h/p?user=a@b&sig=ss"};
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        upload_shown(mistakes[i], shown, sizeof shown);
        ck_assert_msg(strstr(shown, "...") && !strchr(shown, '@') && !strstr(shown, "me:") &&
                          !strstr(shown, "ss"),
                      "%s", shown);
    }
}
END_TEST

START_TEST(judges_curls_exit_status)
{
    static const struct {
        int status;
        const char *output;
        enum upload_end end;
        const char *why;
    } rows[] = {
        {0, "\ncprof-http-code 201\n", UPLOAD_DONE, NULL},
        {0, "\ncprof-http-code 204\n", UPLOAD_DONE, NULL},
        {0, "\ncprof-http-code 301\n", UPLOAD_FAILED, "curl ended with status 0, HTTP 301"},
        {22, "curl: (22) The URL returned error: 503\n\ncprof-http-code 503\n", UPLOAD_AGAIN,
         "curl: (22) The URL returned error: 503"},
        {22, "curl: (22) e: 429\n\ncprof-http-code 429\n", UPLOAD_AGAIN, "curl: (22) e: 429"},
        {22, "curl: (22) e: 403\n\ncprof-http-code 403\n", UPLOAD_FAILED, "curl: (22) e: 403"},
        {7, "curl: (7) refused\n\ncprof-http-code 000\n", UPLOAD_AGAIN, "curl: (7) refused"},
        {26, "curl: (26) no file\n\ncprof-http-code 000\n", UPLOAD_FAILED, "curl: (26) no file"},
        {-1, "", UPLOAD_FAILED, "curl was killed"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char said[128] = "";
        ck_assert_int_eq(upload_judge(rows[i].status, rows[i].output, said, sizeof said),
                         rows[i].end);
        if (rows[i].why)
            ck_assert_str_eq(said, rows[i].why);
    }
    ck_assert_int_eq(upload_pause_ms(1), 1000);
    ck_assert_int_eq(upload_pause_ms(3), 4000);
}
END_TEST

Suite *suite_upload(void)
{
    Suite *suite = suite_create("upload");
    TCase *tcase = tcase_create("upload");
    tcase_add_test(tcase, writes_http_urls);
    tcase_add_test(tcase, writes_s3_urls_and_credentials);
    tcase_add_test(tcase, rejects_control_characters_in_values);
    tcase_add_test(tcase, rejects_values_that_change_the_server);
    tcase_add_test(tcase, never_cuts_long_values);
    tcase_add_test(tcase, refuses_bad_urls_and_hides_credentials);
    tcase_add_test(tcase, judges_curls_exit_status);
    suite_add_tcase(suite, tcase);
    return suite;
}
