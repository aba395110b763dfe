/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of programs that cprof starts (spawn.h): the host's, without cprof. Application
 * threads copy it, because reading it is unsafe beside setenv(). The cprof thread reads the
 * copy. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Copies the environment without own_path, this library's path: it is removed from LD_PRELOAD, and
 * variables with just this value (injections) are left out. Called at wake-up and when recording
 * begins, because programs set variables themselves. Earlier copies stay valid. Safe beside
 * setenv() and unsetenv() on other threads; waits at most 34 ms for them or for an entry without
 * '='. Without memory, the previous copy stays. Keeps errno. Application thread. */
void child_env_take(const char *own_path);

/* A variable's value in the newest copy, or NULL. Any thread. */
const char *child_env_get(const char *name);

/* The newest copy with `n` entries: "NAME=value" replaces a variable, "NAME" removes it. The caller
 * frees the array; entries are not copied. NULL: no memory. Any thread. */
const char **child_env_with(const char *const *entries, size_t n);

/* Finds the path of a program: its name if it has a slash, else the first executable in the copy's
 * PATH. Returns false, with out empty, if there is none. Any thread. */
bool child_env_search(const char *program, char *out, size_t size);

/* Copies LD_PRELOAD's value without this library, that is, without items with own_path's file name.
 * out must have room for the value. Returns the length. Pure. */
size_t child_env_preload(const char *value, const char *own_path, char *out);
