# SPDX-License-Identifier: Apache-2.0
"""Runs one task for each trace: in this process, in several processes, or on a Ray cluster. All three give the same answer.

    add_engine(parser)                                  # --engine and --jobs
    for one in each(over(task, paths), args.engine):    # in the order of the paths
        if one.problem:
            ...
        use(one.value)

A task is a function of a module, or a functools.partial of one, and takes the path of a trace. Its value is small: it travels between processes.
Its notes are printed in the order of the paths, too. A trace that it cannot read is a Problem of that trace alone. A task whose process is lost (killed, out of
memory, a lost node) runs again, RETRIES times at most."""

import argparse
import collections
import contextlib
import gc
import io
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import traceback
from multiprocessing.connection import Connection, wait
from typing import Any, Callable, Deque, Dict, Iterator, List, NamedTuple, Optional, Tuple

from cprof._untrusted import is_inherited
from cprof.tool import TOO_DEEP, Problem, __version__, said, went_wrong
from cprof.tool.output import end_tidily
from cprof.tool.progress import Progress
from cprof.tool.remote import is_remote
from cprof.tool.screen import tell

RETRIES = 3
AHEAD = 8   # traces for each process that may be done before their turn: their values are in memory
TIDY_S = 10.0  # for Ray to end a cluster that it has started
CONNECT_S = 10.0
RAY = re.compile(r"ray(://[^/\s]+)?")

Task = Callable[[str], Any]
Work = List[Tuple[Task, str]]  # tasks, each with the path of its trace


class Engine(NamedTuple):
    """Where tasks run."""
    where: str = "local"  # or "ray", or the address of a cluster
    jobs: int = 0         # local processes; 0: one for each processor


IN_THIS_PROCESS = Engine(jobs=1)


class Result(NamedTuple):
    """What became of a trace."""
    path: str
    value: Any = None
    problem: Optional[Problem] = None  # then there is no value


class _Done(NamedTuple):
    """A result from another process."""
    result: Result
    notes: str  # lines of stderr


# ---- the options ----

class _Field(argparse.Action):
    """Sets the field `const` of the engine."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, value: Any, option: Any = None) -> None:
        namespace.engine = namespace.engine._replace(**{self.const: value})


def _where(text: str) -> str:
    if text != "local" and not RAY.fullmatch(text):
        raise argparse.ArgumentTypeError("must be local, ray or ray://HOST:PORT")
    return text


def _jobs(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


_jobs.__name__ = "number of processes"  # in argparse's message


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Adds --engine and --jobs. Both go to `engine`."""
    parser.add_argument("--engine", action=_Field, const="where", type=_where, default=Engine(), metavar="local|ray[://HOST:PORT]",
                        help="where the traces are read: by processes of this machine (the default), or by tasks of Ray, on the cluster of this "
                        "machine or of an address")
    parser.add_argument("--jobs", action=_Field, const="jobs", type=_jobs, default=argparse.SUPPRESS, metavar="N",
                        help="local processes, at most one for each trace (by default one for each processor)")


# ---- all engines ----

def attempt(task: Task, path: str) -> Any:
    """For a task that writes: its value, or the OSError of its file, which ends the command."""
    try:
        return task(path)
    except OSError as error:
        return error


def over(task: Task, paths: List[str]) -> Work:
    """The same task for each path."""
    return [(task, path) for path in paths]


def each(work: Work, engine: Engine = IN_THIS_PROCESS) -> Iterator[Result]:
    """Runs the tasks. Yields their results in order. Raises a Problem about the engine."""
    if engine.where != "local":
        yield from _in_turn(_by_ray(work, engine), len(work))
        return
    jobs = min(engine.jobs or len(os.sched_getaffinity(0)), len(work))
    if jobs > 1 and not any(is_inherited(path) for _, path in work):  # other processes cannot read this one's stdin
        yield from _in_turn(_by_processes(work, jobs), len(work))
        return
    for task, path in work:
        yield _result(task, path)


def _is_debugged() -> bool:
    return os.environ.get("CPROF_LOG") == "debug"


