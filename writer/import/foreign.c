/* SPDX-License-Identifier: Apache-2.0 */
/* Converts events of foreign traces. */
#include "writer/import/foreign.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "writer/import/json_tree.h"
#include "writer/json/json.h"

#define ROWS_MOST 8192u /* distinct odd pids and tids per file; a power of two */
/* pids from here on, in a file's range, replace pids that are not plain numbers */
#define ODD_PIDS 9000000u
#define ODD_TIDS 4200000000u /* the same for tids */
/* position of the file's number in an id below 2^53, the limit of JavaScript's numbers */
#define IDS_SHIFT   44
#define IDS_FLAG    (UINT64_C(1) << 52) /* cprof's own ids are smaller up to the 65,536th thread */
#define HASH_FLAG   (UINT64_C(1) << 62)
#define CALLS_SHIFT 33 /* the same for CUDA's correlation ids, which have 32 bits */

/* ---- time ---- */

/* A number: digits * 10^exponent. */
struct decimal {
    uint64_t digits;
    int64_t exponent;
    bool negative;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads an exponent after its e. Absurdly large ones are limited. NULL: no digits. */
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

/* Reads a number in JSON's grammar. False: anything else. */
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

struct row {
    uint64_t hash; /* 0: empty */
    uint32_t number;
};

struct foreign {
    struct json_tree tree;
    const struct json_value *value; /* NULL: the last text was not JSON */
    unsigned number;
    int64_t shift_ns;
    bool has_steps;
    uint32_t odd_pids, odd_tids;
    struct row rows[ROWS_MOST];
};

/* The members that are interpreted; others are copied. */
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
    KEY_SF, /* refers to a table that is not imported, as does esf */
    KEY_ESF,
    KEYS,
};

static const char *const keys[KEYS] = {"ph", "cat", "name",    "pid",  "tid", "ts", "dur",
                                       "id", "id2", "bind_id", "args", "sf",  "esf"};

struct event {
    const struct json_value *member[KEYS];
    char phase;
    bool timed; /* has a ts */
    int64_t start_ns, end_ns;
};

/* ---- values ---- */

struct foreign *foreign_new(void)
{
    return calloc(1, sizeof(struct foreign));
}

void foreign_free(struct foreign *f)
{
    if (f)
        json_tree_free(&f->tree);
    free(f);
}

bool foreign_parse(struct foreign *f, const char *text, size_t len, const char **why, uint64_t *at)
{
    struct json_fault fault;
    f->value = json_tree_read(&f->tree, text, len, &fault);
    *why = fault.what;
    *at = fault.at;
    return f->value != NULL;
}

static bool is_type(const struct json_value *v, enum json_token type)
{
    return v && v->type == type;
}

/* The text of a string; empty for other values. */
static struct text string_of(const struct json_value *v)
{
    return is_type(v, JSON_STRING) ? v->text : (struct text){"", 0};
}

bool foreign_integer(const struct foreign *f, int64_t *value)
{
    if (!is_type(f->value, JSON_INTEGER))
        return false;
    *value = f->value->number;
    return true;
}

/* ---- reading an event ---- */

/* The text of a string, or of a number with a point as written. False: neither, *text is not
 * set. */
static bool number_text(const struct json_value *v, struct text *text)
{
    bool found = is_type(v, JSON_STRING) || is_type(v, JSON_REAL);
    if (found)
        *text = v->text;
    return found;
}

static bool get_us(const struct json_value *v, int64_t *ns)
{
    struct text text;
    if (is_type(v, JSON_INTEGER))
        return !__builtin_mul_overflow(v->number, (int64_t)1000, ns);
    return number_text(v, &text) && foreign_us(text.at, text.len, ns);
}

/* A member that is null counts as missing. */
static void look_up(const struct json_value *event, struct event *e)
{
    memset(e, 0, sizeof *e);
    for (const struct json_value *v = json_first(event); v; v = json_next(event, v))
        for (unsigned i = 0; i < KEYS; i++)
            if (text_is(v->key, keys[i]) && !(v->type == JSON_WORD && text_is(v->text, "null")))
                e->member[i] = v;
}

