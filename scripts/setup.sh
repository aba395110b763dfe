#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what this machine lacks to build and test cprof: distribution packages, and a Python environment
# in .venv with PyTorch. It is safe to run again at any time. If nothing changed since the last run it returns
# at once (build/.setup has the key of that run). `--force` checks everything again; `--demo` installs only
# what the library and a PyTorch program need.
#
# Only a C compiler, make and zlib are required. Each other missing thing is named in one line, and the tests
# that need it skip with a reason.
set -u
cd "$(dirname "$0")/.." || exit 1

BUILD=${BUILD:-build}
PYTHON=${PYTHON:-python3}
VENV=.venv
STAMP=$BUILD/.setup
for_demo=""
notes=""

say() { echo "setup: $*"; }
note() {
    say "$*"
    notes+="$*"$'\n'
}
# Interrupted, pip and apt end as if they had failed; without this trap the script would then try something else.
trap 'say "interrupted; the next run goes on"; exit 130' INT

# ---- fast way out -------------------------------------------------------------------------------------

key=$(cat scripts/setup.sh scripts/requirements.txt | cksum; command -v "$PYTHON"; echo "$(id -u) ${CUDA_HOME:-}")
is_done() { [ -x $VENV/bin/python ] && [ -f "$1" ] && [ "$(sed '/^--$/,$d' "$1")" = "$key" ]; }

if [ "${1:-}" = --demo ]; then
    for_demo=yes
    is_done "$STAMP" && exit 0
    STAMP=$STAMP-demo
fi
if [ "${1:-}" != --force ] && is_done "$STAMP"; then
    sed '1,/^--$/d; s/^/setup: /' "$STAMP"
    [ -z "$(sed '1,/^--$/d' "$STAMP")" ] || say "(scripts/setup.sh --force tries again)"
    exit 0
fi

# ---- distribution packages ----------------------------------------------------------------------------

if [ "$(id -u)" = 0 ]; then
    as_root=""
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    as_root=none
fi
apt_updated=""

can_apt() { command -v apt-get >/dev/null && [ "$as_root" != none ]; }

apt_get() { DEBIAN_FRONTEND=noninteractive $as_root ${as_root:+env DEBIAN_FRONTEND=noninteractive} apt-get "$@"; }

# Installs packages that dpkg lacks, and prints their names. Returns 1 if that is not possible.
need_packages() {
    local missing=()
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} = 0 ] && return 0
    can_apt || return 1
    if [ -z "$apt_updated" ]; then
        apt_get update -qq >/dev/null 2>&1
        apt_updated=yes
    fi
    say "installing ${missing[*]} (apt)"
    apt_get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null 2>&1
}

# need_tool COMMAND-OR-TEST PACKAGES WHY: installs PACKAGES unless the test already passes.
need_tool() {
    bash -c "$1" >/dev/null 2>&1 && return 0
    need_packages $2 && bash -c "$1" >/dev/null 2>&1 && return 0
    note "missing: $2 ($3)"
    return 1
}

# A name on PATH is not enough: on Ubuntu chromium-browser may be a stub that only prints how to get a snap.
browser_works() {
    local name
    for name in ${CPROF_BROWSER:-} chromium chromium-browser google-chrome google-chrome-stable; do
        "$name" --version 2>/dev/null | grep -qiE 'chrom(e|ium) [0-9]' && return 0
    done
    return 1
}

need_browser() {
    local package
    browser_works && return
    for package in chromium chromium-browser; do
        need_packages $package && browser_works && return
    done
    note "missing: a working Chromium (tests in Perfetto's own UI skip)"
}

compiler_works='d=$(mktemp -d) && trap "rm -r $d" EXIT && echo "int main(void){return 0;}" >$d/a.c &&
    ${CC:-cc} -o $d/a $d/a.c'
zlib_works='d=$(mktemp -d) && trap "rm -r $d" EXIT && printf "#include <zlib.h>\nint main(void){return !zlibVersion();}" \
    >$d/a.c && ${CC:-cc} -o $d/a $d/a.c -l:libz.a'
isal_works='d=$(mktemp -d) && trap "rm -r $d" EXIT && echo "#include <isa-l.h>" >$d/a.c && ${CC:-cc} -E -o $d/a $d/a.c'
check_works='d=$(mktemp -d) && trap "rm -r $d" EXIT && echo "#include <check.h>" >$d/a.c && ${CC:-cc} -E -o $d/a $d/a.c'

