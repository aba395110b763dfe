# SPDX-License-Identifier: Apache-2.0
"""The parts of gpu_check, most valuable first, with the seconds that each may take on hardware. The
plan is for a GPU machine that is lent for 15 minutes, in calls of at most 10 minutes."""

import collections

from gpu_check import build, compare, cost, features, guest, programs, versions

TOTAL, CALL = 900, 600  # seconds of the machine, and of one call
START = 60  # seconds to start the machine
SPARE = 20  # seconds of a call, to end it and fetch the results

# seconds: the limit; simulated: whether it is in the default run on the simulated GPU; hardware: what the
# simulation cannot show and lists as "not run", or "".
Part = collections.namedtuple("Part", "name function seconds simulated shows hardware")

PARTS = [
    Part("build", build.run_build, 40, True, "the library and the programs of tests/gpu, unless --prepare made them", ""),
    # The ten checks of a review of the GPU code. The ninth lacks cprof's own clock on CUPTI 13.0: cprof no longer gives CUPTI a clock.
    Part("again", guest.run_again, 15, True, "later windows of a program that never pauses",
         "that no thread is in a CUDA call when kinds go off"),
    Part("after", cost.run_after, 75, True, "1. cost in C: never armed, recording, after a window, and with CUPTI kept after it",
         "whether training is slower once CUPTI was used (pytorch#144455: 10 to 20 %)"),
    Part("graphs", cost.run_graph_cost, 55, True, "2. cost of graphs: by node, as a whole, after a window",
         "what CUPTI's records of graph nodes cost on a device (parca-agent#3213)"),
    Part("memory", guest.run_memory, 50, True, "3. memory of device and process over 5 M graph nodes, in each mode",
         "how much device memory CUPTI's records take, and whether it grows (parcagpu#23)"),
    Part("clock", cost.run_clock, 35, True,
         "4. times bounded from both sides, over idle gaps of 8 s; kernels of a stream and of several",
         "the map of a device's real clock to the host's"),
    Part("carried", versions.run_carried, 60, True, "5. and 9. CUPTI 13.5, carried: C programs, clock, second client; CUPTI 12.8",
         "that CUPTI 13.5 lays its records out as its headers say; CUPTI 12.8 on a newer driver"),
    Part("edges", guest.run_edges, 15, True, "6. steps that begin and end while a kernel waits for another thread",
         "whether a call of CUPTI's waits for the device, as NCCL's deadlocks would show"),
    Part("whole", guest.run_whole_then, 25, True, "7. CPROF_GPU_GRAPHS=whole, then another client's graphs",
         "whether graph-level tracing can be switched off again; torch.profiler after it"),
    Part("forks", guest.run_forks, 25, True, "8. 500 forks beside a thread that launches, each child with a limit",
         "the locks that CUPTI and the driver hold across fork"),
    Part("torch", compare.run_torch, 160, False, "10. CUDA graphs, compile, AMP, DataLoader, CNN, attention against torch.profiler",
         "PyTorch's kernels, copies and graphs against torch.profiler's"),
    Part("paths", compare.run_paths, 35, False, "the other ways to record operators (CPROF_TORCH_PATH) against torch.profiler",
         "operators of each way with kernels below them"),
    Part("tools", programs.run_tools, 20, True, "10. compute-sanitizer and nsys beside cprof", "NVIDIA's tools beside cprof"),
    # Costs, other clients, everything else.
    Part("torch_cost", cost.run_torch_cost, 100, False, "cost in PyTorch: idle, recording, after, torch.profiler; three loads",
         "what recording costs in PyTorch, and what torch.profiler costs there"),
    Part("clients", guest.run_clients, 35, True, "clients like Kineto, JAX and Proton before, during and after a window",
         "whether a CUPTI of 13.3 and newer refuses a second client"),
    Part("programs", programs.run_programs, 50, True, "each program of tests/gpu: all that it launched is in the trace, and in its summary", ""),
    Part("raw", programs.run_raw, 10, True, "raw buffers of CUPTI, for tests that replay them", "buffers of this CUPTI"),
    Part("telemetry", cost.run_telemetry, 20, True, "clocks, power and activity by NVML: what is read, and what it costs",
         "NVML's calls and GPM on a device: values, time for each, and what they cost"),
    Part("window", cost.run_window, 10, True, "how long the start and the end of a window block the stepping thread", "CUPTI's share of that time"),
]
# Parts for the time that is left: they passed on an H200.
MORE = [
    Part("features", features.run_features, 60, False, "one PyTorch script a feature", "PyTorch's features with a GPU"),
    Part("flight_cost", cost.run_flight_cost, 60, False, "cost of the flight recorder in PyTorch, without and with kernels",
         "what the flight recorder costs beside a device"),
    Part("libraries", compare.run_libraries, 30, True, "JAX and CuPy", "JAX, CuPy and Triton"),
]
BY_NAME = {part.name: part for part in [*PARTS, *MORE]}
NEVER = ["MIG, vGPU, MPS, confidential computing", "Grace (aarch64 processors), Blackwell",
         "conditional graphs, graphs launched by the device, kernels launched by kernels", "several GPUs"]


def calls():
    """The parts of PARTS, in order, split into calls that each end in time. build is in the first call and takes no time later."""
    found, seconds = [[]], 0
    for part in PARTS:
        if seconds + part.seconds > CALL - SPARE:
            found.append([])
            seconds = 0
        found[-1].append(part)
        seconds += part.seconds
    return found


def seconds_of(parts):
    return sum(part.seconds for part in parts)


def table():
    """The output of --plan."""
    lines = [f"{'part':<12}{'seconds':>8}{'call':>6}  what it shows"]
    for number, parts in enumerate(calls(), 1):
        lines += [f"{part.name:<12}{part.seconds:>8}{number:>6}  {part.shows}" for part in parts]
    lines.append(f"{'total':<12}{seconds_of(PARTS):>8}        of {TOTAL}; starting the machine takes about {START}")
    lines += [f"{part.name:<12}{part.seconds:>8}     -  in the time left: {part.shows}" for part in MORE]
    for number, parts in enumerate(calls(), 1):
        names = ",".join(part.name for part in parts)
        lines.append(f"call {number}: scripts/gpu_check.sh --real --limit {CALL - SPARE} --parts {names}")
    return "\n".join(lines)


def note_hardware(check, names):
    """Notes what this run cannot show."""
    for part in BY_NAME.values():
        if part.hardware and (check.sim or part.name not in names):
            check.not_run.append(f"{part.name}: {part.hardware}")
    check.not_run += NEVER
