/* SPDX-License-Identifier: Apache-2.0 */
/* Expands folder and file templates to paths. Pure. Checked on the thread that wakes cprof,
 * expanded on the cprof thread. */
#include "writer/base/path.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A piece of a template: literal text, or the name of a variable. */
struct piece {
    bool is_variable;
    size_t position; /* of its first byte, braces included */
    const char *text;
    size_t length;
};

/* Output of fixed size, always terminated. `full` stays set once something did not fit. */
struct output {
    char *text;
    size_t size;
    size_t length;
    bool full;
};

static void put_output(struct output *output, const char *text, size_t length)
{
    if (output->full || length >= output->size - output->length) {
        output->full = true;
        return;
    }
    memcpy(output->text + output->length, text, length);
    output->length += length;
    output->text[output->length] = '\0';
}

/* Replaces what would add a folder level or a control character to the path. */
static void put_value(struct output *output, const char *value)
{
    if (*value == '\0' || strcmp(value, ".") == 0 || strcmp(value, "..") == 0) {
        put_output(output, "__", value[0] == '.' && value[1] == '.' ? 2 : 1);
        return;
    }
    for (; *value; value++) {
        unsigned char c = (unsigned char)*value;
        put_output(output, c == '/' || c < 0x20 || c == 0x7f ? "_" : value, 1);
    }
}

static enum path_status set_error(struct path_error *error, enum path_status status,
                                  size_t position, const struct piece *variable)
{
    if (error) {
        memset(error, 0, sizeof *error);
        error->status = status;
        error->position = position;
        if (variable)
            snprintf(error->name, sizeof error->name, "%.*s",
                     (int)(variable->length < 64 ? variable->length : 64), variable->text);
    }
    return status;
}

/* Reads the piece at *at and moves *at past it. PATH_UNBALANCED: piece->position tells where. */
static enum path_status next_piece(const char *text, size_t *at, struct piece *piece)
{
    const char *start = text + *at;

    piece->position = *at;
    piece->is_variable = false;
    piece->text = start;
    if (*start != '{' && *start != '}') {
        piece->length = strcspn(start, "{}");
        *at += piece->length;
        return PATH_OK;
    }
    if (start[1] == start[0]) {
        piece->length = 1;
        *at += 2;
        return PATH_OK;
    }
    size_t length = *start == '{' ? strcspn(start + 1, "{}") : 0;
    if (*start == '}' || start[1 + length] != '}')
        return PATH_UNBALANCED;
    piece->is_variable = true;
    piece->text = start + 1;
    piece->length = length;
    *at += length + 2;
    return PATH_OK;
}

static bool is_named(const struct piece *piece, const char *name)
{
    return strlen(name) == piece->length && memcmp(name, piece->text, piece->length) == 0;
}

enum path_status path_expand(const char *text, const struct path_var *vars, size_t count, char *out,
                             size_t size, struct path_error *error)
{
    struct output output = {.text = out, .size = size};
    struct piece piece;
    size_t at = 0;

    if (size == 0)
        return set_error(error, PATH_TOO_LONG, 0, NULL);
    *out = '\0';
    while (text[at]) {
        if (next_piece(text, &at, &piece)) {
            *out = '\0';
            return set_error(error, PATH_UNBALANCED, piece.position, NULL);
        }
        if (!piece.is_variable) {
            put_output(&output, piece.text, piece.length);
        } else {
            size_t i = 0;
            while (i < count && !is_named(&piece, vars[i].name))
                i++;
            if (i == count) {
                *out = '\0';
                return set_error(error, PATH_UNKNOWN_VARIABLE, piece.position, &piece);
            }
            put_value(&output, vars[i].value);
        }
        if (output.full) {
            *out = '\0';
            return set_error(error, PATH_TOO_LONG, piece.position, NULL);
        }
    }
    return PATH_OK;
}

enum path_status path_check(const char *text, const char *const *names, size_t count,
                            struct path_error *error)
{
    struct piece piece;
    size_t at = 0;

    while (text[at]) {
        if (next_piece(text, &at, &piece))
            return set_error(error, PATH_UNBALANCED, piece.position, NULL);
        size_t i = 0;
        while (piece.is_variable && i < count && !is_named(&piece, names[i]))
            i++;
        if (piece.is_variable && i == count)
            return set_error(error, PATH_UNKNOWN_VARIABLE, piece.position, &piece);
    }
    return PATH_OK;
}

static const char *last_component(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* FNV-1a. Part of file names: all ranks and runs must get the same hash. */
static uint32_t hash_of_path(const char *text, size_t length)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash;
}

/* Writes a component that is too long in its cut form. `to` may be earlier in the same buffer.
 * Returns the length. */
static size_t put_cut(char *to, const char *name, size_t length, const char *ending)
{
    char hash[16];
    size_t more = (size_t)snprintf(hash, sizeof hash, "~%08" PRIx32, hash_of_path(name, length));
    size_t ends = (size_t)(name + length - ending);
    size_t kept = PATH_NAME_CUT - more - ends;
    while (kept > 0 && ((unsigned char)name[kept] & 0xc0) == 0x80)
        kept--; /* not inside a UTF-8 character */
    memmove(to, name, kept);
    memcpy(to + kept, hash, more);
    memmove(to + kept + more, ending, ends);
    return kept + more + ends;
}

/* Cuts components that the file system would refuse; the last one needs room for the .part ending.
 * True: some were cut. */
