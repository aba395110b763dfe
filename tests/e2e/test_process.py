# SPDX-License-Identifier: Apache-2.0
"""Processes under cprof: idle ones do not change, forked and vforked children are not harmed, and every end leaves a finished
trace. CUDA calls go to the fake runtimes of test_hooks.py."""

import os
import re
import subprocess
import sys
import textwrap

import pytest

import support
from conftest import ROOT
from test_hooks import make_client, make_cudart
from torch_runs import both_pythons, python_or_skip

CALLS = """
client = ctypes.CDLL(os.environ["CLIENT"])
def calls(n):
    for i in range(n):
        client.client_malloc(i)
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A library that makes CUDA calls, linked to a fake libcudart.so.12."""
    folder = tmp_path_factory.mktemp("cuda")
    return make_client(folder, "client12", make_cudart(folder, 12))


def run(code, folder, client, **more):
    """Runs Python code that may call calls(n), recorded from start to exit."""
    return support.run(support.python(CALLS + textwrap.dedent(code)), folder, SCHEDULE_SCOPE="none",
                       FILENAME="t.json", env={"CLIENT": str(client)}, **more)


def mallocs(result):
    """The number of calls in the one finished trace."""
    assert result.names == ["t.json"] and not result.parts, (result.names, result.parts, result.err)
    return len(support.events(support.load(result.traces[0]), name="cudaMalloc"))


# ---- processes that never use it ----


def test_tools_behave_as_without_the_library(tmp_path, library):
    script = f"'{sys.executable}' -c pass; ls /; cc --version; cat /proc/self/comm; echo >&2 done"
    plain = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, timeout=120)
    for _ in range(100):
        done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True,
                              env=dict(os.environ, LD_PRELOAD=str(library)), timeout=120)
        assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert list(tmp_path.iterdir()) == []


def test_relative_path_in_ld_preload_works(tmp_path):
    """LD_PRELOAD=./libcprof.so works even if the program changes its directory. Variables for tools name the library by an absolute path."""
    code = "os.chdir('/'); step(); steps(3); print(os.environ['NVTX_INJECTION64_PATH'])"
    result = support.run(support.python(code), tmp_path, preload=False, cwd=support.LIBRARY.parent,
                         env={"LD_PRELOAD": f"./{support.LIBRARY.name}"}, WARMUP=0, ACTIVE=2)
    assert result.out.strip() == str(support.LIBRARY.resolve())
    assert len(result.traces) == 1 and result.complaints == []


def test_idle_process_has_no_extra_thread_or_file(tmp_path, library):
    code = "import os; print(len(os.listdir('/proc/self/task')), sorted(os.listdir('/proc/self/fd')))"
    plain = support.run([sys.executable, "-c", code], tmp_path, preload=False)
    loaded = support.run([sys.executable, "-c", code], tmp_path)
    assert (loaded.rc, loaded.out, loaded.err) == (plain.rc, plain.out, plain.err)
    assert support.files(tmp_path) == []


@pytest.mark.parametrize("call", ["os._exit(7)", "_c._exit(7)", "_c._Exit(7)", "sys.exit(7)", "_c.abort()",
                                  "os.kill(os.getpid(), signal.SIGTERM)"])
def test_idle_process_keeps_its_exit_status(tmp_path, call):
    plain = support.run(support.python(call), tmp_path, preload=False)
    loaded = support.run(support.python(call), tmp_path)
    assert (loaded.rc, loaded.out, loaded.err) == (plain.rc, plain.out, plain.err)
    assert support.files(tmp_path) == []


# ---- ends ----


@pytest.mark.parametrize("call", ["os._exit(7)", "_c._exit(7)", "_c._Exit(7)", "sys.exit(7)", "_c.exit(7)",
                                  "threading.Thread(target=os._exit, args=(7,)).start(); time.sleep(60)"])
def test_every_way_to_exit_finishes_the_trace(tmp_path, client, call):
    result = run(f"calls(1000)\n{call}", tmp_path, client)
    assert result.rc == 7
    assert mallocs(result) >= 999  # the first call started cprof
    assert result.others == ""


