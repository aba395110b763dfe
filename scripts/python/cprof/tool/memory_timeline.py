# SPDX-License-Identifier: Apache-2.0
"""Writes tensor memory over time by category, like torch.profiler's export_memory_timeline(), from a trace.

The name of FILE chooses the form. With .html it is a page with charts. With .json and .json.gz it holds [times, sizes by
category]. With .raw.json and .raw.json.gz it holds a row [time, action, bytes, category] for each allocation and release.

The category of memory follows from where it was taken and released, since a trace does not know the tensors:
    optimizer state   taken in an optimizer's step, and kept beyond it
    gradient          taken in the backward pass, and kept beyond it
    autograd detail   taken in the backward pass, released later in it
    activation        taken before the backward pass, released in it
    input             taken in a DataLoader
    temporary         released by the operator that took it, or in the same step without a backward pass
    kept              taken by an operator of the forward pass, and held beyond its step, as a leak is; unknown in JSON
    unknown           all other memory, such as parameters, which were there before the trace

`cprof memory` prints the holders.
"""

import argparse
import json
import os
from typing import Any, Iterable, Optional

from cprof.tool import Problem
from cprof.tool.given import add_traces, trace_of
from cprof.tool.memory import chosen, read
from cprof.tool.memory_page import page
from cprof.tool.memory_use import torchs
from cprof.tool.output import end_tidily, keep_apart, replacing

HELP = "write tensor memory over time by category, as a page or as torch's JSON"
ENDINGS = (".html", ".raw.json", ".raw.json.gz", ".json", ".json.gz")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_traces(parser, one=True)
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="ends in " + ", ".join(ENDINGS))
    parser.add_argument("--device", metavar="DEVICE", help="cpu, cuda:N (default: cuda:0 if the trace has it, else cpu)")


def run(args: argparse.Namespace) -> int:
    end_tidily()
    export(trace_of(args.traces), args.output, args.device, progress=True)
    return 0


def export(trace_path: str, path: str, device: Optional[str] = None, progress: bool = False) -> None:
    """Writes the timeline of a trace; the ending of the path chooses the form. Raises a Problem."""
    if not path.endswith(ENDINGS):
        raise Problem(f"the name must end in {' or '.join(ENDINGS)}", path)
    keep_apart(path, [trace_path])
    spans, found = read(trace_path, progress, path.endswith(".html"))
    line = chosen(found, device or ("cuda:0" if "cuda:0" in found else "cpu" if "cpu" in found else min(found)), trace_path)
    if path.endswith(".html"):
        others = [] if device else [found[name] for name in sorted(found) if found[name] is not line]
        text = page(os.path.basename(trace_path), [line] + others, spans.steps)
        with replacing(path) as file:
            file.write(text)
        return
    base = spans.metadata.get("baseTimeNanoseconds")
    base = base if type(base) is int else 0
    with replacing(path, packed=path.endswith(".gz")) as file:
        if ".raw.json" in path:
            _write_list(file, ([time if time < 0 else base + time, action, size, torchs(category)] for time, action, size, category in line.actions()))
            return
        file.write("[")
        _write_list(file, (us for us, _ in line.coalesced(base)))
        file.write(", ")
        _write_list(file, (sizes for _, sizes in line.coalesced(base)))
        file.write("]")


def _write_list(file: Any, values: Iterable[Any]) -> None:
    """Writes a list as json.dump() does, one value at a time."""
    file.write("[")
    for n, value in enumerate(values):
        file.write((", " if n else "") + json.dumps(value))
    file.write("]")
