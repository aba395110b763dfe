/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/stacks/pyframes.c as far as it needs no interpreter: lines from the three
 * kinds of line tables, UTF-8 from the three kinds of strings, and the known versions.
 * tests/e2e/test_stacks.py reads live frames on each installed interpreter. */
#include "preload/stacks/pyframes.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "preload/stacks/pyoffsets.h"

struct line {
    int32_t from, line; /* instructions from offset `from` on have this line; 0: none */
};

/* A function with a loop, a call over three lines, a comprehension and 150 empty lines. Compiled
 * by CPython 3.9.18, 3.10.13, 3.11.7 and 3.13.0, with the lines of their co_lines() (3.9:
 * dis.findlinestarts()). It begins in line 1. */
static const uint8_t lnotab[] = {0,   1, 4, 1, 12, 1, 4, 1, 2,   1,  2,   1, 6,  255, 2,
                                 255, 6, 4, 8, 1,  6, 1, 2, 255, 36, 127, 0, 23, 10,  1};
static const struct line lnotab_lines[] = {{0, 2},   {4, 3},   {16, 4},   {20, 5},   {22, 6},
                                           {24, 7},  {30, 6},  {32, 5},   {38, 9},   {46, 10},
                                           {52, 11}, {54, 10}, {90, 160}, {100, 161}};

static const uint8_t ranges[] = {4, 1, 12, 1, 4, 1, 2, 1,   2,  1,   6, 1,   2,  255, 6, 255,
                                 8, 4, 6,  1, 2, 1, 8, 255, 28, 255, 0, 127, 10, 24,  4, 1};
static const struct line ranges_lines[] = {{0, 2},   {4, 3},   {16, 4}, {20, 5},   {22, 6},
                                           {24, 7},  {30, 6},  {32, 5}, {38, 9},   {46, 10},
                                           {52, 11}, {54, 10}, {62, 9}, {90, 160}, {100, 161}};

static const uint8_t locations[] = {
    128, 0,   216, 8,   9,   128, 65,  221, 13,  18,  144, 49,  137, 88,  140, 88,  240, 0,
    93,  2,   5,   15,  240, 0,   93,  2,   5,   15,  136, 1,   216, 11,  12,  240, 0,   8,
    9,   27,  216, 12,  13,  216, 16,  17,  221, 16,  17,  144, 33,  145, 4,   148, 4,   241,
    3,   1,   17,  21,  241, 3,   2,   13,  22,  136, 65,  136, 65,  245, 8,   0,   18,  19,
    145, 19,  148, 19,  240, 0,   3,   13,  27,  152, 1,   240, 2,   2,   21,  27,  240, 0,
    2,   21,  27,  216, 30,  31,  240, 3,   2,   21,  27,  241, 0,   2,   21,  27,  244, 0,
    2,   21,  27,  144, 1,   240, 3,   3,   13,  27,  240, 0,   3,   13,  27,  240, 0,   3,
    13,  27,  241, 0,   3,   13,  27,  244, 0,   3,   13,  27,  240, 0,   3,   13,  27,  240,
    0,   3,   13,  27,  240, 0,   3,   13,  27,  240, 0,   3,   13,  27,  240, 0,   3,   13,
    27,  240, 0,   3,   13,  27,  248, 248, 248, 240, 0,   3,   13,  27,  240, 0,   3,   13,
    27,  240, 0,   3,   13,  27,  240, 0,   3,   13,  27,  240, 110, 4,   0,   9,   10,  136,
    81,  137, 6,   136, 1,   136, 1,   216, 11,  12,  128, 72};
static const struct line locations_lines[] = {
    {0, 1},  {2, 2},    {6, 3},    {40, 4},   {44, 5},  {46, 6},  {48, 7},  {76, 6},    {80, 5},
    {88, 9}, {118, 10}, {122, 11}, {124, 10}, {142, 9}, {174, 0}, {180, 9}, {188, 160}, {200, 161}};

static const uint8_t locations_13[] = {
    128, 0,   216, 8,   9,   128, 65,  220, 13, 18,  144, 49,  142, 88,  136, 1,   222, 11,  12,
    216, 12,  13,  216, 16,  17,  220, 16,  17, 144, 33,  147, 4,   241, 3,   1,   17,  21,  241,
    3,   2,   13,  22,  137, 65,  244, 8,   0,  18,  19,  148, 19,  152, 1,   225, 30,  31,  243,
    3,   2,   21,  27,  217, 30,  31,  152, 17, 220, 24,  25,  247, 5,   0,   22,  23,  217, 30,
    31,  240, 3,   0,   17,  18,  240, 0,   2,  21,  27,  247, 3,   0,   18,  21,  240, 110, 4,
    0,   9,   10,  136, 81,  137, 6,   138, 1,  241, 123, 4,   0,   14,  22,  240, 124, 4,   0,
    12,  13,  128, 72,  249, 242, 111, 4,   2,  21,  27,  247, 3,   0,   18,  21,  149, 19,  250};
