/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of processes forked from a traced one. Such a child is not recorded, so it tells the
 * user when it works as if it were. In the child, nothing here allocates or takes a lock. */
#pragma once

/* Prepares the messages of this traced process's children. Once, on the waking thread. */
void forked_start(void);

/* Notes the code range of torch's Python module, by which DataLoader workers are recognized. Takes
 * the loader's lock. Application thread. */
void forked_note_torch(void);

/* Turns the messages on. In the child's atfork handler. */
void forked_in_child(void);

/* Reports the first tensor of a child: one line for all children of a traced process, none for
 * DataLoader workers. Outside such children one load. Any application thread. */
void forked_works(void);

/* Reports a child that marks a step or wants to record, unless forked_works() has printed its line.
 * Outside such children one load. Any application thread. */
void forked_marks(void);
