# SPDX-License-Identifier: Apache-2.0
"""Shows pages of the command in a real browser, and records every other address that the page requests.

    with pages.Page(path, width=390, dark=True) as page:
        assert page("failed") == [] and page.requests == []
"""

import atexit
import base64
import functools
import json
import pathlib

import pytest

import perfetto  # noqa: F401  (puts scripts/ on the path)
import perfetto_check

needed = pytest.mark.skipif(perfetto_check.browser_path() is None, reason="no Chromium to show the page in")

# Collects a page's errors and the violations of its policy.
WATCH = """window.failed = []; addEventListener('error', e => failed.push(e.message));
document.addEventListener('securitypolicyviolation', e => failed.push('forbidden: ' + e.effectiveDirective));
window.alert = text => failed.push('alert: ' + text);"""


class _Browser(perfetto_check.Browser):
    """Records the requested addresses."""

    requests = ()

    def next_message(self, deadline, what):
        message = super().next_message(deadline, what)
        told = json.loads(message)
        if told.get("method") == "Network.requestWillBeSent":
            self.requests.append(told["params"]["request"]["url"])
        return message


@functools.cache
def shared():
    """The browser of all pages of this process."""
    browser = _Browser(1400, 900)
    atexit.register(browser.stop)
    return browser


class Page:
    """A file in the browser, with a window and a profile of its own."""

    def __init__(self, path, width=1400, dark=False, media=""):
        self.browser = shared()
        self.browser.requests, self.browser.session = [], None
        command = self.browser.command
        self.context = command("Target.createBrowserContext")["browserContextId"]
        target = command("Target.createTarget", url="about:blank", browserContextId=self.context, width=width, height=900)["targetId"]
        self.browser.session = command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        command("Page.enable")
        command("Network.enable")
        command("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        command("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        command("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        self.address = pathlib.Path(path).resolve().as_uri()
        command("Page.navigate", url=self.address)
        while not self("document.readyState === 'complete' && location.protocol === 'file:'"):
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.browser.session = None
        self.browser.command("Target.disposeBrowserContext", browserContextId=self.context)

    def __call__(self, script):
        return self.browser.evaluate(script, 30)

    @property
    def requests(self):
        """The addresses that the page requested, without its own."""
        return [url for url in self.browser.requests if url != self.address]

    def point_at(self, x, y):
        self.browser.command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        return self("document.querySelector('.tip').innerText")

    def picture(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.browser.command("Page.captureScreenshot", format="png")["data"]))
