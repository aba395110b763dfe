# SPDX-License-Identifier: Apache-2.0
"""ray_cluster.py [--client]: `--engine ray` on a cluster of three nodes, all on this machine, gives the answer of local processes, also when a node
is killed in the middle. One of the traces is broken. --client: by ray://HOST:PORT instead of RAY_ADDRESS. Exit code 1 if something differs."""

import difflib
import itertools
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts/python"), str(ROOT / "tests/e2e")]
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "scripts/python"), os.environ.get("PYTHONPATH", "")])  # of the nodes
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

NODES, TRACES, BROKEN, STEPS, OPERATORS = 3, 12, 5, 10, 2000
LIMIT_S = 300
SHOWN = 40  # lines of a difference


def write_traces(folder):
    from command_runs import ALLREDUCE, MS, Rank
    folder.mkdir()
    for number in range(TRACES):
        rank = Rank(number, world=TRACES)
        for step in range(STEPS):
            at = step * 50 * MS
            rank.step(step + 4, at, 49 * MS)
            for i in range(OPERATORS):
                rank.span("aten::mm", at + i * 20, 15)
                rank.kernel("gemm", at + i * 20 + 5, 10)
            rank.kernel(ALLREDUCE, at + 41 * MS + number * 100, 4 * MS - number * 100)
        path = rank.write(folder)
        if number == BROKEN:
            path.write_text(path.read_text()[:-2000].replace('"aten::mm"', "nonsense", 1))


def files_in(folder):
    """The content of all files."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def tasks_of(raylet):
    """The processes of a node that run a task of cprof now."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            if parent == raylet and b"_on_node" in path.with_name("cmdline").read_bytes():
                found.append(int(path.parent.name))
        except (OSError, ValueError):
            pass
    return found


def run(args, env, kill=None):
    """(exit code, stdout, stderr) of the command. kill: the raylet of a node to kill when it runs a task of the command."""
    process = subprocess.Popen([sys.executable, ROOT / "scripts/cprof", *args], env=dict(os.environ, **env), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + LIMIT_S
    while kill and not tasks_of(kill):
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            raise SystemExit(f"no task ran on the node: {process.communicate()}")
        time.sleep(0.02)
    if kill:
        tasks = tasks_of(kill)
        for pid in (kill, *tasks):
            os.kill(pid, signal.SIGKILL)
        print(f"killed a node while it ran {len(tasks)} task")
    out, err = process.communicate(timeout=LIMIT_S)
    return process.returncode, out, err


def main():
    from ray.cluster_utils import Cluster
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    client = "--client" in sys.argv
    different = 0
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:
        traces = pathlib.Path(folder, "traces")
        write_traces(traces)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **({"ray_client_server_port": port} if client else {})})
        try:
            nodes = [cluster.add_node(num_cpus=1) for _ in range(NODES - 1)]
            cluster.wait_for_nodes()
            engine, env = (f"ray://127.0.0.1:{port}", {}) if client else ("ray", {"RAY_ADDRESS": cluster.address})
            paths = sorted(map(str, traces.glob("*.json")))
            output = pathlib.Path(folder, "out")
            for command, node in ((["check", "--json"], None), (["explain", "--json"], nodes[0]), (["summarize", "-o", output], nodes[1]),
                                  (["export", "--parquet", "-o", output], None)):
                output.mkdir()
                local = run([*command, *paths, "--jobs", "2"], {})
                made = files_in(output)
                shutil.rmtree(output)
                output.mkdir()
                raylet = node and node.all_processes["raylet"][0].process.pid
                begun = time.monotonic()
                far = run([*command, *paths, "--engine", engine], env, raylet)
                same = local == far and made == files_in(output)
                shutil.rmtree(output)
                print(f"{command[0]}: {'same' if same else 'DIFFERENT'}, exit code {far[0]}, {len(far[1]):,} bytes and {len(made):,} files ({time.monotonic() - begun:.0f} s)")
                if not same:
                    different += 1
                    for here, there in zip(local, far):
                        print(*itertools.islice(difflib.unified_diff(str(here).splitlines(), str(there).splitlines(), n=1), SHOWN), sep="\n")
        finally:
            cluster.shutdown()
    return min(different, 1)


if __name__ == "__main__":
    sys.exit(main())
