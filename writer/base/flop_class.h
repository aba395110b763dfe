/* SPDX-License-Identifier: Apache-2.0 */
/* The number formats that FLOPs are counted by. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum flop_class {
#define FLOP_CLASS(id, name, other) FLOP_##id,
#include "writer/base/flop_classes.def"
#undef FLOP_CLASS
    FLOP_OTHER, /* integers: no peak rate is compared with theirs */
    FLOP_CLASSES
};

/* EXTRA_DTYPE of single precision in TF32 units; no c10::ScalarType has this number. */
#define DTYPE_TF32 0x100u

/* The class with this name of n bytes; FLOP_OTHER: none. Any thread. */
enum flop_class flop_class_named(const char *name, size_t n);

/* The class of a c10::ScalarType, or of DTYPE_TF32. Any thread. */
enum flop_class flop_class_of(uint32_t dtype);
