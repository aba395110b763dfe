/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/markers/nvtx_payload.h: the source lines in XLA's payloads.
 * tests/e2e/test_nvtx.py has a client that is built with the real headers. */
#include "preload/markers/nvtx_payload.h"

#include <check.h>
#include <string.h>

#include "preload/markers/nvtx_names.h"
#include "writer/writer.h"

/* As XLA lays it out: the schema's order is not that of the members. */
struct instruction {
    const void *hlo, *locations;
    const void *file;
    int32_t line;
};

static uint64_t schema_in(const void *d, uint64_t type, const struct nvtx_schema_entry *entries,
                          size_t n, uint64_t id)
{
    intptr_t slots[4] = {0};
    const struct nvtx_segment segment = {0, 4, slots};
    const struct nvtx_extension extension = {
        3, sizeof extension, NVTX_MODULE_PAYLOAD, 0x104, 1, &segment, NULL, NULL};
    nvtx_extend(&extension);
    ck_assert(slots[NVTX_SLOT_REGISTER_SCHEMA] != 0 && slots[1] == 0 && slots[3] == 0);
    const struct nvtx_schema schema = {.fields = NVTX_SCHEMA_TYPE | NVTX_SCHEMA_ENTRIES |
                                                 NVTX_SCHEMA_N_ENTRIES | (id ? NVTX_SCHEMA_ID : 0u),
                                       .type = type,
                                       .entries = entries,
                                       .n_entries = n,
                                       .size = sizeof(struct instruction),
                                       .id = id};
    return ((uint64_t(*)(const void *, const struct nvtx_schema *))slots[0])(d, &schema);
}

static uint64_t schema_of(const struct nvtx_schema_entry *entries, size_t n, uint64_t id)
{
    return schema_in(NULL, NVTX_SCHEMA_STATIC, entries, n, id);
}

static uint64_t instruction_schema(uint64_t id)
{
    static const struct nvtx_schema_entry entries[] = {
        {.type = 80, .name = "HLO", .offset = offsetof(struct instruction, hlo)},
        {.type = 80, .name = "Source locations", .offset = offsetof(struct instruction, locations)},
        {.type = 80, .name = "Source file", .offset = offsetof(struct instruction, file)},
        {.type = 15, .name = "Source line", .offset = offsetof(struct instruction, line)},
        {.type = 15, .name = NULL, .offset = 40}};
    return schema_of(entries, 5, id);
}

static const void *handle(const char *text)
{
    return text ? nvtx_string(text, strlen(text)) : NULL;
}

/* The source line in n payloads of a domain's event; "" for none. */
static const char *source_in(const void *d, const struct nvtx_payload *payloads, int32_t n)
{
    static char text[NVTX_SOURCE_MOST];
    uint8_t item[NVTX_SOURCE_MOST];
    const struct nvtx_attributes e = {.size = sizeof e,
                                      .payload_type = NVTX_EXTENDED,
                                      .reserved = n,
                                      .payload.u64 = (uintptr_t)payloads};
    uint32_t len, size = nvtx_source_item(d, &e, item);
    text[0] = '\0';
    if (size) {
        ck_assert_mem_eq(item, "\2\6\0source", 9);
        memcpy(&len, item + 9, sizeof len);
        ck_assert_uint_eq(len + 13, size);
        memcpy(text, item + 13, len);
        text[len] = '\0';
    }
    return text;
}

/* The source line of a range whose payload has these fields; "" for none. */
static const char *source_of(uint64_t schema, const char *locations, const char *file, int32_t line)
{
    const struct instruction data = {handle("add.7 = f32[8] add(a, b)"), handle(locations),
                                     handle(file), line};
    const struct nvtx_payload payloads[] = {{1023, 4, "raw"}, {schema, sizeof data, &data}};
    return source_in(NULL, payloads, 2);
}

