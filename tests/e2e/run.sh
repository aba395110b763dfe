#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh TIMES PYTEST...: runs the whole-program tests in one process more than there are processors, since they wait a third of their
# time. Each process takes the next file of tests that no other process has taken. The output of the first process appears at once,
# that of the others at the end. Durations go to TIMES-*.xml.
set -u
times=$1
shift
# The long files come first, so that all processes end at about the same time.
long=(tests/e2e/test_{gpu_check,gpu_faults,trigger,steps,faults,command_merge,command_recover,command_run,exit,stacks,torch_path}.py)
mapfile -t files < <(printf '%s\n' "${long[@]}" tests/e2e/test_*.py | awk '!seen[$0]++')
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
trap 'kill $(jobs -p); exit 130' INT TERM
mkdir "$logs/taken"
export E2E_TAKEN="$logs/taken"

others=$(seq "$(nproc)")
for n in $others; do
    "$@" --junitxml="$times-$n.xml" "${files[@]}" >"$logs/$n" 2>&1 || touch "$logs/failed" &
done
"$@" --junitxml="$times.xml" "${files[@]}" || touch "$logs/failed"
wait
for n in $others; do cat "$logs/$n"; done
[ ! -e "$logs/failed" ]
