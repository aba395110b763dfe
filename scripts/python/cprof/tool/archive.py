# SPDX-License-Identifier: Apache-2.0
"""`cprof merge --manifest`: the unchanged traces in a tar with a manifest, which tells Perfetto (v58 and later) the rank and the clock of each.
Format: https://perfetto.dev/docs/reference/perfetto-manifest, version 1. A trace in Chrome's JSON format has no clock of its own, so
each is tied to the one that begins first: Perfetto adds `offset_ns` to its times. Each rank is a machine of its own, so that
processes, GPUs and ids of two ranks stay apart. Perfetto accepts no archive in an archive, so gzip files are unpacked.
Memory does not grow with the files."""

import gzip
import io
import json
import os
import shutil
import tarfile
import zlib
from typing import Any, Dict, List

from cprof._untrusted import open_regular
from cprof.tool import Problem
from cprof.tool.output import appearing
from cprof.tool.progress import Progress

MANIFEST = "perfetto_manifest.json"
CHUNK = 1 << 20
LARGEST = 8 ** 11 - 1  # the largest size in a plain tar header, in bytes


def manifest(parts: List[Any], names: List[str]) -> Dict[str, Any]:
    """The manifest of the traces. parts: from merge.parts_of()."""
    reference = min(range(len(parts)), key=lambda n: parts[n].shift_ns)
    files = []
    for n, (part, name) in enumerate(zip(parts, names)):
        machine = f"rank {part.rank}" + (f" on {part.host}" if part.several_hosts and part.host else "")
        file: Dict[str, Any] = {"path": name, "machine": {"name": machine}}
        if n != reference:
            file["clocks"] = {"sync_to": {"file": names[reference]}, "offset_ns": part.shift_ns - parts[reference].shift_ns}
        files.append(file)
    clocks = {host: clock for host, clock in {part.host: part.clock for part in parts}.items() if clock.error_ns is not None}
    attributes: Dict[str, Any] = {"cprof.ranks": len({part.rank for part in parts})}
    for host, clock in clocks.items() if parts[0].several_hosts else ():
        attributes[f"cprof.clock_error_ns.{host or 'unnamed'}"] = int(clock.error_ns)
    return {"perfetto_manifest": {"version": 1, "files": files, "attributes": attributes}}


def names_of(parts: List[Any]) -> List[str]:
    """A unique name in the archive for each trace, short enough for a plain header."""
    taken = {MANIFEST}
    found = []
    for part in parts:
        base = os.path.basename(part.path)
        base = base[:-3] if base.lower().endswith(".gz") else base
        stem = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in base)[-80:].lstrip(".") or "trace.json"
        name, number = stem, 1
        while name in taken:
            number += 1
            name = f"{number}-{stem}"
        taken.add(name)
        found.append(name)
    return found


def _add(out: Any, name: str, part: Any, progress: Progress) -> None:
    """Adds one trace. Writes its header last: the size of a gzip trace is known only after it is unpacked."""
    header_at = out.tell()
    out.write(bytes(tarfile.BLOCKSIZE))
    with open_regular(part.path) as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        file = gzip.GzipFile(fileobj=raw) if packed else raw
        last = b""
        try:
            while True:
                before = raw.tell()
                data = file.read(CHUNK)
                progress.add(raw.tell() - before)
                if not data:
                    break
                if out.tell() - header_at > LARGEST:
                    raise _too_much(part.path)
                out.write(data)
                last = data.rstrip(b" \t\r\n\0")[-1:] or last
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise Problem(f"damaged gzip data ({error}): cprof recover may help", part.path) from None
        if last not in (b"}", b"]"):  # Perfetto would refuse the whole archive for it
            raise Problem("ends in the middle: cprof recover makes a complete trace of it", part.path)
        mtime = int(os.fstat(raw.fileno()).st_mtime)
    end = out.tell()
    size = end - header_at - tarfile.BLOCKSIZE
    out.write(bytes(-size % tarfile.BLOCKSIZE))
    after = out.tell()
    out.seek(header_at)
    out.write(_header(name, size, mtime, part.path))
    out.seek(after)


def _too_much(path: str) -> Problem:
    return Problem("has more than 8 GB of text: too much for a tar", path)


def _header(name: str, size: int, mtime: int, path: str) -> bytes:
    if size > LARGEST:
        raise _too_much(path)
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, max(0, mtime), 0o644
    return info.tobuf(tarfile.USTAR_FORMAT)


def write(parts: List[Any], output: str, force: bool) -> None:
    """Writes the archive, which appears under its name when it is whole."""
    names = names_of(parts)
    text = json.dumps(manifest(parts, names), indent=1, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    total = sum(os.stat(part.path).st_size for part in parts)
    with appearing(output, force) as (_, out), Progress("packing", total) as progress:
        out.write(_header(MANIFEST, len(text), 0, output))
        shutil.copyfileobj(io.BytesIO(text + bytes(-len(text) % tarfile.BLOCKSIZE)), out)
        for part, name in zip(parts, names):
            _add(out, name, part, progress)
        out.write(bytes(2 * tarfile.BLOCKSIZE))
