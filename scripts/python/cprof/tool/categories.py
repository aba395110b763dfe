# SPDX-License-Identifier: Apache-2.0
"""The categories of events in traces of cprof, of torch.profiler, and of other tools that use Kineto's names."""

from typing import Any, Dict

CALLS = ("cuda_runtime", "cuda_driver", "xpu_runtime", "xpu_driver", "mtia_runtime", "privateuse1_runtime",
         "privateuse1_driver")
OPERATORS = ("cpu_op", "user_annotation", "python_function", "hpu_op", "overhead")
WORK = ("kernel", "gpu_memcpy", "gpu_memset")
# Spans that show waits, or repeat information: nn_module shows the modules in which a thread's operators run.
NO_WORK = ("cuda_sync", "cuda_event", "Trace", "cuda_profiler_range", "nn_module")
_DEVICE = WORK + ("gpu_user_annotation",)


def runs_on_device(category: Any, args: Dict[str, Any]) -> bool:
    """Whether a span of this category and with these args ran on a device. In collective_comm, those of other tools ran on a device, which
    their args name; those of cprof are calls of NCCL and MPI on CPU threads."""
    return category in _DEVICE or category == "collective_comm" and ("device" in args or "stream" in args)
