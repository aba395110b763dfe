/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of the Python objects that are modules, by their identity. Whoever puts an object in takes
 * it out when it dies. Holding the interpreter's lock. */
#ifndef PRELOAD_TORCH_MODULE_TABLE_H
#define PRELOAD_TORCH_MODULE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#define MODULE_TABLE_MOST (1u << 17) /* modules at a time */

/* The module has this path (an id of modules_id(), not 0), whatever it had before. False: no room,
 * or no memory. */
bool module_table_put(const void *module, uint32_t id);

/* Its path; 0: not known. */
uint32_t module_table_find(const void *module);

/* Forgets it, if it is known. */
void module_table_remove(const void *module);

/* Forgets all and gives the memory back. */
void module_table_clear(void);

#endif
