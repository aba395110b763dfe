# SPDX-License-Identifier: Apache-2.0
"""Answers a question about runs in SQL, by DuckDB.

    cprof sql RUN "SELECT name, sum(dur_ns) / 1e6 AS ms FROM events WHERE category = 'kernel' GROUP BY name ORDER BY ms DESC LIMIT 10"

RUN is a folder that `cprof export --parquet` made, or a run, which is then exported into a temporary folder. The views are `events`, `steps`,
`findings` and `traces`. The statement sees nothing but these: no file, no network, no extension of DuckDB. Needs pyarrow and duckdb:
pip install 'cprof[data]'."""

import argparse
import concurrent.futures
import contextlib
import csv
import decimal
import functools
import itertools
import json
import resource
import shutil
import tempfile
from typing import Any, Callable, Dict, Iterator, List

from cprof.tool import Problem, arrow, note
from cprof.tool.dataset import TABLES, is_dataset, opened
from cprof.tool.export import export
from cprof.tool.given import add_traces, row_limit, traces_of
from cprof.tool.output import end_tidily
from cprof.tool.screen import data, json_line, on_terminal, put

HELP = "answer a question about runs in SQL, by DuckDB over tables of events, steps and findings"
MEMORY_LIMIT = "2GB"
AT_A_TIME = 1000          # rows
ROWS = 100
WIDTH = 160               # of a table that goes elsewhere than to a terminal
NARROWEST = 8             # characters of a column of texts that is cut
CELL_MOST = 1000          # characters of a value that are looked at
GAP = "  "
NUMBERS = (int, float, decimal.Decimal)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_traces(parser)
    parser.add_argument("query", metavar="SQL", help="one statement, such as \"SELECT * FROM findings\"")
    parser.add_argument("--row-limit", type=row_limit, default=ROWS, metavar="N", help=f"the number of rows in the table; -1: all (default {ROWS})")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="all rows as JSON lines")
    output.add_argument("--csv", action="store_true", help="all rows as CSV")


@contextlib.contextmanager
def _dataset(given: List[str]) -> Iterator[str]:
    """The dataset that was given, or a temporary one of the run."""
    if any(map(is_dataset, given)):
        if len(given) > 1:
            raise Problem("is one of several: a single dataset can be read, and `cprof export` puts several runs into one", next(filter(is_dataset, given)))
        yield given[0]
        return
    paths = traces_of(given)
    with tempfile.TemporaryDirectory(prefix="cprof-sql-") as folder:
        note(f"exports {len(paths)} trace{'s' * (len(paths) != 1)} for this question; `cprof export -o FOLDER --parquet` keeps the tables")
        export(paths, folder)
        yield folder


def _allow_files() -> None:
    """Allows as many open files as the system does: each mapped file of a dataset holds a descriptor, four for each trace."""
    with contextlib.suppress(ValueError, OSError):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _connection(folder: str) -> Any:
    """A database in memory with the views, and without a way out of it."""
    import duckdb
    connection = duckdb.connect(":memory:", config={
        "enable_external_access": "false", "autoload_known_extensions": "false", "autoinstall_known_extensions": "false",
        "memory_limit": MEMORY_LIMIT, "temp_directory": ""})
    connection.execute("SET python_enable_replacements = false")
    for table in TABLES:
        connection.register(table, opened(folder, table))
    connection.execute("SET lock_configuration = true")
    return connection


def _unique(names: List[str]) -> List[str]:
    """The names of columns, each once, since a row in JSON has each key once."""
    found: Dict[str, str] = {}
    for name in names:
        shown, n = name, 1
        while shown in found:
            n += 1
            shown = f"{name}_{n}"
        found[shown] = name
    return list(found)


# ---- output ----

