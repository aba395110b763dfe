/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of torch, for the rooms that read its objects. */
#include "preload/core/torch_api.h"

struct torch_api torch_api;
