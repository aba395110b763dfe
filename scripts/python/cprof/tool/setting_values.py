# SPDX-License-Identifier: Apache-2.0
"""Checks the values of settings. The rules are those of the library, which keeps its default where it refuses one: parse.c and
config.c in preload/, and for single settings trigger.c, peaks.c, upload.c and post_save.c. test_command_settings.py compares both."""

import re
import signal
from typing import List, Optional

from cprof.tool.settings_table import FILE_VARIABLES, FLOP_CLASSES, FOLDER_VARIABLES

NO_LIMIT, MOST_RANGES = 2147483647, 64  # preload/settings/step_ranges.h
MOST_WORDS = 255                        # preload/delivery/post_save.c
ON, OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
# A word of CPROF_ON_TRACE_READY, with quotes and backslashes.
WORD = re.compile(r"""(?:\\.|'[^']*'|"(?:[^"\\]|\\["\\]|\\(?!["\\]))*"|[^ \t\r\n'"\\]|\\\Z)+""", re.S)


# ---- by kind ----

def template_problem(value: str, variables: List[str]) -> Optional[str]:
    """What is wrong with a template for names."""
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


def kind_problem(kind: str, value: str, least: int, most: int, allowed: str) -> Optional[str]:
    """Why the library rejects a value that is not blank while it reads the settings; None if it does not."""
    if kind == "BOOL":
        return None if value.strip().lower() in ON + OFF else "must be 0 or 1 (or false/true, no/yes, off/on)"
    if kind == "INT":
        fits = re.fullmatch(r"-?[0-9]+", value.strip()) and least <= int(value) <= most
        return None if fits else f"must be a whole number from {least} to {most}"
    if kind in ("CHOICE", "STEP") and "|" in allowed:
        return None if _choice_fits(value, allowed) else "must be one of " + allowed.replace("|", ", ")
    if kind == "LIST":
        known = allowed.lower().split("|")
        fits = all(word.strip().lower() in known for word in value.split(","))
        return None if fits else "must be a comma-separated list of " + allowed.replace("|", ", ")
    if kind == "RANGES":
        return _ranges_problem(value)
    if most and len(value.encode("utf-8", "surrogateescape")) > most:
        return f"must be at most {most} bytes long"
    if kind in ("FILE", "FOLDER"):
        return template_problem(value, FILE_VARIABLES if kind == "FILE" else FOLDER_VARIABLES)
    return None


# ---- by name: what the library refuses when it begins to record ----

def _activities(value: str) -> Optional[str]:
    asked = {word.strip().lower() for word in value.split(",")}
    return None if asked & {"cpu", "cuda"} else "xpu and mtia are not supported"


def _trigger(value: str) -> Optional[str]:
    kind, _, name = value.strip().partition(":")
    name, most = name.strip(), signal.SIGRTMAX - signal.SIGRTMIN
    if kind.lower() == "signal":
        match = re.fullmatch(r"(?:SIG)?(?:USR1|USR2|HUP|RTMIN\+\s*([0-9]+))", name, re.IGNORECASE)
        return None if match and int(match[1] or 0) <= most else f"must be one of USR1, USR2, HUP, RTMIN+0 to RTMIN+{most}"
    return template_problem(name, FOLDER_VARIABLES) if kind.lower() == "file" else None


def _is_peak(text: str) -> bool:
    digits = re.fullmatch(r"[ \t]*((?=\.?[0-9])[0-9]*\.?[0-9]*)[ \t]*", text)
    return bool(digits) and 0 < float(digits[1]) < 1e9  # type: ignore[index]


def _peaks(value: str) -> Optional[str]:
    def names_one(item: str) -> bool:
        name, _, number = item.partition("=")
        return name.strip(" \t") in (*FLOP_CLASSES, "cpu") and _is_peak(number)

    if _is_peak(value) or all(map(names_one, value.split(","))):
        return None
    return f"must be a number above 0, or name=number,... with names out of {' '.join(FLOP_CLASSES[::2])} cpu"


def _url(value: str) -> Optional[str]:
    scheme = re.match(r"(?:https?|(s3))://", value, re.IGNORECASE)
    if not scheme:
        return "must begin with http://, https:// or s3://"
    host = re.split("/" if scheme[1] else "[/?#]", value[scheme.end():], maxsplit=1)[0]
    if not host:
        return "names no bucket" if scheme[1] else "names no host"
    if scheme[1] and not re.fullmatch(r"[A-Za-z0-9._-]+", host):
        return "must name a bucket of letters, digits and - . _"
    return "holds a control character" if re.search(r"[\x00-\x1f\x7f]", value) else None


def _command(value: str) -> Optional[str]:
    sound = value.startswith("sh:") or (not WORD.sub("", value).strip(" \t\r\n") and len(WORD.findall(value)) <= MOST_WORDS)
    return None if sound else f"a quote is not closed, or there are more than {MOST_WORDS} words"


_BY_NAME = {"CPROF_ACTIVITIES": _activities, "CPROF_TRIGGER": _trigger, "CPROF_PEAK_TFLOPS": _peaks, "CPROF_REMOTE_URL": _url,
            "CPROF_ON_TRACE_READY": _command}


def later_problem(name: str, value: str) -> Optional[str]:
    """Why the library refuses a value of the right kind when it begins to record; None if it does not."""
    return _BY_NAME[name](value) if name in _BY_NAME and value.strip() else None
