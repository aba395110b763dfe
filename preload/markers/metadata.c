/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata of cprof.h, and traces of other tools. Metadata is checked on the caller's thread, so
 * that the writer can copy it into traces. */
#define CPROF_IMPLEMENTATION
#include "preload/cprof.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "preload/core/core.h"
#include "writer/writer.h"

#define KEY_MOST   256u         /* bytes */
#define VALUE_MOST (256u << 10) /* bytes */
#define SHOWN      24           /* bytes of a refused text that are logged */

/* Top-level keys of traces that cprof writes, or that Perfetto gives another meaning. */
static const char *const own_keys[] = {
    "schemaVersion",
    "deviceProperties",
    "distributedInfo",
    "host_name",
    "torch_version",
    "cupti_version",
    "cuda_runtime_version",
    "cuda_driver_version",
    "record_shapes",
    "profile_memory",
    "with_stack",
    "with_modules",
    "with_flops",
    "displayTimeUnit",
    "baseTimeNanoseconds",
    "traceEvents",
    "cprof",
    "traceName",
    "systemTraceEvents",
    "stackFrames",
    "samples",
    "controllerTraceDataKey",
};

static bool refuse_metadata(const char *call, const char *key, const char *why)
{
    log_warn("%s(\"%.*s\"): %s; it is left out", call, (int)KEY_MOST, key, why);
    return false;
}

static bool acceptable(const char *call, const char *key, const char *value)
{
    if (!key || !value)
        return refuse_metadata(call, key ? key : "", "the key or the value is NULL");
    if (strnlen(key, KEY_MOST + 1) > KEY_MOST)
        return refuse_metadata(call, key, "the key is longer than 256 bytes");
    for (size_t i = 0; i < sizeof own_keys / sizeof own_keys[0]; i++)
        if (strcmp(key, own_keys[i]) == 0)
            return refuse_metadata(call, key, "traces use this key themselves");
    if (strnlen(value, VALUE_MOST + 1) > VALUE_MOST)
        return refuse_metadata(call, key, "the value is longer than 256 KiB");
    return true;
}

static bool store(const char *call, const char *key, const char *json)
{
    return writer_metadata(key, json) ||
           refuse_metadata(call, key, "no room is left: 64 keys and 1 MiB in all are the most");
}

static bool add_json(const char *key, const char *json)
{
    static const char call[] = "cprof_add_metadata_json";
    if (!acceptable(call, key, json))
        return false;
    size_t len = strlen(json);
    char *checked = malloc(len + 1);
    if (!checked)
        return refuse_metadata(call, key, "no memory");
    struct json_fault fault;
    size_t used = writer_check_json(json, len, checked, &fault);
    checked[used] = '\0';
    if (used == 0)
        log_warn("%s(\"%s\"): no JSON at byte %zu, \"%.*s\": %s; it is left out", call, key,
                 fault.at, SHOWN, json + fault.at, fault.what);
    bool done = used > 0 && store(call, key, checked);
    free(checked);
    return done;
}

static bool add_text(const char *key, const char *text)
{
    static const char call[] = "cprof_add_metadata";
    if (!acceptable(call, key, text))
        return false;
    char *json = writer_quote(text);
    bool done = json ? store(call, key, json) : refuse_metadata(call, key, "no memory");
    free(json);
    return done;
}

/* False once cprof has ended, as in a forked child, where a missing thread may hold the writer's
 * lock. */
static bool is_usable(void)
{
    cprof_wake_once(WAKE_MARKER);
    return atomic_load_explicit(&cprof_life, memory_order_acquire) != LIFE_OVER;
}

/* These allocate and take locks that the cprof thread also takes: hold_back() keeps a signal or
 * cancellation from leaving them half-way. */
int cprof_add_metadata(const char *key, const char *text)
{
    int saved = errno;
    struct held_back before = hold_back();
    bool done = is_usable() && add_text(key, text);
    hold_back_end(&before);
    errno = saved;
    return done;
}

int cprof_add_metadata_json(const char *key, const char *json)
{
    int saved = errno;
    struct held_back before = hold_back();
    bool done = is_usable() && add_json(key, json);
    hold_back_end(&before);
    errno = saved;
    return done;
}

int cprof_record_chrome_json_trace_file(const char *path)
{
    int saved = errno;
    struct held_back before = hold_back();
    bool done = path && *path && is_usable() && writer_import(path);
    if (!path || !*path)
        log_warn("cprof_record_chrome_json_trace_file(): the path is NULL or empty");
    hold_back_end(&before);
    errno = saved;
    return done;
}
