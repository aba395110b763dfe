# SPDX-License-Identifier: Apache-2.0
"""What the rows of a trace are by their category: cprof's, torch.profiler's and those of other tools with Kineto's names."""

from typing import Any, Dict

CALLS = ("cuda_runtime", "cuda_driver", "xpu_runtime", "xpu_driver", "mtia_runtime", "privateuse1_runtime",
         "privateuse1_driver")
OPERATORS = ("cpu_op", "user_annotation", "python_function", "hpu_op", "overhead")
WORK = ("kernel", "gpu_memcpy", "gpu_memset")
# Rows that tell of waits, or show once more what stands elsewhere: the modules that a thread's operators run in.
NO_WORK = ("cuda_sync", "cuda_event", "Trace", "cuda_profiler_range", "nn_module")
_DEVICE = WORK + ("gpu_user_annotation",)


def runs_on_device(category: Any, args: Dict[str, Any]) -> bool:
    """Whether a row of this category and with these args is a device's. Of collective_comm other tools' are, which name it; cprof's are
    the calls of NCCL and MPI on the threads that make them."""
    return category in _DEVICE or category == "collective_comm" and ("device" in args or "stream" in args)
