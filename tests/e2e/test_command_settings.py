# SPDX-License-Identifier: Apache-2.0
"""The settings as options of `cprof run` and `cprof env`: each is one, and what the library refuses the command refuses before it
starts the program."""

import json
import re
import subprocess
import sys

import pytest

import support
from command_runs import MARK, ROOT, STEPS, cprof, environment, python, refused
from cprof.tool import setting_values, settings


SPECIAL = {"CPROF_REMOTE_URL": "http://127.0.0.1:9/nobody", "CPROF_ON_TRACE_READY": "true",  # settings whose values are checked
           "CPROF_PEAK_TFLOPS": "100", "CPROF_TRIGGER": "cuda", "CPROF_SCHEDULE_SCOPE": "run",
           "CPROF_ACTIVITIES": "cpu,mtia"}
APART = ("CPROF_ENABLED", "CPROF_STEPS", "CPROF_TENSORBOARD_DIR")  # they exclude others
VALUES = {"INT": "3", "TEXT": "a 'quoted' $text", "FOLDER": "{run_name}/here", "FILE": "rank{rank}.{batch}.json"}


def value_of(setting):
    if setting.name in SPECIAL:
        return SPECIAL[setting.name]
    if setting.kind in ("CHOICE", "STEP", "LIST"):
        last = setting.allowed.split("|")[-1]
        return last.split(":")[0] + ":x" if ":" in last else last
    return str(max(setting.least, 3)) if setting.kind == "INT" else VALUES.get(setting.kind, "x")


def options():
    """An option for each setting, except those that exclude others, and the expected variables."""
    given, wanted = [], {}
    for setting in settings.all_settings():
        if setting.name in APART:
            continue
        if setting.kind == "BOOL":
            on = setting.default == "0"
            given.append(setting.option if on else setting.option.replace("--", "--no-", 1))
            wanted[setting.name] = "1" if on else "0"
        else:
            wanted[setting.name] = value_of(setting)
            given += [setting.option, wanted[setting.name]]
    return given, wanted


def test_every_setting_is_an_option():
    """Options win over the environment; other variables stay."""
    given, wanted = options()
    names = {line.split("(")[1].split(",")[0] for line in (ROOT / "preload/settings/config.def").read_text().splitlines()
             if line.startswith("X(") and ", NOW," in line}
    assert set(wanted) | set(APART) == names
    code = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if k.startswith('CPROF_')}))"
    done = cprof("run", "-q", "--no-enabled", *given, *python(code), env={"CPROF_WAIT": "9", "CPROF_ENABLED": "1"})
    seen = json.loads(done.stdout)
    assert {name: seen[name] for name in wanted} == wanted and seen["CPROF_ENABLED"] == "0"
    seen = json.loads(cprof("run", "-q", "--no-enabled", "--steps", 3, "--tensorboard-dir", "tb", *python(code)).stdout)
    assert (seen["CPROF_STEPS"], seen["CPROF_TENSORBOARD_DIR"]) == ("3", "tb")


def test_steps_option_chooses_steps(tmp_path):
    done = cprof("run", "--steps", "2-3,5", *python(STEPS), cwd=tmp_path, env={"CPROF_FOLDER": "traces"})
    assert done.returncode == 0, done.stderr
    assert [support.step_numbers(support.load(path)) for path in sorted(support.files(tmp_path))] == [[2, 3], [5]]


@pytest.mark.parametrize("given, said", [
    (["--steps", "5-3"], "--steps=5-3: 5-3 ends before it begins"),
    (["--steps", "3-5,5"], "--steps=3-5,5: steps must ascend, but 5 follows 5"),
    (["--steps", "3,"], "--steps=3,: must be steps from 0 to 2147483647, as 10 or 10-13 or 10-13,50-53"),
    (["--steps", ",".join(map(str, range(65)))], f"--steps={','.join(map(str, range(65)))}: must name at most 64 ranges"),
    (["--steps", "3", "--wait", "1"], "--wait: --steps says which steps are recorded; give one of the two"),
    (["--steps", "3", "--schedule-scope", "epoch"], "--schedule-scope: --steps says which steps are recorded; give one of the two")])
