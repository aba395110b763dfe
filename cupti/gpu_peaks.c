/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the peak rate of a GPU in the table gpu_peaks.def. */
#include "cupti/gpu_peaks.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "writer/writer.h"

/* In the order of gpu_peaks.def's columns. */
/* clang-format off */
#define COLUMNS(fp64, fp32, tf32, fp16, bf16, fp8, int8, fp4)                                      \
    {                                                                                              \
        [FLOP_FP64] = (fp64), [FLOP_FP32] = (fp32), [FLOP_TF32] = (tf32), [FLOP_FP16] = (fp16),    \
        [FLOP_BF16] = (bf16), [FLOP_FP8] = (fp8), [FLOP_INT8] = (int8), [FLOP_FP4] = (fp4)         \
    }
/* clang-format on */

static const struct {
    const char *words;
    float tflops[FLOP_OTHER];
} by_name[] = {
#define PEAK_NAME(words, ...) {words, COLUMNS(__VA_ARGS__)},
#define PEAK_CC(major, minor, ...)
#include "cupti/gpu_peaks.def"
#undef PEAK_NAME
#undef PEAK_CC
};

static const struct {
    uint32_t major, minor;
    float per_clock[FLOP_OTHER];
} by_capability[] = {
#define PEAK_NAME(words, ...)
#define PEAK_CC(major, minor, ...) {major, minor, COLUMNS(__VA_ARGS__)},
#include "cupti/gpu_peaks.def"
#undef PEAK_NAME
#undef PEAK_CC
};

/* Whether `name` contains `words` as whole words: L4 does not match L40. */
static bool named(const char *name, const char *words)
{
    size_t n = strlen(words);
    for (const char *at = strstr(name, words); at; at = strstr(at + 1, words))
        if ((at == name || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[n]))
            return true;
    return false;
}

double peak_tflops(const struct peak_device *device, unsigned flop_class)
{
    if (flop_class >= FLOP_OTHER)
        return 0;
    for (size_t i = 0; i < sizeof by_name / sizeof by_name[0]; i++)
        if (device->name && named(device->name, by_name[i].words))
            return (double)by_name[i].tflops[flop_class];
    for (size_t i = 0; i < sizeof by_capability / sizeof by_capability[0]; i++)
        if (by_capability[i].major == device->major && by_capability[i].minor == device->minor)
            return (double)by_capability[i].per_clock[flop_class] * device->sms *
                   device->clock_khz / 1e9;
    return 0;
}
