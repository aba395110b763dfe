# SPDX-License-Identifier: Apache-2.0
"""--engine and --jobs: several processes give the answer of one, whatever becomes of them. Addresses of fsspec give the answer of local files.
Ray: tests/others/ray_cluster.py."""

import contextlib
import gzip
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

import command_runs
import engine_tasks
import support
from command_runs import ALLREDUCE, MS, Rank, cprof, refused
from conftest import ROOT
from cprof import tool
from cprof.tool.engine import Engine, each, over

COMMANDS = {"check": ["check"], "explain": ["explain", "--json"], "summarize": ["summarize"]}


def traces(folder, count=6, broken=()):
    """Traces of ranks whose last one is late; those of the ranks `broken` are cut inside a number."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        rank = Rank(number, world=count)
        for step in range(6):
            at = step * 20 * MS
            rank.step(step + 4, at, 19 * MS)
            for i in range(20):
                rank.span("aten::mm", at + i * 600, 400 + number, flops=10**6 * (i + 1), bytes=1000)
                rank.kernel("gemm", at + i * 600 + 50, 300)
            rank.kernel(ALLREDUCE, at + 13 * MS + number * 400, 4 * MS - number * 400)
        path = rank.write(folder)
        if number in broken:
            path.write_text(path.read_text().replace('"aten::mm"', "nonsense", 3))
    return folder


def children(pid):
    """The processes of a command in which tasks run."""
    found = []
    with contextlib.suppress(OSError):
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with contextlib.suppress(OSError):
                if b"cprof.tool.engine import serve" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(int(child))
    return found


def runs(pid):
    """Whether the process is there and no zombie."""
    try:
        return not support.status_of(pid)["State"].startswith("Z")
    except OSError:
        return False


def with_a_killed_worker(args, folder):
    """The finished command, whose first worker was killed as soon as it was there."""
    killed = []
    process = subprocess.Popen(command_runs.command(*args), cwd=folder, env=command_runs.environment(), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def kill():
        while process.poll() is None and not killed:
            for child in children(process.pid)[:1]:
                os.kill(child, signal.SIGKILL)
                killed.append(child)

    thread = threading.Thread(target=kill)
    thread.start()
    out, err = process.communicate(timeout=support.TIMEOUT_S)
    thread.join()
    assert killed, "no process of tasks was seen"
    return subprocess.CompletedProcess(args, process.returncode, out, err)


@pytest.mark.parametrize("name", COMMANDS)
def test_several_processes_give_the_answer_of_one(name, tmp_path):
    traces(tmp_path / "run/torch_traces", broken=(2,))
    paths = sorted(map(str, (tmp_path / "run/torch_traces").iterdir()))

    def summaries():
        found = {path.name: path.read_bytes() for path in (tmp_path / "run/torch_traces").glob("*.summary")}
        for path in found:
            (tmp_path / "run/torch_traces" / path).unlink()
        return found

    results = []
    for run in (lambda args: cprof(*args, "--jobs", 1, cwd=tmp_path), lambda args: with_a_killed_worker([*args, "--jobs", 4], tmp_path)):
        done = run([*COMMANDS[name], *paths])
        results.append((done.returncode, done.stdout, done.stderr, summaries()))
    assert results[0] == results[1]
    code, out, err, made = results[0]
    assert code == 2 and len(err.splitlines()) == 1 and "rank2.4.pt.trace.json: byte " in err, err
    assert "rank5" in out and (len(made) == 5 if name == "summarize" else not made)


def test_several_processes_export_what_one_does(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed in .venv")
    paths = sorted(map(str, traces(tmp_path / "run", broken=(2,)).iterdir()))
    results = []
    for run in (lambda args: cprof(*args, "--jobs", 1, cwd=tmp_path), lambda args: with_a_killed_worker([*args, "--jobs", 4], tmp_path)):
        output = tmp_path / str(len(results))
        done = run(["export", *paths, "-o", output, "--parquet"])
        assert done.returncode == 2 and done.stdout == f"{output}\n" and len(done.stderr.splitlines()) == 1 and "rank2.4.pt.trace.json: byte " in done.stderr
        results.append({str(path.relative_to(output)): path.read_bytes() for path in output.rglob("*") if path.is_file()})
    assert results[0] == results[1]
    assert {name.partition("/")[0] for name in results[0]} == {"cprof-dataset", "events", "findings", "steps", "traces"}
    assert len([name for name in results[0] if name.startswith("events/")]) == 5 and not [name for name in results[0] if "rank=2" in name]


def test_a_lost_process_is_the_problem_of_its_trace_alone(tmp_path, capsys):
    whats = ["first", "dies", "dies once", "raises", "refuses", "last"]
    paths = [str(tmp_path / f"{number}.txt") for number in range(len(whats))]
    for path, what in zip(paths, whats):
        pathlib.Path(path).write_text(what + "\n")
    found = list(each(over(engine_tasks.ends, paths), Engine(jobs=3)))
    assert [one.path for one in found] == paths
    assert [one.value for one in found] == ["first", None, "dies once", None, None, "last"]
    problems = {what: str(one.problem) for what, one in zip(whats, found) if one.problem}
    assert problems["dies"] == f"{paths[1]}: its process was lost 4 times, the last time by signal 9 (out of memory?)"
    assert problems["refuses"] == f"{paths[4]}: is refused"
    assert problems["raises"].startswith(f"{paths[3]}: went wrong inside: KeyError") and problems["raises"].isprintable()
    tries = [len(pathlib.Path(path).read_text().splitlines()) - 1 for path in paths]
    assert tries == [1, 4, 2, 1, 1, 1]
    # Notes come in the order of the paths, once each.
    assert capsys.readouterr().err.splitlines() == [f"cprof: {paths[n]}: try of {whats[n]}" for n in (0, 2, 3, 4, 5)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_command_ends_its_processes(number, tmp_path):
    begun = [tmp_path / str(n) for n in range(2)]
    process = subprocess.Popen([sys.executable, engine_tasks.__file__, *begun], env={**os.environ, "PYTHONPATH": f"{ROOT}/scripts/python"},
                               stderr=subprocess.PIPE, start_new_session=True)
    support.wait_until(lambda: all(path.exists() for path in begun), "both tasks")
    workers = children(process.pid)
    assert len(workers) == 2
    if number == signal.SIGTERM:
        process.send_signal(number)
    else:
        os.killpg(process.pid, number)  # as a terminal or a batch system does
    assert process.communicate(timeout=support.TIMEOUT_S)[1] == b""
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}.get(number, -number)
    support.wait_until(lambda: not any(map(runs, workers)), "the end of the tasks")


def test_wrong_engines_are_refused(tmp_path):
    path = traces(tmp_path, 1) / "rank0.4.pt.trace.json"
    for engine in ("spark", "ray:", "ray://", "ray://a b:1", "ray://a/b"):
        refused(cprof("check", "--engine", engine, path), "must be local, ray or ray://HOST:PORT")
    for jobs in ("0", "-1", "all"):
        refused(cprof("check", "--jobs", jobs, path), "--jobs")
    refused(cprof("check", "--engine", "ray", "--jobs", 2, path), "--jobs is for --engine local")
    refused(cprof("check", "--jobs", 2, "--engine", "ray", path), "--jobs is for --engine local")
    refused(cprof("check", "--engine", "ray", "-", input=""), "-: is open in this process only")
    (tmp_path / "lacking").mkdir()
    for name in ("ray", "fsspec"):
        (tmp_path / f"lacking/{name}.py").write_text(f"raise ModuleNotFoundError(\"No module named '{name}'\")")
    env = {"PYTHONPATH": tmp_path / "lacking"}
    refused(cprof("check", "--engine", "ray", path, env=env), "--engine ray needs Ray (No module named 'ray'): pip install 'cprof[ray]'")
    refused(cprof("check", "s3://bucket/x.json", env=env), "s3://bucket/x.json: needs a package (No module named 'fsspec'): pip install 'cprof[remote]'")


def test_stdin_is_read_by_the_command_itself(tmp_path):
    path = traces(tmp_path, 1) / "rank0.4.pt.trace.json"
    done = cprof("check", "--jobs", 2, "-", path, input=path.read_text())
    assert [line.split(": ")[0] for line in done.stdout.splitlines() if "events" in line] == ["-", str(path)], done.stderr


# ---- addresses ----

@pytest.fixture
def memory():
    """fsspec's file system in the memory of this process."""
    files = pytest.importorskip("fsspec", reason="fsspec is not installed in .venv").filesystem("memory")
    yield files
    files.store.clear()
    files.pseudo_dirs[:] = [""]


