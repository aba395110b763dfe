# SPDX-License-Identifier: Apache-2.0
"""A file that appears when it is whole."""

import contextlib
import os
import shutil
from typing import Iterator, Tuple

from cprof.tool import Problem


@contextlib.contextmanager
def appearing(output: str, force: bool) -> Iterator[Tuple[str, str]]:
    """`with appearing(output, force) as (folder, whole):` is to write the file `whole`, which becomes `output` at the end; other files may
    stand in the folder meanwhile. Nothing is left when it fails. force: replaces what has that name."""
    if os.path.lexists(output) and not force:
        raise Problem("is there already (--force replaces it)", output)
    folder = os.path.join(os.path.dirname(output) or ".", f".{os.path.basename(output)}.{os.getpid()}.tmp")
    os.mkdir(folder)
    whole = os.path.join(folder, "whole")
    try:
        yield folder, whole
        if force:
            os.replace(whole, output)
        else:
            os.link(whole, output)
    except FileExistsError:
        raise Problem("is there already (--force replaces it)", output) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
