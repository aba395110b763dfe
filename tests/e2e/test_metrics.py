# SPDX-License-Identifier: Apache-2.0
"""CPROF_METRICS: a file in Prometheus' text format, for node_exporter's textfile collector."""

import json
import os
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request

import pytest

import support
from conftest import FULL, ROOT
from servers import free_port
from support import Running, python, run, wait_until

SAMPLE = re.compile(r'^([a-z_]+)\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)+)\} (\S+)$')
TRAINING = """
import torch
m = torch.nn.Linear(64, 64); o = torch.optim.SGD(m.parameters(), .1)
while not os.path.exists(sys.argv[1]):
    m(torch.ones(4, 64)).sum().backward(); o.step(); o.zero_grad(); time.sleep(0.005)
"""


def samples(text):
    """{(name, labels besides rank and run): value}; checks the form of each line."""
    found, types = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            types[line.split()[2]] = line.split()[3]
        elif not line.startswith("#"):
            name, labels, value = SAMPLE.match(line).groups()
            assert re.sub("_(sum|count)$", "", name) in types, line
            assert (types.get(name) == "counter") == name.endswith("_total"), line
            rest = re.sub(r'rank="\d+",run="(?:[^"\\]|\\.)*",?', "", labels)
            assert rest != labels and (name, rest) not in found, line
            found[name, rest] = float(value)
    return found


def test_metrics_of_a_training(tmp_path):
    """Counts of steps, losses and traces, rates and memory of the trace; promtool finds no fault, and the file goes at the end."""
    pytest.importorskip("torch", reason="PyTorch is not installed in .venv")
    path = tmp_path / "cprof-0.prom"
    with Running(python(TRAINING, tmp_path / "stop"), tmp_path / "t", METRICS=tmp_path / "cprof-{rank}.prom", FLIGHT=1, PROFILE_MEMORY=1, PEAK_TFLOPS="cpu=1",
                 RUN_NAME='a "b"\\c') as running:
        wait_until(lambda: path.exists() and samples(path.read_text())["cprof_step_duration_seconds_count", ""] > 100, "the second file")
        text = path.read_text()
        now = samples(text)
        wait_until(lambda: samples(path.read_text()) != now, "the third file")
        later = samples(path.read_text())
        (tmp_path / "stop").touch()
        assert running.end().rc == 0
    assert {other.name for other in tmp_path.iterdir()} == {"t", "stop"}
    steps = later["cprof_step_duration_seconds_count", ""] - now["cprof_step_duration_seconds_count", ""]
    seconds = later["cprof_step_duration_seconds_sum", ""] - now["cprof_step_duration_seconds_sum", ""]
    assert 100 < steps < 2000 and 8 < seconds < 13, (steps, seconds)
    assert 0.005 < now["cprof_step_duration_seconds", 'quantile="0.5"'] <= now["cprof_step_duration_seconds", 'quantile="0.99"']
    assert now["cprof_traces_total", ""] == 1 and abs(now["cprof_trace_timestamp_seconds", ""] - time.time()) < 120
    assert now["cprof_trace_memory_peak_bytes", 'device="CPU"'] >= now["cprof_trace_memory_bytes", 'device="CPU"'] > 64 * 64 * 4
    assert now["cprof_trace_mfu_ratio", 'device="CPU"'] == pytest.approx(now["cprof_trace_flops_per_second", 'device="CPU"'] / 1e12, rel=1e-4)
    parts = {label: value for (name, label), value in now.items() if name == "cprof_trace_step_ratio"}
    assert sum(parts.values()) == pytest.approx(1) and parts['device="CPU",part="operators"'] > 0.01 < parts['device="CPU",part="outside"']
    assert now["cprof_lost_records_total", 'cause="ring_full"'] == 0 and now["cprof_flight_saves_total", 'cause="hang"'] == 0
    assert r'run="a \"b\"\\c"' in text
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done.stdout + done.stderr


def test_sources_that_are_off_are_absent(tmp_path):
    with Running(python("steps(3000, 0.01)"), tmp_path / "t", METRICS=tmp_path / "x.prom", SKIP_FIRST=1000000) as running:
        wait_until((tmp_path / "x.prom").exists, "the file")
        names = {name for name, _ in samples((tmp_path / "x.prom").read_text())}
        running.process.kill()
    assert names >= {"cprof_info", "cprof_traces_total", "cprof_lost_records_total"}
    assert not {name for name in names if "mfu" in name or "memory" in name or "flight" in name or "samples" in name}
    # a killed process leaves its file, which the next one replaces, also if somebody else has its number by now
    for number in (running.process.pid, os.getpid()):
        (tmp_path / "x.prom").write_text((tmp_path / "x.prom").read_text().replace(f"process {running.process.pid} ", f"process {number} "))
    os.utime(tmp_path / "x.prom", (1, 1))
    loop = "while not os.path.exists(sys.argv[1]): steps(1, 0.01)"
    with Running(python(loop, tmp_path / "stop"), tmp_path / "t2", METRICS=tmp_path / "x.prom", SKIP_FIRST=1000000) as running:
        wait_until(lambda: f"process {running.process.pid} " in (tmp_path / "x.prom").read_text(), "the file")
        done = run(python("steps(100, 0.01)"), tmp_path / "t3", METRICS=tmp_path / "x.prom")
        assert done.rc == 0 and "another process writes this file; {rank} in the name tells them apart" in done.err
        (tmp_path / "stop").touch()
        running.end()
    assert not (tmp_path / "x.prom").exists()


