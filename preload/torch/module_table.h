/* SPDX-License-Identifier: Apache-2.0 */
/* Maps nn.Module objects, by address, to the ids of their paths. The caller removes an object when
 * it dies. Call all functions with the GIL held. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define MODULE_TABLE_MOST (1u << 17) /* most modules in the table */

/* Sets the module's path, replacing an earlier one. id: from modules_id(), not 0. False: the table
 * is full, or no memory. */
bool module_table_put(const void *module, uint32_t id);

/* Returns the id of the module's path; 0: unknown module. */
uint32_t module_table_find(const void *module);

/* Removes the module, if the table has it. */
void module_table_remove(const void *module);

/* Removes all modules and frees the memory. */
void module_table_clear(void);
