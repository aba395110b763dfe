/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the settings; config.h says which function runs on which thread. */
#include "preload/settings/config.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "preload/settings/run_names.h"
#include "preload/settings/schedule.h"
#include "preload/core/core.h"
#include "writer/writer.h"

enum {
    CAPTURED_MAX = 96,     /* variables; three times the number of settings */
    CAPTURED_BYTES = 32768 /* for all variables together */
};

enum type {
    TYPE_BOOL,
    TYPE_INT,
    TYPE_CHOICE,
    TYPE_TEXT,
    TYPE_FOLDER,
    TYPE_FILE,
    TYPE_STEP,
    TYPE_LIST,
    TYPE_RANGES
};

/* A row of config.def. */
struct setting {
    const char *name;
    enum type type;
    size_t offset; /* of the field in struct config */
    const char *fallback;
    int64_t min, max;
    const char *allowed;
};

/* clang-format off */
static const struct setting settings[] = {
#define X(name, type, field, fallback, min, max, allowed, state, help) \
    {#name, TYPE_##type, offsetof(struct config, field), fallback, min, max, allowed},
#include "preload/settings/config.def"
#undef X
};

/* A row's index, by its field. INTERNAL rows come last. */
enum {
#define X(name, type, field, fallback, min, max, allowed, state, help) AT_##field,
#include "preload/settings/config.def"
#undef X
    SETTINGS
};
/* clang-format on */

#define FLIGHT_MOST 1048576 /* steps, seconds or MB after the colon of CPROF_FLIGHT */

/* Written by config_capture() in the constructor, read-only afterwards. */
static struct {
    bool secure;
    bool off;                          /* CPROF_ENABLED=0 */
    unsigned count;                    /* of entries[] */
    unsigned omitted;                  /* variables that did not fit */
    size_t used;                       /* bytes of text */
    const char *entries[CAPTURED_MAX]; /* "NAME=value" */
    char text[CAPTURED_BYTES];
    int step_kind;        /* enum config_step */
    char step_name[1024]; /* the text after the colon */
} captured;

/* Written once by load(), read-only afterwards. */
static struct {
    pthread_once_t once;
    struct config config;
    const char *text[SETTINGS]; /* the effective value */
    bool set[SETTINGS];         /* set by the user */
} loaded = {.once = PTHREAD_ONCE_INIT};

/* ---- constructor ---- */

/* The value of a captured variable, or NULL. */
static const char *find_captured(const char *name)
{
    size_t length = strlen(name);
    for (unsigned i = 0; i < captured.count; i++)
        if (strncmp(captured.entries[i], name, length) == 0 && captured.entries[i][length] == '=')
            return captured.entries[i] + length + 1;
    return NULL;
}

/* Runs in the constructor, because CPROF_STEP=symbol:NAME redirects calls there. */
static void capture_step_name(const char *value)
{
    size_t row = AT_step, most = sizeof captured.step_name - 1;
    captured.step_kind = CONFIG_STEP_AUTO;
    captured.step_name[0] = '\0';
    if (!value || !parse_choice(value, settings[row].allowed, &captured.step_kind))
        return;
    const char *name = strchr(value, ':');
    name = name ? name + 1 + strspn(name + 1, " \t\r\n") : "";
    size_t length = strnlen(name, most);
    while (length > 0 && strchr(" \t\r\n", name[length - 1]))
        length--;
    memcpy(captured.step_name, name, length);
    captured.step_name[length] = '\0';
}

void config_capture(void)
{
    static const pthread_once_t never = PTHREAD_ONCE_INIT;

    memcpy(&loaded.once, &never, sizeof never);
    captured.count = captured.omitted = 0;
    captured.used = 0;
    captured.off = false;
    captured.secure = getauxval(AT_SECURE) != 0;
    if (captured.secure || !environ)
        return;
    for (char **entry = environ; *entry; entry++) {
        if (strncmp(*entry, "CPROF_", 6) != 0)
            continue;
        size_t size = strlen(*entry) + 1;
        if (captured.count == CAPTURED_MAX || size > CAPTURED_BYTES - captured.used) {
            captured.omitted++;
            continue;
        }
        captured.entries[captured.count++] = memcpy(captured.text + captured.used, *entry, size);
        captured.used += size;
    }
    bool enabled;
    const char *value = find_captured("CPROF_ENABLED");
    captured.off = value && parse_bool(value, &enabled) && !enabled;
    capture_step_name(find_captured("CPROF_STEP"));
}

const char *config_step_name(enum config_step kind)
{
    return captured.step_kind == (int)kind ? captured.step_name : "";
}

bool config_enabled(void)
{
    return !captured.secure && !captured.off;
}

const char *config_env(const char *name)
{
    return secure_getenv(name);
}

/* ---- one value ---- */

/* A value as a message shows it: cut, control characters replaced. */
struct shown {
    char text[128];
};

static struct shown show(const char *value)
{
    struct shown shown;
    size_t length = strnlen(value, sizeof shown.text);
    bool cut = length == sizeof shown.text;
    if (cut) {
        length = sizeof shown.text - 4;
        while (length > 0 && ((unsigned char)value[length] & 0xc0) == 0x80)
            length--; /* not inside a UTF-8 character */
    }
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)value[i];
        shown.text[i] = c < 0x20 || c == 0x7f ? '?' : value[i];
    }
    memcpy(shown.text + length, cut ? "..." : "", cut ? 4 : 1);
    return shown;
}

