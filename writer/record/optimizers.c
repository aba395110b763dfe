/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the steps of optimizers by class, in a lock-free table. */
#include "writer/record/optimizers.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "writer/base/base.h"
#include "writer/writer.h"

#define NAME_BYTES 64

static struct {
    _Atomic uint64_t key; /* hash of the name; 0: free. The thread that sets it writes the name */
    _Atomic bool named;   /* the name is complete (release) */
    char name[NAME_BYTES];
    _Atomic uint64_t steps; /* any thread adds, relaxed */
} seen[OPTIMIZERS_MOST];    /* filled from the start, never emptied */

static bool
    lists_all_classes; /* the exit line lists all classes; set by writer_tell_optimizers() */

void writer_optimizer_steps(const char *class, size_t len)
{
    if (len > NAME_BYTES - 1)
        len = NAME_BYTES - 1;
    uint64_t key = hash_text(class, len) | 1;
    for (unsigned i = 0; i < OPTIMIZERS_MOST; i++) {
        uint64_t there = atomic_load_explicit(&seen[i].key, memory_order_relaxed);
        if (there == 0 && atomic_compare_exchange_strong(&seen[i].key, &there, key)) {
            memcpy(seen[i].name, class, len);
            atomic_store_explicit(&seen[i].named, true, memory_order_release);
            there = key;
        }
        if (there == key) {
            atomic_fetch_add_explicit(&seen[i].steps, 1, memory_order_relaxed);
            return;
        }
    }
}

static unsigned count_classes(void)
{
    unsigned n = 0;
    while (n < OPTIMIZERS_MOST && atomic_load_explicit(&seen[n].named, memory_order_acquire))
        n++;
    return n;
}

unsigned writer_optimizers(char *out, size_t size)
{
    unsigned n = count_classes();
    size_t used = 0;
    *out = '\0';
    for (unsigned i = 0; i < n; i++) {
        int more = snprintf(out + used, size - used, "%s%s (%llu)", used ? ", " : "", seen[i].name,
                            (unsigned long long)atomic_load(&seen[i].steps));
        if (more < 0 || (size_t)more >= size - used)
            out[used] = '\0'; /* this name does not fit; a shorter one may */
        else
            used += (size_t)more;
    }
    return n;
}

void optimizers_account(struct buf *b)
{
    unsigned n = count_classes();
    for (unsigned i = 0; i < n; i++) {
        buf_puts(b, i ? ", " : "\"optimizers\": {");
        json_string(b, seen[i].name, strlen(seen[i].name));
        buf_printf(b, ": %llu%s", (unsigned long long)atomic_load(&seen[i].steps),
                   i + 1 < n ? "" : "}, ");
    }
}

void writer_tell_optimizers(void)
{
    lists_all_classes = true;
}

void optimizers_exit(char *out, size_t size)
{
    char list[OPTIMIZERS_TEXT];
    *out = '\0';
    if (lists_all_classes && writer_optimizers(list, sizeof list) > 1)
        snprintf(out, size,
                 " (optimizers that stepped: %s; CPROF_STEP=optimizer:GLOB chooses by class)",
                 list);
}