/* True for phases whose members are known, even if readers ignore some. Not c, which moves the
 * clock of the whole trace. */
static bool is_phase(char c)
{
    return c != '\0' && strchr("BEXiIRCbenstfSTpFPMNODvV()", c);
}

/* Arrows and asynchronous ranges need their ids. */
static bool has_ids(const struct event *e)
{
    if (strchr("stf", e->phase))
        return e->member[KEY_ID] != NULL;
    return !strchr("ben", e->phase) || e->member[KEY_ID] || e->member[KEY_ID2];
}

/* Reads an event. False: invalid in a trace. */
static bool read_event(const struct foreign *f, struct event *e)
{
    if (!is_type(f->value, JSON_OBJECT))
        return false;
    look_up(f->value, e);
    struct text phase = string_of(e->member[KEY_PH]);
    e->phase = phase.len > 0 ? phase.at[0] : '\0';
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

/* The number for a pid or tid that is not a plain number; 0: too many. *fresh: it is new. */
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
    struct text name; /* name of a new row in the file; or empty */
};

/* The process or thread row for an event. A missing process is 0, as in readers. False: too many
 * rows. */
static bool find_row(struct foreign *f, bool is_pid, const struct json_value *given,
                     struct place *to)
{
    *to = (struct place){0};
    int64_t n = is_type(given, JSON_INTEGER) ? given->number : 0;
    bool is_number = is_type(given, JSON_INTEGER) || !given;
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
    struct text text = {digits, (uint32_t)(put_i64(digits, n) - digits)};
    bool is_text = number_text(given, &text);
    to->number = odd_row(f, is_pid, text.at, text.len, &fresh);
    if (fresh && is_text)
        to->name = text;
    return to->number != 0;
}

/* Moves a number of the file to a range of its own. False: too many bits. */
static bool move_number(const struct foreign *f, int64_t n, unsigned shift, uint64_t flag,
                        uint64_t *moved)
{
    *moved = flag | (uint64_t)f->number << shift | (uint64_t)n;
    return n >= 0 && (uint64_t)n >> shift == 0;
}

/* Readers take 119 and "0x77" for the same id. */
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

static void put_moved_id(const struct foreign *f, struct buf *b, const struct json_value *id)
{
    uint64_t moved;
    struct text text = {"", 0};
    int64_t n;
    if (is_type(id, JSON_INTEGER)) {
        n = id->number;
        if (move_number(f, n, IDS_SHIFT, IDS_FLAG, &moved))
            json_uint(b, moved);
        else
            put_hex(b, HASH_FLAG | hash_of_key(f->number, (const char *)&n, sizeof n) >> 2);
        return;
    }
    number_text(id, &text);
    if (hex_number(text.at, text.len, &n)) {
        if (!move_number(f, n, IDS_SHIFT, IDS_FLAG, &moved))
            moved = HASH_FLAG | hash_of_key(f->number, (const char *)&n, sizeof n) >> 2;
    } else {
        moved = HASH_FLAG | hash_of_key(f->number, text.at, text.len) >> 2;
    }
    put_hex(b, moved);
}

/* ---- writing ---- */

/* A number as written, where JSON allows that; else as a double, in quotes if it is not finite. */
static void put_real(struct buf *b, const struct json_value *v)
{
    struct decimal d;
    locale_t plain;
    if (v->text.len < 40 && read_decimal(v->text.at, v->text.len, &d) && d.exponent > -280 &&
        d.exponent < 280)
        buf_put(b, v->text.at, v->text.len);
    /* a point in any locale; allocates nothing */
    else if ((plain = newlocale(LC_ALL_MASK, "C", NULL)))
        json_real(b, strtod_l(v->text.at, NULL, plain)); /* ends at the object that contains it */
}

static void put_word(struct buf *b, struct text word)
{
    bool quoted = !strchr("tfn", word.at[0]); /* NaN, Infinity, -Infinity */
    buf_put(b, "\"", quoted);
    buf_put(b, word.at, word.len);
    buf_put(b, "\"", quoted);
}

/* Writes the key, with ", " unless it is the first. */
static void put_member(struct buf *b, bool *first, struct text key)
{
    if (!*first)
        buf_put(b, ", ", 2);
    *first = false;
    json_string(b, key.at, key.len);
    buf_put(b, ": ", 2);
}

