#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The acceptance run on a GPU, see scripts/gpu_check/__main__.py. Uses a real GPU if there is one, else the simulated one (--sim forces it).
#
# `--plan` prints the parts with their seconds, most valuable first, and the calls for a GPU machine that is lent for 15 minutes, at most 10 per call.
#  1. Run `--prepare` on a machine with nvcc and a network. It puts what the machine with the GPU may lack into build-check/ (libcprof.so, gpu, and
#     carried: other versions of CUPTI). Native stacks need libunwind.so.8.
#  2. Run the calls of the plan, with nothing else running on the machine. Results are in $OUT (five files, each below 16 MB), even if a call was
#     cut off.
#  3. After failures, read gpu_check.txt, logs.tar.gz and traces.tar.gz on a machine without a GPU, fix the cause, and run only that part again
#     (--programs copies,graphs; --cases client; --models amp).
#  4. Replay fixtures.tar.gz in tests/.
set -eu
cd "$(dirname "$0")/.."

# Any Python can run the checks. One with PyTorch comes first: its PyTorch is profiled.
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