@pytest.mark.parametrize("work", ["calls(20); [str(i) * 3 for i in range(100)]", "calls(20); step()", "step(); step()"])
def test_exit_from_a_signal_handler_leaves_a_readable_file(tmp_path, client, work):
    """Signal handlers may call _exit. It ends the process wherever the signal came, also inside cprof, and the files can be
    read."""
    for at in range(10):
        folder = tmp_path / str(at)
        folder.mkdir()
        result = run(f"""
            _c.signal(signal.SIGALRM, _c._exit)
            signal.setitimer(signal.ITIMER_REAL, {0.02 + 0.003 * at})
            while True:
                {work}
        """, folder, client, timeout=30)
        assert result.rc == 14, result.err
        for trace in result.traces + result.parts:
            support.loads_plainly(trace)


# ---- children ----


def assert_stderr_has_only_fork_warnings(result):
    """stderr holds only Python 3.12's warning about a fork in a process with threads, once per line of the program. A child has one thread,
    so its forks print nothing."""
    warning = (r"<string>:\d+: DeprecationWarning: This process \(pid=\d+\) is multi-threaded, use of fork\(\) may lead to deadlocks in the "
               r"child\.\n( +pid = os\.fork\(\)\n)?")
    assert re.fullmatch(warning if sys.version_info >= (3, 12) else "", result.others), result.others


def test_failing_vfork_child_leaves_the_parent_alone(tmp_path, client):
    """subprocess uses vfork. A child that cannot exec calls _exit in its parent's memory."""
    result = run("""
        calls(100)
        for _ in range(20):
            try:
                subprocess.Popen(["/no/such/command"])
            except FileNotFoundError:
                pass
            calls(100)
        assert subprocess.run(["true"]).returncode == 0
        time.sleep(0.3)
        calls(100)
    """, tmp_path, client)
    assert result.rc == 0 and result.others == ""
    assert mallocs(result) >= 2199
    assert len(result.said) == 1


def test_vfork_child_does_not_finish_the_trace(tmp_path, client):
    """The child calls _exit or _Exit in its parent's memory."""
    source = tmp_path / "child.c"
    source.write_text("""#define _GNU_SOURCE
        #include <stdlib.h>
        #include <unistd.h>
        int child(int c99)
        {
            pid_t pid = vfork();
            if (pid == 0 && c99)
                _Exit(5);
            if (pid == 0)
                _exit(5);
            return pid;
        }""")
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-w", "-o", str(tmp_path / "child.so"), str(source)],
                   check=True)
    result = run(f"""
        lib = ctypes.CDLL({str(tmp_path / "child.so")!r})
        for c99 in (0, 1) * 10:
            calls(10)
            pid = lib.child(c99)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
        calls(10)
    """, tmp_path / "traces", client)
    assert result.rc == 0 and result.others == ""
    assert mallocs(result) >= 209


@pytest.mark.parametrize("end", ["os._exit(3)", "sys.exit(3)", "calls(10); _c._Exit(3)"])
def test_forked_children_are_inert(tmp_path, client, end):
    result = run(f"""
        calls(100)
        time.sleep(0.3)  # by then the cprof thread runs and the file is open
        for _ in range(10):
            pid = os.fork()
            if pid == 0:
                calls(1000)
                threads = [open(f"/proc/self/task/{{t}}/comm").read().strip() for t in os.listdir("/proc/self/task")]
                if len(threads) != 1:
                    os.write(1, repr(threads).encode())
                {end}
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
            calls(100)
    """, tmp_path, client)
    assert result.rc == 0 and result.out == ""
    assert result.others == ""
    assert 1099 <= mallocs(result) <= 1100
    assert len(result.said) == 1


@pytest.mark.parametrize("own", [0, 2])
def test_interpreter_does_not_count_cprofs_threads_at_fork(tmp_path, own):
    """An interpreter that counts threads right after a fork must not see cprof's. At any other time the count includes them."""
    result = support.run(support.program("interpreter", "--threads", own), tmp_path, WARMUP=0, ACTIVE=2)
    assert result.rc == 0 and result.others == "", result.err
    counts = re.findall(r"^forked (\d+) (\d+)$", result.out, re.M)
    assert [int(asked) for asked, _ in counts] == [1 + own] * 3
    assert all(2 + own <= int(again) <= 3 + own for _, again in counts), counts
    plain = support.run(support.program("interpreter", "--threads", own), tmp_path / "without", preload=False)
    assert re.findall(r"^forked (\d+) (\d+)$", plain.out, re.M) == [(str(1 + own),) * 2] * 3


