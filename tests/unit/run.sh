#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh BINARY TIMES [SUITE...]: runs the unit tests in four processes, which mostly wait, or each given suite in its own
# process, four at once. Prints their output in order. Their durations go to the files TIMES-*.xml. With CK_RUN_SUITE,
# CK_RUN_CASE or CK_FORK=no, which are for manual runs, it only runs the binary.
set -u
binary=$1 times=$2
shift 2
[ -z "${CK_RUN_SUITE:-}${CK_RUN_CASE:-}" ] && [ "${CK_FORK:-}" != no ] || exec "$binary"
mkdir -p "$(dirname "$times")"
rm -f "$times"-*.xml
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
trap 'kill $(jobs -p); exit 130' INT TERM

run() { # SUITE or I/N
    local name=${1/\//-of-}
    export CK_XML_LOG_FILE_NAME="$times-$name.xml"
    case $1 in
    */*) export UNIT_SHARD=$1 ;;
    *) export CK_RUN_SUITE=$1 ;;
    esac
    "$binary" >"$logs/$name" 2>&1 || touch "$logs/failed"
}

[ $# -gt 0 ] || set -- 0/4 1/4 2/4 3/4
for one in "$@"; do
    while [ "$(jobs -rp | wc -l)" -ge 4 ]; do wait -n; done
    run "$one" &
done
wait
for one in "$@"; do cat "$logs/${one/\//-of-}"; done
[ ! -e "$logs/failed" ]
