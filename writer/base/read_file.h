/* SPDX-License-Identifier: Apache-2.0 */
/* Small files and names of files. Where the cprof thread asks, no descriptor of the program's is
 * taken for it (writer/base/io_thread.h). */
#ifndef WRITER_BASE_READ_FILE_H
#define WRITER_BASE_READ_FILE_H

#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define PATTERN_SIZE                                                                               \
    (2 * PATH_MAX) /* room for a pattern of any path, where each byte of it may have a backslash */

/* Reads up to size - 1 bytes of the file into text[0..size) and a NUL behind them. Returns how
 * many; 0, too, when it cannot be read. errno stays. Any thread. */
size_t read_file(const char *path, char *text, size_t size);

/* The files that match the pattern (glob(7)), in no order; to be freed by globfree(). False: there
 * are none. Any thread. */
bool find_files(const char *pattern, glob_t *found);

#endif
