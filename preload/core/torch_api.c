/* SPDX-License-Identifier: Apache-2.0 */
/* Holds the functions and classes of torch for the rooms that read its objects. */
#include "preload/core/torch_api.h"

struct torch_api torch_api;
