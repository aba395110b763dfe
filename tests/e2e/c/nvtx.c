/* SPDX-License-Identifier: Apache-2.0 */
/* Makes NVTX calls through the real headers, a mode per test: all that a trace shows of NVTX.
 * Built if the compiler finds nvtx3. Otherwise it prints so and exits with 77. Usage: nvtx MODE */
#include <stdio.h>

#if defined(__has_include)
#if __has_include(<nvtx3/nvToolsExt.h>)
#define HAVE_NVTX
#endif
#endif

#ifndef HAVE_NVTX
int main(void)
{
    printf("built without NVTX's headers\n");
    return 77;
}
#else
#include <nvtx3/nvToolsExt.h>
#if __has_include(<nvtx3/nvToolsExtPayload.h>)
#include <nvtx3/nvToolsExtPayload.h>
#endif

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/cprof.h"

#define STEPS   3
#define THREADS 64
#define PAIRS   250

static nvtxDomainHandle_t domain, other;

static nvtxEventAttributes_t event(const char *text)
{
    nvtxEventAttributes_t e = {0};
    e.version = NVTX_VERSION;
    e.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    e.messageType = NVTX_MESSAGE_TYPE_ASCII;
    e.message.ascii = text;
    return e;
}

static void *end_it(void *id)
{
    nvtxNameOsThreadA((uint32_t)syscall(SYS_gettid), "the ender");
    nvtxRangePushA("on the ender");
    nvtxRangeEnd(*(nvtxRangeId_t *)id);
    nvtxRangePop();
    return NULL;
}

static void across(void)
{
    pthread_t thread;
    nvtxRangeId_t id = nvtxRangeStartW(L"across \u20ac");
    if (pthread_create(&thread, NULL, end_it, &id) == 0)
        pthread_join(thread, NULL);
}

static void all(void)
{
    nvtxEventAttributes_t e = event("with everything");
    e.category = 7;
    e.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
    e.payload.dValue = 0.25;
    int levels[4];
    levels[0] = nvtxRangePushA("outer");
    levels[1] = nvtxDomainRangePushEx(domain, &e);
    levels[2] = nvtxDomainRangePop(domain);
    levels[3] = nvtxRangePop();
    printf("levels %d %d %d %d\n", levels[0], levels[1], levels[2], levels[3]);
    e.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    e.message.registered = nvtxDomainRegisterStringA(domain, "registered");
    nvtxDomainMarkEx(domain, &e);
    nvtxMarkW(L"wide \u00e9");
    nvtxEventAttributes_t first = event("first"), second = event("second");
    nvtxDomainRangePushEx(domain, &first);
    nvtxDomainRangePushEx(other, &second);
    nvtxDomainRangePop(domain);
    nvtxDomainRangePop(other);
    nvtxRangeId_t id = nvtxDomainRangeStartEx(domain, &e);
    nvtxDomainRangeEnd(domain, id);
    across();
}

static void names(void)
{
    char *name = malloc(100001);
    if (!name)
        return;
    nvtxRangePushA("\"quoted\" \\ back\nnew\tline \x01\x1f");
    nvtxRangePop();
    nvtxMarkA("invalid \xff\xc3(\xed\xa0\x80");
    nvtxRangePushA("");
    nvtxRangePop();
    memset(name, 'n', 100000);
    name[100000] = '\0';
    nvtxMarkA(name);
    nvtxRangeEnd(nvtxRangeStartA(name));
    nvtxRangePushA(name);
    nvtxRangePop();
    free(name);
}

static void *pairs(void *barrier)
{
    pthread_barrier_wait(barrier);
    nvtxEventAttributes_t e = event("pair");
    for (int i = 0; i < PAIRS; i++) {
        nvtxRangeId_t id = nvtxRangeStartA("started");
        nvtxDomainRangePushEx(domain, &e);
        nvtxDomainRangePushEx(other, &e);
        nvtxDomainRangePop(i % 2 ? domain : other);
        nvtxDomainRangePop(i % 2 ? other : domain);
        nvtxRangeEnd(id);
    }
    return NULL;
}

static void many(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, pairs, &barrier) != 0)
            exit(1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void open_ones(void)
{
    nvtxRangePushA("never popped");
    nvtxRangeStartA("never ended");
    nvtxMarkA("a moment");
}

#ifdef NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES
/* Ranges with the payloads that XLA gives instructions: without, and with a file and a line. */
static void xla(void)
{
    struct {
        nvtxStringHandle_t locations, file;
        int32_t line;
    } one = {.line = 31};
    const nvtxPayloadSchemaEntry_t entries[] = {
        {0, NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE, "Source locations", NULL, 0, 0,
         NULL, NULL},
        {0, NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE, "Source file", NULL, 0,
         (size_t)((char *)&one.file - (char *)&one), NULL, NULL},
        {0, NVTX_PAYLOAD_ENTRY_TYPE_INT32, "Source line", NULL, 0,
         (size_t)((char *)&one.line - (char *)&one), NULL, NULL}};
    nvtxPayloadSchemaAttr_t schema = {0};
    schema.fieldMask =
        NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
        NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
    schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
    schema.entries = entries;
    schema.numEntries = 3;
    schema.payloadStaticSize = sizeof one;
    uint64_t id = nvtxPayloadSchemaRegister(domain, &schema);
    printf("schema %d\n", id >> 32 != 0);
    for (int i = 0; i < 3; i++) {
        nvtxEventAttributes_t e = event("TSL:Thunk:#hlo_op=add.7#");
        one.locations =
            i == 0 ? nvtxDomainRegisterStringA(
                         domain, "\n- /a/train.py:3[<module>]\n-- /a/train.py:12[step] mul\n")
                   : NULL;
        one.file = i == 1 ? nvtxDomainRegisterStringA(domain, "/a/model.py") : NULL;
        nvtxPayloadData_t data = {id, sizeof one, &one};
        e.payload.ullValue = (uintptr_t)&data;
        e.payloadType = NVTX_PAYLOAD_TYPE_EXT;
        e.reserved0 = 1;
        nvtxDomainRangePushEx(domain, &e);
        nvtxDomainRangePop(domain);
    }
}
#endif

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "all";
    domain = nvtxDomainCreateA("my domain");
    other = nvtxDomainCreateW(L"an\u00f6ther");
    nvtxDomainNameCategoryA(domain, 7, "seven");
    nvtxNameOsThreadA((uint32_t)syscall(SYS_gettid), "the \"main\" one");
#ifdef NVTX_PAYLOAD_API_FUNCTIONS_V1
    printf("enabled %d\n", nvtxDomainIsEnabled(domain));
#endif
    if (strcmp(mode, "steps") == 0) {
        for (int i = 0; i < 6; i++) {
            char name[32];
            snprintf(name, sizeof name, "iteration %d", i);
            nvtxEventAttributes_t e = event(name);
            nvtxDomainRangePushEx(domain, &e);
            nvtxMarkA("inside");
            nvtxDomainRangePop(domain);
        }
    } else if (strcmp(mode, "many") == 0) {
        many();
#ifdef NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES
    } else if (strcmp(mode, "xla") == 0) {
        xla();
#endif
    } else if (strcmp(mode, "open") == 0) {
        open_ones();
    } else if (strcmp(mode, "names") == 0) {
        names();
    } else if (strcmp(mode, "misuse") == 0) {
        printf("pop %d\n", nvtxRangePop());
        nvtxRangeEnd(12345);
        nvtxMarkA("alive");
    } else {
        for (int i = 0; i < STEPS; i++) {
            all();
            cprof_step();
        }
    }
    nvtxDomainDestroy(other);
    return 0;
}
#endif