failed=""
need_tool 'command -v make' make "no build without it" || failed=yes
need_tool "$compiler_works" "gcc libc6-dev" "no build without a C compiler" || failed=yes
need_tool "$zlib_works" zlib1g-dev "no build without zlib.h and libz.a" || failed=yes
need_tool "$isal_works" libisal-dev "traces are compressed by zlib only" || true
need_tool 'command -v g++' g++ "names of kernels stay mangled; the check of torch's C++ layouts skips" || true
# Tools that only tests, lint and benchmarks use.
need_tools_of_tests() {
    need_tool "$check_works && command -v pkg-config" "check pkg-config" "unit tests cannot be built" || failed=yes
    need_tool 'command -v readelf' binutils "make lint cannot read the library" || true
    need_tool 'command -v clang' clang "make lint skips the clang build" || true
    lto_works='d=$(mktemp -d) && trap "rm -r $d" EXIT && echo "int main(void){return 0;}" >$d/a.c &&
        { clang -flto -o $d/a $d/a.c || clang -flto -fuse-ld=lld -o $d/a $d/a.c; }'
    need_tool "$lto_works" lld "tests of programs built by clang -flto skip" || true
    need_tool 'command -v clang-format' clang-format "make lint skips the formatting" || true
    need_tool 'command -v localedef && ls /usr/share/i18n/charmaps/ANSI_X3.4-1968*' locales "tests in a locale with a decimal comma skip" || true
    need_tool 'ldconfig -p | grep -q libunwind.so.8' libunwind8 "tests of native stacks skip" || true
    need_tool 'command -v eu-addr2line' elfutils "tests of native lines by it skip" || true
    need_tool 'command -v mpirun' openmpi-bin "tests of MPI launches skip" || true
    need_tool 'echo "#include <mpi.h>" | mpicc.openmpi -E -x c -' libopenmpi-dev "tests of Open MPI's transfers skip" || true
    need_tool 'echo "#include <mpi.h>" | mpicc.mpich -E -x c - && command -v mpirun.mpich' "mpich libmpich-dev" "tests of MPICH's transfers skip" || true
    nginx_works='PATH=$PATH:/usr/sbin; nginx -V 2>&1 | grep -q http_dav_module'
    # With systemd, installing nginx would start a web server on port 80: that is left to the machine's owner.
    if [ -d /run/systemd/system ]; then
        bash -c "$nginx_works" || note "missing: nginx with http_dav_module (tests of uploads to it skip)"
    else
        need_tool "$nginx_works" nginx-light "tests of uploads to it skip" || true
    fi
    need_tool 'command -v curl' curl "uploads are not tested" || true
    need_browser
}
[ -n "$for_demo" ] || need_tools_of_tests

# ---- Python -------------------------------------------------------------------------------------------

# To find a module is not enough: an installation that was killed leaves a folder, which is a module without a file.
has_module() { "$1" -c "import $2; $2.__file__.encode()" >/dev/null 2>&1; }

# make_venv PYTHON [OPTION]: makes a new .venv; installs the distribution's venv module if it is a separate package. Puts an error into venv_said.
make_venv() {
    local python=$1
    shift
    say "creating $VENV from $python $*"
    venv_said="$PWD cannot be written"
    [ -w . ] || return 1
    rm -rf $VENV
    "$python" -m venv "$@" $VENV >/dev/null 2>&1 && return 0
    local version
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    need_packages python3-venv || need_packages "python$version-venv" || true
    rm -rf $VENV
    "$python" -m venv "$@" $VENV >/dev/null 2>&1 && return 0
    need_packages "python$version-venv" && rm -rf $VENV
    venv_said=$("$python" -m venv "$@" $VENV 2>&1) && return 0
    venv_said="python3 -m venv failed; is python3-venv there? ${venv_said%%$'\n'*}"
    return 1
}

pip_install() { $VENV/bin/python -m pip install -qq --disable-pip-version-check "$@" 2>&1 | tail -n 3; return "${PIPESTATUS[0]}"; }

# Installs the first PyTorch of these that works: the build for GPUs if there is a GPU; the newest version marked
# +cpu; the default one if it needs no CUDA packages (as on some platforms); the distribution's; the default one
# with its gigabytes of CUDA libraries.
install_torch() {
    local version
    if nvidia-smi -L >/dev/null 2>&1; then
        say "installing torch, the build for NVIDIA GPUs (pip)"
        pip_install torch && return 0
    fi
    version=$($VENV/bin/python -m pip index versions torch 2>/dev/null | grep -oE '[0-9][0-9.]*\+cpu' | head -n 1)
    if [ -n "$version" ]; then
        say "installing torch $version (pip)"
        pip_install "torch==$version" && return 0
    fi
    if timeout --foreground 180 $VENV/bin/python -m pip install --dry-run -qq --report - torch 2>/dev/null |
        $VENV/bin/python -c 'import json, sys; plan = json.load(sys.stdin)["install"]
sys.exit(any(p["metadata"]["name"].startswith(("nvidia-", "cuda-")) for p in plan))' 2>/dev/null; then
        say "installing torch (pip)"
        pip_install torch && return 0
    fi
    if [ -x /usr/bin/python3 ] && need_packages python3-torch && has_module /usr/bin/python3 torch; then
        say "using the distribution's python3-torch"
        make_venv /usr/bin/python3 --system-site-packages && return 0
    fi
    say "installing torch with its CUDA libraries (pip; several GB)"
    pip_install torch
}

