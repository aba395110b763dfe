# SPDX-License-Identifier: Apache-2.0
"""Compares the keys of each category of events in cprof's traces and in real Kineto traces. Each difference must be in MEANT with its
reason, and each entry of MEANT must be a difference.

    problems = kineto_keys.problems(our_traces, kineto_traces)          # traces that together hold every kind of event
    problems = kineto_keys.problems([trace], kineto_traces, whole=False)  # a trace that holds some kinds of events
"""

import collections

ALL = ""  # as a key: the whole category

NEWER = "CUPTI of CUDA 12 and newer, as Kineto writes it there; the stored Kineto traces are older"
GRAPH = "of a CUDA graph; the stored Kineto traces have none"
SHAPES = "not recorded by cprof"
GROUP = "members of a group by number; cprof writes Group size, Rank and Comms Id"

# category -> key -> why only one side has it. Categories: `cat` of X and i events; `cat ph` of arrows; `M name`; and
# deviceProperties.
MEANT = {
    "cpu_op": {
        "Ev Idx": "an index into torch's own list of events; cprof has no such list",
        "kernel_file": "keyword of one Triton operator", "kernel_hash": "keyword of one Triton operator",
        "kernel_backend": "keyword of one Triton operator", "grid": "keyword of one Triton operator",
        "stream": "keyword of one Triton operator; HTA would take our row for a kernel's",
        "Process Group ID": "of an older torch", "Process Group Ranks": GROUP, "Global rank start": GROUP, "Global rank stride": GROUP,
    },
    "user_annotation": {
        "Ev Idx": "an index into torch's own list of events; cprof has no such list",
        "Concrete Inputs": SHAPES,
        "Input Dims": "shapes of a range, which the stored CPU trace alone has", "Input type": "as Input Dims",
        "thread": "who marked the end of a step; Kineto's steps lie on that thread's row, cprof's on one of their own",
    },
    "kernel": {
        "priority": NEWER, "channel": NEWER, "channel_type": NEWER,
        "graph id": GRAPH, "graph node id": GRAPH,
        "captured by": "the operator that captured the graph's node; Kineto knows only who launched the graph",
        "captured in": "its name",
    },
    "gpu_memcpy": {"channel": NEWER, "channel_type": NEWER},
    "gpu_memset": {"channel": NEWER, "channel_type": NEWER},
    "cuda_driver": {ALL: "the simulated training makes no driver call of its own"},
    "cuda_memory": {ALL: "driver memory, which Kineto does not record"},
    "overhead": {ALL: "the stored Kineto traces have none"},
    "cpu_instant_event": {ALL: "the stored Kineto traces were made without profile_memory"},
    "Trace": {ALL: "the profiler's own window; the file is the window, and TensorBoard falls back to it"},
    "i": {ALL: "Iteration Start and Record Window End: marks of Kineto's own run"},
}


def keys(traces):
    """{category: names of the args}; for arrows, the keys of the event itself."""
    found = collections.defaultdict(set)
    for trace in traces:
        for device in trace.get("deviceProperties") or ():
            found["deviceProperties"] |= device.keys()
        for e in trace["traceEvents"]:
            ph = e.get("ph")
            if ph == "M":
                found[f"M {e['name']}"] |= e.get("args", {}).keys()
            elif ph in ("s", "t", "f"):
                found[f"{e.get('cat')} {ph}"] |= e.keys()
            elif ph in ("X", "i"):
                found[e.get("cat") or ph] |= e.get("args", {}).keys()
    return found


def differences(ours, theirs):
    """{category: {key: the side that has it, "ours" or "Kineto's"}}."""
    ours, theirs = keys(ours), keys(theirs)
    result = collections.defaultdict(dict)
    for category in ours.keys() | theirs.keys():
        if category not in ours or category not in theirs:
            result[category][ALL] = "ours" if category in ours else "Kineto's"
            continue
        for key in ours[category] ^ theirs[category]:
            result[category][key] = "ours" if key in ours[category] else "Kineto's"
    return result


def problems(ours, theirs, whole=True, meant=None):
    """Differences without a reason and reasons without a difference, as text. Not whole: only keys that Kineto lacks."""
    meant = MEANT if meant is None else meant
    found = differences(ours, theirs)
    lines = []
    for category, inner in sorted(found.items()):
        for key, side in sorted(inner.items()):
            if key not in meant.get(category, {}) and (whole or side == "ours"):
                lines.append(f"{category}: only {side}: {key or 'the category'}")
    if whole:
        for category, inner in sorted(meant.items()):
            lines += [f"{category}: {key or 'the category'} is in MEANT and differs no more"
                      for key in sorted(inner) if key not in found.get(category, {})]
    return lines