def test_steps_option_rejects_bad_ranges(given, said):
    done = cprof("run", *given, "true")
    assert (done.returncode, done.stderr) == (2, f"cprof: {said}\n")


def test_help_shows_the_no_form_of_switches():
    text = cprof("run", "--help-all").stdout
    assert [s.name for s in settings.all_settings() if s.kind == "BOOL" and f"{s.option}, {s.option.replace('--', '--no-', 1)}\n" not in text] == []


@pytest.mark.parametrize("command", ["run", "env"])
def test_help_is_short_and_help_all_has_every_setting(command):
    def offered(option):
        text = cprof(command, option).stdout
        return [s.name for s in settings.all_settings() if re.search(rf"^  {s.option}[ ,]", text, re.M)]

    assert sorted(offered("--help")) == sorted(settings.COMMON) and len(settings.COMMON) == 10
    assert offered("--help-all") == [s.name for s in settings.all_settings()]


def test_library_accepts_the_values_of_all_options(tmp_path):
    given, _ = options()
    code = MARK + "c.cprof_step()"
    done = cprof("run", "-q", *given, "--log", "warn", "--gpu-dump", tmp_path / "dump", *python(code))
    about = [line for line in done.stderr.splitlines() if re.search(r"must be|unknown|not in this version|ignored", line)]
    assert done.returncode == 0 and about == [], done.stderr


# Values of one setting, good and bad. The library keeps its default for the bad ones.
VALUES_OF = {
    "CPROF_TRIGGER": ["signal:FOO", "signal:USR2", "signal: sighup ", "signal:RTMIN+30", "signal:RTMIN+31", "signal:rtmin+ 0", "signal:RTMIN", "signal:10", "signal:",
                      "file:a{rank}", "file:a{batch}", "file:{", "file:{{x}}", "socket", " Socket", "nvtx:{", "cuda", "off", "signal"],
    "CPROF_ACTIVITIES": ["xpu", "mtia, XPU", "cpu", " CUDA ", "gpu", "cpu,,cuda"],
    "CPROF_PEAK_TFLOPS": ["100", " 1.5 ", ".5", "5.", "0", "-1", "", ".", "1e3", "999999999", "1000000000", "float32=5", " bf16 = 5.5 , cpu=1", "float32", "float33=1", "float32=0",
                          "float32=5,", "100,cpu=1", "=5", "cpu=1=2"],
    "CPROF_REMOTE_URL": ["x", "http://", "HTTPS://h", "http://?x", "ftp://h", "s3://", "s3:///p", "s3://b_1.c-d/p", "s3://b@d", "http://h\nx", " http://h"],
    "CPROF_ON_TRACE_READY": ["true", "true 'a b'", "true 'a", 'true "a', 'true "a\\"', 'true "a\\" "', "true 'a\\'", "true \\'", "true \\", "sh:true '", "true a\\ 'b'", "''" * 2 + "true",
                             "true" + " x" * 254, "true" + " x" * 255],
    "CPROF_ACTIVE": ["0", "1", " 7 ", "1_0", "+3", "2147483647", "2147483648", "-0"],
    "CPROF_USE_GZIP": ["maybe", "YES", " off ", "2", "true", "on"],
    "CPROF_SCHEDULE_SCOPE": ["Epoch", "day", "run "],
    "CPROF_STEP": ["nvtx:", "nvtx: ", "NVTX:x", "optimizer:*", "forward", "forwards", "symbol:f"],
    "CPROF_STEPS": ["5-3", "3-5,5", "3,", "1 - 3 , 5", "0", "-1", "2147483647", "2147483648", "x", ",".join(map(str, range(64))), ",".join(map(str, range(65)))],
    "CPROF_FOLDER": ["a{rank}", "a{epoch}", "a{", "}}", "}", "{{rank}}", "{}", "{run_name}x"],
    "CPROF_FILENAME": ["{epoch}", "{nope}", "x{{", "x{{{rank}}}"],
    "CPROF_RUN_NAME": ["x" * 1023, "x" * 1024]}
