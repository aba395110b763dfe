#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The acceptance run on a GPU, see scripts/gpu_check/__main__.py. Real hardware where there is some, else the simulated one (--sim forces it).
#
# A plan for 15 minutes of a lent GPU machine that has CUDA 13, PyTorch and nothing from outside, at most 10 minutes a call (seconds: seen on an H200,
# beside a minute for starting the machine and building):
#  1. `scripts/gpu_check.sh --real --parts programs,raw,features,libraries --limit 200`: all C programs, raw buffers (fixtures.tar.gz), one script for each
#     feature. 48 + 30 s. What fails here makes all else doubtful: read gpu_check.txt, logs.tar.gz and traces.tar.gz where there is no GPU, correct, and run
#     only what failed (--programs copies,graphs; --cases client).
#  2. `--real --parts torch --limit 300`: against torch.profiler, torch.compile last. Each model runs three times, of 9 s and more.
#  3. `--real --parts clock,cost,torch_cost --limit 400`, nothing else running on the machine: the README's figures.
#  4. With what is left, after corrections: `--real` alone, which is the record. Then replay fixtures.tar.gz in tests/.
# A machine without nvcc takes what `--prepare` built elsewhere (build-check/libcprof.so, build-check/gpu). Native stacks need libunwind.so.8.
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
