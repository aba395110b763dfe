# SPDX-License-Identifier: Apache-2.0
"""The library's settings as options of a sub-command. settings_table.py describes them, and setting_values.py checks their values."""

import argparse
import os
from typing import Any, Dict, Iterator, Mapping, NamedTuple, Optional, Tuple

from cprof.tool import Problem
from cprof.tool.setting_values import ON, kind_problem, later_problem
from cprof.tool.settings_table import GROUPS

# The settings that `--help` shows; the others are in `--help-all`.
COMMON = ("CPROF_STEPS", "CPROF_WARMUP", "CPROF_ACTIVE", "CPROF_REPEAT", "CPROF_STEP", "CPROF_RUN_NAME", "CPROF_RECORD_SHAPES",
          "CPROF_WITH_STACK", "CPROF_WITH_MODULES", "CPROF_TRIGGER")
CYCLE = ("CPROF_SCHEDULE_SCOPE", "CPROF_SKIP_FIRST", "CPROF_WAIT", "CPROF_WARMUP", "CPROF_ACTIVE", "CPROF_REPEAT", "CPROF_SKIP_FIRST_WAIT")


class Setting(NamedTuple):
    """A row of the table."""
    name: str
    kind: str
    default: str
    least: int
    most: int
    allowed: str
    help: str

    @property
    def option(self) -> str:
        """--use-gzip for CPROF_USE_GZIP"""
        return "--" + self.name[len("CPROF_"):].lower().replace("_", "-")

    @property
    def field(self) -> str:
        """The name under which argparse keeps its value; the prefix separates it from the command's own options."""
        return "setting_" + self.name


def all_settings() -> Iterator[Setting]:
    """Every row, in the order of the table."""
    for _, rows in GROUPS:
        for row in rows:
            yield Setting(*row)


def by_name() -> Dict[str, Setting]:
    """Every row by its name."""
    return {setting.name: setting for setting in all_settings()}


# ---- values ----

def shown(name: str, value: str) -> str:
    """NAME=value for a line of output. Hides an upload address, which may hold a password."""
    return f"{name}={'(set)' if name in ('CPROF_REMOTE_URL', '--remote-url') else value}"


def what_is_wrong(setting: Setting, value: str) -> Optional[str]:
    """Why the library would keep its default instead of the value; None if it would not. An empty value means the default."""
    if not value.strip():
        return None
    return kind_problem(setting.kind, value, setting.least, setting.most, setting.allowed)


def in_force(environment: Mapping[str, str], name: str) -> str:
    """The value in force: the environment's if the library accepts it, else the default."""
    setting, value = by_name()[name], environment.get(name, "")
    return value if value.strip() and what_is_wrong(setting, value) is None else setting.default


def is_on(environment: Mapping[str, str], name: str) -> bool:
    """Whether a setting of 0 or 1 is on in this environment."""
    return in_force(environment, name).strip().lower() in ON


# ---- options ----

def _values(setting: Setting) -> str:
    if setting.kind == "INT":
        return "N"
    if setting.kind in ("CHOICE", "STEP", "LIST") and "|" in setting.allowed:
        return "{" + setting.allowed.replace("|", ",") + "}"
    return "X"


def _help(setting: Setting) -> str:
    text = setting.help[0].lower() + setting.help[1:] if setting.help[1:2].islower() else setting.help
    default = f" (default {setting.default})" if setting.default and setting.kind != "BOOL" else ""
    return (text + default).replace("%", "%%")


class _OnOrOff(argparse.Action):
    """--use-gzip and --no-use-gzip."""

    def __init__(self, **given: Any) -> None:
        super().__init__(nargs=0, **given)

    def __call__(self, _: Any, args: argparse.Namespace, __: Any, option: Optional[str] = None) -> None:
        setattr(args, self.dest, "0" if option in self.option_strings[1:] else "1")


class _HelpAll(argparse.Action):
    """--help-all"""

    def __call__(self, parser: Any, *_: Any) -> None:
        parser.print_help(whole=True)
        parser.exit()


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds an option for each setting, and for settings of 0 and 1 also one with no-."""
    parser.add_argument("--help-all", nargs=0, action=_HelpAll, help="show the options of all settings and exit")
    for heading, rows in GROUPS:
        group = parser.add_argument_group(heading.lower())
        for row in rows:
            setting = Setting(*row)
            if setting.kind == "BOOL":
                on = " (default: 1)" if setting.default in ON else ""
                action = group.add_argument(setting.option, setting.option.replace("--", "--no-", 1), dest=setting.field, action=_OnOrOff,
                                            help=_help(setting) + on)
            else:
                action = group.add_argument(setting.option, dest=setting.field, metavar=_values(setting), help=_help(setting))
            action.rare = setting.name not in COMMON  # type: ignore[attr-defined]


def _in_the_way(found: Dict[str, str]) -> Iterator[Tuple[str, str]]:
    """(an option that the library would ignore because of other settings, the reason)"""
    def said(name: str) -> str:
        return by_name()[name].option if name in found else name

    environment = {**os.environ, **found}

    def is_set(name: str) -> bool:
        return in_force(environment, name).strip() != ""

    if is_set("CPROF_STEPS"):
        yield from ((name, f"{said('CPROF_STEPS')} says which steps are recorded; give one of the two") for name in CYCLE)
    elif in_force(environment, "CPROF_SCHEDULE_SCOPE").strip().lower() == "none":
        yield from ((name, f"counts nothing with {said('CPROF_SCHEDULE_SCOPE')}=none") for name in CYCLE[1:])
    if is_set("CPROF_TENSORBOARD_DIR"):
        yield from ((name, f"{said('CPROF_TENSORBOARD_DIR')} says where traces go; give one of the two") for name in ("CPROF_FOLDER", "CPROF_FILENAME"))
    uploads = is_set("CPROF_REMOTE_URL") and environment.get("CPROF_REMOTE_FILE_NAME", "-").strip().lower() not in ("", "none")
    if found.get("CPROF_NUM_TRACES_TO_KEEP", "").strip() == "0" and not uploads and not is_set("CPROF_ON_TRACE_READY"):
        yield "CPROF_NUM_TRACES_TO_KEEP", "keeps no trace at all without --remote-url or --on-trace-ready"


def chosen(args: argparse.Namespace) -> Dict[str, str]:
    """The checked settings of the options: {"CPROF_ACTIVE": "3"}."""
    found = {}
    for setting in all_settings():
        value = getattr(args, setting.field, None)
        if value is None:
            continue
        wrong = what_is_wrong(setting, value) or later_problem(setting.name, value)
        if wrong:
            raise Problem(f"{shown(setting.option, value)}: {wrong}")
        found[setting.name] = value
    for name, why in _in_the_way(found):
        if name in found and found[name].strip():
            raise Problem(f"{by_name()[name].option}: {why}")
    return found