static bool cut_components(char *path)
{
    char *to = path;
    bool cut = false;
    for (const char *from = path;; from++) {
        size_t length = strcspn(from, "/");
        bool last = from[length] == '\0';
        if (length + (last ? PATH_PART_MAX : 0) <= PATH_NAME_MAX) {
            memmove(to, from, length);
            to += length;
        } else {
            to += put_cut(to, from, length, last ? path_ending(from) : from + length);
            cut = true;
        }
        from += length;
        *to++ = *from;
        if (last)
            return cut;
    }
}

bool path_is_gzip(const char *name)
{
    const char *last = last_component(name);
    size_t length = strlen(last);
    return length > 3 && strcasecmp(last + length - 3, ".gz") == 0;
}

enum path_status path_trace(const char *folder, const char *file, const struct path_var *vars,
                            size_t count, bool gzip, char *out, size_t size, bool *is_cut,
                            struct path_error *error)
{
    if (size > PATH_SIZE)
        size = PATH_SIZE;
    enum path_status status = path_expand(folder, vars, count, out, size, error);
    if (status)
        return status;
    size_t length = strlen(out);
    while (length > 1 && out[length - 1] == '/')
        length--;
    if (length > 0 && out[length - 1] != '/' && length + 1 < size)
        out[length++] = '/';
    status = path_expand(file + strspn(file, "/"), vars, count, out + length, size - length, error);
    if (status) {
        if (error)
            error->position += strspn(file, "/");
        *out = '\0';
        return status;
    }
    const char *name = last_component(out);
    if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        *out = '\0';
        return set_error(error, PATH_NO_NAME, 0, NULL);
    }
    struct output output = {.text = out, .size = size, .length = strlen(out)};
    if (gzip && !path_is_gzip(out))
        put_output(&output, ".gz", 3);
    bool cut = cut_components(out);
    if (output.full || strlen(out) + PATH_PART_MAX >= size) {
        *out = '\0';
        return set_error(error, PATH_TOO_LONG, 0, NULL);
    }
    if (is_cut)
        *is_cut = cut;
    return PATH_OK;
}

bool path_part_name(const char *path, pid_t pid, int64_t step, char *out, size_t size)
{
    int length = snprintf(out, size, "%s.%d.%" PRId64 ".part", path, (int)pid, step);
    return length > 0 && (size_t)length < size && strlen(last_component(out)) <= PATH_NAME_MAX;
}

bool path_quote(const char *path, char any, char *pattern, size_t size)
{
    size_t used = 0;
    for (; *path && used + 2 < size; path++) {
        if (strchr("*?[\\", *path))
            pattern[used++] = '\\';
        pattern[used++] = *path == any ? '*' : *path;
    }
    pattern[used] = '\0';
    return *path == '\0';
}

/* "-<n>" for n > 1. */
struct suffix {
    char text[16];
};

static struct suffix suffix_of(int n)
{
    struct suffix suffix = {""};
    if (n > 1)
        snprintf(suffix.text, sizeof suffix.text, "-%d", n);
    return suffix;
}

bool path_prestep_name(const char *path, pid_t pid, int n, char *out, size_t size)
{
    int folder = (int)(last_component(path) - path);
    int length =
        snprintf(out, size, "%.*sprestep.%d%s.part", folder, path, (int)pid, suffix_of(n).text);
    return length > 0 && (size_t)length < size;
}

bool path_flight_name(const char *path, int64_t rank, int n, char *out, size_t size)
{
    int folder = (int)(last_component(path) - path);
    int length = snprintf(out, size, "%.*sflight/rank%" PRId64 "%s.flight", folder, path, rank,
                          suffix_of(n).text);
    return length > 0 && (size_t)length < size;
}

bool path_flight_save(const char *path, int64_t rank, const char *step, int n, char *out,
                      size_t size)
{
    int folder = (int)(last_component(path) - path);
    int length = snprintf(out, size, "%.*sflight/rank%" PRId64 ".%s%s.pt.trace.json.gz", folder,
                          path, rank, step, suffix_of(n).text);
    return length > 0 && (size_t)length < size;
}

size_t path_describe(const struct path_error *error, const char *const *names, size_t count,
                     char *out, size_t size)
{
    struct output output = {.text = out, .size = size};
    char text[96] = "";

    if (size == 0)
        return 0;
    *out = '\0';
    switch (error->status) {
    case PATH_OK:
        break;
    case PATH_UNKNOWN_VARIABLE:
        snprintf(text, sizeof text, "unknown variable {%s}; allowed:", error->name);
        break;
    case PATH_UNBALANCED:
        snprintf(text, sizeof text,
                 "unbalanced brace at character %zu (write {{ or }} for a brace)",
                 error->position + 1);
        break;
    case PATH_TOO_LONG:
        snprintf(text, sizeof text, "too long for a path");
        break;
    case PATH_NO_NAME:
        snprintf(text, sizeof text, "does not end in a file name");
        break;
    }
    put_output(&output, text, strlen(text));
    for (size_t i = 0; error->status == PATH_UNKNOWN_VARIABLE && i < count; i++) {
        put_output(&output, " {", 2);
        put_output(&output, names[i], strlen(names[i]));
        put_output(&output, "}", 1);
    }
    return output.length;
}

_Static_assert(sizeof ".2147483647.-9223372036854775808.part" - 1 <= PATH_PART_MAX,
               "the longest addition to an open file's name fits");

const char *path_ending(const char *path)
{
    static const char *const endings[] = {".pt.trace.json.gz", ".pt.trace.json", ".json.gz",
                                          ".json", ".gz"};
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t n = strlen(endings[i]);
        if (length > n && strcasecmp(path + length - n, endings[i]) == 0)
            return path + length - n;
    }
    return path + length;
}
