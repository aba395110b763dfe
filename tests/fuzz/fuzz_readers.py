# SPDX-License-Identifier: Apache-2.0
"""Passes damaged and hostile traces to the sub-commands of `cprof` that read traces.

    fuzz_readers.py [--seed N] [--runs N] [--seconds S] [--keep FOLDER]

A run takes one of the traces in tests/fuzz/readers, damages it (bytes, numbers, lines, whole pieces, gzip, truncation) and passes it to
every sub-command. Each command must:
- end with 0, 1 or 2 within TIME_S and MEMORY, and with a message for 2
- write and print strict JSON (`recover`, `merge`, `--json`)
- leave the damaged file unchanged
`cprof top` and saved_traces() also read damaged files beside a trace: its table and the list of saved traces. Run N of seed S is always the
same. A trace that finds a fault is kept in FOLDER. Exit code: 0 without faults.
"""

import argparse
import contextlib
import gc
import gzip
import io
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import sys
import tarfile
import tempfile
import time
import traceback
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/python"))

from cprof._saved import LIST_NAME, saved_traces  # noqa: E402
from cprof.tool import main  # noqa: E402

TIME_S = 60           # of one command; only finds hangs, also on a slow and busy machine
MEMORY = 3 << 30      # address space
PART = "rank0.0.pt.trace.json.4194305.0.part"  # with a pid that no process has
MOST = 1 << 20        # bytes of a damaged trace

ODD = [b"", b"0", b"-1", b"-0", b"1e309", b"-1e309", b"NaN", b"1E5", b"9223372036854775808", b"99999999999999999999999999999999999999999",
       b"1e18", b"0.0000001", b"null", b"true", b"[]", b"{}", b"[[[[[[[[", b"{\"a\":", b"\"", b"\\", b"\\u", b"\\ud800", b"\\udc00\\ud800",
       b"\\u0000", b"\x00", b"\xff", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf", b"\r\n", b"\n", b"},\n{", b"],", b"]", b"}", b"},",
       b",", b"\"traceEvents\": [", b"\"ph\": \"X\"", b"\"args\": {}", b"\"ts\": -1", b"ProfilerStep#", b"ProfilerStep#99999999999999999999",
       b"Infinity", b"\x1f\x8b\x08", b"\"dur\": 1e308", b"\"Call stack\": \";;\"", b"\xe2\x80\xa8", b"/", b"..", b"\"pid\": \"Spans\"",
       b"[" * 400 + b"]" * 400, b'{"a":' * 990 + b"0" + b"}" * 990, b"9" * 5000, b"\xc2\xb2"]

READ = [["top"], ["top", "--group-by-input-shape"], ["top", "--group-by-stack-n", "2"], ["top", "--json"], ["top", "--by", "step"],
        ["top", "--by", "module"], ["top", "--by", "kernel"], ["top", "--by", "device", "--csv"], ["check"], ["check", "--json"], ["stacks"],
        ["events", "--step", "1"], ["events", "--name", "aten*", "--device", "cuda"], ["events", "--thread", "*"],
        ["memory-timeline", "-o", "made.html"], ["memory-timeline", "-o", "made.raw.json.gz"]]


class Slow(BaseException):
    """A command took too long. No command catches a BaseException."""


# ---- damage ----------------------------------------------------------------------------------------------------

def flip(choose, data):
    at = choose.randrange(len(data))
    return data[:at] + bytes([choose.randrange(256)]) + data[at + 1:]


def replace_number(choose, data):
    starts = [i for i in range(1, len(data)) if data[i:i + 1].isdigit() and not data[i - 1:i].isdigit()]
    at = choose.choice(starts or [0])
    end = at
    while end < len(data) and data[end:end + 1] in b"0123456789.eE+-" and data[end:end + 1]:
        end += 1
    return data[:at] + choose.choice(ODD) + data[end:]


def insert(choose, data):
    at = choose.randrange(len(data) + 1)
    return data[:at] + choose.choice(ODD) * choose.choice([1, 1, 1, 2, 3000]) + data[at:]


def cut(choose, data):
    return data[:choose.randrange(1, len(data) + 1)]


