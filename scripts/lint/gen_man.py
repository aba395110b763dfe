#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes scripts/man/: the manual pages and shell completions, from the sources of the command and the library.

    cprof.1, cprof-COMMAND.1             from the arguments that each sub-command declares
    cprof.3                              from preload/cprof.h
    cprof-settings.7                     from preload/settings/config.def
    cprof.bash, _cprof (zsh), cprof.fish from the same arguments

`--check` only compares, and exits 1 if one of them is not up to date.
"""

import argparse
import collections
import importlib
import pathlib
import re
import sys

import gen_settings

ROOT = gen_settings.ROOT
MAN = ROOT / "scripts/man"
sys.path.insert(0, str(ROOT / "scripts/python"))
tool = importlib.import_module("cprof.tool")
VERSION = tool.__version__


def roff(text):
    """The text escaped for a page, so that nothing in it is a request or an escape."""
    text = text.replace("…", "...").replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = re.sub(r"\bCPROF_\w", r"\\%\g<0>", text)  # no hyphen in a setting's name, which people search for
    return "\n".join("\\&" + line if line.startswith((".", "\\(aq")) else line for line in text.split("\n"))


def head(name, section, what):
    return ['.\\" SPDX-License-Identifier: Apache-2.0', '.\\" Made by scripts/lint/gen_man.py: change what it is made from.',
            f'.TH {name.upper()} {section} "" "cprof {VERSION}" "cprof"', ".ad l", ".SH NAME", f"{roff(name)} \\- {roff(what)}"]


def prose(text):
    """Paragraphs; indented lines keep their layout."""
    lines = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        if re.match(r" {2,}", paragraph):
            body = "\n".join(line[2:] if line.startswith("  ") else line for line in paragraph.rstrip().split("\n"))
            lines += [".PP", ".nf", ".RS", roff(body), ".RE", ".fi"]
            continue
        # A paragraph may continue as an indented list.
        before, _, after = paragraph.partition("\n    ")
        lines += [".PP", roff(" ".join(before.split()))]
        if after:
            lines += [".nf", ".RS", roff("\n".join(line.strip() for line in ("    " + after).split("\n"))), ".RE", ".fi"]
    return lines


def parser_of(command):
    module = importlib.import_module("cprof.tool." + command.replace("-", "_"))
    parser = argparse.ArgumentParser(prog=f"cprof {command}", description=module.__doc__ or module.HELP)
    module.add_arguments(parser)
    return module, parser


def metavar(action):
    if action.nargs == 0:
        return ""
    name = action.metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper())
    return name if isinstance(name, str) else " ".join(name)


def help_of(action):
    return " ".join(((action.help or "") % {**vars(action), "prog": "cprof"}).split())


def is_setting(parser, action):
    """Whether an option is a setting of the library: those have their own groups."""
    return any(action in group._group_actions for group in parser._action_groups[2:])


def synopsis_of(positional):
    """An argument in the synopsis, in brackets if it may be left out."""
    name = f"\\fI{roff(metavar(positional))}\\fR" + (" ..." if positional.nargs in ("*", "+") else "")
    return f"[{name}]" if positional.nargs in ("*", "?") else name


def option_item(action):
    shown = metavar(action)
    names = [", ".join(f"\\fB{roff(name)}\\fR" for name in action.option_strings), f"\\fI{roff(shown)}\\fR" if shown else ""]
    return [".TP", " ".join(filter(None, names)), roff(help_of(action)) or "\\&"]


def command_page(command):
    module, parser = parser_of(command)
    own = [action for action in parser._actions if not is_setting(parser, action) and action.help != argparse.SUPPRESS]
    settings = [action for action in parser._actions if is_setting(parser, action)]
    positional = [synopsis_of(action) for action in own if not action.option_strings]
    lines = head(f"cprof-{command}", 1, module.HELP)
    after = roff(parser.usage.partition(command)[2].strip()) if parser.usage else " ".join(["[\\fIoptions\\fR]", *positional])
    lines += [".SH SYNOPSIS", f".B cprof {roff(command)}", after]
    lines += [".SH DESCRIPTION"] + prose(parser.description)
    lines.append(".SH OPTIONS")
    for action in own:
        lines += option_item(action)
    if settings:
        lines += [".SH SETTINGS", "Each setting of the library is an option; cprof\\-settings(7) describes them."]
        for action in settings:
            lines += [".TP", option_item(action)[1], f"\\fB\\%CPROF_{action.option_strings[0][2:].replace('-', '_').upper()}\\fR"]
    if parser.epilog:
        lines += [".SH NOTES"] + prose(parser.epilog)
    lines += [".SH EXIT STATUS", "0 on success, 2 on wrong input or usage, 128 + N after signal N."]
    if command == "run":
        lines.append("After the program was started, its exit status.")
    if command == "check":
        lines.append("1 if it found an error.")
    if command == "doctor":
        lines.append("1 if something does not work.")
    if command == "compare":
        lines.append("1 if a step got slower by more than \\-\\-fail\\-above allows.")
    return lines + [".SH SEE ALSO", "cprof(1), cprof\\-settings(7)"]


def main_page():
    lines = head("cprof", 1, "profiler for the CPU and the GPU, and reader of traces")
    lines += [".SH SYNOPSIS", ".B cprof", "\\fICOMMAND\\fR [\\fIoptions\\fR]", ".PP", ".B LD_PRELOAD=libcprof.so", "\\fIPROGRAM\\fR"]
    lines += [".SH DESCRIPTION"] + prose("cprof shows what a training job does on the CPU and the GPU, without changes to its code. The "
                                         "commands read traces of cprof and of torch.profiler, plain or gzip, complete, open or cut off.")
    lines.append(".SH COMMANDS")
    for command in tool.COMMANDS:
        lines += [".TP", f"\\fBcprof\\-{roff(command)}\\fR(1)", roff(parser_of(command)[0].HELP)]
    lines += [".SH EXAMPLES", ".nf", ".RS"]
    lines += [roff(text) for text in ("cprof run -- python train.py", "cprof explain", "cprof top", "cprof open")]
    return lines + [".RE", ".fi", ".SH SEE ALSO", "cprof\\-settings(7), cprof(3)"]


def settings_page():
    lines = head("cprof-settings", 7, "settings of the profiler cprof")
    lines += [".SH DESCRIPTION"] + prose("All settings are environment variables; cprof-run(1) takes each as an option. A bad value, or an unknown "
                                         "CPROF_ name, gets one line on stderr; the default is kept. A switch (0 1) also takes no, false, off, yes, "
                                         "true and on.")
    for heading, members in gen_settings.groups():
        members = [row for _, row in members if row[7] != "INTERNAL"]
        if members:
            lines.append(f".SH {heading.upper()}")
        for name, kind, _field, default, low, high, allowed, _state, text in members:
            values = gen_settings.values_text(kind, low, high, allowed).replace("`", "")
            lines += [".TP", f"\\fB{name}\\fR" + (f"={roff(default)}" if default else ""), roff(f"{text}. Values: {values}.")]
    variables, folder = gen_settings.template_variables()
    lines += [".SH TEMPLATES"] + prose("File names take these variables; folders take the first " + str(folder) + ": "
                                       + ", ".join("{" + name + "}" for name in variables) + ".")
    return lines + [".SH SEE ALSO", "cprof(1), cprof\\-run(1), cprof(3)"]


def c_comment(text):
    return " ".join(re.sub(r"^\s*\*", "", line).strip() for line in text.split("\n")).strip()


def interface_page():
    """The sections of cprof.h after the code by which a call finds the library."""
    text = (ROOT / "preload/cprof.h").read_text()
    first = c_comment(re.search(r"/\*\n \* cprof for programs(.*?)\*/", text, re.S).group(1).split("\n *     #include")[0])
    lines = head("cprof", 3, "marks, steps and ranges for the profiler cprof")
    lines += [".SH SYNOPSIS", ".B #include <cprof.h>", ".SH DESCRIPTION", ".PP", roff("cprof for programs" + first)]
    lines += [".PP", roff("All calls may be made from any thread. None fails, blocks or prints, except where noted. Names are any bytes up to the NUL.")]
    body = text[text.index("/* ---- library "):]
    body = re.sub(r"/\*(?:(?!\*/).)*\*/\n(?=#define)", "", body, flags=re.S)
    body = re.sub(r"^#.*(?:\\\n.*)*", "", body, flags=re.M)
    token = re.compile(r"/\* ---- (?P<section>.*?) -+ \*/|/\*(?P<comment>.*?)\*/|(?P<code>(?:enum|struct) \w+ \{.*?^\};|typedef .*?;)"
                       r"|CPROF_(?P<kind>FUNCTION|PROCEDURE)_\((?P<call>.*?)\);\n|^CPROF_EXPORTED_ (?P<exported>.*?;)", re.S | re.M)
    comment = ""
    for match in token.finditer(body):
        if match["section"]:
            lines.append(f".SH {match['section'].upper()}")
        elif match["comment"]:
            if comment and not comment.startswith("clang"):
                lines += [".PP", roff(comment)]
            comment = c_comment(match["comment"])
            continue
        elif match["code"]:
            lines += [".PP", roff(comment), ".PP", ".nf", roff(match["code"]), ".fi"]
        elif match["exported"]:
            lines += [".TP", f"\\fB{roff(' '.join(match['exported'].split()))}\\fR", roff(comment)]
        else:
            call = " ".join(match["call"].split())
            result, rest = call.split(", ", 1) if match["kind"] == "FUNCTION" else ("void", call)
            name, rest = rest.split(", ", 1)
            depth, end = 0, 0
            for end, char in enumerate(rest):
                depth += (char == "(") - (char == ")")
                if depth == 0:
                    break
            join = "" if result.endswith("*") else " "
            prototype = f"{result}{join}{name}{rest[:end + 1].replace(' * ', ' *')};"
            head_line = f"\\fB{roff(prototype)}\\fR"
            if comment:
                lines += [".TP", head_line, roff(comment)]
            else:  # the comment before describes this one, too
                lines[-1:-1] = [".TQ", head_line]
        comment = ""
    return lines + [".SH SEE ALSO", "cprof(1), cprof\\-settings(7)"]


def option_names(command):
    return [(name, action) for action in parser_of(command)[1]._actions if action.help != argparse.SUPPRESS for name in action.option_strings]


def bash_completion():
    cases = []
    for command in tool.COMMANDS:
        cases.append(f"        {command}) words=\"{' '.join(name for name, _ in option_names(command) if name.startswith('--'))}\" ;;")
    return ["# SPDX-License-Identifier: Apache-2.0", "# Completes the command cprof in bash. Made by scripts/lint/gen_man.py.", "_cprof() {",
            "    local word=${COMP_WORDS[COMP_CWORD]} words=",
            "    if [ \"$COMP_CWORD\" = 1 ]; then", f"        COMPREPLY=($(compgen -W \"{' '.join(tool.COMMANDS)} --help --version\" -- \"$word\"))",
            "        return", "    fi", "    case ${COMP_WORDS[1]} in", *cases, "    esac",
            "    case $word in", "        -*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;", "        *) COMPREPLY=($(compgen -f -- \"$word\")) ;;",
            "    esac", "}", "complete -o filenames -F _cprof cprof"]


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh_completion():
    def described(name, text):
        return quoted(name.replace(":", "\\:") + ":" + text.replace("\\", "").replace(":", " -"))

    lines = ["#compdef cprof", "# SPDX-License-Identifier: Apache-2.0", "# Completes the command cprof in zsh. Made by scripts/lint/gen_man.py.", "_cprof() {",
             "    local -a list", "    if (( CURRENT == 2 )); then", "        list=("]
    lines += [f"            {described(command, parser_of(command)[0].HELP)}" for command in tool.COMMANDS]
    lines += ["        )", "        _describe command list", "        return", "    fi", "    if [[ $PREFIX != -* ]]; then", "        _files", "        return", "    fi",
              "    case $words[2] in"]
    for command in tool.COMMANDS:
        lines.append(f"        {command}) list=(")
        lines += [f"            {described(name, help_of(action))}" for name, action in option_names(command)]
        lines.append("        ) ;;")
    return lines + ["    esac", "    _describe option list", "}", "_cprof \"$@\""]


def fish_completion():
    lines = ["# SPDX-License-Identifier: Apache-2.0", "# Completes the command cprof in fish. Made by scripts/lint/gen_man.py."]
    commands_of = collections.defaultdict(list)  # by the text of an option, which may be the same for several commands
    for command in tool.COMMANDS:
        lines.append(f"complete -c cprof -n __fish_use_subcommand -f -a {command} -d {quoted(parser_of(command)[0].HELP)}".replace("'\\''", "\\'"))
        for name, action in option_names(command):
            kind = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            takes = "" if action.nargs == 0 else " -r"
            text = quoted(help_of(action).replace("\\", "")).replace("'\\''", "\\'")
            commands_of[f"{kind}{takes} -d {text}"].append(command)
    return lines + [f"complete -c cprof -n '__fish_seen_subcommand_from {' '.join(commands)}' {option}" for option, commands in commands_of.items()]


def pages():
    made = {"cprof.1": main_page(), "cprof.3": interface_page(), "cprof-settings.7": settings_page(), "cprof.bash": bash_completion(),
            "_cprof": zsh_completion(), "cprof.fish": fish_completion()}
    made.update({f"cprof-{command}.1": command_page(command) for command in tool.COMMANDS})
    return {name: "\n".join(lines) + "\n" for name, lines in made.items()}


def main():
    check, good = "--check" in sys.argv, True
    made = pages()
    MAN.mkdir(exist_ok=True)
    for name, text in made.items():
        path = MAN / name
        good &= gen_settings.update(path, path.read_text() if path.is_file() else "", text, check)
    for path in MAN.iterdir():
        if path.name not in made:
            print(f"scripts/man/{path.name}: has no source; remove it")
            good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
