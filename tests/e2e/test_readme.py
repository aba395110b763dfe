# SPDX-License-Identifier: Apache-2.0
"""The README's shell blocks: bash runs each one exactly as written, beside programs with the names that the blocks use."""

import http.server
import os
import re
import shutil
import subprocess
import sys
import threading

import pytest

import perfetto
import support
from conftest import BUILD, ROOT

pytest.importorskip("torch", reason="PyTorch is not installed in .venv")

PROGRAMS = {
    # Twelve steps of a small model. With CPROF_TRIGGER, endless steps without a model, until it is killed.
    "train.py": """\
import ctypes, os, time
while os.environ.get("CPROF_TRIGGER"):
    ctypes.CDLL(None).cprof_step()
    time.sleep(0.02)
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(64, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    optimizer.zero_grad()
    model(torch.randn(32, 64)).sum().backward()
    optimizer.step()
""",
    "train_ddp.py": """\
import torch
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    model(torch.randn(32, 64)).sum().backward()
    optimizer.step()
torch.distributed.barrier()  # behind destroy_process_group() PyTorch may abort at exit, also without cprof
""",
    "infer.py": """\
import torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.ReLU())
with torch.inference_mode():
    for request in range(8):
        model(torch.randn(32, 64))
""",
}
PROGRAMS["train_new.py"] = PROGRAMS["train.py"]


README = (ROOT / "README.md").read_text()
# (run name, text) of each shell block. Blocks without a run name are not recipes.
BLOCKS = [(next(iter(re.findall(r"--run-name (\w+)", block)), None), block)
          for block in re.findall(r"^```sh\n(.*?)^```$", README, re.M | re.S)]
RECIPES = [block for block in BLOCKS if block[0]]


class Uploads(http.server.BaseHTTPRequestHandler):
    """Accepts each PUT and notes its path."""

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.taken.append(self.path)
        self.send_response(201)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("readme")
    for name, text in PROGRAMS.items():
        (path / name).write_text(text)
    return path


def run_block(block, folder):
    """Runs the block in a bash that stops at the first error and finds the command, the library and Python."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("CPROF_")}
    env.update(PATH=f"{ROOT / 'scripts'}:{os.path.dirname(sys.executable)}:{env['PATH']}", CPROF_LIBRARY=str(support.LIBRARY),
               LD_LIBRARY_PATH=str(BUILD), MASTER_ADDR="127.0.0.1")
    return subprocess.run(["bash", "-em", "-c", block], cwd=folder, env=env, capture_output=True, text=True, timeout=300)


def test_readme_has_all_recipes():
    assert [name for name, _ in RECIPES] == ["slow", "leak", "ranks", "live", "infer", "before", "up", "gpu"]


def plain(text):
    """The text without numbers, units, run names and column widths."""
    text = re.sub(r"[\w-]+/torch_traces|(?<=cprof explain )\S+|(?<=cprof top )\S+|(?<=cprof open )\S+", "RUN", text)
    return re.sub(r"  +", " ", re.sub(r"\d[\d,.]*\d|\d", "0", re.sub(r"[kM]B", "kB", text)))


@pytest.mark.parametrize("name, block", RECIPES, ids=[name for name, _ in RECIPES])
def test_recipe_works(name, block, folder):
    server = None
    if name == "up":
        server = http.server.ThreadingHTTPServer(("localhost", 0), Uploads)
        server.taken = []
        assert "localhost:8080" in block
        block = block.replace("localhost:8080", f"localhost:{server.server_address[1]}")  # a port that is free here
        threading.Thread(target=server.serve_forever, daemon=True).start()
    done = run_block(block, folder)
    if name == "gpu" and done.returncode == 1:  # doctor's exit code reports that there is no GPU
        assert "CUPTI" in done.stdout
        done = run_block(block.split("\n", 1)[1], folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    traces = sorted(path.name for path in folder.glob(f"{name}/torch_traces/*.json"))
    if name == "up":
        server.shutdown()
        assert traces == [] and server.taken == [f"/traces/up/torch_traces/rank0.5.pt.trace.json{summary}" for summary in ("", ".summary")]
        assert "1 trace was written and is not here any more; uploads: up/torch_traces/rank0.5.pt.trace.json" in done.stderr
    elif name == "ranks":
        assert traces == ["rank0.5.pt.trace.json", "rank1.5.pt.trace.json"] and (folder / "ranks.json.gz").stat().st_size > 0
    elif name == "live":
        assert len(traces) == 1, done.stdout + done.stderr
    else:
        assert traces == ["rank0.5.pt.trace.json"]
    shown = {"slow": " steps took ", "leak": "", "infer": "ProfilerStep", "before": "step ", "gpu": "aten::"}.get(name, "")
    assert shown in done.stdout, done.stdout + done.stderr
    if name == "slow":  # the output that the README shows, without numbers and paths
        text, = re.findall(r"^```text\n(.*?)^```$", README, re.M | re.S)
        lines = plain(text).splitlines()[1:]  # the first is the program's own
        assert [line.split()[1] for line in lines] == ["rank", "explain", "top", "open"]
        assert [line for line in lines if line not in plain(done.stderr)] == []
    if name == "leak":
        assert "<html" in (folder / "leak.html").read_text()
        assert done.stdout.startswith("cpu: peak ") and re.search(r"^ *[\d.]+ [KM]?B .* train\.py\(\d+\): <module>$", done.stdout, re.M), done.stdout


def test_commands_of_the_first_screen_work(folder):
    """`cprof run` comes first and LD_PRELOAD second. The latter leaves a trace, too."""
    (_, run), (_, preload) = BLOCKS[:2]
    assert run == "cprof run -- python train.py\n" and preload == "LD_PRELOAD=libcprof.so python train.py\n"
    done = run_block(preload, folder)
    assert done.returncode == 0 and "1 trace" in done.stderr, done.stdout + done.stderr
    assert len(list(folder.glob("train-*/torch_traces/rank0.5.pt.trace.json"))) == 1


def test_readme_names_make_demo_and_make_test():
    """test_demo.py runs the demo."""
    assert (None, "make demo\nmake test\n") in BLOCKS


@perfetto.needed
def test_picture(tmp_path):
    """A step of a transformer on a real H200, with its parts numbered as the README explains them."""
    recorded = tmp_path / "rank0.9.pt.trace.json.gz"
    shutil.copy(ROOT / "tests/fixtures/h200-healthy.json.gz", recorded)
    trace = perfetto.view_of(recorded, tmp_path / "view")
    step = perfetto.query(trace, "select ts, dur from slice where name = 'ProfilerStep#8'")[0]

    def at(share):
        return step["ts"] + share * step["dur"]

    arrow = perfetto.query(trace, "select i.id as kernel, (i.ts + o.ts) / 2 as middle from flow f join slice i on f.slice_in = i.id "
                                  f"join slice o on f.slice_out = o.id where i.name glob 'nvjet*' and o.ts > {at(0.3)} order by i.ts")[0]
    perfetto.picture_of(trace, "h200.png", start=step["ts"], end=step["ts"] + step["dur"], hide="context", select=arrow["kernel"], marks=[
        ("1", "^steps$", at(0.9), 0), ("2", "python3.$", at(0.47), 1), ("3", "pt_autograd", at(0.7), 6.5),
        ("4", "pt_autograd", arrow["middle"], 0), ("5", "^stream 7$", at(0.9), 0)])
