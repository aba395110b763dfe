/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment of the programs that cprof starts (spawn.h): the host's, without what brought
 * cprof into the host. It is copied on an application thread, because reading the environment is
 * not safe beside setenv, and read on the cprof thread.
 */
#ifndef PRELOAD_DELIVERY_CHILD_ENV_H
#define PRELOAD_DELIVERY_CHILD_ENV_H

#include <stdbool.h>
#include <stddef.h>

/* Copies the environment. own_path: this library's; it is taken out of LD_PRELOAD, where other
 * libraries stay, and variables whose whole value it is (the injections) are left out. At wake-up,
 * and again when recording begins, because programs set variables themselves; what was copied
 * before stays valid. setenv() and unsetenv() on other threads do no harm; 34 ms at most when one
 * of them is in the way, or when an entry that is none comes to light. Without memory the copy
 * before stays the newest. errno is kept. Application thread. */
void child_env_take(const char *own_path);

/* The value of a variable in the newest copy, or NULL. Any thread. */
const char *child_env_get(const char *name);

/* The newest copy with `n` entries "NAME=value" in place of those of the same names, and without
 * those of entries "NAME"; free() it. The entries are not copied. NULL: no memory. Any thread. */
const char **child_env_with(const char *const *entries, size_t n);

/* The program's path into out: its name when it holds a slash, else the first that can be run in
 * the copy's PATH. False, and out is empty: none. Any thread. */
bool child_env_search(const char *program, char *out, size_t size);

/* LD_PRELOAD's value without this library: items that are own_path, or have its file name, are left
 * out. out has room for the value. Returns the length; 0: nothing is left. Pure. */
size_t child_env_preload(const char *value, const char *own_path, char *out);

#endif
