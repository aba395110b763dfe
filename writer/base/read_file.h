/* SPDX-License-Identifier: Apache-2.0 */
/* Reads small files and lists file names. On the cprof thread, takes no descriptor of the program
 * (writer/base/io_thread.h). */
#pragma once

#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PATTERN_SIZE (2 * PATH_MAX) /* a pattern for any path: each byte may need a backslash */

/* Reads up to size - 1 bytes of the file into text[0..size) and terminates it. Returns the bytes
 * read, 0 also on error. errno stays. Any thread. */
size_t read_file(const char *path, char *text, size_t size);

/* The state of a thread of this process, as proc(5) names it ('R' runs or could run, 'S' sleeps,
 * 'Z' has left); 0: there is none, or it cannot be told. Any thread. */
char thread_state(uint32_t tid);

/* Whether a thread of this process other than the caller runs, or waits for a processor or a disk.
 * Asks the kernel about each thread. Any thread. */
bool other_threads_run(void);

/* The files that match the pattern (glob(7)), unsorted; free with globfree(). False: none. Any
 * thread. */
bool find_files(const char *pattern, glob_t *found);
