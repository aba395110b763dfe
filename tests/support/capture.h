/* SPDX-License-Identifier: Apache-2.0 */
/* What the test process writes to stderr and stdout, as text. Main thread of a forked test. */
#pragma once

/* Redirects both to files without a name. */
void capture_start(void);

/* All text on stderr since capture_start(), terminated. Valid until the next call. */
const char *capture_stderr(void);

/* The same for stdout. */
const char *capture_stdout(void);

/* Number of lines that contain `part`; all lines for "". */
unsigned capture_lines(const char *text, const char *part);