def _result(task: Task, path: str) -> Result:
    """Runs the task here."""
    try:
        return Result(path, task(path))
    except Problem as problem:
        return Result(path, problem=problem)
    except BrokenPipeError:
        raise
    except (OSError, MemoryError, RecursionError) as error:
        return Result(path, problem=Problem(said(error)))
    except Exception as error:
        if _is_debugged():
            tell(traceback.format_exc())
        return Result(path, problem=Problem(went_wrong(error), path))


def _done(task: Task, path: str) -> _Done:
    """Runs the task in another process than the command's."""
    notes = io.StringIO()
    gc.disable()  # as in main()
    with contextlib.redirect_stderr(notes):
        result = _result(task, path)
    gc.enable()
    gc.collect()
    return _Done(result, notes.getvalue())


def _in_turn(found: Iterator[Tuple[int, _Done]], total: int) -> Iterator[Result]:
    """Puts results in order. Prints the notes of each before it."""
    early: Dict[int, _Done] = {}
    turn = 0
    with Progress(f"{total} traces", total) as progress, contextlib.closing(found):  # type: ignore[type-var]
        for number, done in found:
            early[number] = done
            progress.add(1)
            while turn in early:
                one = early.pop(turn)
                progress.close()
                if one.notes:
                    tell(one.notes.rstrip("\n"))
                turn += 1
                yield one.result


def _line(error: BaseException) -> str:
    """The last line of an error: libraries put the reason there."""
    return str(error).strip().rpartition("\n")[2] or type(error).__name__


def _lost(path: str, why: str) -> _Done:
    return _Done(Result(path, problem=Problem(f"its process was lost {RETRIES + 1} times, the last time {why}", path)), "")


# ---- processes of this machine ----

