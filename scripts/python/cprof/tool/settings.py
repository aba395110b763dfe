# SPDX-License-Identifier: Apache-2.0
"""The library's settings as options of a sub-command, and the check of their values. The rules are those of
preload/core/parse.c and config.c; settings_table.py describes the settings."""

import argparse
import re
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional

from cprof.tool import Problem
from cprof.tool.settings_table import FILE_VARIABLES, FOLDER_VARIABLES, GROUPS

# The settings that `--help` shows; the others are in `--help-all`.
COMMON = ("CPROF_STEPS", "CPROF_WARMUP", "CPROF_ACTIVE", "CPROF_REPEAT", "CPROF_STEP", "CPROF_RUN_NAME", "CPROF_RECORD_SHAPES",
          "CPROF_WITH_STACK", "CPROF_WITH_MODULES", "CPROF_TRIGGER")
CYCLE = ("CPROF_SCHEDULE_SCOPE", "CPROF_SKIP_FIRST", "CPROF_WAIT", "CPROF_WARMUP", "CPROF_ACTIVE", "CPROF_REPEAT", "CPROF_SKIP_FIRST_WAIT")
NO_LIMIT, MOST_RANGES = 2147483647, 64  # preload/settings/step_ranges.h
ON, OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


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

def _template_problem(value: str, variables: List[str]) -> Optional[str]:
    rest = value.replace("{{", "").replace("}}", "")
    for name in re.findall(r"\{([^{}]*)\}", rest):
        if name not in variables:
            return f"unknown variable {{{name}}}; allowed: {' '.join('{%s}' % v for v in variables)}"
    if re.search(r"[{}]", re.sub(r"\{[^{}]*\}", "", rest)):
        return "unbalanced brace (write {{ or }} for a brace)"
    return None


def _ranges_problem(value: str) -> Optional[str]:
    before = -1
    ranges = value.split(",")
    for text in ranges:
        match = re.fullmatch(r"\s*([0-9]+)\s*(?:-\s*([0-9]+)\s*)?", text)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, NO_LIMIT + 1)
        if max(first, last) > NO_LIMIT:
            return f"must be steps from 0 to {NO_LIMIT}, as 10 or 10-13 or 10-13,50-53"
        if last < first:
            return f"{first}-{last} ends before it begins"
        if first <= before:
            return f"steps must ascend, but {first} follows {before}"
        before = last
    return None if len(ranges) <= MOST_RANGES else f"must name at most {MOST_RANGES} ranges"


def _choice_fits(value: str, allowed: str) -> bool:
    word = value.strip().lower()
    return any(word.startswith(choice.split(":")[0].lower() + ":") and len(word) > choice.index(":") + 1
               if ":" in choice else word == choice.lower() for choice in allowed.split("|"))


def shown(name: str, value: str) -> str:
    """NAME=value for a line of output. Hides an upload address, which may hold a password."""
    return f"{name}={'(set)' if name in ('CPROF_REMOTE_URL', '--remote-url') else value}"


def what_is_wrong(setting: Setting, value: str) -> Optional[str]:
    """Why the library would reject the value; None if it would not. An empty value means the default."""
    if not value.strip():
        return None
    if setting.kind == "BOOL":
        return None if value.strip().lower() in ON + OFF else "must be 0 or 1"
    if setting.kind == "INT":
        fits = re.fullmatch(r"-?[0-9]+", value.strip()) and setting.least <= int(value) <= setting.most
        return None if fits else f"must be a whole number from {setting.least} to {setting.most}"
    if setting.kind in ("CHOICE", "STEP") and "|" in setting.allowed:
        fits = _choice_fits(value, setting.allowed)
        return None if fits else "must be one of " + setting.allowed.replace("|", ", ")
    if setting.kind == "LIST":
        known = setting.allowed.lower().split("|")
        fits = all(word.strip().lower() in known for word in value.split(","))
        return None if fits else "must be a comma-separated list out of " + setting.allowed.replace("|", ", ")
    if setting.kind == "RANGES":
        return _ranges_problem(value)
    if setting.most and len(value.encode("utf-8", "surrogateescape")) > setting.most:
        return f"must be at most {setting.most} bytes long"
    if setting.kind in ("FILE", "FOLDER"):
        return _template_problem(value, FILE_VARIABLES if setting.kind == "FILE" else FOLDER_VARIABLES)
    return None


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


def chosen(args: argparse.Namespace) -> Dict[str, str]:
    """The checked settings of the options: {"CPROF_ACTIVE": "3"}."""
    found = {}
    for setting in all_settings():
        value = getattr(args, setting.field, None)
        if value is None:
            continue
        wrong = what_is_wrong(setting, value)
        if wrong:
            raise Problem(f"{shown(setting.option, value)}: {wrong}")
        found[setting.name] = value
    for name in CYCLE:
        if name in found and "CPROF_STEPS" in found:
            raise Problem(f"{by_name()[name].option}: --steps says which steps are recorded; give one of the two")
    return found