static void bad_value(const struct setting *setting, const char *value, const char *must)
{
    bool empty = *setting->fallback == '\0';
    bool secret = setting == &settings[AT_remote_url]; /* a URL may hold a password */
    log_warn("%s=%s: %s; using the default%s%s", setting->name, secret ? "(set)" : show(value).text,
             must, empty ? "" : " ", setting->fallback);
}

/* "run|epoch|none" as "run, epoch, none". */
static void list_choices(const char *choices, char *out, size_t size)
{
    size_t used = 0;
    for (; *choices && used + 3 < size; choices++) {
        out[used++] = *choices == '|' ? ',' : *choices;
        if (*choices == '|')
            out[used++] = ' ';
    }
    out[used] = '\0';
}

/* Whether `value` is a template for this setting. If not, `why` gets the reason. */
static bool check_template(const struct setting *setting, const char *value, char *why, size_t size)
{
    struct path_error error;
    size_t count = setting->type == TYPE_FOLDER ? NAMES_RUN_VARIABLES : NAMES_VARIABLES;
    if (path_check(value, names_variables, count, &error) == PATH_OK)
        return true;
    path_describe(&error, names_variables, count, why, size);
    return false;
}

/* Parses `value` into the setting's field. Returns false, with the reason in `why`, when it is not
 * allowed. */
static bool parse_value(const struct setting *setting, const char *value, struct config *config,
                        char *why, size_t size)
{
    void *field = (char *)config + setting->offset;
    char choices[160];
    bool good = false;

    switch (setting->type) {
    case TYPE_BOOL:
        snprintf(why, size, "must be 0 or 1 (or false/true, no/yes, off/on)");
        good = parse_bool(value, field);
        break;
    case TYPE_INT:
        snprintf(why, size, "must be a whole number from %" PRId64 " to %" PRId64, setting->min,
                 setting->max);
        good = parse_int(value, setting->min, setting->max, field);
        break;
    case TYPE_CHOICE:
    case TYPE_STEP:
        list_choices(setting->allowed, choices, sizeof choices);
        snprintf(why, size, "must be one of %s", choices);
        good = parse_choice(value, setting->allowed, field);
        break;
    case TYPE_LIST:
        list_choices(setting->allowed, choices, sizeof choices);
        snprintf(why, size, "must be a comma-separated list of %s", choices);
        good = parse_list(value, setting->allowed, field);
        break;
    case TYPE_RANGES:
        good = step_ranges_parse(value, field, why, size);
        break;
    case TYPE_TEXT:
    case TYPE_FOLDER:
    case TYPE_FILE:
        snprintf(why, size, "must be at most %" PRId64 " bytes long", setting->max);
        good = strlen(value) <= (size_t)setting->max &&
               (setting->type == TYPE_TEXT || check_template(setting, value, why, size));
        if (good)
            *(const char **)field = value;
        break;
    }
    return good;
}

/* The text after the colon of the effective value, without blanks around it. */
static const char *argument_of(size_t row, char *out, size_t size)
{
    const char *colon = strchr(loaded.text[row], ':');
    const char *from = colon ? colon + 1 + strspn(colon + 1, " \t\r\n") : "";
    size_t length = strnlen(from, size - 1);
    while (length > 0 && strchr(" \t\r\n", from[length - 1]))
        length--;
    memcpy(out, from, length);
    out[length] = '\0';
    return out;
}

const char *config_trigger_name(void)
{
    static char name[1024]; /* written while the settings load, on one thread */
    return argument_of(AT_trigger, name, sizeof name);
}

static int64_t flight_most; /* written while the settings load, on one thread */

int64_t config_flight_most(void)
{
    return flight_most;
}

/* Makes `value`, the default, the effective one; defaults always parse. */
static void keep_value(const struct setting *setting, const char *value)
{
    char why[512];
    size_t index = (size_t)(setting - settings);

    loaded.text[index] = value;
    loaded.set[index] = false;
    parse_value(setting, value, &loaded.config, why, sizeof why);
}

static void load_setting(const struct setting *setting)
{
    char why[512];
    size_t index = (size_t)(setting - settings);
    const char *value = find_captured(setting->name);

    keep_value(setting, setting->fallback);
    /* Empty means unset, except where an empty name turns uploads off. */
    if (!value || (parse_is_blank(value) && setting != &settings[AT_remote_file_name]))
        return;
    if (parse_value(setting, value, &loaded.config, why, sizeof why)) {
        loaded.text[index] = value;
        loaded.set[index] = true;
    } else {
        bad_value(setting, value, why);
    }
}

/* ---- rules about several settings ---- */

static void ignore(const struct setting *setting, const char *value, const char *why)
{
    log_warn("%s=%s: %s; ignored", setting->name, show(loaded.text[setting - settings]).text, why);
    keep_value(setting, value);
}

