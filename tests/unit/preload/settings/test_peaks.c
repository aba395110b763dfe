/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of preload/settings/peaks.h and cupti/gpu_peaks.h: the peak rates of devices, from the
 * user and from the table. */
#include "preload/settings/peaks.h"

#include <check.h>
#include <string.h>

#include "cupti/gpu_peaks.h"
#include "tests/support/capture.h"

static struct flop_peaks peaks;

START_TEST(applies_one_number_to_every_type)
{
    ck_assert(peaks_read(" 989.4 ", &peaks));
    for (unsigned i = 0; i < FLOP_OTHER; i++)
        ck_assert_double_eq(peaks.gpu[i], 989.4);
    ck_assert_double_eq(peaks.cpu, 0);
}
END_TEST

START_TEST(reads_a_list_of_types)
{
    ck_assert(peaks_read("bf16=989.5, float32 = 67,tf32=494,cpu=0.5", &peaks));
    ck_assert_double_eq(peaks.gpu[FLOP_BF16], 989.5);
    ck_assert_double_eq(peaks.gpu[FLOP_FP32], 67);
    ck_assert_double_eq(peaks.gpu[FLOP_TF32], 494);
    ck_assert_double_eq(peaks.gpu[FLOP_FP16], 0);
    ck_assert_double_eq(peaks.cpu, 0.5);
    ck_assert(peaks_read("", &peaks) && peaks.gpu[FLOP_BF16] == 0);
}
END_TEST

START_TEST(rejects_bad_values_with_one_line)
{
    static const char *const texts[] = {"-1",    "0",      "nan",    "inf",     "1e3",     "bf16",
                                        "bf16=", "bf16=0", "half=1", "bf16=1;", "bf16=1,", "1,2",
                                        "1.2.3", "=1",     "bf16=x", "1e400"};
    capture_start();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ck_assert_msg(!peaks_read(texts[i], &peaks), "%s", texts[i]);
        ck_assert_uint_eq(capture_lines(capture_stderr(), ""), i + 1);
        for (unsigned k = 0; k < FLOP_OTHER; k++)
            ck_assert_double_eq(peaks.gpu[k], 0);
    }
}
END_TEST

static double peak(const char *name, uint32_t major, uint32_t minor, unsigned class)
{
    struct peak_device device = {name, major, minor, 100, 2000000};
    return peak_tflops(&device, class);
}

START_TEST(finds_peaks_by_device_name)
{
    ck_assert_double_eq_tol(peak("NVIDIA H100 80GB HBM3", 9, 0, FLOP_BF16), 989.4, 0.01);
    ck_assert_double_eq_tol(peak("NVIDIA H100 PCIe", 9, 0, FLOP_BF16), 756.5, 0.01);
    ck_assert_double_eq_tol(peak("NVIDIA H200", 9, 0, FLOP_FP8), 1978.9, 0.01);
    ck_assert_double_eq_tol(peak("NVIDIA A100-SXM4-80GB", 8, 0, FLOP_TF32), 156, 0.01);
    ck_assert_double_eq_tol(peak("NVIDIA L4", 8, 9, FLOP_FP16), 121, 0.01);
    ck_assert_double_eq_tol(peak("NVIDIA L40", 8, 9, FLOP_FP16), 181.05, 0.01);
    ck_assert_double_eq_tol(peak("Tesla V100-PCIE-16GB", 7, 0, FLOP_FP16), 112, 0.01);
    /* the A100 has no such unit */
    ck_assert_double_eq(peak("NVIDIA A100-SXM4-80GB", 8, 0, FLOP_FP8), 0);
}
END_TEST

/* Operations per clock and SM x 100 SMs x 2 GHz. */
START_TEST(computes_peaks_from_the_capability)
{
    ck_assert_double_eq(peak("NVIDIA X9000", 9, 0, FLOP_BF16), 4096 * 100 * 2e9 / 1e12);
    ck_assert_double_eq(peak(NULL, 8, 6, FLOP_FP32), 256 * 100 * 2e9 / 1e12);
    ck_assert_double_eq(peak("NVIDIA L4000", 8, 9, FLOP_FP16), 1024 * 100 * 2e9 / 1e12);
    ck_assert_double_eq(peak("of the future", 99, 0, FLOP_BF16), 0);
    ck_assert_double_eq(peak("NVIDIA H100", 9, 0, FLOP_OTHER), 0);
}
END_TEST

Suite *suite_peaks(void)
{
    Suite *suite = suite_create("peaks");
    TCase *all = tcase_create("all");
    tcase_add_test(all, applies_one_number_to_every_type);
    tcase_add_test(all, reads_a_list_of_types);
    tcase_add_test(all, rejects_bad_values_with_one_line);
    tcase_add_test(all, finds_peaks_by_device_name);
    tcase_add_test(all, computes_peaks_from_the_capability);
    suite_add_tcase(suite, all);
    return suite;
}
