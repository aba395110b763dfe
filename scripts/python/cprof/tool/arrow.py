# SPDX-License-Identifier: Apache-2.0
"""The packages of cprof's wheel with `[data]`: pyarrow and duckdb. Only datasets need them."""

import functools
import importlib.util
from typing import Any

from cprof.tool import Problem


def need(*packages: str) -> None:
    """Raises a Problem if one of the packages is not installed. Does not import them: a process that has imported pyarrow should not fork."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise Problem(f"needs {' and '.join(missing)}: pip install 'cprof[data]'")


@functools.lru_cache(None)
def pyarrow() -> Any:
    """pyarrow with its modules for computing and for Parquet."""
    import pyarrow
    import pyarrow.compute
    import pyarrow.parquet
    return pyarrow
