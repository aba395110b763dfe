/* SPDX-License-Identifier: Apache-2.0 */
/* Parses CPROF_PEAK_TFLOPS. */
#include "preload/settings/peaks.h"

#include <string.h>

#define NAMES "float64 float32 tfloat32 float16 bfloat16 float8 int8 float4 cpu"

static const char *skip_blanks(const char *p)
{
    return p + strspn(p, " \t");
}

/* Parses a positive number that ends at a comma or the text's end. Returns that end, or NULL. */
static const char *read_number(const char *p, double *value)
{
    double unit = 1;
    bool fraction = false;
    *value = 0;
    /* not strtod(): the program's locale may have a decimal comma */
    for (p = skip_blanks(p); (*p >= '0' && *p <= '9') || (*p == '.' && !fraction); p++) {
        fraction |= *p == '.';
        if (*p == '.')
            continue;
        unit /= fraction ? 10 : 1;
        *value = fraction ? *value + unit * (*p - '0') : *value * 10 + (*p - '0');
    }
    p = skip_blanks(p);
    return *value > 0 && *value < 1e9 && (*p == ',' || *p == '\0') ? p : NULL;
}

/* The peak with this name of n bytes, or NULL. */
static double *peak_place(struct flop_peaks *peaks, const char *name, size_t n)
{
    enum flop_class class = flop_class_named(name, n);
    if (class != FLOP_OTHER)
        return &peaks->gpu[class];
    return n == 3 && strncmp(name, "cpu", 3) == 0 ? &peaks->cpu : NULL;
}

static bool read_list(const char *p, struct flop_peaks *out)
{
    while (p) {
        p = skip_blanks(p);
        size_t n = strcspn(p, "= \t,");
        double *place = peak_place(out, p, n), value;
        p = skip_blanks(p + n);
        if (!place || *p != '=' || !(p = read_number(p + 1, &value)))
            return false;
        *place = value;
        p = *p == ',' ? p + 1 : NULL;
    }
    return true;
}

static bool read_any(const char *text, struct flop_peaks *out)
{
    double value;
    const char *end = read_number(text, &value);
    if (!end)
        return read_list(text, out);
    for (unsigned i = 0; i < FLOP_OTHER; i++)
        out->gpu[i] = value;
    return *end == '\0';
}

bool peaks_read(const char *text, struct flop_peaks *out)
{
    *out = (struct flop_peaks){.cpu = 0};
    if (*skip_blanks(text) == '\0' || read_any(text, out))
        return true;
    *out = (struct flop_peaks){.cpu = 0};
    log_warn("CPROF_PEAK_TFLOPS=%s: must be a number above 0, or name=number,... with names out "
             "of " NAMES "; the devices' own peaks are used",
             text);
    return false;
}
