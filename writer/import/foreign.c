/* SPDX-License-Identifier: Apache-2.0 */
/* Events of foreign traces, moved into ours. */
#include "writer/import/foreign.h"

#include <string.h>

#include "writer/json/json.h"
#include "writer/base/json_text.h"

/* ---- time ---- */

/* The digits of a number: value = digits * 10^exponent. */
struct decimal {
    uint64_t digits;
    int64_t exponent;
    bool negative;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Takes an exponent behind its e; what is absurdly large is cut. */
static const char *read_exponent(const char *p, const char *end, int64_t *exponent)
{
    bool negative = p < end && *p == '-';
    p += p < end && (*p == '-' || *p == '+');
    int64_t value = 0;
    const char *first = p;
    for (; p < end && is_digit(*p); p++)
        value = value < 100000 ? 10 * value + (*p - '0') : value;
    *exponent = negative ? -value : value;
    return p == first ? NULL : p;
}

/* JSON's grammar of numbers; false for anything else. *size: most that the value can have, as a
 * power of ten. */
static bool read_decimal(const char *p, size_t len, struct decimal *d)
{
    const char *end = p + len;
    *d = (struct decimal){0};
    d->negative = p < end && *p == '-';
    p += d->negative;
    const char *first = p;
    bool point = false;
    for (; p < end && (is_digit(*p) || (*p == '.' && !point && p > first)); p++) {
        if (*p == '.') {
            point = true;
        } else if (d->digits < UINT64_MAX / 10 - 1) {
            d->digits = 10 * d->digits + (uint64_t)(*p - '0');
            d->exponent -= point;
        } else {
            d->exponent += !point;
        }
    }
    if (p == first || p[-1] == '.' || (*first == '0' && p > first + 1 && first[1] != '.'))
        return false;
    int64_t exponent = 0;
    if (p < end && (*p == 'e' || *p == 'E'))
        p = read_exponent(p + 1, end, &exponent);
    d->exponent += exponent;
    return p == end;
}

bool foreign_us(const char *text, size_t len, int64_t *ns)
{
    struct decimal d;
    if (!read_decimal(text, len, &d))
        return false;
    uint64_t v = d.digits;
    int64_t exponent = d.exponent + 3;
    for (; exponent > 0 && v != 0; exponent--)
        if (__builtin_mul_overflow(v, 10, &v))
            return false;
    for (; exponent < -1 && v != 0; exponent++)
        v /= 10;
    if (exponent < 0)
        v = v / 10 + (v % 10 >= 5);
    if (v > INT64_MAX)
        return false;
    *ns = d.negative ? -(int64_t)v : (int64_t)v;
    return true;
}

#ifdef CPROF_NO_JSON_C

const bool foreign_built = false;

struct foreign *foreign_new(void)
{
    return NULL;
}

bool foreign_parse(struct foreign *f, const char *text, size_t len, const char **why, uint64_t *at)
{
    (void)f, (void)text, (void)len, (void)at;
    *why = "no parser";
    return false;
}

bool foreign_time(const struct foreign *f, int64_t *start_ns, int64_t *end_ns)
{
    (void)f, (void)start_ns, (void)end_ns;
    return false;
}

bool foreign_integer(const struct foreign *f, int64_t *value)
{
    (void)f, (void)value;
    return false;
}

void foreign_begin(struct foreign *f, unsigned number, int64_t shift_ns, bool has_steps)
{
    (void)f, (void)number, (void)shift_ns, (void)has_steps;
}

bool foreign_put(struct foreign *f, struct buf *out)
{
    (void)f, (void)out;
    return false;
}

void foreign_free(struct foreign *f)
{
    (void)f;
}

#else

#include <json-c/json.h>
#include <stdlib.h>

#include "writer/import/json_parse.h"

#define ROWS_MOST   8192u /* pids and tids that are no plain numbers, of one file; a power of two */
#define ODD_PIDS    9000000u    /* of a file's range: for pids that are no plain numbers */
#define ODD_TIDS    4200000000u /* the same for tids */
/* a file's number in an id: below 2^53, which is as far as JavaScript counts */
#define IDS_SHIFT   44
#define IDS_FLAG    (UINT64_C(1) << 52) /* our own ids stay below until the 65,536th thread */
#define HASH_FLAG   (UINT64_C(1) << 62)
#define CALLS_SHIFT 33 /* the same for CUDA's correlation ids, which have 32 bits */

const bool foreign_built = true;

struct row {
    uint64_t hash; /* 0: empty */
    uint32_t number;
};

struct foreign {
    struct json_parser parser;
    unsigned number;
    int64_t shift_ns;
    bool has_steps;
    uint32_t odd_pids, odd_tids;
    struct row rows[ROWS_MOST];
};

/* The members that are looked at; the others stay as they are. */
enum key {
    KEY_PH,
    KEY_CAT,
    KEY_NAME,
    KEY_PID,
    KEY_TID,
    KEY_TS,
    KEY_DUR,
    KEY_ID,
    KEY_ID2,
    KEY_BIND_ID,
    KEY_ARGS,
    KEY_SF, /* of a table that is left behind, as the next one */
    KEY_ESF,
    KEYS,
};

static const char *const keys[KEYS] = {"ph", "cat", "name",    "pid",  "tid", "ts", "dur",
                                       "id", "id2", "bind_id", "args", "sf",  "esf"};

struct event {
    struct json_object *member[KEYS];
    char phase;
    bool timed; /* has a ts */
    int64_t start_ns, end_ns;
};

/* ---- the parser ---- */

struct foreign *foreign_new(void)
{
    struct foreign *f = calloc(1, sizeof *f);
    if (f && !json_parser_start(&f->parser)) {
        free(f);
        f = NULL;
    }
    return f;
}

void foreign_free(struct foreign *f)
{
    if (!f)
        return;
    json_parser_end(&f->parser);
    free(f);
}

bool foreign_parse(struct foreign *f, const char *text, size_t len, const char **why, uint64_t *at)
{
    return json_parse(&f->parser, text, len, why, at);
}

bool foreign_integer(const struct foreign *f, int64_t *value)
{
    if (!json_object_is_type(f->parser.value, json_type_int))
        return false;
    *value = json_object_get_int64(f->parser.value);
    return true;
}

/* ---- reading an event ---- */

/* The text of a string, or of a number with a point as it stood there. False, and nothing is set:
 * it is neither. */
static bool number_text(struct json_object *o, const char **text, size_t *len)
{
    if (json_object_is_type(o, json_type_string)) {
        *text = json_object_get_string(o);
        *len = (size_t)json_object_get_string_len(o);
        return true;
    }
    const char *kept =
        json_object_is_type(o, json_type_double) ? json_object_get_userdata(o) : NULL;
    if (!kept)
        return false;
    *text = kept;
    *len = strlen(kept);
    return true;
}

static bool get_us(struct json_object *o, int64_t *ns)
{
    const char *text;
    size_t len;
    if (json_object_is_type(o, json_type_int))
        return !__builtin_mul_overflow(json_object_get_int64(o), (int64_t)1000, ns);
    return number_text(o, &text, &len) && foreign_us(text, len, ns);
}

static void look_up(struct json_object *event, struct event *e)
{
    memset(e, 0, sizeof *e);
    json_object_object_foreach(event, key, value)
    {
        for (unsigned i = 0; i < KEYS; i++)
            if (strcmp(key, keys[i]) == 0)
                e->member[i] = value;
    }
}

/* Those of which it is known what their members mean; that a reader may ignore them is its own
 * affair. c moves the clock of the whole trace. */
static bool is_phase(char c)
{
    return c != '\0' && strchr("BEXiIRCbenstfSTpFPMNODvV()", c);
}

/* Arrows and asynchronous ranges are nothing without their ids. */
static bool has_ids(const struct event *e)
{
    if (strchr("stf", e->phase))
        return e->member[KEY_ID] != NULL;
    return !strchr("ben", e->phase) || e->member[KEY_ID] || e->member[KEY_ID2];
}

/* False: nothing that could stand in a trace. */
static bool read_event(const struct foreign *f, struct event *e)
{
    if (!json_object_is_type(f->parser.value, json_type_object))
        return false;
    look_up(f->parser.value, e);
    const char *phase = json_object_is_type(e->member[KEY_PH], json_type_string)
                            ? json_object_get_string(e->member[KEY_PH])
                            : "";
    e->phase = phase[0];
    e->timed = get_us(e->member[KEY_TS], &e->start_ns);
    if (!is_phase(e->phase) || (!e->timed && e->phase != 'M') || !has_ids(e))
        return false;
    int64_t duration = 0;
    bool lasts = get_us(e->member[KEY_DUR], &duration);
    if (!lasts && (e->phase == 'X' || e->phase == 'T'))
        return false;
    if (__builtin_add_overflow(e->start_ns, duration > 0 ? duration : 0, &e->end_ns))
        return false;
    if (!lasts)
        e->member[KEY_DUR] = NULL;
    return true;
}

bool foreign_time(const struct foreign *f, int64_t *start_ns, int64_t *end_ns)
{
    struct event e;
    if (!read_event(f, &e) || e.phase == 'M')
        return false;
    *start_ns = e.start_ns;
    *end_ns = e.end_ns;
    return true;
}

/* ---- rows and ids ---- */

static uint64_t hash_of_key(uint64_t salt, const char *text, size_t len)
{
    uint64_t h = salt * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
    h = (h ^ h >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ h >> 27) * UINT64_C(0x94d049bb133111eb);
    return h ^ h >> 31;
}

/* The number for a pid or tid that cannot be one itself; 0: there are too many. *fresh: it is met
 * for the first time. */
static uint32_t odd_row(struct foreign *f, bool is_pid, const char *text, size_t len, bool *fresh)
{
    uint64_t hash = hash_of_key(is_pid, text, len) | 1;
    unsigned at = (unsigned)(hash >> 32) % ROWS_MOST;
    while (f->rows[at].hash && f->rows[at].hash != hash)
        at = (at + 1) % ROWS_MOST;
    *fresh = f->rows[at].hash == 0;
    if (!*fresh)
        return f->rows[at].number;
    if (f->odd_pids + f->odd_tids >= ROWS_MOST * 3 / 4)
        return 0;
    f->rows[at].hash = hash;
    f->rows[at].number =
        is_pid ? f->number * FOREIGN_PIDS + ODD_PIDS + f->odd_pids++ : ODD_TIDS + f->odd_tids++;
    return f->rows[at].number;
}

struct place {
    uint32_t number;
    const char *name; /* the row is new, and this is what the file calls it; or NULL */
    size_t name_len;
};

/* Where a process's or a thread's events go. A process without a number is 0, as readers have
 * it. */
static bool find_row(struct foreign *f, bool is_pid, struct json_object *given, struct place *to)
{
    *to = (struct place){0};
    int64_t n = json_object_is_type(given, json_type_int) ? json_object_get_int64(given) : 0;
    bool is_number = json_object_is_type(given, json_type_int) || !given;
    if (is_number && is_pid && n >= 0 && n < ODD_PIDS) {
        to->number = f->number * FOREIGN_PIDS + (uint32_t)n;
        return true;
    }
    if (is_number && !is_pid && n > 0 && n < ODD_TIDS) {
        to->number = (uint32_t)n;
        return true;
    }
    char digits[24];
    bool fresh;
    const char *text = digits;
    size_t len = (size_t)(put_i64(digits, n) - digits);
    bool is_text = number_text(given, &text, &len);
    to->number = odd_row(f, is_pid, text, len, &fresh);
    if (fresh && is_text) {
        to->name = text;
        to->name_len = len;
    }
    return to->number != 0;
}

/* A number of the file's, moved out of the way; false: it has too many bits. */
static bool move_number(const struct foreign *f, int64_t n, unsigned shift, uint64_t flag,
                        uint64_t *moved)
{
    *moved = flag | (uint64_t)f->number << shift | (uint64_t)n;
    return n >= 0 && (uint64_t)n >> shift == 0;
}

/* Readers take 119 and "0x77" for one id, and so is it here. */
static bool hex_number(const char *text, size_t len, int64_t *n)
{
    if (len > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        text += 2;
        len -= 2;
    }
    *n = 0;
    for (size_t i = 0; i < len && len <= 15; i++) {
        char c = text[i];
        int digit = is_digit(c)            ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return false;
        *n = *n << 4 | digit;
    }
    return len > 0 && len <= 15;
}

static void put_hex(struct buf *b, uint64_t n)
{
    buf_printf(b, "\"0x%llx\"", (unsigned long long)n);
}

static void put_moved_id(const struct foreign *f, struct buf *b, struct json_object *id)
{
    uint64_t moved;
    const char *text = "";
    size_t len = 0;
    int64_t n;
    if (json_object_is_type(id, json_type_int)) {
        n = json_object_get_int64(id);
        if (move_number(f, n, IDS_SHIFT, IDS_FLAG, &moved))
            json_uint(b, moved);
        else
            put_hex(b, HASH_FLAG | hash_of_key(f->number, (const char *)&n, sizeof n) >> 2);
        return;
    }
    number_text(id, &text, &len);
    if (hex_number(text, len, &n)) {
        if (!move_number(f, n, IDS_SHIFT, IDS_FLAG, &moved))
            moved = HASH_FLAG | hash_of_key(f->number, (const char *)&n, sizeof n) >> 2;
    } else {
        moved = HASH_FLAG | hash_of_key(f->number, text, len) >> 2;
    }
    put_hex(b, moved);
}

/* ---- writing ---- */

static void put_json(struct buf *b, struct json_object *o);

static void put_members(struct buf *b, struct json_object *object)
{
    bool first = true;
    buf_put(b, "{", 1);
    json_object_object_foreach(object, key, value)
    {
        if (!first)
            buf_put(b, ", ", 2);
        first = false;
        json_string(b, key, strlen(key));
        buf_put(b, ": ", 2);
        put_json(b, value);
    }
    buf_put(b, "}", 1);
}

/* As it stood there where JSON has it so; what is no number, or none that a double holds, in
 * quotes. */
static void put_real(struct buf *b, struct json_object *o)
{
    const char *text;
    size_t len;
    struct decimal d;
    bool plain = number_text(o, &text, &len) && len < 40 && read_decimal(text, len, &d) &&
                 d.exponent > -280 && d.exponent < 280;
    if (plain)
        buf_put(b, text, len);
    else
        json_real(b, json_object_get_double(o));
}

/* Recursion ends at SPLIT_DEPTH. */
static void put_json(struct buf *b, struct json_object *o)
{
    switch (json_object_get_type(o)) {
    case json_type_null:
        buf_puts(b, "null");
        break;
    case json_type_boolean:
        buf_puts(b, json_object_get_boolean(o) ? "true" : "false");
        break;
    case json_type_int:
        json_int(b, json_object_get_int64(o));
        break;
    case json_type_double:
        put_real(b, o);
        break;
    case json_type_string:
        json_string(b, json_object_get_string(o), (size_t)json_object_get_string_len(o));
        break;
    case json_type_object:
        put_members(b, o);
        break;
    case json_type_array:
        buf_put(b, "[", 1);
        for (size_t i = 0; i < json_object_array_length(o); i++) {
            if (i)
                buf_put(b, ", ", 2);
            put_json(b, json_object_array_get_idx(o, i));
        }
        buf_put(b, "]", 1);
        break;
    }
}

static void put_key(struct buf *b, const char *key)
{
    buf_put(b, ", ", 2);
    json_string(b, key, strlen(key));
    buf_put(b, ": ", 2);
}

/* Whether a value is one that a counter can show: of anything else readers make an error, or hang.
 * *text: NULL for an integer. */
static bool is_sample(struct json_object *value, const char **text, size_t *len)
{
    struct decimal d;
    *text = NULL;
    if (json_object_is_type(value, json_type_int))
        return true;
    return number_text(value, text, len) && *len <= 40 && read_decimal(*text, *len, &d) &&
           d.exponent < 280 && d.exponent > -280;
}

static bool has_samples(struct json_object *args)
{
    const char *text;
    size_t len;
    if (!json_object_is_type(args, json_type_object))
        return false;
    json_object_object_foreach(args, key, value)
    {
        (void)key;
        if (is_sample(value, &text, &len))
            return true;
    }
    return false;
}

/* args of a counter, without what is no number. */
static void put_samples(struct buf *b, struct json_object *args)
{
    bool first = true;
    put_key(b, "args");
    buf_put(b, "{", 1);
    json_object_object_foreach(args, key, value)
    {
        const char *text;
        size_t len;
        if (!is_sample(value, &text, &len))
            continue;
        if (!first)
            buf_put(b, ", ", 2);
        first = false;
        json_string(b, key, strlen(key));
        buf_put(b, ": ", 2);
        if (text)
            buf_put(b, text, len);
        else
            put_json(b, value);
        if (text && json_object_is_type(value, json_type_string) && !memchr(text, '.', len) &&
            !strpbrk(text, "eE"))
            buf_puts(b, ".0"); /* an integer that only a double holds */
    }
    buf_put(b, "}", 1);
}

/* args, with the ids by which readers join rows moved like all others. */
static void put_args(const struct foreign *f, struct buf *b, struct json_object *args)
{
    bool first = true;
    put_key(b, "args");
    buf_put(b, "{", 1);
    json_object_object_foreach(args, key, value)
    {
        bool call = strcmp(key, "correlation") == 0 ||
                    strcmp(key, "wait_on_cuda_event_record_corr_id") == 0;
        bool op = strcmp(key, "External id") == 0 || strcmp(key, "external id") == 0;
        int64_t n = json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : 0;
        uint64_t moved;
        if (!first)
            buf_put(b, ", ", 2);
        first = false;
        json_string(b, key, strlen(key));
        buf_put(b, ": ", 2);
        if (n > 0 && ((call && move_number(f, n, CALLS_SHIFT, 0, &moved)) ||
                      (op && move_number(f, n, IDS_SHIFT, IDS_FLAG, &moved))))
            json_uint(b, moved);
        else
            put_json(b, value);
    }
    buf_put(b, "}", 1);
}

/* Whether a reader can do something with the args of an event that names or sorts a row. */
static bool names_something(const struct event *e)
{
    struct json_object *args = e->member[KEY_ARGS], *value = NULL;
    const char *name = json_object_is_type(e->member[KEY_NAME], json_type_string)
                           ? json_object_get_string(e->member[KEY_NAME])
                           : "";
    if (!json_object_is_type(args, json_type_object))
        return false;
    if (strcmp(name, "process_name") == 0 || strcmp(name, "thread_name") == 0)
        return json_object_object_get_ex(args, "name", &value) &&
               json_object_is_type(value, json_type_string) &&
               json_object_get_string_len(value) > 0;
    if (strcmp(name, "process_sort_index") == 0 || strcmp(name, "thread_sort_index") == 0)
        return json_object_object_get_ex(args, "sort_index", &value) &&
               json_object_is_type(value, json_type_int);
    return true;
}

static void put_key_text(struct buf *b, const char *key, struct json_object *text)
{
    if (!json_object_is_type(text, json_type_string))
        return;
    put_key(b, key);
    put_json(b, text);
}

static bool is_gpu_annotation(const struct event *e)
{
    struct json_object *cat = e->member[KEY_CAT];
    return json_object_is_type(cat, json_type_string) &&
           strcmp(json_object_get_string(cat), "gpu_user_annotation") == 0;
}

/* The file's steps are steps where the trace has none, but never on a GPU. */
static void put_name(const struct foreign *f, struct buf *b, const struct event *e)
{
    struct json_object *name = e->member[KEY_NAME];
    bool stays = e->phase != 'X' || !(f->has_steps || is_gpu_annotation(e));
    if (stays || !json_object_is_type(name, json_type_string)) {
        put_key_text(b, "name", name);
        return;
    }
    char room[RANGE_NAME_ROOM];
    struct text shown = {json_object_get_string(name), (uint32_t)json_object_get_string_len(name)};
    shown = json_range_name(shown, room);
    put_key(b, "name");
    json_string(b, shown.at, shown.len);
}

/* Where and when. */
static void put_where(struct buf *b, const struct event *e, const struct place *pid,
                      const struct place *tid, int64_t start_ns)
{
    char text[128];
    char *p = put_literal(text, ", \"pid\": ");
    p = put_u64(p, pid->number);
    p = put_literal(p, ", \"tid\": ");
    p = put_u64(p, tid->number);
    p = put_literal(p, ", \"ts\": ");
    p = put_us(p, e->timed ? start_ns : 0); /* what names a row need not have one; ours have 0 */
    if (e->member[KEY_DUR]) {
        p = put_literal(p, ", \"dur\": ");
        p = put_us(p, e->end_ns - e->start_ns);
    }
    buf_put(b, text, (size_t)(p - text));
}

/* Ids. Those of counters, objects, samples and memory dumps are only meant within their process. */
static void put_ids(const struct foreign *f, struct buf *b, const struct event *e)
{
    struct json_object *id = e->member[KEY_ID], *id2 = e->member[KEY_ID2];
    if (id) {
        put_key(b, "id");
        if (strchr("CNODPvV", e->phase))
            put_json(b, id);
        else
            put_moved_id(f, b, id);
    }
    if (e->member[KEY_BIND_ID]) {
        put_key(b, "bind_id");
        put_moved_id(f, b, e->member[KEY_BIND_ID]);
    }
    if (!json_object_is_type(id2, json_type_object))
        return;
    static const char *const scopes[] = {"local", "global"};
    bool first = true;
    put_key(b, "id2");
    buf_put(b, "{", 1);
    for (unsigned i = 0; i < 2; i++) {
        struct json_object *scoped;
        if (!json_object_object_get_ex(id2, scopes[i], &scoped))
            continue;
        buf_printf(b, "%s\"%s\": ", first ? "" : ", ", scopes[i]);
        put_moved_id(f, b, scoped);
        first = false;
    }
    buf_put(b, "}", 1);
}

static void put_others(struct buf *b, struct json_object *event)
{
    json_object_object_foreach(event, key, value)
    {
        int64_t unused; /* the thread's own clock: as strictly read as ts */
        bool known =
            (strcmp(key, "tts") == 0 || strcmp(key, "tdur") == 0) && !get_us(value, &unused);
        for (unsigned i = 0; i < KEYS && !known; i++)
            known = strcmp(key, keys[i]) == 0;
        if (known)
            continue;
        put_key(b, key);
        put_json(b, value);
    }
}

void foreign_begin(struct foreign *f, unsigned number, int64_t shift_ns, bool has_steps)
{
    f->has_steps = has_steps;
    f->number = number;
    f->shift_ns = shift_ns;
    f->odd_pids = f->odd_tids = 0;
    memset(f->rows, 0, sizeof f->rows);
}

static bool put_event(struct foreign *f, const struct event *e, struct buf *out)
{
    struct place pid, tid = {0};
    bool has_tid = e->member[KEY_TID] != NULL;
    int64_t start_ns = 0;
    if (__builtin_add_overflow(e->start_ns, f->shift_ns, &start_ns) ||
        (start_ns < 0 && e->phase != 'M') || (e->phase == 'M' && !names_something(e)) ||
        (e->phase == 'C' && !has_samples(e->member[KEY_ARGS])))
        return false;
    if (!find_row(f, true, e->member[KEY_PID], &pid) ||
        (has_tid && !find_row(f, false, e->member[KEY_TID], &tid)))
        return false;
    if (!has_tid)
        tid.number = pid.number; /* as readers have it */
    if (pid.name_len)
        json_meta_text(out, "process_name", pid.number, pid.number, "name", pid.name, pid.name_len);
    if (tid.name_len)
        json_meta_text(out, "thread_name", pid.number, tid.number, "name", tid.name, tid.name_len);
    const char phase[] = {'"', e->phase, '"'};
    buf_puts(out, "{\"ph\": ");
    buf_put(out, phase, sizeof phase);
    put_key_text(out, "cat", e->member[KEY_CAT]);
    put_name(f, out, e);
    put_where(out, e, &pid, &tid, start_ns);
    put_ids(f, out, e);
    put_others(out, f->parser.value);
    if (e->phase == 'C')
        put_samples(out, e->member[KEY_ARGS]);
    else if (json_object_is_type(e->member[KEY_ARGS], json_type_object))
        put_args(f, out, e->member[KEY_ARGS]);
    buf_puts(out, "},\n");
    return !out->failed;
}

bool foreign_put(struct foreign *f, struct buf *out)
{
    struct event e;
    size_t before = out->len;
    bool done = read_event(f, &e) && put_event(f, &e, out);
    if (!done)
        out->len = before;
    return done;
}

#endif