@pytest.mark.parametrize("what, words", [("text", "there is another file of this name"), ("link", "there is another file of this name"),
                                         ("linked", "there is another file of this name"), ("folder", "there is another file of this name"),
                                         ("nowhere", "")])
def test_other_files_are_never_replaced(what, words, tmp_path):
    path, other = tmp_path / "x.prom", tmp_path / "other"
    other.write_text("# cprof process 0\n" if what == "linked" else "mine")
    if what == "text":
        path.write_text("mine")
    elif what == "link":
        path.symlink_to(other)
    elif what == "linked":
        os.link(other, path)
    elif what == "folder":
        path.mkdir()
    else:
        path = tmp_path / "none/x.prom"
    done = run(python("steps(50, 0.01)"), tmp_path / "t", METRICS=path, ACTIVE=2)
    assert done.rc == 0 and len(done.traces) == 1 and words in done.err, done.err
    assert f"{path}: {'cannot write the metrics: No such file or directory' if what == 'nowhere' else 'no metrics are written: '}" in done.err, done.err
    assert other.read_text() in ("mine", "# cprof process 0\n") and (what == "nowhere" or path.exists())
    assert not [name for name in os.listdir(tmp_path) if "tmp" in name]


def test_run_names_are_utf_8(tmp_path):
    with Running(python("steps(3000, 0.01)"), tmp_path / "t", METRICS=tmp_path / "x.prom", SKIP_FIRST=1000000, RUN_NAME=os.fsdecode(b"n\xff\xc3\xa4")) as running:
        wait_until((tmp_path / "x.prom").exists, "the file")
        assert 'run="n\ufffd\u00e4"' in (tmp_path / "x.prom").read_text(encoding="utf-8")
        running.process.kill()


@pytest.mark.skipif(not FULL, reason="takes 22 s: with full matrices")
def test_a_full_disk_stops_the_metrics_for_a_while_only(tmp_path):
    why = support.no_mounts_reason()
    if why:
        pytest.skip(why)
    shell = "mount -t tmpfs -o size=16k none /mnt; head -c 12000 /dev/zero > /mnt/full; (sleep 12; rm /mnt/full) & exec \"$@\""
    code = "steps(2200, 0.01); print(open('/mnt/x.prom').read())"
    done = run([*support.own_mounts(), shell, "sh", *python(code)], tmp_path, METRICS="/mnt/x.prom", SKIP_FIRST=1000000)
    assert done.err.count("cannot write the metrics: No space left on device; it is tried again every 10 s") == 1, done.err
    assert "cprof_step_duration_seconds_count{" in done.out


def test_bad_templates_get_a_line(tmp_path):
    done = run(python("steps(8)"), tmp_path, METRICS="/x/{batch}.prom", ACTIVE=2)
    assert done.rc == 0 and len(done.traces) == 1 and "CPROF_METRICS" in done.err and "{batch}" in done.err, done.err


def test_prometheus_reads_it(tmp_path):
    """node_exporter serves the file, and Prometheus answers a query from it."""
    exporter, server = shutil.which("prometheus-node-exporter"), shutil.which("prometheus")
    if not exporter or not server:
        pytest.skip("prometheus and prometheus-node-exporter are not installed")
    ports = [free_port(), free_port()]
    (tmp_path / "p.yml").write_text(f"scrape_configs: [{{job_name: n, scrape_interval: 1s, static_configs: [{{targets: ['127.0.0.1:{ports[0]}']}}]}}]\n")
    (tmp_path / "m").mkdir()
    commands = [[exporter, f"--web.listen-address=127.0.0.1:{ports[0]}", f"--collector.textfile.directory={tmp_path / 'm'}"],
                [server, f"--web.listen-address=127.0.0.1:{ports[1]}", f"--config.file={tmp_path / 'p.yml'}", f"--storage.tsdb.path={tmp_path / 'db'}"]]
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for command in commands]

    def answer(query="cprof_info"):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{ports[1]}/api/v1/query?{urllib.parse.urlencode({'query': query})}", timeout=5) as reply:
                return json.load(reply)["data"]["result"]
        except (OSError, ValueError):
            return None
    try:
        with Running(python("steps(9000, 0.01)"), tmp_path / "t", METRICS=tmp_path / "m/r{rank}.prom", RUN_NAME="night"):
            result = wait_until(answer, "an answer of Prometheus", 60)
            wait_until(lambda: answer('cprof_step_age_seconds < ignoring(quantile) 1000 * cprof_step_duration_seconds{quantile="0.99"}'), "both")
            shown = (ROOT / "scripts/guide/metrics.md").read_text().split("```text\n")[1].split("```")[0].splitlines()
            assert len(shown) == 3 and all(answer(query) is not None for query in shown), "Prometheus takes the queries of the page"
        assert [(one["metric"]["rank"], one["metric"]["run"], one["value"][1]) for one in result] == [("0", "night", "1")]
    finally:
        for process in running:
            process.kill()
            process.wait()
