#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh TIMES PYTEST...: the whole-program tests in three processes at once, of which each takes as long. What the second and the
# third say is shown behind the first, which is shown at once. Their durations go to the files TIMES-*.xml.
set -u
times=$1
shift
tests=tests/e2e
# What reads traces, builds and explains; what records PyTorch and GPUs; the first has the rest.
reading=($tests/test_tool_*.py $tests/test_command_*.py $tests/test_explain*.py
    $tests/test_{demo,explore,export,gpu_picture,import,makefile,man,perfetto_harness,planted,setup,wheel}.py)
devices=($tests/test_torch_*.py $tests/test_{collectives,consumers,flops,gpu,gpu_check,gpu_clients,gpu_faults,gpu_torch,memory,modules}.py
    $tests/test_{python_module,readme,stacks}.py)
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
trap 'kill $(jobs -p); exit 130' INT TERM

status=0
"$@" --junitxml="$times-reading.xml" "${reading[@]}" >"$logs/reading" 2>&1 &
first=$!
"$@" --junitxml="$times-devices.xml" "${devices[@]}" >"$logs/devices" 2>&1 &
second=$!
"$@" --junitxml="$times.xml" $tests "${reading[@]/#/--ignore=}" "${devices[@]/#/--ignore=}" || status=1
wait $first || status=1
cat "$logs/reading"
wait $second || status=1
sed '$d' "$logs/devices"
python3 tests/slowest.py "${times%/*}"/*.xml
tail -n 1 "$logs/devices"
exit $status
