#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The acceptance run on a GPU, see scripts/gpu_check/__main__.py. Real hardware where there is some, else the simulated one (--sim forces it).
#
# `--plan` prints the parts with their seconds, most valuable first, and the calls for a GPU machine that is lent for 15 minutes, at most 10 a call.
#  1. `--prepare`, on a machine with nvcc and a network: what the GPU's machine may lack goes to build-check/ (libcprof.so, gpu, carried: other
#     versions of CUPTI). Native stacks need libunwind.so.8.
#  2. The calls of the plan, nothing else running on the machine. Results lie in $OUT (five files, each below 16 MB), also when a call was cut off.
#  3. What failed: read gpu_check.txt, logs.tar.gz and traces.tar.gz where there is no GPU, correct, and run only that part again
#     (--programs copies,graphs; --cases client; --models amp).
#  4. Replay fixtures.tar.gz in tests/.
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