static void put_json(struct buf *b, const struct json_value *v);

/* The recursion is limited by SPLIT_DEPTH. */
static void put_container(struct buf *b, const struct json_value *in)
{
    bool first = true, object = in->type == JSON_OBJECT;
    buf_put(b, object ? "{" : "[", 1);
    for (const struct json_value *v = json_first(in); v; v = json_next(in, v)) {
        if (object)
            put_member(b, &first, v->key);
        else if (v != in + 1)
            buf_put(b, ", ", 2);
        put_json(b, v);
    }
    buf_put(b, object ? "}" : "]", 1);
}

static void put_json(struct buf *b, const struct json_value *v)
{
    switch (v->type) {
    case JSON_INTEGER:
        json_int(b, v->number);
        break;
    case JSON_REAL:
        put_real(b, v);
        break;
    case JSON_STRING:
        json_string(b, v->text.at, v->text.len);
        break;
    case JSON_WORD:
        put_word(b, v->text);
        break;
    default:
        put_container(b, v);
        break;
    }
}

static void put_key(struct buf *b, const char *key)
{
    buf_put(b, ", ", 2);
    json_string(b, key, strlen(key));
    buf_put(b, ": ", 2);
}

/* True for values that a counter can show. With others, readers report errors or hang. */
static bool is_sample(const struct json_value *v)
{
    struct decimal d;
    struct text text;
    return v->type == JSON_INTEGER ||
           (number_text(v, &text) && text.len <= 40 && read_decimal(text.at, text.len, &d) &&
            d.exponent < 280 && d.exponent > -280);
}

static bool has_samples(const struct json_value *args)
{
    const struct json_value *v = is_type(args, JSON_OBJECT) ? json_first(args) : NULL;
    while (v && !is_sample(v))
        v = json_next(args, v);
    return v != NULL;
}

/* The args of a counter, numbers only. */
static void put_samples(struct buf *b, const struct json_value *args)
{
    bool first = true;
    put_key(b, "args");
    buf_put(b, "{", 1);
    for (const struct json_value *v = json_first(args); v; v = json_next(args, v)) {
        if (!is_sample(v))
            continue;
        put_member(b, &first, v->key);
        if (v->type == JSON_INTEGER)
            json_int(b, v->number);
        else
            buf_put(b, v->text.at, v->text.len);
        if (v->type == JSON_STRING && !memchr(v->text.at, '.', v->text.len) &&
            !memchr(v->text.at, 'e', v->text.len) && !memchr(v->text.at, 'E', v->text.len))
            buf_puts(b, ".0"); /* an integer beyond 64 bits: as a double */
    }
    buf_put(b, "}", 1);
}

/* The args, with the ids by which readers join rows moved like other ids. */
static void put_args(const struct foreign *f, struct buf *b, const struct json_value *args)
{
    bool first = true;
    put_key(b, "args");
    buf_put(b, "{", 1);
    for (const struct json_value *v = json_first(args); v; v = json_next(args, v)) {
        bool call =
            text_is(v->key, "correlation") || text_is(v->key, "wait_on_cuda_event_record_corr_id");
        bool op = text_is(v->key, "External id") || text_is(v->key, "external id");
        int64_t n = v->type == JSON_INTEGER ? v->number : 0;
        uint64_t moved;
        put_member(b, &first, v->key);
        if (n > 0 && ((call && move_number(f, n, CALLS_SHIFT, 0, &moved)) ||
                      (op && move_number(f, n, IDS_SHIFT, IDS_FLAG, &moved))))
            json_uint(b, moved);
        else
            put_json(b, v);
    }
    buf_put(b, "}", 1);
}

/* True when the args of an event that names or sorts a row are usable. */
static bool names_something(const struct event *e)
{
    const struct json_value *args = e->member[KEY_ARGS];
    struct text name = string_of(e->member[KEY_NAME]);
    if (!is_type(args, JSON_OBJECT))
        return false;
    if (text_is(name, "process_name") || text_is(name, "thread_name"))
        return string_of(json_member(args, "name")).len > 0;
    if (text_is(name, "process_sort_index") || text_is(name, "thread_sort_index"))
        return is_type(json_member(args, "sort_index"), JSON_INTEGER);
    return true;
}