def remove(choose, data):
    at = choose.randrange(len(data))
    return data[:at] + data[at + choose.choice([1, 2, 10, 100, 1000]):]


def repeat(choose, data):
    at = choose.randrange(len(data))
    piece = data[at:at + choose.choice([1, 10, 200, 2000])]
    return data[:at] + piece * choose.choice([2, 3, 50]) + data[at + len(piece):]


def move_line(choose, data):
    lines = data.split(b"\n")
    line = lines.pop(choose.randrange(len(lines)))
    lines.insert(choose.randrange(len(lines) + 1), line)
    return b"\n".join(lines)


def swap_value(choose, data):
    """Copies a value over another one: a string over a number, an object over an array."""
    ends = [i for i in range(len(data)) if data[i:i + 2] == b": "]
    if len(ends) < 2:
        return data
    a, b = choose.choice(ends) + 2, choose.choice(ends) + 2
    length = lambda at: next((n for n in range(len(data) - at) if data[at + n:at + n + 1] in (b",", b"}")), 1)
    return data[:a] + data[b:b + length(b)] + data[a + length(a):]


def torn_write(choose, data):
    """Zeroes a block, as after a power cut before its write."""
    at = choose.randrange(len(data))
    n = choose.choice([1, 64, 512, 4096])
    return data[:at] + bytes(n) + data[at + n:]


def pack(choose, data):
    """Packs as gzip of two members, the first one stored."""
    at = choose.randrange(len(data) + 1)
    return gzip.compress(data[:at], 0, mtime=0) + gzip.compress(data[at:], 6, mtime=0)


DAMAGE = [flip, flip, replace_number, replace_number, insert, insert, cut, remove, repeat, move_line, swap_value, torn_write]


def damaged(choose, seeds, packs=0.2):
    data = choose.choice(seeds)
    packed = choose.random() < packs
    for _ in range(choose.choice([1, 1, 1, 2, 4, 12])):
        data = choose.choice(DAMAGE)(choose, data)[:MOST] or b" "
    if packed:
        data = pack(choose, data)
        for _ in range(choose.choice([0, 1, 1, 3])):
            data = choose.choice([flip, cut, remove, torn_write, insert])(choose, data)[:MOST] or b" "
    return data


# ---- commands --------------------------------------------------------------------------------------------------

def no_constant(text):
    raise ValueError(f"{text} is not JSON")


def strict(data):
    return json.loads(data.decode("utf-8"), parse_constant=no_constant)