class _Process:
    """A process that runs a function of this module, with a pipe. It is a new interpreter: a fork would copy locks of fsspec's threads, and
    multiprocessing would run the main module again. It never gets SIGINT: the command ends it. What it prints is lost: notes come by the pipe."""

    def __init__(self, function: Callable[[Connection], None]) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        code = (f"import sys; sys.path[:] = {sys.path!r}; from multiprocessing.connection import Connection; "
                f"from {__name__} import {function.__name__}; {function.__name__}(Connection({theirs.fileno()}))")
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self._process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                             stderr=None if _is_debugged() else subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()

    def send(self, what: Any) -> None:
        """If the process is gone, receive() finds out."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.pipe.send(what)

    def receive(self) -> Any:
        """What the process sends; None if it is gone."""
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self.end()
            return None

    def end(self, tidy_s: float = 0.0) -> None:
        """Ends the process. May be called again. tidy_s: the most seconds that it has for an end of its own."""
        try:
            if tidy_s:
                self._process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(tidy_s)
        finally:
            self._process.kill()
            self._process.wait()
            self.pipe.close()

    @property
    def ending(self) -> str:
        """Why the process has ended, in words."""
        code = self._process.returncode
        return f"by signal {-code}{' (out of memory?)' if code == -signal.SIGKILL else ''}" if code < 0 else f"with exit code {code}"


def serve(pipe: Connection) -> None:
    """Runs tasks, in a process of its own, until the command closes the pipe or is gone."""
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            task, path = pipe.recv()
            done = _done(task, path)
            try:
                pipe.send(done)
            except RecursionError:  # metadata of the trace
                pipe.send(_Done(Result(path, problem=Problem(TOO_DEEP, path)), done.notes))


def _by_processes(work: Work, jobs: int) -> Iterator[Tuple[int, _Done]]:
    """Numbers of tasks and their results, as they are done."""
    end_tidily()
    left: Deque[int] = collections.deque(range(len(work)))
    lost: collections.Counter = collections.Counter()
    busy: Dict[Any, Tuple[_Process, int]] = {}  # by pipe
    idle: List[_Process] = []
    try:
        while left or busy:
            while left and len(busy) < jobs and left[0] - min((number for _, number in busy.values()), default=left[0]) < AHEAD * jobs:
                try:
                    worker = idle.pop() if idle else _Process(serve)
                except OSError:  # no more processes are allowed
                    if not busy:
                        raise
                    jobs = len(busy)
                    break
                number = left.popleft()
                busy[worker.pipe] = worker, number
                worker.send(work[number])
            for pipe in wait(list(busy)):
                worker, number = busy.pop(pipe)
                done = worker.receive()
                if done is not None:
                    idle.append(worker)
                else:
                    jobs = max(1, jobs // 2)  # memory may be short
                    lost[number] += 1
                    if lost[number] <= RETRIES:
                        left.appendleft(number)
                        continue
                    done = _lost(work[number][1], worker.ending)
                yield number, done
    finally:
        for worker in [*idle, *(worker for worker, _ in busy.values())]:
            worker.end()


# ---- Ray ----

def _on_node(task: Task, path: str, folder: str, version: str) -> _Done:
    """Runs the task on a node, in the folder of the command if the path is relative to it."""
    try:
        if version != __version__:
            raise Problem(f"node {socket.gethostname()} has cprof {__version__}, this command is {version}", path)
        if not (is_remote(path) or os.path.isabs(path)):
            os.chdir(folder)
    except (Problem, OSError) as error:
        return _Done(Result(path, problem=error if isinstance(error, Problem) else Problem(said(error), path)), "")
    return _done(task, path)


def drive(pipe: Connection) -> None:
    """Runs tasks on Ray, in a process of its own: Ray prints to stdout, also from other threads."""
    end_tidily()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        try:
            for done in _ray_tasks(*pipe.recv()):
                pipe.send(done)
        except Problem as problem:
            pipe.send(problem)
        pipe.send(None)


def _ray_tasks(work: Work, where: str, folder: str) -> Iterator[_Done]:
    """The results of all tasks, in order. Ray itself repeats tasks whose process or node is lost. Raises a Problem about the cluster."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report to its makers
    try:
        import ray
    except ImportError as error:
        raise Problem(f"--engine ray needs Ray ({error}): pip install 'cprof[ray]'") from None
    where = os.environ.get("RAY_ADDRESS", "") if where == "ray" else where
    try:
        head = re.fullmatch(r"([^/]+):(\d+)", where)
        if head:  # Ray would try for minutes
            socket.create_connection((head[1].strip("[]"), int(head[2])), CONNECT_S).close()
        ray.init(where or None, log_to_driver=False)
    except Exception as error:  # of many classes
        raise Problem(f"no Ray there: {_line(error)}", where or "ray") from None
    try:
        on_node = ray.remote(max_retries=RETRIES)(_on_node)
        tasks: List[Any] = [on_node.remote(task, path, folder, __version__) for task, path in work]
        for number, (_, path) in enumerate(work):
            try:
                done = ray.get(tasks[number])
            except ray.exceptions.RayTaskError as error:  # it never began: the task itself raises nothing
                done = _Done(Result(path, problem=Problem(f"no node could run the task: {_line(error.cause or error)}", path)), "")
            except ray.exceptions.RayError as error:
                done = _lost(path, f"with {type(error).__name__}")
            tasks[number] = None  # Ray may drop the result
            yield done
    finally:
        ray.shutdown()


def _by_ray(work: Work, engine: Engine) -> Iterator[Tuple[int, _Done]]:
    """As _by_processes()."""
    if engine.jobs:
        raise Problem("--jobs is for --engine local: Ray starts as many tasks as its nodes have processors")
    for path in (path for _, path in work if is_inherited(path)):
        raise Problem("is open in this process only: --engine ray needs a file", path)
    end_tidily()
    driver = _Process(drive)
    try:
        driver.send((work, engine.where, os.getcwd()))
        for number in range(len(work)):
            done = driver.receive()
            if isinstance(done, Problem):
                raise done
            if done is None:
                raise Problem(f"the process that speaks with Ray ended {driver.ending}", engine.where)
            yield number, done
        driver.receive()  # Ray has ended
    finally:
        driver.end(TIDY_S)
