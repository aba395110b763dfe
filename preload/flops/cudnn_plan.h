/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an execution plan of cuDNN's backend does: a plan is made from an engine's configuration,
 * that from an engine, that from a graph of operations, each of which names its tensors. All of it
 * goes through the five calls below, so that nothing but a plan's kind of units has to be read out
 * of the library: sizes are noted when a tensor gets them, an operation is counted when it is
 * finalized, and the count is handed from descriptor to descriptor up to the plan. Called after
 * each of the library's calls that succeeded, whether or not anything is recorded, because plans
 * are made once and live long. Any thread; no lock, no allocation. As in cuDNN, one descriptor is
 * filled by one thread at a time.
 */
#ifndef PRELOAD_FLOPS_CUDNN_PLAN_H
#define PRELOAD_FLOPS_CUDNN_PLAN_H

#include "preload/flops/blas.h"

/* A descriptor was made; type: cudnnBackendDescriptorType_t. Beyond the room for some 16000 living
 * ones, plans are not known. */
void cudnn_plan_made(const void *descriptor, int type);

/* It is about to be destroyed. */
void cudnn_plan_gone(const void *descriptor);

/* It got n values for an attribute (cudnnBackendAttributeName_t). */
void cudnn_plan_set(const void *descriptor, int name, int64_t n, const void *values);

/* It gave n values of a type (cudnnBackendAttributeType_t); descriptors among them were filled. */
void cudnn_plan_got(const void *descriptor, int type, int64_t n, const void *values);

/* It was finalized. finalize: the library's own cudnnBackendFinalize(); that library is asked what
 * units a plan in single precision uses. NULL: it is not. Keeps errno. */
void cudnn_plan_whole(const void *descriptor, void *finalize);

/* What one execution of the plan does: BLAS_NONE when it multiplies nothing, BLAS_UNKNOWN when it
 * was not seen in the making, or its sizes are not those of its tensors (packed sequences, sizes
 * that are set for each execution, operations that have no formula). */
void cudnn_plan_work(struct blas_work *w, const void *plan);

#endif
