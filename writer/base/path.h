/* SPDX-License-Identifier: Apache-2.0 */
/* Folder and file templates: "{run_name}/torch_traces", "rank{rank}.{batch}.pt.trace.json". Pure:
 * no file system, no globals, no allocation, no output; any thread. The thread that wakes cprof
 * checks the templates; the cprof thread expands them when a file gets its name. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Room for the longest path of a trace, with NUL and the .part ending. */
enum {
    PATH_SIZE = 4096,
    PATH_NAME_MAX = 255, /* bytes of one component */
    PATH_NAME_CUT = 200, /* of a component that was too long, so that later endings fit */
    PATH_PART_MAX = 38   /* longest ".<pid>.<step>.part": 1 + 11 + 1 + 20 + 5 */
};

/* A template variable; the caller owns both strings. */
struct path_var {
    const char *name;
    const char *value;
};

enum path_status {
    PATH_OK = 0,
    PATH_UNKNOWN_VARIABLE, /* {name} is not in the table */
    PATH_UNBALANCED,       /* { without }, or } without { */
    PATH_TOO_LONG,         /* the result is too long */
    PATH_NO_NAME,          /* the file name is empty, "." or ".." */
};

/* What is wrong and where; filled on failure only. */
struct path_error {
    enum path_status status;
    size_t position; /* byte of the template with the brace */
    char name[32];   /* PATH_UNKNOWN_VARIABLE: the name, cut to fit */
};

/* Expands text into out[0..size): {name} becomes the variable's value, {{ and }} a brace. In
 * values, '/' and control characters become '_', an empty value "_", "." "_" and ".." "__", so that
 * a value neither adds nor leaves a folder. Returns PATH_OK; or the error, also in *error (may be
 * NULL), with out empty. */
enum path_status path_expand(const char *text, const struct path_var *vars, size_t count, char *out,
                             size_t size, struct path_error *error);

/* Checks text against count allowed names, without expanding it. Does not check lengths. Returns
 * PATH_OK; or the error, also in *error (may be NULL). */
enum path_status path_check(const char *text, const char *const *names, size_t count,
                            struct path_error *error);

/* Writes the whole path of a trace into out[0..size): folder and file, expanded and joined by one
 * '/'. gzip: appends ".gz" unless the name has it. A leading '/' of the file template is dropped;
 * an empty folder is the current one. Keeps room for path_part_name().
 * A component that is too long is cut. A hash of all of it before its ending keeps different names
 * different; *is_cut (may be NULL) tells. Errors as path_expand(); positions count within the wrong
 * template. */
enum path_status path_trace(const char *folder, const char *file, const struct path_var *vars,
                            size_t count, bool gzip, char *out, size_t size, bool *is_cut,
                            struct path_error *error);

/* True when name ends in ".gz" (any case) after at least one byte of its last component. */
bool path_is_gzip(const char *name);

/* Start of the ending by which readers know a trace: .pt.trace.json or .json, each also with .gz;
 * or .gz alone. The end of the path when it has none. */
const char *path_ending(const char *path);

/* Writes the name of the open file into out[0..size): "<path>.<pid>.<step>.part", beside the final
 * name and never ending in .json or .gz. step: first step of the window. False: does not fit. */
bool path_part_name(const char *path, pid_t pid, int64_t step, char *out, size_t size);

/* Writes the name of the file of a held window into out[0..size): "prestep.<pid>.part" in the
 * folder of the trace `path`; for n > 1 "prestep.<pid>-<n>.part". False: does not fit. */
bool path_prestep_name(const char *path, pid_t pid, int n, char *out, size_t size);

/* Turns the path into a glob(7) pattern that matches only it; each `any` in it becomes `*`. False:
 * does not fit. */
bool path_quote(const char *path, char any, char *pattern, size_t size);

/* Writes the name of the flight recorder's file into out[0..size): "flight/rank<rank>.flight" in
 * the folder of the trace `path`; for n > 1 "flight/rank<rank>-<n>.flight". False: does not fit. */
bool path_flight_name(const char *path, int64_t rank, int n, char *out, size_t size);

/* Writes the name of a saved recording into out[0..size), beside the recorder's file:
 * "flight/rank<rank>.<step>.pt.trace.json.gz"; for n > 1 "flight/rank<rank>.<step>-<n>…". step:
 * a number, or what path_quote() takes for any. False: does not fit. */
bool path_flight_save(const char *path, int64_t rank, const char *step, int n, char *out,
                      size_t size);

/* Writes the error in words into out (terminated, cut at size), with the allowed variables:
 * "unknown variable {nope}; allowed: {rank} {batch}". Returns the length. */
size_t path_describe(const struct path_error *error, const char *const *names, size_t count,
                     char *out, size_t size);
