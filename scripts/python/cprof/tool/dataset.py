# SPDX-License-Identifier: Apache-2.0
"""The folder that `cprof export` writes and `cprof sql` reads: tables as Parquet files, FOLDER/TABLE/run=RUN/rank=RANK/NUMBER.parquet.

The columns `run` and `rank` stand in the path only (Hive partitions). A run's name is percent-encoded there, so it cannot lead out of the folder.
The file MARK says which version of the tables it is."""

import json
import mmap
import os
import re
import urllib.parse
from typing import Any, BinaryIO, Dict, Iterator, List, Optional, Tuple

from cprof._untrusted import open_regular, read_text
from cprof.tool import Problem, event_columns
from cprof.tool.arrow import pyarrow
from cprof.tool.moments import BUSY, CPU, IDLE, WAITING
from cprof.tool.output import create

MARK, VERSION = "cprof-dataset", 1
EVENTS, STEPS, FINDINGS, TRACES = TABLES = ("events", "steps", "findings", "traces")
ENCODED_MOST = 200        # characters of an encoded run; a name of a file has at most 255
ROWS_LEAST = 1 << 14      # of a row group of events. Each group repeats the names: smaller ones make the file larger, larger ones take more memory
ROWS_MOST = 1 << 17
LEVEL = 3                 # of zstd: higher levels take twice the time for a twentieth of the size
# Numbers that grow from row to row, or are different in each: their differences take less room than a dictionary.
GROWING = ("ts_ns", "dur_ns", "external_id", "correlation", "sequence", "address", "allocated")
GPU_TIMES = tuple(f"{name}_ns" for name in BUSY + ("idle",)) + tuple(f"idle_{name}_ns" for name in IDLE)
CPU_TIMES = tuple(f"{name}_ns" for name in CPU) + tuple(f"waiting_{name}_ns" for name in WAITING)
_rank = re.compile(r"rank=[0-9]{1,6}")


def schema(table: str) -> Any:
    """The columns of a table's files."""
    pa = pyarrow()
    text, number, real = pa.string(), pa.int64(), pa.float64()
    if table == EVENTS:
        return event_columns.schema()
    if table == STEPS:
        return pa.schema([("trace", pa.int32()), ("step", number), ("device", text), ("start_ns", number), ("end_ns", number), ("total_ns", number),
                          ("left_out", text), *((name, number) for name in GPU_TIMES), ("launches", number), *((name, number) for name in CPU_TIMES)])
    if table == FINDINGS:
        evidence = pa.struct([("what", text), ("operator", text), ("module", text), ("line", text), ("to_line", text), ("ms", real), ("per_step", real)])
        return pa.schema([("rule", text), ("title", text), ("device", text), ("ms_per_step", real), ("share", real), ("bytes_per_step", number),
                          ("bytes", number), ("steps", pa.list_(number)), ("evidence", pa.list_(evidence)), ("advice", text)])
    return pa.schema([("trace", pa.int32()), ("file", text), ("host", text), ("devices", pa.list_(text)), ("torch", text), ("cprof", text),
                      ("world_size", number), ("first_step", number), ("last_step", number), ("begin_ns", number), ("end_ns", number),
                      ("events", number), ("lost", number), ("losses", text), ("truncated", pa.bool_()), ("notes", pa.list_(text))])


# ---- writing ----

def encoded(run: str) -> str:
    """A run's name for a path."""
    return urllib.parse.quote(run, safe="")