START_TEST(reads_the_source_line_of_an_instruction)
{
    uint64_t id = instruction_schema(0), own = instruction_schema(1 << 24 | 7);
    ck_assert_uint_ge(id, 1ull << 32);
    ck_assert_uint_eq(own, 1 << 24 | 7);
    static const struct {
        const char *locations, *file, *source;
    } rows[] = {
        {"\n- /a/b.py:12[run] mul\n", NULL, "/a/b.py(12): run"},
        {"\n- /a/b.py:12:5[<module>]\n-- c d.py:3:1[step] dot\n--- e:4.py:5[&lt;lambda&gt;] "
         "x[y=1]\n-- c d.py:9[step] other\n",
         NULL, "e:4.py(5): <lambda>"},
        {"\n- /a/b.py:12 mul\n- /a/b.py:13 add\n", NULL, "/a/b.py(12)"},
        {"\n- /a/b.py:12", NULL, "/a/b.py(12)"},
        {"\n- /a/b.py:12[open", NULL, "/a/b.py(12): open"},
        {"\n", "/f.py", "/f.py(77)"},
        {NULL, "/f.py", "/f.py(77)"},
        {"\n- no line\n", "/f.py", "/f.py(77)"},
        {"[error]", NULL, ""},
        {"\n- a:\n- b:x[1]\n", NULL, ""},
        {NULL, NULL, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int k = 0; k < 2; k++)
            ck_assert_str_eq(source_of(k ? own : id, rows[i].locations, rows[i].file, 77),
                             rows[i].source);
    char path[600];
    memset(path, 'p', sizeof path - 1);
    path[599] = '\0';
    const char *cut = source_of(id, NULL, path, 1);
    ck_assert(strlen(cut) > 250 && strlen(cut) < NVTX_SOURCE_MOST);
}
END_TEST

START_TEST(a_schema_counts_in_its_domain_only)
{
    static const struct nvtx_schema_entry lines[] = {{.type = 80, .name = "Source locations"}};
    const uint64_t address = 4096, own = 1 << 24 | 9;
    const struct nvtx_payload number = {own, sizeof address, &address};
    const void *domain = nvtx_domain("a", 1), *text = handle("\n- b.py:2\n");
    const struct nvtx_payload line = {own, sizeof text, &text};
    schema_in(domain, NVTX_SCHEMA_STATIC, lines, 1, own);
    schema_in(NULL, 3, lines, 1, own); /* a union */
    ck_assert_str_eq(source_in(NULL, &number, 1), "");
    ck_assert_str_eq(source_in(domain, &line, 1), "b.py(2)");
    static const struct nvtx_schema_entry later[] = {
        {.type = 15, .name = "x"}, {.type = 80, .name = "Source locations", .offset = 8}};
    const struct {
        uint64_t x;
        const void *text;
    } both = {4096, text};
    const struct nvtx_payload moved = {own, sizeof both, &both};
    schema_in(domain, NVTX_SCHEMA_STATIC, later, 2, own); /* the last one counts */
    ck_assert_str_eq(source_in(domain, &moved, 1), "b.py(2)");
}
END_TEST

START_TEST(odd_payloads_have_no_source_line)
{
    static const struct nvtx_schema_entry other[] = {{.type = 80, .name = "Name"}},
                                          pointer[] = {{.flags = 2,
                                                        .type = 80,
                                                        .name = "Source locations"}},
                                          unset[] = {{.type = 15, .name = "a"},
                                                     {.type = 80, .name = "Source locations"}};
    uint64_t id = instruction_schema(0), plain = schema_of(other, 1, 0);
    ck_assert(plain != 0 && plain == schema_of(pointer, 1, 0) && plain == schema_of(unset, 2, 0));
    ck_assert_str_eq(source_of(plain, "\n- a.py:1\n", "f", 1), "");
    ck_assert_str_eq(source_of(0, "\n- a.py:1\n", "f", 1), "");
    const struct instruction data = {NULL, handle("\n- a.py:1\n"), NULL, 0};
    struct nvtx_payload payload = {id, offsetof(struct instruction, file), &data};
    ck_assert_str_eq(source_in(NULL, &payload, 1), "a.py(1)");
    ck_assert_str_eq(source_in(NULL, &payload, 0), "");
    ck_assert_str_eq(source_in(NULL, &payload, -1), "");
    ck_assert_str_eq(source_in(NULL, &payload, 1 << 20), "");
    ck_assert_str_eq(source_in(NULL, NULL, 1), "");
    payload.size--;
    ck_assert_str_eq(source_in(NULL, &payload, 1), "");
    payload.data = NULL;
    ck_assert_str_eq(source_in(NULL, &payload, 1), "");
    nvtx_extend(NULL);
    const struct nvtx_extension counters = {.size = sizeof counters, .module = 4};
    nvtx_extend(&counters);
    for (int i = 0; i < 100; i++)
        instruction_schema(0); /* more than there is room for */
    ck_assert_uint_eq(instruction_schema(0), plain);
}
END_TEST

Suite *suite_nvtx_payload(void);

Suite *suite_nvtx_payload(void)
{
    Suite *suite = suite_create("nvtx_payload");
    TCase *tc = tcase_create("nvtx_payload");
    tcase_add_test(tc, reads_the_source_line_of_an_instruction);
    tcase_add_test(tc, a_schema_counts_in_its_domain_only);
    tcase_add_test(tc, odd_payloads_have_no_source_line);
    suite_add_tcase(suite, tc);
    return suite;
}
