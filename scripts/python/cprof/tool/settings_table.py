# SPDX-License-Identifier: Apache-2.0
"""The settings of libcprof.so and what else the command knows of it. Made by scripts/lint/gen_settings.py from the lists in
preload/: change those."""

# (heading, [(name, kind, default, least, most, allowed, help)])
GROUPS = [
    ('Schedule', [
        ('CPROF_SKIP_FIRST', 'INT', '0', 0, 2147483647, '', 'Steps to skip at the start, once'),
        ('CPROF_WAIT', 'INT', '0', 0, 2147483647, '', 'Idle steps at the start of each cycle'),
        ('CPROF_WARMUP', 'INT', '1', 0, 2147483647, '', 'Steps after the wait in which recording is armed. Only their marks are kept'),
        ('CPROF_ACTIVE', 'INT', '4', 1, 2147483647, '', 'Steps recorded in each cycle. A trace is saved after the last'),
        ('CPROF_REPEAT', 'INT', '1', 0, 2147483647, '', 'Number of cycles. 0 goes on until the program ends'),
        ('CPROF_SKIP_FIRST_WAIT', 'BOOL', '0', 0, 1, '0|1', 'Leave out the wait of the first cycle'),
        ('CPROF_SCHEDULE_SCOPE', 'CHOICE', 'run', 0, 0, 'run|epoch|none', 'What the schedule counts: steps of the run, batches of each epoch, or nothing. The end of an epoch saves what is active. With none, everything from start to exit is recorded'),
        ('CPROF_STEPS', 'RANGES', '', 0, 0, 'N, N-N, or several of them after commas', 'Record these steps instead of cycles, for example 10-13,50-53. Both ends are included, and steps have the number of their ProfilerStep#. Each range becomes a trace. It warms up for one step, and the other settings of the schedule do not apply'),
        ('CPROF_STEP', 'STEP', 'auto', 0, 1023, 'auto|manual|dataloader|forward|optimizer:GLOB|nvtx:GLOB|itt:GLOB|symbol:NAME', 'What marks a step. With optimizer:GLOB it is the end of each step() of an optimizer whose class name matches. With nvtx:GLOB it is the end of an NVTX range, or an NVTX mark, whose name or domain/name matches. With itt:GLOB it is an ITT task or mark. With symbol:NAME it is each call of an exported function'),
    ]),
    ('Where traces go', [
        ('CPROF_FOLDER', 'FOLDER', '{run_name}/torch_traces', 1, 4000, 'a folder template', 'Folder of the traces, below the one in which the process began unless it begins with /. Takes {run_name} {rank} {local_rank} {world_size} {local_world_size} {node_rank}'),
        ('CPROF_FILENAME', 'FILE', 'rank{rank}.{batch}.pt.trace.json', 1, 1000, 'a file name template', 'File name of a trace. Takes all sixteen variables'),
        ('CPROF_RUN_NAME', 'TEXT', '', 0, 1023, 'any text', "The run's name. By default the launcher's run or job id, else script name and start time"),
        ('CPROF_OVERWRITE', 'BOOL', '0', 0, 1, '0|1', "1 replaces a trace of the same name. 0 stops when the folder holds this rank's traces of another run"),
        ('CPROF_USE_GZIP', 'BOOL', '0', 0, 1, '0|1', 'Compress traces. Names that lack .gz get it; a name that ends in .gz means 1'),
        ('CPROF_NUM_TRACES_TO_KEEP', 'INT', '-1', -1, 2147483647, '', 'Newest local traces to keep. -1 keeps all; 0 needs an upload target or an on-ready command. A trace whose upload or command failed stays'),
        ('CPROF_REMOTE_FILE_NAME', 'FILE', '{run_name}/torch_traces/rank{rank}.{batch}.pt.trace.json', 0, 4000, 'a name template, or none', 'Name of the uploaded trace. An empty name or none uploads nothing'),
        ('CPROF_REMOTE_URL', 'TEXT', '', 0, 4000, 'http://…, https://… or s3://BUCKET/PREFIX', 'Upload finished traces below this URL with curl: by PUT, or to S3 with the AWS_* variables. Nothing is ever deleted there'),
        ('CPROF_TENSORBOARD_DIR', 'FOLDER', '', 0, 4000, 'a folder template', "Folder of the traces instead of CPROF_FOLDER and CPROF_FILENAME, with the names that TensorBoard's profiler plugin reads"),
        ('CPROF_TENSORBOARD_WORKER', 'FILE', '', 0, 1000, 'a name template', 'Worker name for TensorBoard, by default HOSTNAME_PID. Takes all sixteen variables'),
        ('CPROF_ON_TRACE_READY', 'TEXT', '', 0, 4000, 'a command, or sh:TEXT', 'Command to run for each finished trace, one at a time, with its path as last argument. It runs without a shell unless it begins with sh:'),
        ('CPROF_UPLOAD_DEADLINE_MS', 'INT', '60000', 0, 3600000, '', 'Longest wait at exit for uploads and on-ready commands, in ms'),
        ('CPROF_TRACE_HANDLERS', 'TEXT', '', 0, 4000, 'comma-separated: PATH.so[=ARGUMENT]', 'Shared objects that get markers, steps and traces while they happen'),
    ]),
    ('What is recorded', [
        ('CPROF_ACTIVITIES', 'LIST', 'cpu,cuda', 0, 0, 'cpu|cuda|xpu|mtia', 'What to record: operators (cpu), GPU (cuda). xpu and mtia are not supported'),
        ('CPROF_GPU_GRAPHS', 'CHOICE', 'nodes', 0, 0, 'nodes|whole', 'CUDA graphs: a row for each node, or one for each launch. The latter costs less (CUDA 12.6 or newer)'),
        ('CPROF_GPU_TELEMETRY', 'BOOL', '1', 0, 1, '0|1', 'Record clocks, power, temperature, throttling, memory and activity of the GPUs that the program uses, ten times a second while a window records. Needs NVML, which comes with the driver'),
        ('CPROF_RECORD_SHAPES', 'BOOL', '0', 0, 1, '0|1', 'Write the inputs of operators: shapes, strides, types and the values of scalars'),
        ('CPROF_PROFILE_MEMORY', 'BOOL', '1', 0, 1, '0|1', 'Record tensor memory'),
        ('CPROF_WITH_STACK', 'BOOL', '0', 0, 1, '0|1', 'Record the Python stack of operators, CUDA calls, allocations and markers, and the native stack below it'),
        ('CPROF_NATIVE_STACK', 'BOOL', '1', 0, 1, '0|1', 'With stacks: record the native frames below the Python ones, too. They cost more'),
        ('CPROF_STACK_ARGS', 'CHOICE', 'python', 0, 0, 'all|python|none', 'With stacks: which frames stand as Call stack in the args of each event, where viewers show them. The value all adds the native frames, for much larger files. The value none leaves the whole stack in stackFrames only, where it always stands'),
        ('CPROF_MAX_STACKS', 'INT', '65536', 256, 4194304, '', 'With stacks: most distinct stacks kept, about 1 KB each at worst. Events beyond have no stack and are counted'),
        ('CPROF_WITH_FLOPS', 'BOOL', '1', 0, 1, '0|1', 'Count floating-point operations'),
        ('CPROF_WITH_MODULES', 'BOOL', '0', 0, 1, '0|1', 'Record in which module each operator runs, forward and backward'),
        ('CPROF_PEAK_TFLOPS', 'TEXT', '', 0, 255, 'TFLOP/s, or TYPE=TFLOP/s,...', "Peak rate of each GPU that FLOPs are compared with, for all number types or by type. Types are float64 float32 tfloat32 float16 bfloat16 float8 int8 float4, and cpu. By default the device's own"),
        ('CPROF_TRACE_CHILDREN', 'BOOL', '0', 0, 1, '0|1', '0: child processes of a traced one are traced when they mark steps, as ranks. 1: those without step marks, too; all have the pid in the file name'),
        ('CPROF_TRIGGER', 'STEP', 'off', 0, 1023, 'off|signal:NAME|file:PATH|socket|nvtx:GLOB|cuda', 'Starts a recording in a running job: a signal, a file that appears, a request on a socket. Or limits recording to an NVTX range, or to cudaProfilerStart to Stop'),
    ]),
    ('cprof itself', [
        ('CPROF_TORCH_PATH', 'CHOICE', 'auto', 0, 0, 'auto|callbacks|objects', "How operators are recorded. With auto, cprof shortens what PyTorch does for callbacks, from the first window on, where it knows the build. With callbacks it leaves PyTorch as it is. With objects it also makes PyTorch's record objects itself, which saves a quarter of the cost (x86-64, PyTorch 2.4 and later)"),
        ('CPROF_FLIGHT', 'STEP', '0', 0, 1023, '0|1|steps:N|seconds:N|mb:N', 'Flight recorder: keeps the last steps in one file of limited size all the time, also between windows. 1 means mb:32. steps and seconds keep at least that much, in at most 64 MB'),
        ('CPROF_FLIGHT_WHAT', 'LIST', 'steps,collectives,markers,memory', 0, 0, 'steps|collectives|markers|memory|operators|calls|kernels', 'What the flight recorder keeps. operators, calls and kernels cost what they cost in a window; kernels keeps CUPTI on in all steps'),
        ('CPROF_FLIGHT_SLOW', 'INT', '3', 0, 1000, '', 'The flight recorder is saved after a step that takes so many times the median of the last ones, and 100 ms more. At most four times an hour, as for each other reason. 0: never'),
        ('CPROF_FLIGHT_HANG_S', 'INT', '60', 0, 86400, '', 'The flight recorder is saved when no step ends for so many seconds, and nothing runs or a transfer does not end. A step may also take CPROF_FLIGHT_SLOW times the median. 0: never'),
        ('CPROF_METRICS', 'FOLDER', '', 0, 4000, 'a path template', 'File for Prometheus, for example /var/lib/node_exporter/cprof-{rank}.prom: steps, losses, saved recordings, rates of the last trace. It is replaced every 10 seconds and removed at the end. Takes the variables of CPROF_FOLDER'),
        ('CPROF_ENABLED', 'BOOL', '1', 0, 1, '0|1', '0 turns cprof off'),
        ('CPROF_LOG', 'CHOICE', 'info', 0, 0, 'error|warn|info|debug', 'Messages on stderr. warn silences the line at exit'),
        ('CPROF_RING_KB', 'INT', '8192', 64, 1048576, '', 'Event buffer of each thread, in KiB'),
        ('CPROF_GPU_BUFFER_KB', 'INT', '256', 64, 1048576, '', 'Buffer given to CUPTI, in KiB. A window is finished when the buffers of its time are full or idle'),
        ('CPROF_GPU_DUMP', 'TEXT', '', 0, 4000, 'a folder', 'Also write every raw buffer of CUPTI into this folder, for debugging'),
        ('CPROF_MAX_TRACE_MB', 'INT', '2048', 1, 1048576, '', 'Size at which a trace file ends, in MiB'),
        ('CPROF_SUMMARY_MB', 'INT', '32', 0, 1048576, '', 'Memory for the summary beside each trace (TRACE.summary, at most 200 KB, read by cprof top and cprof ranks) while a window is recorded, in MiB. The default holds about 700,000 operators and calls. A window that needs more has a summary without a table and without parts of steps; 0 makes none'),
        ('CPROF_DRAIN_DEADLINE_MS', 'INT', '10000', 0, 3600000, '', 'Longest wait at exit for outstanding GPU records, in ms'),
    ]),
]

