#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains on two ranks for a long time, healthy but uneven: `healthy.py SECONDS`.

Steps of different lengths, one rank slower than the other; evaluations, checkpoints on one rank, and a compiler that one rank waits for. Each of
these lasts almost as long as what counts as a hang. The run fails if the flight recorder saves a hang. Slow steps that are saved are counted.
`make soak` runs this for an hour."""

import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

E2E = pathlib.Path(__file__).resolve().parents[1] / "e2e"
sys.path.insert(0, str(E2E))

HANG_S = 10
LONGEST_S = 8  # of what is no step
EVERY = 40     # steps between two of those
RANKS = 2


# ---- the training ----

def work(seconds):
    """Computes for half of the time."""
    import torch
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        torch.mm(torch.ones(128, 128), torch.ones(128, 128))
        time.sleep(0.002)


def compile_something(seconds):
    """A child process works, and this one waits for it."""
    code = f"import time\nend = time.monotonic() + {seconds}\nwhile time.monotonic() < end: compile('x = 1', 'x', 'exec')"
    subprocess.run([sys.executable, "-S", "-c", code], check=True, env={**os.environ, "LD_PRELOAD": ""})


def save(model, seconds):
    """Writes a file in pieces, and waits for the disk."""
    import torch
    end = time.monotonic() + seconds
    with tempfile.NamedTemporaryFile() as file:
        while time.monotonic() < end:
            torch.save(model.state_dict(), file)
            file.write(bytes(1 << 20))
            os.fsync(file.fileno())
            time.sleep(0.2)


def train(seconds):
    """One rank. What is no step comes in the same order on all ranks, for a random time on each."""
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, order, end = dist.get_rank(), random.Random(1), time.monotonic() + seconds
    chance = random.Random(rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    done, going = collections.Counter(), torch.ones(1)
    while going.item():
        for _ in range(EVERY):
            time.sleep(chance.uniform(0, 0.05 * (1 + rank)))
            model(torch.ones(8, 256)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            done["steps"] += 1
        what = order.choice(["evaluations", "checkpoints", "compilations"])
        done[what] += 1
        if what == "evaluations":
            work(chance.uniform(0, LONGEST_S))
        elif rank == 0 and what == "checkpoints":
            save(model, chance.uniform(0, LONGEST_S))
        elif rank == 0:
            compile_something(chance.uniform(0, LONGEST_S))
        going.fill_(time.monotonic() < end)
        dist.broadcast(going, 0)
    if rank == 0:
        print(json.dumps(done))


# ---- the watch ----

def watch(seconds, folder):
    """Runs the training. Returns its counts, and the reasons of what was saved."""
    import support
    command = [sys.executable, "-m", "torch.distributed.run", "--local-addr", "127.0.0.1", "--nproc-per-node", str(RANKS), __file__, "--train", str(seconds)]
    env = support.environment(folder, env={"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}, FLIGHT=1, FLIGHT_HANG_S=HANG_S, SKIP_FIRST=1000000000)
    saved = {}
    with open(folder / "stderr", "wb") as err, subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=err, text=True) as process:
        while process.poll() is None:
            time.sleep(1)
            for path in folder.glob("flight/rank*.gz"):
                if path.name not in saved:
                    saved[path.name] = support.load(path)["cprof"]["flight"]["reason"]
        out = process.stdout.read()
    if process.returncode:
        sys.exit(f"healthy: the training ended with {process.returncode}:\n{(folder / 'stderr').read_text()[-3000:]}")
    return json.loads(out.splitlines()[-1]), list(saved.values())


def main():
    if sys.argv[1:2] == ["--train"]:
        train(float(sys.argv[2]))
        return 0
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3600
    with tempfile.TemporaryDirectory() as folder:
        done, reasons = watch(seconds, pathlib.Path(folder))
    slow = [reason for reason in reasons if " times the median" in reason]
    hangs = [reason for reason in reasons if reason not in slow]
    print(f"healthy, {seconds:.0f} s: {', '.join(f'{count:,} {what}' for what, count in sorted(done.items()))} on {RANKS} ranks; {len(hangs)} hangs "
          f"and {len(slow)} slow steps saved")
    for text in hangs:
        print(f"healthy: {text}", file=sys.stderr)
    return 1 if hangs else 0


if __name__ == "__main__":
    sys.exit(main())