def _plain(value: Any) -> Any:
    """A value for JSON: text for what JSON does not have."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, decimal.Decimal):
        return float(value)
    return value if value is None or type(value) in (bool, int, str) or type(value) is float and value - value == 0 else str(value)


def _as_text(value: Any) -> str:
    """A value for CSV."""
    return "" if value is None else json.dumps(_plain(value)) if isinstance(value, (list, dict, tuple)) else str(value)


def _shown(value: Any) -> str:
    """A value for a cell of the table: one line."""
    if isinstance(value, (float, decimal.Decimal)):
        return f"{value:,.3f}"
    text = _as_text(value)[:CELL_MOST]
    return text if text.isprintable() else json.dumps(text)[1:-1]


def _fitted(widths: List[int], flexible: List[bool], most: int) -> List[int]:
    """The widths of columns, so that the table fits if it can. Only flexible columns get narrower, the widest first, down to NARROWEST."""
    found = list(widths)
    while sum(found) + len(GAP) * (len(found) - 1) > most:
        widest = max((width for width, can in zip(found, flexible) if can), default=0)
        if widest <= NARROWEST:
            break
        found[next(n for n, width in enumerate(found) if flexible[n] and width == widest)] -= 1
    return found


def _table(names: List[str], rows: List[Any]) -> str:
    """The rows as a table. Numbers stand at the right, and are never cut."""
    cells = [names] + [[_shown(value) for value in row] for row in rows]
    texts = [not any(type(row[n]) in NUMBERS for row in rows) for n in range(len(names))]
    most = shutil.get_terminal_size((WIDTH, 0)).columns if on_terminal() else WIDTH
    widths = _fitted([max(len(line[n]) for line in cells) for n in range(len(names))], texts, most)
    lines = []
    for line in cells:
        cut = [cell if len(cell) <= width else cell[:width - 1] + "…" for cell, width in zip(line, widths)]
        lines.append(GAP.join(cell.ljust(width) if is_text else cell.rjust(width) for cell, width, is_text in zip(cut, widths, texts)).rstrip())
    return "\n".join(lines)


def _answer(names: List[str], fetch: Callable[[int], List[Any]], args: argparse.Namespace) -> None:
    """Prints the answer. fetch: returns as many further rows, if there are so many."""
    blocks = iter(lambda: fetch(AT_A_TIME), [])
    if args.json:
        for block in blocks:
            for row in block:
                json_line(dict(zip(names, map(_plain, row))))
    elif args.csv:
        writer = csv.writer(_Out(), lineterminator="\n")
        writer.writerow(names)
        for block in blocks:
            writer.writerows([map(_as_text, row) for row in block])
    else:
        most = None if args.row_limit < 0 else args.row_limit
        rows = list(itertools.islice(itertools.chain.from_iterable(blocks), None if most is None else most + 1))
        shown = rows[:most]
        put(_table(names, shown))
        if len(rows) > len(shown):
            note(f"the first {len(shown):,} rows; --row-limit -1, --csv and --json give all")


def _run(connection: Any, statement: Any, args: argparse.Namespace) -> None:
    """Executes a statement. DuckDB works in a thread of its own, since it does not look for signals."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        def done(function: Callable[[Any], Any], argument: Any) -> Any:
            try:
                return pool.submit(function, argument).result()
            except BaseException:
                connection.interrupt()
                raise

        cursor = done(connection.execute, statement)
        names = [column[0] for column in cursor.description or []]
        _answer(_unique(names), functools.partial(done, cursor.fetchmany), args)


class _Out:
    """A file for csv.writer()."""

    @staticmethod
    def write(text: str) -> None:
        data(text)


def run(args: argparse.Namespace) -> int:
    """`cprof sql`"""
    end_tidily()
    arrow.need("pyarrow", "duckdb")
    _allow_files()
    with _dataset(args.traces) as folder:
        import duckdb
        try:
            connection = _connection(folder)
            statements = connection.extract_statements(args.query)
            if len(statements) != 1:
                raise Problem(f"one statement is needed, there are {len(statements)}")
            _run(connection, statements[0], args)
        except duckdb.Error as error:
            raise Problem(f"DuckDB: {str(error).strip().splitlines()[0]}") from None
    return 0