# What stands in braces in CPROF_FILENAME, and in CPROF_FOLDER.
FILE_VARIABLES = ['run_name', 'rank', 'local_rank', 'world_size', 'local_world_size', 'node_rank', 'epoch', 'batch', 'batch_in_epoch', 'sample', 'sample_in_epoch', 'token', 'token_in_epoch', 'total_wct', 'epoch_wct', 'batch_wct']
FOLDER_VARIABLES = ['run_name', 'rank', 'local_rank', 'world_size', 'local_world_size', 'node_rank']

# Kinds of numbers in CPROF_PEAK_TFLOPS: of each the name in traces, then its other name.
FLOP_CLASSES = ['float64', 'fp64', 'float32', 'fp32', 'tfloat32', 'tf32', 'float16', 'fp16', 'bfloat16', 'bf16', 'float8', 'fp8', 'int8', 'i8', 'float4', 'fp4']

# First and last version of torch for each row of known layouts.
TORCH_VERSIONS = [
    ((1, 13), (1, 13)),
    ((2, 0), (2, 0)),
    ((2, 1), (2, 1)),
    ((2, 2), (2, 2)),
    ((2, 3), (2, 3)),
    ((2, 4), (2, 4)),
    ((2, 5), (2, 5)),
    ((2, 6), (2, 6)),
    ((2, 7), (2, 7)),
    ((2, 8), (2, 8)),
    ((2, 9), (2, 11)),
    ((2, 12), (2, 12)),
    ((2, 13), (2, 13)),
    ((2, 14), (2, 14)),
    ((2, 15), (2, 15)),
]

# CPython 3.N whose frames are known.
PYTHON_MINORS = [9, 10, 11, 12, 13, 14, 15]
