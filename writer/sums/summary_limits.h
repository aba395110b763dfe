/* SPDX-License-Identifier: Apache-2.0 */
/* How large the parts of a summary may become, so that a file has at most 200 KB. The sizes of rows
 * are assumed, so that this library and scripts/python/cprof/tool/summarize.py, which has the same
 * numbers, leave out the same. */
#pragma once

#define FILE_TABLE_MOST  195000u /* with all parts */
#define FILE_ABOUT_BYTES 16000u  /* the first line, which says what recorded the trace */

/* Steps and collectives. Steps share rows until all fit. */
#define FILE_COLUMNS_MOST 130000u
#define FILE_STEP_BYTES   44u
#define FILE_PARTS_BYTES  120u /* of a step on a device */
#define FILE_SUM_BYTES    76u  /* of the collectives of a key in a step */
#define FILE_DEVICES_MOST 128u

/* Single collectives; if they take more, their sums are written. */
#define FILE_COLLECTIVES_MOST 80000u
#define FILE_COLLECTIVE_BYTES 40u
#define FILE_KEYS_MOST        1000u
#define FILE_KEYS_BYTES_MOST  40000u

#define FILE_MODULES_MOST       256u
#define FILE_MODULES_BYTES_MOST 30000u
#define FILE_MODULE_BYTES       40u  /* without the name, here and below */
#define FILE_ROW_BYTES          150u /* of the table */