def test_children_of_forked_children_are_inert(tmp_path, client):
    result = run("""
        calls(10)
        time.sleep(0.3)  # by then the cprof thread runs
        pid = os.fork()
        if pid == 0:
            subprocess.run([sys.executable, "-c", "print('from a program')"])
            if os.fork() == 0:
                calls(10)
                os._exit(0)
            os.wait()
            os._exit(0)
        os.waitpid(pid, 0)
        calls(10)
    """, tmp_path, client)
    assert result.rc == 0 and result.out == "from a program\n"
    assert result.others == ""
    assert mallocs(result) >= 19


def test_forks_from_many_threads_lose_nothing(tmp_path, client):
    result = run("""
        def work():
            for _ in range(30):
                calls(50)
                pid = os.fork()
                if pid == 0:
                    calls(5)
                    os._exit(0)
                os.waitpid(pid, 0)
        calls(1) # calls during cprof's start would not be recorded
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
    """, tmp_path, client)
    assert result.rc == 0
    assert_stderr_has_only_fork_warnings(result)
    assert 6000 <= mallocs(result) <= 6001


SPY_LIBRARY = """
#include <pthread.h>
#include <stdbool.h>
static pthread_mutex_t other, hidden = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t *address(void) { return &hidden; }
bool locks(void)
{
    pthread_mutex_lock(&hidden);
    pthread_mutex_lock(&other);
    pthread_mutex_unlock(&other);
    pthread_mutex_unlock(&hidden);
    return true;
}
bool locks_nothing(void) { return true; }
bool locks_on_the_stack(void)
{
    pthread_mutex_t local = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&local);
    pthread_mutex_unlock(&local);
    return true;
}
"""
SPY_MAIN = """
#include "preload/link/lock_spy.h"
#include <stdio.h>
pthread_mutex_t *address(void);
bool locks(void), locks_nothing(void), locks_on_the_stack(void);
int main(void)
{
    bool first = lock_spy("libspied.so", locks) == address(), again = lock_spy("libspied.so", locks) == address();
    bool free = pthread_mutex_trylock(address()) == 0;
    printf("%d%d%d%d%d%d", first, again, free, lock_spy("libspied.so", locks_nothing) == NULL,
           lock_spy("libspied.so", locks_on_the_stack) == NULL, lock_spy("libnone.so", locks_nothing) == NULL);
    return 0;
}
"""


@pytest.mark.parametrize("options", [["-Wl,-z,now,-z,relro"], ["-Wl,-z,lazy"], ["-fno-plt", "-Wl,-z,now"]])
def test_finds_a_lock_inside_another_library(tmp_path, options):
    cc = [os.environ.get("CC", "cc"), "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-w"]
    (tmp_path / "spied.c").write_text(SPY_LIBRARY)
    (tmp_path / "main.c").write_text(SPY_MAIN)
    library, program = str(tmp_path / "libspied.so"), str(tmp_path / "main")
    subprocess.run([*cc, "-fPIC", "-shared", *options, "-o", library, str(tmp_path / "spied.c"), "-lpthread"], check=True)
    sources = [str(ROOT / name) for name in ("preload/link/lock_spy.c", "preload/link/got.c", "writer/os/loader.c", "writer/os/elf_loaded.c")]
    subprocess.run([*cc, f"-I{ROOT}", "-o", program, str(tmp_path / "main.c"), *sources, library, f"-Wl,-rpath,{tmp_path}", "-ldl",
                    "-lpthread"], check=True)
    assert subprocess.run([program], capture_output=True, text=True, check=True, timeout=120).stdout == "111111"


