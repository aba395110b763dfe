#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests cprof for aarch64 on x86-64: builds it with a cross compiler, and runs it in an emulated machine with its own
# Linux, because the emulation of single programs does not support cprof's uses of clone() and seccomp. Runs the unit tests
# and the given end-to-end tests (default below), with PyTorch. The emulation orders memory like the host, so it does not
# show errors of the rings on a weakly ordered processor.
#
#   scripts/aarch64.sh [test files]      (needs root and Debian; 8 GB of disk in build-aarch64)
set -eu -o pipefail
cd "$(dirname "$0")/.."

TORCH=2.9.1 # the last version whose aarch64 wheel is without CUDA
SUITE=bookworm
PYTHON=3.11 # its Python
SLOWER=20 # factor by which tests may take longer
DIR=$PWD/build-aarch64
ROOT=$DIR/root
TESTS=${*:-$(printf 'tests/e2e/test_%s.py ' hooks markers nvtx itt files steps step_names process exit stacks gpu \
    gpu_clients blas security explore odd_moments flops memory modules ranks collectives handlers trigger import)}
# These need a faster machine: a kernel of 0.3 ms must outlast four calls; the cprof thread must be faster than a kill;
# hundreds of thousands of records must be written by the exit's deadline.
GPU=tests/e2e/test_gpu.py
TOO_FAST="--deselect $GPU::test_everything_launched_is_recorded_once_and_joined[events]"
TOO_FAST+=" --deselect $GPU::test_failed_driver_allocation_is_in_the_open_file"
TOO_FAST+=" --deselect $GPU::test_hundreds_of_thousands_of_launches_lose_nothing"

say() { echo "aarch64: $*"; }

install_tools() {
    apt-get install -y -qq debootstrap qemu-user-static binfmt-support qemu-system-arm e2fsprogs \
        gcc-aarch64-linux-gnu g++-aarch64-linux-gnu >/dev/null
    update-binfmts --enable qemu-aarch64
}

# The initial disk gets few modules, since copying all of them takes ten minutes in emulation.
make_root() {
    [ ! -f "$DIR/made" ] || return 0
    say "making a Debian for aarch64 in $ROOT"
    rm -rf "$ROOT"
    debootstrap --arch=arm64 --variant=minbase \
        --include=initramfs-tools,python3,python3-venv,libc6-dev,g++,binutils,check,pkg-config,procps,iproute2,gdb-minimal,zlib1g-dev,libisal-dev,libunwind8 \
        $SUITE "$ROOT" >"$DIR/debootstrap.log"
    sed -i 's/^MODULES=.*/MODULES=list/' "$ROOT/etc/initramfs-tools/initramfs.conf"
    printf '%s\n' virtio_pci virtio_blk ext4 >>"$ROOT/etc/initramfs-tools/modules"
    cp /etc/resolv.conf "$ROOT/etc/"
    chroot "$ROOT" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq linux-image-arm64 >>"$DIR/debootstrap.log" 2>&1
    # names each package, since pip would look up what this machine's torch needs
    .venv/bin/python -m pip install -q --no-deps --only-binary=:all: --python-version $PYTHON \
        --target="$ROOT/usr/local/lib/python$PYTHON/dist-packages" \
        --platform manylinux_2_28_aarch64 --platform manylinux2014_aarch64 --platform any torch==$TORCH \
        numpy pytest pytest-timeout iniconfig pluggy pygments packaging \
        sympy mpmath networkx jinja2 markupsafe fsspec filelock typing_extensions setuptools
    install -m 755 /dev/stdin "$ROOT/init.sh" <<'INIT'
#!/bin/bash
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb
mountpoint -q /proc || mount -t proc proc /proc
mountpoint -q /sys || mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm /job
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs tmp /tmp
ip link set lo up
echo 127.0.0.1 localhost >/etc/hosts
mount /dev/vdb /job && bash /job/job.sh 2>&1
sync
echo o >/proc/sysrq-trigger
sleep 60
INIT
    touch "$DIR/made"
}

build() {
    say "building"
    local cross="BUILD=$DIR/job/build CC=aarch64-linux-gnu-gcc\ --sysroot=$ROOT CXX=aarch64-linux-gnu-g++\ --sysroot=$ROOT"
    rm -rf "$DIR/job"
    mkdir -p "$DIR/job/build"
    git ls-files -z | xargs -0 cp --parents -t "$DIR/job"
    [ ! -f build/cuda.mk ] || cp build/cuda.mk "$DIR/job/build/"
    eval "PKG_CONFIG_LIBDIR=$ROOT/usr/lib/aarch64-linux-gnu/pkgconfig make -j$(nproc) $cross all $DIR/job/build/unit e2e-programs" |
        { grep -v '^  ' || true; }
    cat >"$DIR/job/job.sh" <<JOB
cd /job
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 BUILD=/job/build CK_TIMEOUT_MULTIPLIER=$SLOWER
ulimit -c 0
uname -srm
build/unit
python3 -m pytest -q -rs -p no:cacheprovider --tb=short -o timeout=$((150 * SLOWER)) $TESTS $TOO_FAST
JOB
}

boot() {
    say "running (serial console: $DIR/log)"
    mke2fs -q -t ext4 -d "$ROOT" "$DIR/root.img" 6G
    mke2fs -q -t ext4 -d "$DIR/job" "$DIR/job.img" 3G
    qemu-system-aarch64 -M virt -cpu max,pauth-impdef=on -accel tcg,thread=multi -smp 2 -m 6G -nic none -nographic -monitor none \
        -no-reboot -kernel "$ROOT"/boot/vmlinuz-* -initrd "$ROOT"/boot/initrd.img-* \
        -append "root=/dev/vda rw init=/init.sh console=ttyAMA0 quiet net.ifnames=0" \
        -drive file="$DIR/root.img",format=raw,if=virtio,cache=unsafe -drive file="$DIR/job.img",format=raw,if=virtio,cache=unsafe |
        stdbuf -oL tr -d '\r' | tee "$DIR/log"
}

[ "$(id -u)" = 0 ] || {
    echo "aarch64: needs root, to install packages and to make a Debian for aarch64" >&2
    exit 1
}
mkdir -p "$DIR"
bash scripts/setup.sh
install_tools
make_root
build
rm -f "$DIR/root.img" "$DIR/job.img"
boot
rm -f "$DIR/root.img" "$DIR/job.img"
grep -q '^100%: Checks' "$DIR/log" && grep -qE '^(=+ )?[0-9]+ passed.* in ' "$DIR/log" && ! grep -qE '[0-9]+ (failed|errors?)\b' "$DIR/log"