static void put_key_text(struct buf *b, const char *key, const struct json_value *text)
{
    if (!is_type(text, JSON_STRING))
        return;
    put_key(b, key);
    put_json(b, text);
}

/* The file's step ranges stay steps only where the trace has none, and never on a GPU. */
static void put_name(const struct foreign *f, struct buf *b, const struct event *e)
{
    const struct json_value *name = e->member[KEY_NAME];
    bool on_gpu = text_is(string_of(e->member[KEY_CAT]), "gpu_user_annotation");
    if (e->phase != 'X' || !(f->has_steps || on_gpu) || !is_type(name, JSON_STRING)) {
        put_key_text(b, "name", name);
        return;
    }
    char room[RANGE_NAME_ROOM];
    struct text shown = json_range_name(name->text, room);
    put_key(b, "name");
    json_string(b, shown.at, shown.len);
}

/* Writes pid, tid, ts and dur. */
static void put_where(struct buf *b, const struct event *e, const struct place *pid,
                      const struct place *tid, int64_t start_ns)
{
    char text[128];
    char *p = put_literal(text, ", \"pid\": ");
    p = put_u64(p, pid->number);
    p = put_literal(p, ", \"tid\": ");
    p = put_u64(p, tid->number);
    p = put_literal(p, ", \"ts\": ");
    p = put_us(p, e->timed ? start_ns : 0); /* events that name a row may lack a time; they get 0 */
    if (e->member[KEY_DUR]) {
        p = put_literal(p, ", \"dur\": ");
        p = put_us(p, e->end_ns - e->start_ns);
    }
    buf_put(b, text, (size_t)(p - text));
}

/* Writes ids. Those of counters, objects, samples and memory dumps are local to their process and
 * stay. */
static void put_ids(const struct foreign *f, struct buf *b, const struct event *e)
{
    const struct json_value *id = e->member[KEY_ID], *id2 = e->member[KEY_ID2];
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
    if (!is_type(id2, JSON_OBJECT))
        return;
    static const char *const scopes[] = {"local", "global"};
    bool first = true;
    put_key(b, "id2");
    buf_put(b, "{", 1);
    for (unsigned i = 0; i < 2; i++) {
        const struct json_value *scoped = json_member(id2, scopes[i]);
        if (!scoped)
            continue;
        buf_printf(b, "%s\"%s\": ", first ? "" : ", ", scopes[i]);
        put_moved_id(f, b, scoped);
        first = false;
    }
    buf_put(b, "}", 1);
}

static void put_others(struct buf *b, const struct json_value *event)
{
    bool first = false;
    for (const struct json_value *v = json_first(event); v; v = json_next(event, v)) {
        int64_t unused; /* times of the thread's own clock must be as valid as ts */
        bool known = (text_is(v->key, "tts") || text_is(v->key, "tdur")) && !get_us(v, &unused);
        for (unsigned i = 0; i < KEYS && !known; i++)
            known = text_is(v->key, keys[i]);
        if (known)
            continue;
        put_member(b, &first, v->key);
        put_json(b, v);
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
        tid.number = pid.number; /* as in readers */
    if (pid.name.len)
        json_meta_text(out, "process_name", pid.number, pid.number, "name", pid.name.at,
                       pid.name.len);
    if (tid.name.len)
        json_meta_text(out, "thread_name", pid.number, tid.number, "name", tid.name.at,
                       tid.name.len);
    const char phase[] = {'"', e->phase, '"'};
    buf_puts(out, "{\"ph\": ");
    buf_put(out, phase, sizeof phase);
    put_key_text(out, "cat", e->member[KEY_CAT]);
    put_name(f, out, e);
    put_where(out, e, &pid, &tid, start_ns);
    put_ids(f, out, e);
    put_others(out, f->value);
    if (e->phase == 'C')
        put_samples(out, e->member[KEY_ARGS]);
    else if (is_type(e->member[KEY_ARGS], JSON_OBJECT))
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