def answers(capsys, where, *more):
    """What the three commands say, in this process, without the place of the traces."""
    found = {}
    for name, command in COMMANDS.items():
        code = tool.main([*command, where, *more])
        said = capsys.readouterr()
        found[name] = (code, *(text.replace(where, "RUN") for text in (said.out, said.err)))
    return found


def test_addresses_give_the_answer_of_files(memory, tmp_path, capsys):
    here = traces(tmp_path / "run/torch_traces", 3)
    packed = here / "rank1.4.pt.trace.json"
    (here / "rank1.4.pt.trace.json.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    (here / "rank3.json").write_bytes((here / "rank0.4.pt.trace.json").read_bytes()[:3000] + b"\0")
    (here / "bad\033[31m.json").write_text("no JSON")
    (here / "notes.txt").write_text("no trace")
    memory.put(str(here.parent) + "/", "/run/", recursive=True)
    names = set(memory.ls("/run/torch_traces", detail=False))
    local, far = answers(capsys, str(here.parent), "--jobs", "1"), answers(capsys, "memory://run", "--jobs", "1")
    assert local == far
    assert "memory://" not in str(far) and "\033" not in str(far) and "bad\\x1b[31m.json" in far["check"][2]
    written = set(memory.ls("/run/torch_traces", detail=False)) - names
    assert {os.path.basename(name): memory.cat(name) for name in written} == {path.name: path.read_bytes() for path in here.glob("*.summary")}
    assert len(written) == 3
    assert answers(capsys, "memory://run", "--jobs", "1")["explain"] == far["explain"], "from the traces, although summaries are there now"
    assert "is there" in answers(capsys, "memory://run", "--jobs", "1")["summarize"][1]


def test_summaries_may_go_elsewhere(memory, tmp_path, capsys):
    here = traces(tmp_path / "run", 2)
    (tmp_path / "out").mkdir()
    for output in (str(tmp_path / "out"), "memory://out"):
        assert tool.main(["summarize", str(here), "--jobs", "1", "-o", output]) == 0
        assert re.fullmatch(rf"({re.escape(output)}/rank\d\.4\.pt\.trace\.json\.summary: [\d,]+ bytes\n){{2}}", capsys.readouterr().out)
    assert not list(here.glob("*.summary")) and len(list((tmp_path / "out").iterdir())) == len(memory.ls("/out")) == 2
    twice = [str(here / "rank0.4.pt.trace.json"), str(traces(tmp_path / "other", 1) / "rank0.4.pt.trace.json")]
    assert tool.main(["summarize", *twice, "-o", str(tmp_path / "out")]) == 2
    assert "their summaries would be one file" in capsys.readouterr().err
    assert tool.main(["summarize", twice[0], "-o", str(tmp_path / "none")]) == 2
    assert "none" in capsys.readouterr().err


class Refusing:
    """A file system whose errors hold credentials."""

    def __getattr__(self, name):
        def fail(*_, **__):
            raise RuntimeError("403 of https://user:secret@host/x.json?X-Amz-Signature=secret\033[31m")
        return fail


def test_credentials_and_chains_are_refused(monkeypatch, capsys):
    for address, said in (("s3://key:its /?secret@bucket/x.json", "s3://...: an address with a password"),
                          ("ftp://key:secret@host/x.json", "ftp://...: an address with a password"),
                          ("https://host/x.json?sig=secret", "https://...: an address with a password or a query"),
                          ("simplecache::s3://bucket/x.json", "is a chain of addresses"), ("nothing://x.json", "nothing://x.json: Protocol not known")):
        assert tool.main(["check", address]) == 2
        err = capsys.readouterr().err
        assert said in err and "secret" not in err and len(err.splitlines()) == 1, err
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed in .venv")
    monkeypatch.setattr(fsspec.core, "url_to_fs", lambda path: (Refusing(), path))
    for command in COMMANDS.values():
        assert tool.main([*command, "s3://bucket/x.json"]) == 2
        err = capsys.readouterr().err
        assert "403 of https://...\n" in err and "secret" not in err, err


def test_s3_of_a_mock(tmp_path, monkeypatch, capsys):
    """moto imitates S3 in a thread of this process: no radosgw, no AWS."""
    for name in ("moto.server", "s3fs"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install 'moto[server]' s3fs shows s3://")
    import s3fs
    from moto.server import ThreadedMotoServer
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        address = "http://%s:%d" % server.get_host_and_port()
        for name, value in {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "hidden", "DEFAULT_REGION": "us-east-1", "ENDPOINT_URL": address}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        files = s3fs.S3FileSystem()
        files.mkdir("bucket")
        here = traces(tmp_path / "run", 3)
        (here / "rank1.4.pt.trace.json").write_text("no JSON")
        files.put(str(here), "bucket/", recursive=True)
        assert answers(capsys, str(here), "--jobs", "1") == answers(capsys, "s3://bucket/run", "--jobs", "1")
        files.invalidate_cache()
        assert len(files.glob("bucket/run/*.summary")) == 2
        assert tool.main(["check", "s3://bucket/none.json"]) == 2
        assert capsys.readouterr().err == "cprof: s3://bucket/none.json: No such file or directory\n"
    finally:
        server.stop()