static void check_traces_to_keep(void)
{
    const struct config *config = &loaded.config;
    const char *remote = config->remote_file_name;
    bool uploads =
        *config->remote_url && !parse_is_blank(remote) && strcasecmp(remote, "none") != 0;
    if (config->num_traces_to_keep == 0 && !uploads && *config->on_trace_ready == '\0')
        ignore(&settings[AT_num_traces_to_keep], settings[AT_num_traces_to_keep].fallback,
               "keeps no trace at all without CPROF_REMOTE_URL or CPROF_ON_TRACE_READY");
}

static void check_tensorboard(void)
{
    static const int rows[] = {AT_folder, AT_filename};
    if (*loaded.config.tensorboard_dir == '\0')
        return;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (loaded.set[rows[i]])
            ignore(&settings[rows[i]], settings[rows[i]].fallback,
                   "CPROF_TENSORBOARD_DIR says where traces go");
}

static void check_activities(void)
{
    const struct setting *setting = &settings[AT_activities];
    unsigned supported = CONFIG_ACTIVITY_CPU | CONFIG_ACTIVITY_CUDA;
    unsigned asked = loaded.config.activities;
    if ((asked & ~supported) == 0)
        return;
    if ((asked & supported) == 0) {
        bad_value(setting, loaded.text[AT_activities], "xpu and mtia are not supported");
        keep_value(setting, setting->fallback);
        return;
    }
    log_warn("%s=%s: xpu and mtia are not supported; the rest is recorded", setting->name,
             show(loaded.text[AT_activities]).text);
    loaded.config.activities = asked & supported;
}

static void check_flight(void)
{
    const struct setting *setting = &settings[AT_flight];
    char number[32];
    flight_most = 0;
    if (loaded.config.flight < CONFIG_FLIGHT_STEPS ||
        parse_int(argument_of(AT_flight, number, sizeof number), 1, FLIGHT_MOST, &flight_most))
        return;
    bad_value(setting, loaded.text[AT_flight],
              "must have a whole number from 1 to 1048576 after the colon");
    keep_value(setting, setting->fallback);
}

static void check_schedule(void)
{
    static const int cycle[] = {AT_schedule_scope, AT_skip_first, AT_wait,           AT_warmup,
                                AT_active,         AT_repeat,     AT_skip_first_wait};
    bool named = loaded.config.steps.n > 0;
    if (!named && loaded.config.schedule_scope != SCHEDULE_NONE)
        return;
    for (size_t i = named ? 0 : 1; i < sizeof cycle / sizeof cycle[0]; i++)
        if (loaded.set[cycle[i]])
            ignore(&settings[cycle[i]], settings[cycle[i]].fallback,
                   named ? "CPROF_STEPS says which steps are recorded"
                         : "counts nothing with CPROF_SCHEDULE_SCOPE=none");
}

/* The edit distance of two names. A name that lacks words of the other (CPROF_GZIP) counts as
 * close. */
static unsigned unlike(const char *name, const char *known)
{
    unsigned distance = parse_distance(name, known);
    if (distance > 2 && strlen(name) > strlen("CPROF_") + 2 &&
        strcasestr(known, name + strlen("CPROF_")))
        return 2;
    return distance;
}

/* Warns when no setting has this name. */
static void check_name(const char *name)
{
    unsigned best = UINT32_MAX, nearest = 0;

    for (unsigned row = 0; row < SETTINGS; row++) {
        if (strcmp(name, settings[row].name) == 0)
            return;
        unsigned distance = unlike(name, settings[row].name);
        if (distance < best && row < AT_start_time) {
            best = distance;
            nearest = row;
        }
    }
    log_warn("%s: unknown setting; did you mean %s?", show(name).text, settings[nearest].name);
}

static void check_names(void)
{
    for (unsigned i = 0; i < captured.count; i++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(captured.entries[i], "="),
                 captured.entries[i]);
        check_name(name);
    }
    if (captured.omitted > 0)
        log_warn(
            "%u CPROF_* variables are not read: more than %d, or longer than %d bytes together",
            captured.omitted, CAPTURED_MAX, CAPTURED_BYTES);
}

/* ---- loading ---- */

static void load(void)
{
    /* First: it decides which of the following messages are printed. */
    load_setting(&settings[AT_log]);
    log_set_level((enum log_level)(LOG_ERROR + loaded.config.log));
    for (size_t i = 0; i < SETTINGS; i++)
        if (i != AT_log)
            load_setting(&settings[i]);
    check_names();
    check_flight();
    check_traces_to_keep();
    check_tensorboard();
    check_activities();
    check_schedule();
}

void config_load(void)
{
    pthread_once(&loaded.once, load);
}

const struct config *config_get(void)
{
    config_load();
    return &loaded.config;
}

void config_print(void)
{
    for (size_t i = 0; i < AT_start_time; i++)
        log_debug("%s=%s%s", settings[i].name,
                  i == AT_remote_url && loaded.set[i] ? "(set)" : show(loaded.text[i]).text,
                  loaded.set[i] ? "" : " (default)"); /* a URL may hold a password */
}
