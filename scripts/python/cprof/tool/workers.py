# SPDX-License-Identifier: Apache-2.0
"""Runs jobs in processes of their own. (A multiprocessing.Pool replaces workers that a signal ended even while it closes, and then waits for them
forever.)"""

import multiprocessing
import multiprocessing.connection
import signal
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

from cprof.tool import TOO_DEEP, Problem
from cprof.tool.progress import Progress

STOPS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


class Job(NamedTuple):
    """Work for one process."""
    path: str                                     # the file that errors name
    size: int                                     # of the work, in units of the progress
    work: Callable[[Callable[[int], Any]], Any]   # gets a function to tell how much is done; returns the result, or raises


def in_processes(jobs: Sequence[Job], at_a_time: int, progress: Progress, check: Callable[[List[Any]], Any] = lambda done: None) -> List[Any]:
    """The results of the jobs. check: called after each job with the results so far, None for those that are not done."""
    context = multiprocessing.get_context("fork")
    done: List[Any] = [None] * len(jobs)
    told = [0] * len(jobs)
    running: Dict[Any, Tuple[int, Any]] = {}  # receiver of the result -> (index of the job, process)
    waiting = list(reversed(range(len(jobs))))
    try:
        while waiting or running:
            while waiting and len(running) < at_a_time:
                _start(context, waiting.pop(), jobs, running)
            for receiver in multiprocessing.connection.wait(list(running)):
                index, process = running[receiver]
                try:
                    result = receiver.recv()
                except EOFError:
                    process.join()
                    raise Problem(f"the process that read it ended (exit code {process.exitcode})", jobs[index].path) from None
                told[index] = result if type(result) is int else jobs[index].size
                progress.to(sum(told))
                if type(result) is int:
                    continue
                process.join()
                del running[receiver]
                receiver.close()
                if isinstance(result, BaseException):
                    raise result
                done[index] = result
                check(done)
    finally:
        for _, process in running.values():
            process.kill()
            process.join()
    return done


def _start(context: Any, index: int, jobs: Sequence[Job], running: Dict[Any, Tuple[int, Any]]) -> None:
    """Starts a worker with the signals of STOPS blocked: the parent handles them and ends its workers. No such signal may come before the
    parent knows the worker, or before the worker ignores them."""
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(jobs[index], sender))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        process.start()
        running[receiver] = index, process
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    sender.close()


def _run(job: Job, sender: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    try:
        result: Any = job.work(sender.send)
    except Exception as error:
        result = error
    try:
        sender.send(result)
    except RecursionError:  # metadata of the trace
        sender.send(Problem(TOO_DEEP, job.path))
