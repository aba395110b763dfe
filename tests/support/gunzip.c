/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks gzip files. A killed flush or a failed truncation may leave zeros after the last
 * member. */
#include "tests/support/gunzip.h"

#include <check.h>
#include <zlib.h>

struct buf *unpacked(const struct buf *file)
{
    static struct buf b;
    buf_reset(&b);
    z_stream z = {.next_in = (Bytef *)file->data, .avail_in = (uInt)file->len};
    ck_assert_int_eq(inflateInit2(&z, 15 + 16), Z_OK);
    int rc = Z_STREAM_END;
    while (z.avail_in != 0 && (rc != Z_STREAM_END || *z.next_in != 0)) {
        if (rc == Z_STREAM_END)
            inflateReset(&z);
        z.next_out = (Bytef *)buf_room(&b, 65536);
        z.avail_out = 65536;
        rc = inflate(&z, Z_NO_FLUSH);
        if (rc != Z_OK && rc != Z_STREAM_END)
            break;
        b.len += 65536 - z.avail_out;
    }
    while (z.avail_in != 0 && *z.next_in == 0) {
        z.next_in++;
        z.avail_in--;
    }
    bool whole = rc == Z_STREAM_END && z.avail_in == 0;
    inflateEnd(&z);
    return whole ? &b : NULL;
}
