# SPDX-License-Identifier: Apache-2.0
"""Runs HolisticTraceAnalysis on a folder of traces, for consumers.py: run_hta.py analyses|table FOLDER OPTIONS RESULT

OPTIONS are JSON. The function's return value is pickled into the file RESULT.
"""

import json
import logging
import math
import pickle
import sys
import warnings

warnings.simplefilter("ignore")

from hta.configs.config import logger  # noqa: E402
from hta.trace_analysis import TraceAnalysis  # noqa: E402

logger.setLevel(logging.ERROR)


def analyses(folder, last_step, critical):
    """See consumers.hta()."""
    analysis = TraceAnalysis(trace_dir=folder, include_last_profiler_step=last_step)
    ranks = sorted(analysis.t.traces)
    by_rank = {
        "temporal": analysis.get_temporal_breakdown(visualize=False),
        "kernels": analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000)[1],
        "idle": analysis.get_idle_time_breakdown(ranks=ranks, visualize=False)[0],
        "overlap": analysis.get_comm_comp_overlap(visualize=False),
        "bandwidth": analysis.get_memory_bw_summary(ranks=ranks),  # None without copies
        "queue": analysis.get_queue_length_summary(ranks=ranks),
    }
    result = {name: {rank: _rows_of(table, rank) for rank in ranks} for name, table in by_rank.items()}
    result["kernel_types"] = _rows(analysis.get_gpu_kernel_breakdown(visualize=False)[0])
    series = {
        "bandwidth_series": analysis.get_memory_bw_time_series(ranks=ranks),
        "queue_series": analysis.get_queue_length_time_series(ranks=ranks),
        "launches": analysis.get_cuda_kernel_launch_stats(ranks=ranks, visualize=False),
    }
    result.update((name, {rank: _rows(table) for rank, table in tables.items()}) for name, tables in series.items())
    result["ranks"] = ranks
    result["steps"] = [int(step) for step in analysis.t.get_iterations()]
    # Last, because it adds columns to the table of the trace.
    result["critical"] = {rank: _critical_path(analysis, rank) for rank in ranks} if critical else {}
    return result


def table(folder, rank):
    """See consumers.hta_table()."""
    return TraceAnalysis(trace_dir=folder).t.get_trace(rank)


def _critical_path(analysis, rank):
    """The critical path of the first step: rows in time order, and the share of each bound in percent."""
    graph, good = analysis.critical_path_analysis(rank=rank, annotation="ProfilerStep", instance_id=0)
    assert good, "HTA reports that the graph of the critical path is not valid"
    numbers = graph.critical_path_nodes
    path = [graph.node_list[number] for number in numbers]
    return {"events": list(dict.fromkeys(graph._get_node_name(node.ev_idx) for node in path)),
            "us": float(sum(graph.edges[a, b]["weight"] for a, b in zip(numbers, numbers[1:]))),
            "bound_by": {str(name): round(float(share), 1) for name, share in graph.summary().items()}}


def _rows_of(table, rank):
    """The rows of one rank."""
    if table is None:
        return []
    if table.index.names != [None]:
        table = table.reset_index()
    return _rows(table[table["rank"] == rank])


def _rows(table):
    """A pandas table as plain dicts. Names of multi-level columns are joined with a dot."""
    names = [".".join(map(str, filter(None, name))) if isinstance(name, tuple) else str(name) for name in table.columns]
    return [dict(zip(names, map(_plain, row))) for row in table.itertuples(index=False, name=None)]


def _plain(value):
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and math.isnan(value) else value


what, folder, options, result = sys.argv[1:]
answer = {"analyses": analyses, "table": table}[what](folder, **json.loads(options))
with open(result, "wb") as file:
    pickle.dump(answer, file)