setup_python() {
    if ! command -v "$PYTHON" >/dev/null; then
        need_packages python3 || { note "missing: python3 (every end-to-end test skips)"; return 1; }
    fi
    if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 9))'; then
        note "missing: Python 3.9 or newer (set PYTHON; $PYTHON is older)"
        return 1
    fi
    if ! $VENV/bin/python -m pip --version >/dev/null 2>&1; then
        local share=""
        has_module "$PYTHON" torch && share=--system-site-packages
        make_venv "$PYTHON" $share || { note "missing: $VENV ($venv_said)"; return 1; }
    fi
    if ! has_module $VENV/bin/python torch; then
        install_torch
        has_module $VENV/bin/python torch || note "missing: torch (pip could not install it, or what is in $VENV cannot be imported: remove that and try again; tests with PyTorch skip)"
    fi
    local line name module options
    while IFS= read -r line; do
        case "$line" in '' | '#'*) continue ;; esac
        name=${line%%[<>=!~ ]*} module=${line%%[<>=!~ ]*} options=""
        [[ $line =~ '# import: '([A-Za-z0-9_]+) ]] && module=${BASH_REMATCH[1]}
        [[ $line == *'#'*no-deps* ]] && options=--no-deps
        has_module $VENV/bin/python "$module" && continue
        say "installing $name (pip)"
        pip_install $options "${line%%[ #]*}"
        has_module $VENV/bin/python "$module" || note "missing: $name (pip could not install it; tests that need it skip)"
    done < <(if [ -n "$for_demo" ]; then grep '^numpy' scripts/requirements.txt; else cat scripts/requirements.txt; fi)
}
setup_python

# ---- CUDA headers: only names and layouts are needed, so without a toolkit the wheels are enough -----

# The headers must be those of CUDA 13: the simulated GPU (tests/sim) imitates all versions, but with the structs of
# 13. Those of 13.0 are installed outside the environment's packages, whose libraries PyTorch may use.
cuda_headers_work() {
    local folder options=()
    for folder in "$@"; do options+=(-isystem "$folder"); done
    printf '#include <%s>\n' cuda.h cuda_runtime_api.h cupti.h cupti_version.h >"$BUILD/cuda.c"
    printf '#if CUDA_VERSION / 1000 != 13 || CUPTI_API_VERSION / 10000 != 13\n#error "not those of CUDA 13"\n#endif\n' \
        >>"$BUILD/cuda.c"
    ${CC:-cc} -fsyntax-only "${options[@]}" "$BUILD/cuda.c" 2>/dev/null
}

find_cuda_headers() {
    local home found
    for home in "${CUDA_HOME:-}" /usr/local/cuda; do
        [ -f "$home/include/cuda_runtime_api.h" ] || continue
        found=$home/include
        [ -f "$found/cupti.h" ] || found+=" $home/extras/CUPTI/include"
        cuda_headers_work $found && echo "$found" && return
    done
    for found in $VENV/lib/python3*/site-packages/nvidia/cu13/include $VENV/cuda/nvidia/cu13/include; do
        [ -d "$found" ] && cuda_headers_work "$found" && echo "$found" && return
    done
}
need_cuda_headers() {
    local cuda
    cuda=$(find_cuda_headers)
    if [ -z "$cuda" ] && $VENV/bin/python -m pip --version >/dev/null 2>&1; then
        say "installing the headers of CUDA 13.0 (pip: nvidia-cuda-runtime, nvidia-cuda-cupti, nvidia-cuda-crt)"
        pip_install --no-deps --upgrade --target $VENV/cuda \
            'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cupti==13.0.*' 'nvidia-cuda-crt==13.0.*'
        rm -rf $VENV/cuda/nvidia/cu13/lib
        cuda=$(find_cuda_headers)
    fi
    [ -n "$cuda" ] || note "missing: CUDA headers of version 13 (no simulated GPU: its tests skip)"
    printf '# Written by scripts/setup.sh.\nCUDA_INC := %s\n' "$cuda" >"$BUILD/cuda.mk.new"
    cmp -s "$BUILD/cuda.mk.new" "$BUILD/cuda.mk" && rm "$BUILD/cuda.mk.new" || mv "$BUILD/cuda.mk.new" "$BUILD/cuda.mk"
}

# ---- MPI's standard ABI: no distribution has a library of it yet; a wheel of MPICH does -------------------

need_mpi_abi() {
    [ -f $VENV/mpi/lib/libmpi_abi.so.1 ] && return
    say "installing MPICH with the standard ABI of MPI (pip: mpich)"
    # outside the environment, where it would be another mpirun
    pip_install --no-deps --prefix $VENV/mpi 'mpich>=5'
    [ -f $VENV/mpi/lib/libmpi_abi.so.1 ] || note "missing: MPICH 5 (pip could not install it; tests of MPI's standard ABI skip)"
}

mkdir -p "$BUILD"
if [ -z "$for_demo" ]; then
    need_cuda_headers
    need_mpi_abi
fi

[ -z "$failed" ] || exit 1
printf '%s\n--\n%s' "$key" "$notes" >"$STAMP"
