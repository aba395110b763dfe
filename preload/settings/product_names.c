/* SPDX-License-Identifier: Apache-2.0 */
/* Tells from an operator's name whether it multiplies matrices. */
#include "preload/settings/product_names.h"

#include <stddef.h>
#include <string.h>

/* A trailing `*` matches any ending. */
static const char *const products[] = {
    "mm",       "bmm",    "addmm",   "baddbmm",   "matmul", "gemm",   "spmm",
    "sspaddmm", "linear", "linear1", "attention", "attn",   "einsum", "lstm",
    "gru",      "rnn",    "conv",    "conv1d",    "conv2d", "conv3d", "convolution",
    "qlinear",  "qconv*", "gemv",    "mlp",
};
static const char *const others[] = {
    "prepack", "unpack",     "reorder",    "pack",   "quantize", "choice",   "padding",
    "mask",    "dequantize", "transpose1", "params", "stride",   "dilation", "groups",
};

static bool is_word(const char *word, size_t len, const char *pattern)
{
    size_t n = strlen(pattern);
    if (pattern[n - 1] == '*')
        return len >= n - 1 && memcmp(word, pattern, n - 1) == 0;
    return len == n && memcmp(word, pattern, n) == 0;
}

static bool is_one_of(const char *word, size_t len, const char *const *words, size_t n)
{
    while (n > 0 && !is_word(word, len, words[n - 1]))
        n--;
    return n > 0;
}

bool product_name(const char *name)
{
    /* a quick test for the autograd engine's ranges, the most frequent names */
    if (strchr(name, ' '))
        return false;
    const char *word = strstr(name, "::");
    bool found = false;
    if (!word)
        return false;
    for (word += 2; *word;) {
        size_t len = strcspn(word, "_:");
        if (is_one_of(word, len, others, sizeof others / sizeof *others))
            return false;
        found |= is_one_of(word, len, products, sizeof products / sizeof *products);
        word += len + strspn(word + len, "_:");
    }
    return found;
}
