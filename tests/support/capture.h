/* SPDX-License-Identifier: Apache-2.0 */
/* What the test process writes to stderr and stdout, as text. Main thread of a forked test. */
#ifndef TESTS_SUPPORT_CAPTURE_H
#define TESTS_SUPPORT_CAPTURE_H

/* From now on both go to files without a name. */
void capture_start(void);

/* All that came to stderr since, terminated; valid until the next call. */
const char *capture_stderr(void);

/* All that came to stdout since, as above. */
const char *capture_stdout(void);

/* Lines of a text that hold `part`; with part "" all lines. */
unsigned capture_lines(const char *text, const char *part);

#endif
