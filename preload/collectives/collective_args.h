/* SPDX-License-Identifier: Apache-2.0 */
/* The args of a transfer's event, as DATA_ARGS: Kineto's keys and their values. An arg for which
 * there is no room is left out. */
#pragma once

#include "preload/collectives/collectives.h"

/* The amount of data that a transfer moves. */
struct amount {
    const char *name;
    const char *dtype;   /* NULL: none, or several */
    uint64_t in, out;    /* in elements */
    uint64_t bytes : 63; /* of the larger side, as nccl-tests counts */
    uint64_t known : 1;  /* the element size is known; a bit-field saves thread-local storage */
};

/* Where the next arg goes. */
struct args {
    uint8_t *at, *end;
};

/* Appends an integer, bytes, or a text. */
void args_put_int(struct args *to, const char *key, int64_t value);
void args_put_bytes(struct args *to, const char *key, const char *text, uint32_t len);
void args_put_text(struct args *to, const char *key, const char *text);

/* Appends a list as Kineto does: beyond NUMBERS_MOST, only the last number follows "...". */
void args_put_numbers(struct args *to, const char *key, const struct torch_numbers *list);

/* Appends the shapes of inputs, from which TensorBoard takes a transfer's size. */
void args_put_shapes(struct args *to, const uint8_t *shapes, uint32_t n);

/* Appends the other side of a transfer, if it has one. */
void args_put_peer(struct args *to, const struct collective *what);

/* Appends size, rank and identity of a communicator, as far as they are known. */
void args_put_communicator(struct args *to, const void *handle, int size, int rank);

/* If c10d makes the call: appends its name for the group, and the ranks in it. */
void args_put_process_group(struct args *to, const struct torch_comms *comms);