static const struct line locations_13_lines[] = {
    {0, 1},    {2, 2},    {6, 3},    {34, 4},   {48, 5},    {50, 6},   {52, 7},
    {72, 6},   {76, 5},   {84, 9},   {106, 11}, {110, 10},  {118, 11}, {124, 12},
    {134, 10}, {150, 11}, {154, 10}, {158, 9},  {174, 160}, {188, 3},  {192, 161},
    {196, 0},  {200, 10}, {206, 9},  {234, 0}};

static void check_lines(enum pyframes_table encoding, const uint8_t *table, size_t size,
                        const struct line *lines, size_t n, int32_t end)
{
    size_t at = 0;
    for (int32_t i = 0; i < end; i += 2) {
        while (at + 1 < n && lines[at + 1].from <= i)
            at++;
        int32_t line = pyframes_line(encoding, table, size, 1, i);
        ck_assert_msg(line == lines[at].line, "instruction %d must have line %d, not %d", i,
                      lines[at].line, line);
    }
}

#define CHECK_LINES(encoding, name, end)                                                           \
    check_lines(encoding, name, sizeof name, name##_lines,                                         \
                sizeof name##_lines / sizeof *name##_lines, end)

START_TEST(reads_line_tables_of_each_version)
{
    CHECK_LINES(TABLE_LNOTAB, lnotab, 104);
    CHECK_LINES(TABLE_RANGES, ranges, 104);
    CHECK_LINES(TABLE_LOCATIONS, locations, 204);
    CHECK_LINES(TABLE_LOCATIONS, locations_13, 240);
}
END_TEST

/* A frame that has not begun has the line of its code. There is no line after a table's end,
 * except in 3.9, whose table has no end. */
START_TEST(handles_instructions_outside_the_table)
{
    ck_assert_int_eq(pyframes_line(TABLE_RANGES, ranges, sizeof ranges, 7, -2), 7);
    ck_assert_int_eq(pyframes_line(TABLE_LOCATIONS, locations, sizeof locations, 7, -2), 7);
    ck_assert_int_eq(pyframes_line(TABLE_LNOTAB, lnotab, sizeof lnotab, 7, -1), 7);
    ck_assert_int_eq(pyframes_line(TABLE_RANGES, ranges, sizeof ranges, 1, 104), 0);
    ck_assert_int_eq(pyframes_line(TABLE_LOCATIONS, locations, sizeof locations, 1, 204), 0);
    ck_assert_int_eq(pyframes_line(TABLE_LOCATIONS, NULL, 0, 7, 0), 0);
    ck_assert_int_eq(pyframes_line(TABLE_RANGES, NULL, 0, 7, 0), 0);
    ck_assert_int_eq(pyframes_line(TABLE_LNOTAB, NULL, 0, 7, 0), 7);
}
END_TEST

/* Any bytes give some line. ASan sees reads beyond their end. */
START_TEST(survives_random_line_tables)
{
    uint32_t state = 1;
    for (int round = 0; round < 20000; round++) {
        uint8_t table[64];
        size_t size = (size_t)round % sizeof table;
        uint8_t *end = table + sizeof table - size;
        for (size_t i = 0; i < size; i++)
            end[i] = (uint8_t)((state = state * 1664525 + 1013904223) >> 24);
        for (int encoding = TABLE_LNOTAB; encoding <= TABLE_LOCATIONS; encoding++)
            pyframes_line((enum pyframes_table)encoding, end, size, 1, (int32_t)(state >> 20));
    }
}
END_TEST

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Hashes texts of `width` bytes a character: `before` times '<', 1 to 6 letters of "adef", and '>'.
 * Many differ only in how often a letter is repeated. */
static void check_all_differ(unsigned width, unsigned before)
{
    enum { LETTERS = 6, TEXTS = 5460 }; /* 4 + 16 + ... + 4^6 */
    static const uint8_t letter[] = {'a', 'd', 'e', 'f'};
    static uint64_t prints[TEXTS];
    unsigned used = 0;
    for (unsigned letters = 1; letters <= LETTERS; letters++)
        for (unsigned text = 0; text < 1u << 2 * letters; text++) {
            uint8_t bytes[4 * 64] = {0};
            unsigned n = 0;
            for (unsigned i = 0; i < before; i++, n++)
                bytes[n * width] = '<';
            for (unsigned i = 0; i < letters; i++, n++)
                bytes[n * width] = letter[text >> 2 * i & 3];
            bytes[n++ * width] = '>';
            prints[used++] = pyframes_print(bytes, (size_t)n * width, 0x1234);
        }
    ck_assert_uint_eq(used, TEXTS);
    qsort(prints, used, sizeof prints[0], by_value);
    for (unsigned i = 1; i < used; i++)
        ck_assert_msg(prints[i] != prints[i - 1], "equal hashes: width %u, %u times '<'", width,
                      before);
}

/* Texts that differ only in a repeated letter, as <dff> and <dfff>, are the hard case. */
START_TEST(different_texts_have_different_hashes)
{
    for (unsigned before = 0; before < 36; before++)
        for (unsigned width = 1; width <= 4; width *= 2)
            check_all_differ(width, before);
    ck_assert_uint_ne(pyframes_print("", 0, 0), pyframes_print("\0", 1, 0));
    ck_assert_uint_ne(pyframes_print("a", 1, 0), pyframes_print("a", 1, 1));
}
END_TEST

START_TEST(knows_python_3_9_to_3_13)
{
    ck_assert_ptr_null(pyframes_layout_of(8));
    ck_assert_ptr_null(pyframes_layout_of(99));
    for (int minor = 9; minor <= 13; minor++)
        ck_assert_int_eq(pyframes_layout_of(minor)->minor, minor);
    const char *why = "unset";
    ck_assert_ptr_null(pyframes_layout(&why)); /* without Python there is no layout and no error */
    ck_assert_str_eq(why, "");
}
END_TEST

static void put(uint8_t *runtime, unsigned at, uint64_t number)
{
    memcpy(runtime + at, &number, sizeof number);
}

/* Makes a _Py_DebugOffsets with the contents that the header of 3.13.0 declares. */
static void publish_3_13(uint8_t runtime[1024])
{
    static const uint16_t numbers[][2] = {{184, 72},  {232, 8},   {240, 0},   {248, 56},  {256, 72},
                                          {264, 70},  {280, 112}, {288, 120}, {304, 136}, {312, 68},
                                          {344, 200}, {360, 8},   {520, 16},  {528, 32},  {544, 32},
                                          {552, 16},  {560, 40}};
    memset(runtime, 0, 1024);
    memcpy(runtime, "xdebugpy", 8);
    put(runtime, 8, 0x030d00f0);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        put(runtime, numbers[i][0], numbers[i][1]);
}

START_TEST(reads_the_published_layout)
{
    uint8_t runtime[1024];
    struct pyframes_layout read;
    const char *why = "";
    publish_3_13(runtime);
    ck_assert(pyoffsets_read(13, runtime, &read, &why));
    ck_assert(pyoffsets_agree(&read, pyframes_layout_of(13)));
    ck_assert(!pyoffsets_agree(&read, pyframes_layout_of(12)));
    put(runtime, 232, 16);
    ck_assert(pyoffsets_read(13, runtime, &read, &why));
    ck_assert(!pyoffsets_agree(&read, pyframes_layout_of(13)));
}
END_TEST

START_TEST(rejects_an_implausible_layout)
{
    static const struct {
        uint16_t at;
        uint64_t number;
    } rows[] = {{0, 1},    {8, 0x030c00f0}, {8, 0x030e00f0}, {184, 0},  {184, 70},   {184, 1 << 20},
                {240, 8},  {264, 0},        {280, 120},      {312, 66}, {360, 16},   {520, 24},
                {528, 40}, {544, 36},       {552, 24},       {560, 0},  {344, ~0ull}};
    uint8_t runtime[1024];
    struct pyframes_layout read;
    const char *why;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        publish_3_13(runtime);
        put(runtime, rows[i].at, rows[i].number);
        ck_assert_msg(!pyoffsets_read(13, runtime, &read, &why), "%u", rows[i].at);
        ck_assert_str_eq(why, "the layout that it publishes is not plausible");
    }
    publish_3_13(runtime);
    put(runtime, 16, 1);
    ck_assert(!pyoffsets_read(13, runtime, &read, &why));
    ck_assert_str_eq(why, "this Python has no GIL");
    ck_assert(!pyoffsets_read(12, runtime, &read, &why)); /* 3.12 does not have the table yet */
    ck_assert(!pyoffsets_read(13, NULL, &read, &why));
}
END_TEST

Suite *suite_pyframes(void)
{
    Suite *suite = suite_create("pyframes");
    TCase *all = tcase_create("all");
    tcase_add_test(all, reads_line_tables_of_each_version);
    tcase_add_test(all, handles_instructions_outside_the_table);
    tcase_add_test(all, survives_random_line_tables);
    tcase_add_test(all, different_texts_have_different_hashes);
    tcase_add_test(all, knows_python_3_9_to_3_13);
    tcase_add_test(all, reads_the_published_layout);
    tcase_add_test(all, rejects_an_implausible_layout);
    suite_add_tcase(suite, all);
    return suite;
}
