#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The acceptance run on a GPU, see scripts/gpu_check/__main__.py. Real hardware where there is some, else the simulated one (--sim forces it).
#
# A plan for 30 minutes of a lent GPU machine that has CUDA 13, PyTorch and nothing from outside, at most 10 minutes a call:
#  1. Before, without it: `scripts/gpu_check.sh --prepare` where nvcc is. Take build-check/libcprof.so and build-check/gpu along: 2 minutes saved.
#  2. `scripts/gpu_check.sh --real --parts programs,raw --limit 400`: all C programs, fixtures.tar.gz. About 3 minutes. What fails here makes all
#     else doubtful: read gpu_check.txt and logs.tar.gz, correct, and run only what failed (--programs copies,graphs).
#  3. `--real --parts features,libraries --limit 400`: stacks, modules, FLOPs, memory, triggers, NVTX, NCCL, torch.profiler, JAX, CuPy. 3 minutes.
#  4. `--real --parts torch --limit 560`: against torch.profiler, torch.compile last. 4 minutes.
#  5. `--real --parts clock,cost,torch_cost --limit 560`, nothing else running on the machine: the README's figures. 6 minutes.
#  6. With what is left, after corrections: `--real` alone, all of it in 9 minutes, which is the record. Then replay fixtures.tar.gz in tests/.
# Results lie in $OUT (five files, each below 16 MB), also when a call was cut off.
set -eu
cd "$(dirname "$0")/.."

# Any Python runs the checks; the one that has PyTorch is also the one whose PyTorch is profiled.
export PYTHONPATH="$PWD/scripts${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
for python in "${PYTHON:-}" python3 .venv/bin/python; do
    [ -n "$python" ] && command -v "$python" >/dev/null 2>&1 || continue
    first=${first:-$python}
    if "$python" -c 'import sys, importlib.util; sys.exit(importlib.util.find_spec("torch") is None)' 2>/dev/null; then
        exec "$python" -m gpu_check "$@"
    fi
done
[ -n "${first:-}" ] || { echo "gpu_check: there is no python3" >&2; exit 2; }
exec "$first" -m gpu_check "$@"
