#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of the command `cprof` for large traces (`make bench-tool`): time, CPU time and memory of each sub-command that reads traces, for a small
and a large trace. Prints the table of tests/bench/README.md, and the longest time without progress on the terminal.

    tool_cost.py [--folder F] [--mb 100 1000] [--only top,check]

A real trace of two ranks (tool_seed.py under the library) is repeated until it is large enough. Times, steps and ids go on from one
repetition to the next. The large files are removed at the end."""

import argparse
import gzip
import os
import pathlib
import platform
import pty
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve()
COMMAND = [sys.executable, str(ROOT / "scripts/cprof")]
LIMIT_S = 3600
EVENTS, END = b'"traceEvents": [\n', b"\n],\n"
# The numbers that go on from one repetition to the next.
NUMBERS = re.compile(rb'("ts": |"id": |"External id": |"correlation": |"Sequence number": |"ProfilerStep#)(\d+)')


# ---- the traces -------------------------------------------------------------------------------------------

def seed(folder, **settings):
    """Traces of two ranks."""
    folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = []
    for rank in range(2):
        env = dict(os.environ, LD_PRELOAD=str(BUILD / "libcprof.so"), RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2",
                   MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), CPROF_FOLDER=str(folder), CPROF_WARMUP="3", CPROF_ACTIVE="10",
                   CPROF_LOG="warn", **{f"CPROF_{name}": str(value) for name, value in settings.items()})
        if (BUILD / "gpu/libgpu13.so").is_file():
            env.update(LD_LIBRARY_PATH=str(BUILD / "sim"), GPU_LIBRARY=str(BUILD / "gpu/libgpu13.so"))
        ranks.append(subprocess.Popen([sys.executable, str(pathlib.Path(__file__).parent / "tool_seed.py")], env=env))
    if any(rank.wait(120) for rank in ranks):
        raise SystemExit("tool_cost: tool_seed.py failed")
    return [next(folder.glob(f"rank{rank}.*.json")) for rank in range(2)]


def grow(source, target, size):
    """Writes a trace of `size` bytes that repeats the events of the source."""
    head, _, rest = source.read_bytes().partition(EVENTS)
    body, _, tail = rest.partition(END)
    lines = body.split(b"\n")
    named = [line.rstrip(b",") for line in lines if line.startswith(b'{"ph": "M"')]
    text = b",\n".join(line.rstrip(b",") for line in lines if not line.startswith(b'{"ph": "M"'))
    pieces = NUMBERS.split(text)
    keys, numbers = pieces[1::3], [int(number) for number in pieces[2::3]]
    plain = [before + key for before, key in zip(pieces[0::3], keys)]
    step, last = {}, pieces[-1]
    for key in set(keys):
        of_key = [number for one, number in zip(keys, numbers) if one == key]
        step[key] = max(of_key) - min(of_key) + 1000
    step[b'"External id": '] = step[b'"id": '] = step[b'"correlation": '] = max(step.get(key, 0) for key in (b'"External id": ', b'"id": ', b'"correlation": '))
    step[b'"ProfilerStep#'] = len([key for key in keys if key == b'"ProfilerStep#'])
    steps = [step[key] for key in keys]
    with open(target, "wb") as out:
        out.write(head + EVENTS + b",\n".join(named))
        n = 0
        while out.tell() < size:
            out.write(b",\n" + b"".join([b"%b%d" % (before, number + n * by) for before, number, by in zip(plain, numbers, steps)]) + last)
            n += 1
        out.write(END + tail)
    return target


# ---- one command ------------------------------------------------------------------------------------------

# A small process between this one and the command: the peak memory of a process includes its start as a copy of its parent.
USAGE = """import os, resource, subprocess, sys
code = subprocess.run(sys.argv[2:], stdin=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
open(sys.argv[1], "w").write(f"{used.ru_utime + used.ru_stime} {used.ru_maxrss / 1024} {code}")
"""


class Cost:
    """The cost of a command. silent_s: the longest time without output on the terminal."""

    def __init__(self, args, folder, while_running=None):
        master, slave = pty.openpty()
        begun = time.monotonic()
        with open(folder / "out", "wb") as out:
            process = subprocess.Popen([sys.executable, "-S", "-c", USAGE, folder / "usage", *COMMAND, *map(str, args)], stdout=out,
                                       stderr=slave, cwd=folder, env=dict(os.environ, CPROF_LIBRARY=str(BUILD / "libcprof.so")))
        os.close(slave)
        said, last, self.silent_s = b"", begun, 0.0
        fetched = while_running is None
        while time.monotonic() - begun < LIMIT_S:
            fetched = fetched or while_running(folder / "out")
            if select.select([master], [], [], 0.1)[0]:
                try:
                    more = os.read(master, 65536)
                except OSError:
                    break
                said += more
                self.silent_s, last = max(self.silent_s, time.monotonic() - last), time.monotonic()
        else:
            process.kill()
        process.wait()
        os.close(master)
        self.wall_s = time.monotonic() - begun
        self.silent_s = max(self.silent_s, time.monotonic() - last)
        self.cpu_s, self.peak_mb, self.code = map(float, (folder / "usage").read_text().split())
        self.said = re.sub(rb"\r\x1b\[K[^\r\n]*(?=\r\x1b|$)", b"", said).decode("utf-8", "replace").strip()


def fetch(out):
    """Fetches the trace from `cprof open` as a browser does. False while there is no address yet."""
    found = re.search(r"(http://127\S+/)\n", out.read_text())
    if not found:
        return False
    for path in ("vizviewer_info", "localtrace", "file_info"):  # as the page does
        with urllib.request.urlopen(found.group(1) + path, timeout=60) as answer:
            while answer.read(1 << 20):
                pass
    return True


def commands(work, large, halves, stacks):
    """(name, arguments, a function to call while the command runs) for each measurement."""
    packed, part = large.with_name(large.name + ".gz"), work / f"lost.json.{2 ** 22 + 1}.0.part"
    out = work / "result"
    yield "top --from-trace", ["top", "--from-trace", large], None
    yield "top --from-trace, gzip", ["top", "--from-trace", packed], None
    yield "top --group-by-input-shape", ["top", "--group-by-input-shape", large], None
    yield "top --group-by-stack-n 5", ["top", "--group-by-stack-n", 5, stacks], None
    yield "top --by step", ["top", "--by", "step", large], None
    yield "explain", ["explain", large], None
    yield "compare, two halves", ["compare", *halves], None
    yield "events", ["events", large], None
    yield "events --step", ["events", "--step", 20, large], None
    yield "export --parquet", ["export", large, "-o", out / "tables", "--parquet"], None
    yield "stacks", ["stacks", stacks, "-o", out / "s.stacks"], None
    yield "memory-timeline (.html)", ["memory-timeline", large, "-o", out / "m.html"], None
    yield "memory-timeline (.raw.json)", ["memory-timeline", large, "-o", out / "m.raw.json"], None
    yield "check", ["check", large], None
    yield "merge, 2 ranks", ["merge", *halves, "-o", out / "merged.json"], None
    yield "merge, 2 ranks, to gzip", ["merge", *halves, "-o", out / "merged.json.gz"], None
    yield "merge --manifest", ["merge", "--manifest", *halves, "-o", out / "merged.tar"], None
    yield "ranks, 2 ranks", ["ranks", *halves], None
    yield "recover", ["recover", part], None
    yield "open --offline", ["open", "--offline", "--no-browser", large], fetch


def measure(work, mb, sources, with_stacks, only):
    """{name: Cost} for traces of `mb` megabytes."""
    size = mb * 10 ** 6
    large = grow(sources[0], work / "large.json", size)
    halves = [grow(source, work / f"rank{n}.json", size // 2) for n, source in enumerate(sources)]
    stacks = grow(with_stacks, work / "stacks.json", size)
    with open(large, "rb") as plain, gzip.open(str(large) + ".gz", "wb", 1) as packed:
        shutil.copyfileobj(plain, packed, 1 << 20)
    part = work / f"lost.json.{2 ** 22 + 1}.0.part"
    with open(large, "rb") as whole, open(part, "wb") as torn:
        shutil.copyfileobj(whole, torn, 1 << 20)
        torn.write(b'{"ph": "X", "cat": "torn')
    found = {}
    for name, args, meanwhile in commands(work, large, halves, stacks):
        if only and not any(name.startswith(one) for one in only):
            continue
        (work / "result").mkdir(exist_ok=True)
        found[name] = cost = Cost(args, work, meanwhile)
        sys.stderr.write(f"{mb:5} MB {name:30} {cost.wall_s:7.1f} s {cost.cpu_s:7.1f} s CPU {cost.peak_mb:6.0f} MB, silent for {cost.silent_s:.1f} s, "
                         f"exit code {cost.code:.0f}{': ' + cost.said if cost.said else ''}\n")
        shutil.rmtree(work / "result")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, help="folder for the traces, which take six times the largest size (default: a temporary one)")
    parser.add_argument("--mb", type=int, nargs="+", default=[100, 1000], metavar="N", help="the sizes, the largest last (default: 100 1000)")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], help="names of sub-commands, separated by commas")
    args = parser.parse_args()
    if args.folder:
        args.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tool-cost-", dir=args.folder) as name:
        work = pathlib.Path(name)
        sources = seed(work / "seed", RECORD_SHAPES=1)
        with_stacks = seed(work / "seed-stacks", WITH_STACK=1)[0]
        found = [measure(work, mb, sources, with_stacks, args.only) for mb in args.mb]
    cpus = len(os.sched_getaffinity(0))
    print(f"On {cpus} CPUs, Python {platform.python_version()}:\n\n"
          f"| command | time | CPU | memory |" + "".join(f" at {mb} MB |" for mb in args.mb[:-1]) + "\n|" + " --- |" * (3 + len(args.mb)))
    for name, cost in found[-1].items():
        print(f"| `{name.partition(',')[0]}`{''.join(name.partition(',')[1:])} | {cost.wall_s:.0f} s | {cost.cpu_s:.0f} s | {cost.peak_mb:.0f} MB |" + "".join(f" {one[name].peak_mb:.0f} MB |" for one in found[:-1]))
    return 1 if any(cost.code not in (0, 1) for costs in found for cost in costs.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
