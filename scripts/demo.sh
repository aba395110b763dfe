#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `make demo`: traces a small PyTorch training run, on a GPU if there is one, with default settings, and prints where the
# trace is and how to use it.
set -eu
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
root=$PWD
script=$root/tests/e2e/train_cnn.py
out=$BUILD/demo
library=$(realpath "$BUILD")/libcprof.so

case $library in
*[:[:space:]]*)
    echo "demo: LD_PRELOAD cannot name $library: it has a space or a colon; make demo BUILD=/tmp/cprof builds it elsewhere" >&2
    exit 1
    ;;
esac

if ! .venv/bin/python -c 'import torch' 2>/dev/null; then
    echo "demo: there is no PyTorch in .venv; run scripts/setup.sh --force to see why" >&2
    exit 1
fi

unset "${!CPROF_@}" # the traces must be where the defaults put them
rm -rf "$out"
mkdir -p "$out"
echo "demo: LD_PRELOAD=$BUILD/libcprof.so .venv/bin/python tests/e2e/train_cnn.py   (in $out)"
(cd "$out" && LD_PRELOAD=$library "$root/.venv/bin/python" "$script")

traces=$(find "$out" -name '*.json' -o -name '*.json.gz' | sort)
if [ -z "$traces" ]; then
    echo "demo: no trace was written" >&2
    exit 1
fi
run=$(dirname "$(dirname "$(echo "$traces" | head -n 1)")")
echo
echo "demo: the trace:"
echo "$traces" | sed 's/^/  /'
echo "demo: the longest operators by self time:"
scripts/cprof top --row-limit 5 "$run" 2>/dev/null
echo "The whole table, and the timeline at https://ui.perfetto.dev (the trace stays on this machine):"
echo "  scripts/cprof top $run"
echo "  scripts/cprof open $run"
