/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the args of a transfer's event (DATA_ARGS). Application threads. */
#include "preload/collectives/collective_args.h"

#include <stdio.h>
#include <string.h>

#define NUMBERS_MOST 30u /* of a list, as in Kineto (kTruncatLength) */

static void put_arg(struct args *to, enum arg_type type, const char *key, const void *bytes,
                    uint32_t len)
{
    size_t key_len = strlen(key);
    if ((size_t)(to->end - to->at) >= ARG_HEAD + key_len + sizeof len + len)
        to->at += put_arg_bytes(to->at, type, key, key_len, bytes, len);
}

void args_put_int(struct args *to, const char *key, int64_t value)
{
    size_t key_len = strlen(key);
    if ((size_t)(to->end - to->at) >= ARG_HEAD + key_len + sizeof value)
        to->at += put_arg_number(to->at, ARG_INT, key, key_len, &value);
}

void args_put_bytes(struct args *to, const char *key, const char *text, uint32_t len)
{
    put_arg(to, ARG_TEXT, key, text, len);
}

void args_put_text(struct args *to, const char *key, const char *text)
{
    args_put_bytes(to, key, text, (uint32_t)strlen(text));
}

/* Appends digits to `to`, which has room for 21. */
static char *add_digits(char *to, int64_t value)
{
    char digits[20];
    int n = 0;
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    do
        digits[n++] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0)
        *to++ = '-';
    while (n > 0)
        *to++ = digits[--n];
    return to;
}

void args_put_numbers(struct args *to, const char *key, const struct torch_numbers *list)
{
    char text[NUMBERS_MOST * 23 + 8], *at = text;
    size_t most = list->count > NUMBERS_MOST ? NUMBERS_MOST - 1 : list->count;
    *at++ = '[';
    for (size_t i = 0; i < most; i++) {
        if (i > 0)
            at = stpcpy(at, ", ");
        at = add_digits(at, list->at[i]);
    }
    if (most < list->count)
        at = add_digits(stpcpy(at, ", ..., "), list->at[list->count - 1]);
    *at++ = ']';
    args_put_bytes(to, key, text, (uint32_t)(at - text));
}

void args_put_shapes(struct args *to, const uint8_t *shapes, uint32_t n)
{
    if (n)
        put_arg(to, ARG_SHAPES, "", shapes, n);
}

void args_put_peer(struct args *to, const struct collective *what)
{
    static const char keys[][12] = {
        [PEER_ROOT] = "Root rank", [PEER_TO] = "Dst Rank", [PEER_FROM] = "Src Rank"};
    if (what->peer_is != PEER_NONE && what->peer >= 0)
        args_put_int(to, keys[what->peer_is], what->peer);
}

void args_put_communicator(struct args *to, const void *handle, int size, int rank)
{
    char text[24];
    if (size > 0)
        args_put_int(to, "Group size", size);
    if (rank >= 0)
        args_put_int(to, "Rank", rank);
    snprintf(text, sizeof text, "%#llx", (unsigned long long)(uintptr_t)handle);
    if (handle)
        args_put_text(to, "Comms Id", text);
}

void args_put_process_group(struct args *to, const struct torch_comms *comms)
{
    if (comms->group.len)
        args_put_bytes(to, "Process Group Name", comms->group.at, (uint32_t)comms->group.len);
    if (comms->about.len)
        args_put_bytes(to, "Process Group Description", comms->about.at,
                       (uint32_t)comms->about.len);
    args_put_numbers(to, "Process Group Ranks", &comms->ranks);
}
