/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folder and file templates: "{run_name}/torch_traces", "rank{rank}.{batch}.pt.trace.json". Pure:
 * no file system, no globals, no allocation, no output; any thread. Templates are checked by the
 * thread that wakes cprof up and expanded by the cprof thread when a file gets its name.
 */
#ifndef WRITER_BASE_PATH_H
#define WRITER_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Room for the longest path of a trace, with its NUL and what the open file's name adds. */
enum {
    PATH_SIZE = 4096,
    PATH_NAME_MAX = 255, /* bytes of one component */
    PATH_NAME_CUT = 200, /* of one that was too long: what is put behind it later fits */
    PATH_PART_MAX = 38   /* ".<pid>.<step>.part" at its longest: 1 + 11 + 1 + 20 + 5 */
};

/* One format variable; both strings belong to the caller. */
struct path_var {
    const char *name;
    const char *value;
};

enum path_status {
    PATH_OK = 0,
    PATH_UNKNOWN_VARIABLE, /* {name} is not in the table */
    PATH_UNBALANCED,       /* { without }, or } without { */
    PATH_TOO_LONG,         /* the result is too long */
    PATH_NO_NAME,          /* the file's name is empty, "." or ".." */
};

/* What went wrong and where; filled on failure only. */
struct path_error {
    enum path_status status;
    size_t position; /* byte of the template at which the brace stands */
    char name[32];   /* PATH_UNKNOWN_VARIABLE: the name, cut to fit */
};

/*
 * Expands text into out[0..size): {name} becomes the value of the variable, {{ and }} a literal
 * brace. In values every '/' and control character becomes '_', an empty value becomes "_", and "."
 * and ".." become "_" and "__", so that a value neither adds nor leaves a folder. Returns PATH_OK,
 * or the error, also stored in *error (which may be NULL); out then holds an empty string.
 */
enum path_status path_expand(const char *text, const struct path_var *vars, size_t count, char *out,
                             size_t size, struct path_error *error);

/*
 * Checks text against count allowed names without expanding it. Lengths are left to path_expand.
 * Returns PATH_OK, or the error, also stored in *error (which may be NULL).
 */
enum path_status path_check(const char *text, const char *const *names, size_t count,
                            struct path_error *error);

/*
 * The whole path of a trace into out[0..size): folder and file expanded and joined with one '/',
 * with ".gz" appended when gzip is asked for and not there; a name that ends in ".gz" means gzip,
 * asked for or not. A leading '/' of the file template is dropped; an empty folder is the current
 * one. Keeps room for path_part_name: a component that is too long is cut, and gets a hash of all
 * of it before its ending, by which two that differ still do; *is_cut (may be NULL) says so. Errors
 * as path_expand; their position counts within the template at fault.
 */
enum path_status path_trace(const char *folder, const char *file, const struct path_var *vars,
                            size_t count, bool gzip, char *out, size_t size, bool *is_cut,
                            struct path_error *error);

/* True when name ends in ".gz" (any case) after at least one other byte of the last component. */
bool path_is_gzip(const char *name);

/* Where the ending begins by which readers know a trace: .pt.trace.json, .json, either with .gz, or
 * .gz alone. The end of the path when it has none of them. */
const char *path_ending(const char *path);

/*
 * The name of the open file into out[0..size): "<path>.<pid>.<step>.part", beside the final name
 * and never ending in .json or .gz. step is the first step of the window. False when it does not
 * fit.
 */
bool path_part_name(const char *path, pid_t pid, int64_t step, char *out, size_t size);

/*
 * The name of the file that holds what comes before the first step mark into out[0..size):
 * "prestep.<pid>.part" in the folder of the trace `path`, for n > 1 "prestep.<pid>-<n>.part". False
 * when it does not fit.
 */
bool path_prestep_name(const char *path, pid_t pid, int n, char *out, size_t size);

/*
 * The error in words into out (terminated, cut at size), naming the allowed variables, for example
 * "unknown variable {nope}; allowed: {rank} {batch}". Returns the length written.
 */
size_t path_describe(const struct path_error *error, const char *const *names, size_t count,
                     char *out, size_t size);

#endif
