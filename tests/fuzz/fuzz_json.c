/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: any bytes as a record must become whole lines of strict JSON.
 * Input: kind, category, data kind, flags, length of name, 8 bytes of id, name, data. */
#include "tests/fuzz/json_valid.h"
#include "writer/json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const char *const dtypes[] = {"float", NULL, "c10::complex<float>", "\xff\"\n"};
    if (size < 13)
        return 0;
    size_t name = bytes[4] < size - 13 ? bytes[4] : size - 13;
    /* exact size, so that ASan sees an overread */
    struct record *r = calloc(1, sizeof(*r) + size - 13);
    if (!r)
        return 0;
    r->kind = bytes[0] % 7;
    r->category = bytes[1] % (CAT_COUNT + 1);
    r->data_kind = bytes[2] % 4;
    r->flags = bytes[3];
    memcpy(&r->id, bytes + 5, 8);
    r->op.sequence = (int64_t)(r->id - 2);
    r->name = (uint32_t)name;
    r->data_len = (uint32_t)(size - 13 - name);
    memcpy(r + 1, bytes + 13, size - 13);
    struct json_place at = {UINT32_MAX, 1, (int64_t)r->id, (int64_t)(r->id * 3)};
    struct buf b = {0};
    json_record(&b, r, record_name(r), &at, dtypes, 4);
    if (b.failed || !json_lines_valid(b.data, b.len))
        __builtin_trap();
    buf_free(&b);
    free(r);
    return 0;
}