@both_pythons
def test_forks_during_callback_changes_do_not_hang(tmp_path, which):
    """If another thread holds torch's callback lock during a fork, the child hangs at its next operator. Each step here changes the
    callbacks, and each child runs an operator. All operators run once before the threads start: torch registers an operator at its
    first call under another lock, which makes children hang even without cprof."""
    python = python_or_skip(which)
    result = support.run([python, "-c", support.PRELUDE + """
import torch
torch.set_num_threads(1)
parameter = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([parameter], lr=0.1)
stop = threading.Event()
def step():
    parameter.grad = torch.ones(2)
    optimizer.step()
step()
torch.ones(2).neg()
def train():
    while not stop.is_set():
        step()
def churn():
    a = torch.ones(2)
    while not stop.is_set():
        a.neg()
threads = [threading.Thread(target=f) for f in (train, churn, churn)]
for t in threads: t.start()
hung = 0
began = time.monotonic()
for _ in range(50):
    if time.monotonic() - began > 30: # on a busy machine
        break
    pid = os.fork()
    if pid == 0:
        torch.ones(2).neg()
        os._exit(0)
    end = time.monotonic() + 20
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            hung += 1
            os.system(f"env -u LD_PRELOAD timeout 60 gdb -p {pid} -batch -ex 'bt 40' >&2")  # shows where the child hangs
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            break
        time.sleep(0.0005)
    if hung:
        break
stop.set()
for t in threads: t.join()
print("hung", hung)
"""], tmp_path, WAIT=1, WARMUP=0, ACTIVE=1, REPEAT=0, NUM_TRACES_TO_KEEP=2)
    assert result.rc == 0, result.err
    assert result.out == "hung 0\n", result.err


# ---- linked libraries, whose constructors run before cprof's ----

@pytest.fixture(scope="module")
def early(tmp_path_factory):
    """A program linked to a library whose constructor marks a range. The program prints its number of threads."""
    folder = tmp_path_factory.mktemp("early")
    (folder / "lib.c").write_text('''#define _GNU_SOURCE
#include <dlfcn.h>
__attribute__((constructor)) void early(void)
{
    int (*push)(const char *), (*pop)(void);
    *(void **)&push = dlsym(RTLD_DEFAULT, "cprof_range_push");
    *(void **)&pop = dlsym(RTLD_DEFAULT, "cprof_range_pop");
    if (push) { push("early"); pop(); }
}
''')
    (folder / "main.c").write_text("#include <stdlib.h>\nvoid early(void);\n"
                                   "int main(void) { early(); return system(\"ls /proc/$PPID/task | wc -l\") != 0; }\n")
    for command in (["-shared", "-fPIC", "-o", "libearly.so", "lib.c", "-ldl"], ["-o", "main", "main.c", "./libearly.so"]):
        subprocess.run(["cc", *command], cwd=folder, check=True, timeout=60)
    return folder


def test_hook_before_the_constructor_uses_the_settings(tmp_path, early):
    done = support.run([early / "main"], tmp_path, cwd=early, FILENAME="t.json")
    assert done.names == ["t.json"] and done.rc == 0 and "1 trace" in done.err, done.err
    assert len(support.events(support.load(done.traces[0]), name="early")) == 2
    assert int(done.out) > 1, "no writer thread"


def test_hook_before_the_constructor_respects_disabled(tmp_path, early):
    done = support.run([early / "main"], tmp_path, cwd=early, ENABLED=0)
    assert (done.rc, done.out.split(), done.err, done.names) == (0, ["1"], "", [])
    assert sorted(path.name for path in early.iterdir()) == ["lib.c", "libearly.so", "main", "main.c"]


# ---- the first process of a container ----

def test_first_process_of_a_container_survives_its_own_signal(tmp_path):
    """The kernel ignores a signal that pid 1 sends to itself without a handler, so cprof must go on recording."""
    inside = ["unshare", "-Urpf"]
    tried = subprocess.run([*inside, "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"no pid namespace can be made here: {tried.stderr.strip()}")
    code = "push(b'before'); pop(); os.kill(os.getpid(), 15); print(os.getpid())\nfor i in range(100): push(b'after'); pop()"
    done = support.run([*inside, *support.python(code)], tmp_path, FILENAME="t.json", SCHEDULE_SCOPE="none")
    assert (done.rc, done.out, done.names) == (0, "1\n", ["t.json"]), done.err
    assert len(support.events(support.load(done.traces[0]), name="after")) == 100
