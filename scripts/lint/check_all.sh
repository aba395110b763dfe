#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `make lint`: runs all checks, also after a failure, and prints one line for each. The library must be built.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
CC=${CC:-cc}
python=.venv/bin/python
[ -x $python ] || python=python3
failures=0

# check TEXT COMMAND...: runs the command; shows its output only if it fails.
check() {
    local text=$1 output
    shift
    if output=$("$@" 2>&1); then
        echo "  ok    $text"
    else
        echo "  FAIL  $text"
        echo "$output" | sed 's/^/          /'
        failures=$((failures + 1))
    fi
}

skip() { echo "  skip  $1 ($2)"; }

# Compiles each header as if it were a source file: it must include what it uses.
headers_alone() {
    local header bad=0
    for header in {preload,cupti,writer}/{,*/}*.h tests/support/*.h; do
        [ -f "$header" ] || continue
        $CC -std=gnu11 -D_GNU_SOURCE= -Wall -Werror -I. -fsyntax-only -x c -include "$header" /dev/null || bad=1
    done
    return $bad
}

formatted() {
    git ls-files -z --cached --others --exclude-standard '*.c' '*.h' |
        xargs -0 clang-format --dry-run -Werror 2>&1 | grep -E 'error:' | cut -d: -f1,2 | sort -u | head -n 20
    return "${PIPESTATUS[1]}"
}

python_compiles() {
    git ls-files -z --cached --others --exclude-standard '*.py' |
        xargs -0 -r $python -c 'import sys
for name in sys.argv[1:]:
    compile(open(name, encoding="utf-8").read(), name, "exec")'
}

shell_parses() {
    local script bad=0
    for script in scripts/*.sh scripts/lint/*.sh .ci/run; do
        bash -n "$script" || bad=1
    done
    return $bad
}

check "source rules (layers, calls, sizes, comments)" $python scripts/lint/check_source.py
check "rooms (calls one way, circles, names, the page in each README)" $python scripts/lint/check_rooms.py "$BUILD"
check "each header compiles alone" headers_alone
check "library: NEEDED, TLS, exports" $python scripts/lint/check_library.py "$BUILD/libcprof.so"
check "prose (sentences, links, commands in the pages)" $python scripts/lint/check_prose.py
check "generated pages (settings, losses)" $python scripts/lint/gen_settings.py --check
check "manual pages and completions" $python scripts/lint/gen_man.py --check
check "Python files compile" python_compiles
check "shell scripts parse" shell_parses

if command -v clang >/dev/null; then
    check "clang builds library, unit tests and all programs without a warning" \
        make -j"$(nproc)" CC=clang CFLAGS=-O1 BUILD=build-clang SAY=@: build-clang/libcprof.so build-clang/unit bench-programs e2e-programs
else
    skip "clang build" "clang is not installed"
fi

# Formatting differs between major versions; these agree on all sources.
version=$(clang-format --version 2>/dev/null | grep -oE 'version [0-9]+' | grep -oE '[0-9]+')
if [ -z "$version" ]; then
    skip "formatting" "clang-format is not installed"
elif [ "$version" -lt 14 ] || [ "$version" -gt 20 ]; then
    skip "formatting" "clang-format $version; the style is checked with 14 to 20"
else
    check "formatting (clang-format $version)" formatted
fi

[ "$failures" = 0 ] || { echo "lint: $failures checks failed"; exit 1; }