FALLS_BACK = re.compile(r"; (using the default|ignored|the trigger is off|nothing is uploaded|it is not run|the devices' own)[^;]*$")


@pytest.mark.parametrize("name", VALUES_OF)
def test_command_and_library_refuse_the_same_values(tmp_path, name):
    """The command refuses before the program starts. The reason is the library's, except for templates."""
    code = "import ctypes; raise SystemExit(not ctypes.CDLL(None).cprof_try_settings())"
    setting, wrong = settings.by_name()[name], []
    for value in VALUES_OF[name]:
        refused_by = settings.what_is_wrong(setting, value) or setting_values.later_problem(name, value)
        done = subprocess.run([sys.executable, "-c", code], env=dict(environment(), LD_PRELOAD=support.LIBRARY, CPROF_LOG="warn", **{name: value}), cwd=tmp_path,
                              capture_output=True, text=True, timeout=60)
        line = next((line for line in done.stderr.splitlines() if line.startswith(f"cprof: {name}=")), "")
        reason, fallback = (FALLS_BACK.sub("", line), bool(FALLS_BACK.search(line)))
        same = fallback == bool(refused_by) and (re.search("[{}]", value) or not refused_by or reason.endswith(": " + refused_by))
        if done.returncode or not same or fallback != bool(line):
            wrong.append((value[:40], refused_by, done.stderr))
    assert wrong == []


@pytest.mark.parametrize("option, texts", [
    (["--active=0"], ["--active=0", "1 to"]), (["--wait=x"], ["--wait=x", "whole number"]),
    (["--schedule-scope=day"], ["run, epoch, none"]), (["--step=nvtx:"], ["nvtx:GLOB"]),
    (["--activities=cpu,gpu"], ["cpu, cuda"]), (["--filename={nope}"], ["unknown variable {nope}", "{rank}"]),
    (["--folder=a{epoch}"], ["unknown variable {epoch}"]), (["--folder=a{"], ["unbalanced brace"]),
    (["--trigger=signal:FOO"], ["--trigger=signal:FOO: must be one of USR1, USR2, HUP, RTMIN+0 to RTMIN+30"]),
    (["--trigger=file:{batch}"], ["--trigger=file:{batch}: unknown variable {batch}", "{rank}"]),
    (["--peak-tflops=fast"], ["--peak-tflops=fast: must be a number above 0", "bfloat16"]),
    (["--remote-url=h/x"], ["--remote-url=(set): must begin with http://, https:// or s3://"]),
    (["--on-trace-ready=a 'b"], ["--on-trace-ready=a 'b: a quote is not closed"]),
    (["--activities=xpu"], ["--activities=xpu: xpu and mtia are not supported"]),
    (["--num-traces-to-keep=0"], ["--num-traces-to-keep: keeps no trace at all without --remote-url or --on-trace-ready"]),
    (["--tensorboard-dir=a", "--filename=b"], ["--filename: --tensorboard-dir says where traces go; give one of the two"]),
    (["--schedule-scope=none", "--active=3"], ["--active: counts nothing with --schedule-scope=none"]),
    (["--use-gzip=1"], ["--use-gzip", "--no-NAME is 0"]), (["--no-such-option"], ["--no-such-option"])])
def test_bad_option_does_not_start_the_program(tmp_path, option, texts):
    done = cprof("run", *option, "--", "touch", tmp_path / "started")
    assert done.returncode == 2 and not (tmp_path / "started").exists()
    refused(done, *texts)


def test_option_is_refused_where_a_variable_excludes_it():
    refused(cprof("run", "--wait", 1, "true", env={"CPROF_STEPS": "3"}), "--wait: CPROF_STEPS says which steps are recorded")
    kept = cprof("run", "--num-traces-to-keep", 0, "true", env={"CPROF_ON_TRACE_READY": "true"})
    assert kept.returncode == 0, kept.stderr