class TableFile:
    """One Parquet file of a table, written row group by row group. Use it with `with`."""

    def __init__(self, path: str, table: str) -> None:
        pa, self._schema = pyarrow(), schema(table)
        growing = [name for name in GROWING if name in self._schema.names and table == EVENTS]
        self._file: BinaryIO = create(path)
        self._writer = pa.parquet.ParquetWriter(self._file, self._schema, compression="zstd", compression_level=LEVEL,
                                                use_dictionary=[name for name in self._schema.names if name not in growing],
                                                column_encoding={name: "DELTA_BINARY_PACKED" for name in growing} or None)
        self._waiting: List[Any] = []
        self._rows = 0
        self._reached: Optional[int] = None  # the highest step so far

    def __enter__(self) -> "TableFile":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            if kind is None:
                self._end_group()
                self._writer.close()
        finally:
            self._file.close()

    def add(self, batch: Any) -> None:
        """Adds events. Begins a row group where a step begins."""
        begun = 0
        for at, step in enumerate(batch.column("step").to_pylist()):
            if step is not None and (self._reached is None or step > self._reached):
                self._reached = step
                if self._rows + at - begun >= ROWS_LEAST:
                    self._wait(batch.slice(begun, at - begun))
                    self._end_group()
                    begun = at
        self._wait(batch.slice(begun))
        if self._rows >= ROWS_MOST:
            self._end_group()

    def add_rows(self, rows: List[Dict[str, Any]]) -> None:
        """Adds rows of another table."""
        self._wait(pyarrow().RecordBatch.from_pylist(rows, schema=self._schema))

    def _wait(self, batch: Any) -> None:
        self._waiting.append(batch)
        self._rows += batch.num_rows

    def _end_group(self) -> None:
        if self._rows:
            self._writer.write_table(pyarrow().Table.from_batches(self._waiting))
        self._waiting, self._rows = [], 0


def write_mark(folder: str) -> None:
    """Marks the folder as a dataset."""
    with create(os.path.join(folder, MARK)) as file:
        file.write(json.dumps({"version": VERSION}).encode() + b"\n")


def place(folder: str, table: str, run: str, rank: int, number: int) -> str:
    """The path of a file. Makes its folder."""
    inside = os.path.join(folder, table, f"run={encoded(run)}", f"rank={rank}")
    os.makedirs(inside, exist_ok=True)
    return os.path.join(inside, f"{number}.parquet")


# ---- reading ----

def is_dataset(folder: str) -> bool:
    """Whether a dataset is there. Raises a Problem if it is of another version."""
    path = os.path.join(folder, MARK)
    if not os.path.lexists(path):
        return False
    try:
        version = json.loads(read_text(path)).get("version")
    except (OSError, ValueError, AttributeError, RecursionError):
        raise Problem("is damaged, so this is no dataset", path) from None
    if version != VERSION:
        raise Problem(f"is a dataset of version {version!r}, and this cprof reads version {VERSION}: export it again", folder)
    return True


def _files(folder: str, table: str) -> Iterator[Tuple[str, str, int]]:
    """Path, run and rank of each file of a table."""
    for run in sorted(os.listdir(os.path.join(folder, table))):
        for rank in sorted(os.listdir(os.path.join(folder, table, run))):
            inside = os.path.join(folder, table, run, rank)
            if not run.startswith("run=") or not _rank.fullmatch(rank):
                raise Problem("is no folder of a dataset (run=…/rank=…)", inside)
            for name in sorted(os.listdir(inside)):
                yield os.path.join(inside, name), urllib.parse.unquote(run[4:]), int(rank[5:])


def _mapped(path: str) -> Any:
    """The bytes of a file. Raises a ValueError if it is empty."""
    with open_regular(path) as file:
        return pyarrow().py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def opened(folder: str, table: str) -> Any:
    """A table as a dataset of Arrow, with the columns `run` and `rank`. Files are mapped: threads that share a file object move its position under
    each other."""
    import pyarrow.dataset as parquet
    pa = pyarrow()
    columns = pa.schema([("run", pa.string()), ("rank", pa.int32()), *schema(table)])
    field, form, pieces = parquet.field, parquet.ParquetFileFormat(), []
    for path, run, rank in _files(folder, table):
        where = (field("run") == run) & (field("rank") == pa.scalar(rank, pa.int32()))
        try:
            piece = form.make_fragment(pa.BufferReader(_mapped(path)), partition_expression=where)
            piece.ensure_complete_metadata()
        except (pa.ArrowException, ValueError) as error:
            raise Problem(f"is damaged ({str(error).splitlines()[0]})", path) from None
        pieces.append(piece)
    return parquet.FileSystemDataset(pieces, columns, form)
