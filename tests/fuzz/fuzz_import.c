/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: any text as a foreign trace must be refused or become whole lines of strict
 * JSON. The size of the pieces in which the text comes must not matter. Input: a byte with the size
 * of the pieces, the text. */
#include <stdio.h>

#include "tests/fuzz/json_valid.h"
#include "writer/import/foreign.h"
#include "writer/import/split.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Imports a text in pieces of `most` bytes. */
static void import_text(const uint8_t *bytes, size_t size, size_t most, struct buf *out)
{
    struct split s = {0};
    struct foreign *f = foreign_new();
    if (!f)
        return;
    foreign_begin(f, 3, 1000, true);
    enum split_got got = SPLIT_MORE;
    for (size_t at = 0; at < size && got != SPLIT_FAULT; at += most) {
        size_t n = size - at < most ? size - at : most;
        char *piece = malloc(n); /* exact size, so that ASan sees an overread */
        if (!piece)
            break;
        memcpy(piece, bytes + at, n);
        const char *p = piece;
        while ((got = split_next(&s, &p, piece + n)) != SPLIT_MORE && got != SPLIT_FAULT) {
            const char *why;
            uint64_t where = 0;
            int64_t start, end;
            if (got == SPLIT_EVENT || got == SPLIT_MEMBER) {
                if (foreign_parse(f, s.value.data, s.value.len, &why, &where)) {
                    foreign_integer(f, &start);
                    foreign_time(f, &start, &end);
                    foreign_put(f, out);
                } else if (where > s.value.len) {
                    __builtin_trap();
                } else {
                    buf_printf(out, "{\"fault\": %llu},\n",
                               (unsigned long long)(where + s.value_at));
                }
            }
        }
        free(piece);
    }
    bool cut;
    if (!split_end(&s, &cut))
        buf_printf(out, "{\"end\": %llu},\n", (unsigned long long)s.fault_at);
    split_free(&s);
    foreign_free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 1)
        return 0;
    struct buf whole = {0}, pieces = {0};
    import_text(bytes + 1, size - 1, size, &whole);
    import_text(bytes + 1, size - 1, 1 + bytes[0] % 16, &pieces);
    if (whole.failed || !json_lines_valid(whole.data, whole.len) || whole.len != pieces.len ||
        (whole.len > 0 && memcmp(whole.data, pieces.data, whole.len) != 0))
        __builtin_trap();
    buf_free(&whole);
    buf_free(&pieces);
    return 0;
}
