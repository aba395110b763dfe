/* SPDX-License-Identifier: Apache-2.0 */
/* Work of cuDNN's execution plans. A plan is made from an engine configuration, that from an
 * engine, that from a graph of operations on tensors. The functions below follow these descriptors:
 * they note a tensor's sizes, count an operation when it is finalized, and pass the count on up to
 * the plan. Only the kind of a plan's arithmetic units is read from the library.
 *
 * Called after each successful call of the library, recorded or not, because plans are made once
 * and live long. Any thread; no lock, no allocation. As in cuDNN, one thread at a time fills a
 * descriptor. */
#pragma once

#include "preload/flops/blas.h"

/* A descriptor was created. type: cudnnBackendDescriptorType_t. With more than some 16000 live
 * descriptors, later plans are unknown. */
void cudnn_plan_made(const void *descriptor, int type);

/* A descriptor is about to be destroyed. */
void cudnn_plan_gone(const void *descriptor);

/* A descriptor's attribute (cudnnBackendAttributeName_t) was set to n values. */
void cudnn_plan_set(const void *descriptor, int name, int64_t n, const void *values);

/* n values of a type (cudnnBackendAttributeType_t) were read from a descriptor; descriptors among
 * them were filled. */
void cudnn_plan_got(const void *descriptor, int type, int64_t n, const void *values);

/* A descriptor was finalized. finalize: the library's cudnnBackendFinalize(), which identifies the
 * library that describes the engine of a single-precision plan; NULL: the engine is not read. Keeps
 * errno. */
void cudnn_plan_whole(const void *descriptor, void *finalize);

/* Work of one execution of the plan. BLAS_NONE: no product. BLAS_UNKNOWN: cprof did not see the
 * plan's whole making, or the tensors' sizes do not tell the work. Examples are packed sequences,
 * sizes set per execution, and operations without a formula. */
void cudnn_plan_work(struct blas_work *w, const void *plan);
