/* SPDX-License-Identifier: Apache-2.0 */
/* A library that programs open and close repeatedly. A mark is made inside it. PLUGIN: the name
 * of its function. PAD: bytes of additional code. */
#ifndef PLUGIN
#define PLUGIN plugin
#endif

#ifdef PAD
__asm__(".text\n.skip " PAD "\n");
#endif

__attribute__((weak)) void cprof_mark(const char *name);
void PLUGIN(const char *name);

void PLUGIN(const char *name)
{
    if (cprof_mark)
        cprof_mark(name);
    __asm__ volatile("" ::: "memory"); /* not a tail call, so that this function is on the stack */
}