def call(*args):
    """Runs the command. Returns its exit code, stdout and stderr."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    signal.alarm(TIME_S)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(list(args))
    finally:
        signal.alarm(0)
    out.seek(0)
    assert code in (0, 1, 2), f"{args}: exit code {code}"
    said = err.getvalue()
    assert code != 2 or (said.startswith("cprof: ") and said.endswith("\n")), f"{args}: exit code 2, stderr {said!r}"
    assert "out of memory" not in said, f"{args}: {said}"
    return code, out.read(), said


def read_bytes(path):
    data = pathlib.Path(path).read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def check_all(data, other):
    """Runs every command on the bytes. The current folder must be empty."""
    pathlib.Path(PART).write_bytes(data)
    shutil.copy(PART, "t.json")
    pathlib.Path("other.json").write_bytes(other)
    before = set(os.listdir())
    for command in READ:
        code, out, _ = call(command[0], "t.json", *command[1:])
        if "--json" in command and code != 2:
            strict(out.encode())
    call("ranks", "t.json", "other.json")
    call("ranks", "--json", "t.json", "other.json")
    call("top", "--compare", "t.json", "other.json")
    code, out, _ = call("merge", "--jobs", "1", "t.json", "other.json", "-o", "merged.json")
    assert (code == 0) == os.path.exists("merged.json"), f"merge: {code}"
    if code == 0:
        strict(read_bytes("merged.json"))
    code, out, _ = call("merge", "--manifest", "t.json", "other.json", "-o", "merged.tar")
    assert (code == 0) == os.path.exists("merged.tar"), f"merge --manifest: {code}"
    if code == 0:
        with tarfile.open("merged.tar") as archive:
            strict(archive.extractfile("perfetto_manifest.json").read())
    code, out, _ = call("recover", "--force", PART)
    made = "rank0.0.pt.trace.json"
    assert (code == 0) == os.path.exists(made), f"recover: {code}"
    if code == 0:
        strict(read_bytes(made))
        call("check", made)
    assert pathlib.Path(PART).read_bytes() == data == pathlib.Path("t.json").read_bytes(), "a command changed a file that it read"
    made_too = set(os.listdir()) - before - {made, "merged.json", "merged.tar", "made.html", "made.raw.json.gz"}
    assert not made_too, f"left behind: {made_too}"


def check_beside(choose):
    """Damages files beside a trace: the summary that `top` and `ranks` read instead of the trace, and the list of saved traces."""
    summary = choose.choice(["beside/lines.summary", "beside/joined.summary"])
    text, lines, saved = ((ROOT / "tests/fuzz" / name).read_bytes() for name in ("readers/whole.json", summary, "beside/" + LIST_NAME))
    head = {"schema": {"name": "cprof.window", "version": 2}, "cprof": "0.1.0", "trace_bytes": len(text), "trace_tail": zlib.crc32(text[-4096:]), "profile_memory": True}
    pathlib.Path("sound.json").write_bytes(text)
    pathlib.Path("sound.json.summary").write_bytes(damaged(choose, [json.dumps(head).encode() + b"\n" + lines], packs=0))
    for more in (["sound.json"], ["--json", "sound.json"], ["--compare", "sound.json", "sound.json"]):
        code, out, said = call("top", *more)
        assert code == 0, f"top {more}: {code}: {said}"
        if "--json" in more:
            strict(out.encode())
    code, out, said = call("ranks", "--json", "sound.json")
    assert code == 0, f"ranks: {code}: {said}"
    strict(out.encode())
    os.rename("sound.json", "elsewhere")  # the summary alone
    for command in ("ranks", "top", "explain", "report"):
        code, out, said = call(command, "sound.json.summary", *(["-o", "page.html"] if command == "report" else []))
        assert code in (0, 2), f"{command}: {code}: {said}"
    pathlib.Path(LIST_NAME).write_bytes(damaged(choose, [saved], packs=0))
    for stamp, paths in saved_traces("."):
        assert all(type(path) is str or path is None for path in paths) and stamp.batch is not None


def one_run(seed, run, seeds, keep):
    """Returns whether the run found no fault."""
    choose = random.Random(f"{seed} {run}")
    data = damaged(choose, seeds)
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            other = seeds[run % len(seeds)]
            if choose.random() < 0.5:  # another host, whose clock cprof aligns by shared events
                other = other.replace(b'"host_name": "vm"', b'"host_name": "other"').replace(b'"rank": 0', b'"rank": 1')
            check_all(data, other)
            check_beside(choose)
            return True
        except (Slow, Exception):
            pathlib.Path(keep).mkdir(parents=True, exist_ok=True)
            where = pathlib.Path(keep) / f"readers-{seed}-{run}.json"
            where.write_bytes(data)
            print(f"run {run} of seed {seed}: {where}", file=sys.stderr)
            traceback.print_exc()
            return False
        finally:
            os.chdir(here)
            gc.collect()  # many runs in one process; one command needs no collection


def too_slow(*_):
    raise Slow(f"no end after {TIME_S} s")


def run_all():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    parser.add_argument("--runs", type=int, default=1 << 60)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--keep", default=".")
    args = parser.parse_args()
    keep = os.path.abspath(args.keep)
    os.environ["CPROF_LOG"] = "debug"  # makes cprof raise internal errors
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, too_slow)
    seeds = [path.read_bytes() for path in sorted((ROOT / "tests/fuzz/readers").iterdir())]
    end, done, bad = time.monotonic() + args.seconds, 0, 0
    while done < args.runs and time.monotonic() < end and bad < 20:
        bad += not one_run(args.seed, args.first + done, seeds, keep)
        done += 1
    print(f"Done {done} runs, {bad} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(run_all())
