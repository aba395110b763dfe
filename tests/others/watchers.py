# SPDX-License-Identifier: Apache-2.0
"""watchers.py NAME FOLDER-OF-PROGRAMS: a debugger or tracer on a recording program. Prints the same in each run."""

import re
import subprocess
import sys

WAIT_S = 120


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=WAIT_S, stdin=subprocess.DEVNULL, **more)


def gdb(strict):
    """Runs a program under the debugger, then attaches to another program, which goes on after the detach."""
    done = run("gdb", "-nx", "-batch", "-ex", "set breakpoint pending on", "-ex", "break puts", "-ex", "break printf", "-ex", "run", "-ex", "bt 2",
               "-ex", "delete", "-ex", "continue", "--args", strict, "none", "marks")
    print(*[re.sub(r"process \d+", "process", line) for line in done.stdout.splitlines() if re.search(r"^#1|exited with|^\d{10}", line)], sep="\n")
    code = ("import sys, time\nprint('ready', flush=True)\nsys.stdin.readline()\nprint('on', flush=True)\nsys.exit(6)")
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    print(process.stdout.readline().strip())
    done = run("gdb", "-nx", "-batch", "-p", str(process.pid), "-ex", "bt -1", "-ex", "call (int) getppid()", "-ex", "detach")
    print("detached" if "detached" in done.stdout else done.stdout + done.stderr)
    print(process.communicate("go\n", timeout=WAIT_S)[0].strip(), process.returncode)


def tracer(name, strict):
    """A traced program and its children print and exit as without the library."""
    done = run(name, "-f", "-o", "trace", "sh", "-c", f"{strict} none marks; echo $?; sh -c 'echo child; kill -TERM $$'; echo $?")
    print(done.stdout, done.returncode)
    with open("trace", errors="replace") as file:
        print(any(re.search("exited.*status 3|exited with 3", line) or "+++ exited with 3" in line for line in file))


def valgrind(strict):
    """The library adds no memory error and no leak."""
    done = run("valgrind", "-q", "--leak-check=full", "--errors-for-leak-kinds=definite", "--show-leak-kinds=definite", "--error-exitcode=99", strict,
               "none")
    print(done.stdout, done.returncode, done.stderr)
    done = run("valgrind", "-q", "--error-exitcode=99", strict, "none", "marks")
    print(done.stdout, done.returncode, *[line for line in done.stderr.splitlines() if not line.startswith("cprof: ")])


if __name__ == "__main__":
    program = sys.argv[2] + "/strict"
    {"gdb": gdb, "valgrind": valgrind}.get(sys.argv[1], lambda p: tracer(sys.argv[1], p))(program)
