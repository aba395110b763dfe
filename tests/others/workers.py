# SPDX-License-Identifier: Apache-2.0
"""workers.py KIND END: servers and pools whose workers run operators without marking steps, and the ways in which they end.

    uvicorn, uvicorn-2, gunicorn, gunicorn-preload    term (the server ends its workers), kill (SIGKILL, the server goes on)
    fork, spawn, forkserver, fork-awake, spawn-awake  close (workers return), terminate (SIGTERM); -awake: the parent has made a tensor

Prints the same with and without the library if each operator is in a whole trace or in the open file of a killed worker. Where cprof cannot
record the workers, one line must report it."""

import collections
import contextlib
import http.client
import json
import multiprocessing
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

TASKS, WORKERS, WAIT_S = 60, 2, 60
HERE = pathlib.Path(__file__).resolve()
SERVERS = {"uvicorn": "uvicorn workers:asgi --log-level warning --port {port}",
           "uvicorn-2": "uvicorn workers:asgi --log-level warning --port {port} --workers 2",
           "gunicorn": "gunicorn workers:wsgi --bind 127.0.0.1:{port} --workers 2",
           "gunicorn-preload": "gunicorn workers:wsgi --bind 127.0.0.1:{port} --workers 2 --preload"}
POOLS = {name: ("close", "terminate") for name in ("fork", "spawn", "forkserver", "fork-awake", "spawn-awake")}
KINDS = {**{name: ("term", "kill") for name in SERVERS}, **POOLS}
UNTRACED = ("gunicorn-preload", "fork-awake")
FORKED = r"cprof: processes forked by \d+ run operators, which cprof does not record; .*"
USUAL = r"cprof: (no step was marked|rank 0: 1 trace, ).*"


# ---- what workers do ----

def work(_=None):
    """Runs an operator. Returns the pid that ran it."""
    global net
    import torch
    if "net" not in globals():
        net = torch.nn.Linear(16, 4)
    with torch.no_grad():
        net(torch.ones(2, 16))
    return os.getpid()


async def asgi(scope, receive, send):
    """The application of uvicorn."""
    while scope["type"] == "lifespan":
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return
    body = str(work()).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})


def wsgi(environ, start):
    """The application of gunicorn."""
    body = str(work()).encode()
    start("200 OK", [("Content-Length", str(len(body)))])
    return [body]


def pool(kind, end):
    """A program with a pool. Prints the number of tasks of each worker, and ends the pool after a line on stdin."""
    method, _, awake = kind.partition("-")
    if awake:
        import torch
        torch.ones(1)
    with multiprocessing.get_context(method).Pool(WORKERS) as workers:
        print(json.dumps(collections.Counter(workers.map(work, range(TASKS), 1))), flush=True)
        sys.stdin.readline()
        if end == "close":
            workers.close()
            workers.join()


if __name__ == "workers" and "--preload" in sys.argv:
    work()  # gunicorn loads this file before it forks


# ---- checks ----

def ask(port):
    """Asks the server TASKS times. Returns the number of answers of each worker."""
    found, end = collections.Counter(), time.monotonic() + WAIT_S
    while found.total() < TASKS and time.monotonic() < end:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
            connection.request("GET", "/")
            found[int(connection.getresponse().read())] += 1
        except OSError:
            time.sleep(0.05)
    return found


def operators(folder):
    """{file: number of work()'s operators in it}."""
    found = {}
    for path in sorted(folder.glob("*")):
        if path.suffix in (".json", ".part"):
            trace = json.loads(path.read_text())
            assert trace["cprof"]["lost"]["total"] == 0, path
            # A kill may come when the file is whole but not yet renamed.
            assert trace["cprof"]["complete"] or path.suffix == ".part", path
            found[path.name] = sum(event["name"] == "aten::linear" for event in trace["traceEvents"])
    return found


def await_operators(folder, count):
    """Waits until all operators are on disk. A file may be in the middle of a write."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        with contextlib.suppress(ValueError, OSError):
            if sum(operators(folder).values()) == count:
                return
        time.sleep(0.1)


def faults(folder, kind, end, workers, lines):
    """The faults in the files and in cprof's lines, as text."""
    found = operators(folder)
    told = [line for line in lines if re.fullmatch(FORKED, line)]
    yield from (line for line in lines if not re.fullmatch(f"{FORKED}|{USUAL}", line))
    if len(told) != (kind in UNTRACED):
        yield f"{len(told)} lines: {told}"
    if kind in UNTRACED:
        workers = {os.getpid(): 1} if kind == "gunicorn-preload" else {}  # the server itself ran one operator
    if sorted(filter(None, found.values())) != sorted(workers.values()):
        yield f"{found} instead of {workers}"
    # only SIGKILL leaves open files: a pool that is terminated also lets its workers return
    if end == "kill" and kind not in UNTRACED and not {f"prestep.{pid}.part" for pid in workers} <= set(found):
        yield f"{found} of {workers}, which were killed"


def main(kind, end):
    """Runs a server or a pool, and prints the results."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    traced, folder = "libcprof" in os.environ.get("LD_PRELOAD", ""), pathlib.Path.cwd() / "traces"
    env = {name: value for name, value in os.environ.items() if not name.startswith("CPROF_")}
    env.update(CPROF_FOLDER=str(folder), OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join([str(HERE.parent), env.get("PYTHONPATH", "")]),
               **{"CPROF_TRACE_CHILDREN": "1"} if kind == "spawn-awake" else {})
    command = [str(HERE), "pool", kind, end] if kind in POOLS else ["-m", *SERVERS[kind].format(port=port).split()]
    program = subprocess.Popen([sys.executable, *command], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    workers = {int(pid): n for pid, n in json.loads(program.stdout.readline()).items()} if kind in POOLS else ask(port)
    print(kind, end, sum(workers.values()), "done")
    if traced and kind not in UNTRACED:
        await_operators(folder, TASKS)
    if end == "kill":
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.5)
    if kind in SERVERS and program.poll() is None:
        program.terminate()
    error = program.communicate(b"\n" if kind in POOLS else None, WAIT_S)[1].decode()
    print("ended", program.returncode)
    lines = [line for line in error.splitlines() if line.startswith("cprof: ")]
    found = list(faults(folder, kind, end, workers, lines)) if traced else []
    print(*(found or ["as it should be"]), sep="\n")


if __name__ == "__main__":
    pool(*sys.argv[2:]) if sys.argv[1] == "pool" else main(*sys.argv[1:])
