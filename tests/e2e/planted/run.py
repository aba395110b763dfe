# SPDX-License-Identifier: Apache-2.0
"""Runs a program of planted.py under cprof and leaves its traces, one a rank, in a folder. Prints the cost of the fault as the program measured it.

    run.py NAME --share 0.1 -o DIR
"""

import argparse
import os
import pathlib
import subprocess
import sys

from harness import ACTIVE, WARMUP
from planted import PROGRAMS

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve()


def command(program, share, folder):
    launcher = [sys.executable]
    if program.ranks > 1:
        launcher += ["-m", "torch.distributed.run", "--local-addr", "127.0.0.1", "--nproc-per-node", str(program.ranks)]
    return [sys.executable, str(ROOT / "scripts/cprof"), "run", "--library", str(BUILD / "libcprof.so"),
            "--step", "manual", "--warmup", str(WARMUP), "--active", str(ACTIVE), "--with-stack", "--no-native-stack",
            "--folder", str(folder), "--", *launcher, str(HERE / program.script), program.name, "--share", str(share)]


def environment(program):
    variables = dict(os.environ, OMP_NUM_THREADS="1")
    if program.ranks > 1:
        variables["GLOO_SOCKET_IFNAME"] = "lo"
    if program.gpu:  # as tests/e2e/gpu_runs.py
        variables.update(LD_LIBRARY_PATH=str(BUILD / "sim"), LD_PRELOAD=str(BUILD / "sim/libsystemclock.so"),
                         GPU_LIBRARY=str(BUILD / "gpu/libgpu13.so"))
    return variables


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=sorted(PROGRAMS), metavar="NAME")
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("-o", dest="folder", type=pathlib.Path, required=True, metavar="DIR")
    args = parser.parse_args()
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    program = PROGRAMS[args.name]
    sys.exit(subprocess.run(command(program, args.share, folder), env=environment(program)).returncode)


if __name__ == "__main__":
    main()
