#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The acceptance run on a GPU, see scripts/gpu_check.py. Real hardware where there is some, else the simulated one (--sim forces it).
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
