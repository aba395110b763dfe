/* SPDX-License-Identifier: Apache-2.0 */
/* The process group whose transfer torch begins. Four functions that torch calls through its own
 * PLT are interposed, so that the group is known without listening to operators:
 *
 *   ProcessGroup::getBackend()        each transfer begins by it, on the calling thread
 *   ProcessGroupGloo::enqueue()       takes gloo's transfer on the same thread
 *   AsyncWork::execute()              runs it on another, where its range opens
 *   AsyncWork::finishWorkGlooError()  takes its error
 *
 * Any thread; no lock, no allocation. */
#pragma once

#include "preload/collectives/torch_groups.h"

/* The group of the transfer that this thread begins, once. Fills group, size and rank,
 * and the number if it has one. False: there is none, or this torch's layout is unknown. */
bool torch_backend_take(struct torch_group *out);
