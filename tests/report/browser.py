# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven through its DevTools pipe; nothing but Python's own library."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile

NAMES = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]


# Frames come when the test asks for them, so that what moves does not depend on how fast or busy the machine is.
FRAMES = """
let waiting = [], shown = 0;
window.requestAnimationFrame = (f) => waiting.push(f);
window.showFrame = (milliseconds) => {
  const due = waiting;
  shown += milliseconds;
  waiting = [];
  due.forEach((f) => f(shown));
};
"""


def find():
    """The path of a browser, or None. Ubuntu's chromium-browser may be a script that asks for a snap."""
    works = lambda path: subprocess.run([path, "--version"], capture_output=True).returncode == 0
    return next((path for path in map(shutil.which, NAMES) if path and works(path)), None)


def _pipe():
    ends = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in ends]
    for end in ends:
        os.close(end)
    return high


class Browser:
    """One page. Errors that it logs or throws gather in `errors`."""

    def __init__(self, path):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        # The browser reads commands from descriptor 3 and answers on 4; ours are kept out of the way of these.
        ours_in, theirs_out = _pipe()
        theirs_in, ours_out = _pipe()
        # The page is our own file and nothing else is loaded, so the sandbox, which root and containers lack, is left out.
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
                 "--disable-background-networking", "--disable-extensions", "--force-color-profile=srgb",
                 f"--user-data-dir={self.folder.name}", "--remote-debugging-pipe", "about:blank"]  # fmt: skip
        self.process = subprocess.Popen(
            [path, *flags], preexec_fn=lambda: (os.dup2(theirs_in, 3), os.dup2(theirs_out, 4)), close_fds=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self.folder.name},
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self.input, self.output, self.rest, self.number, self.session = ours_in, ours_out, b"", 0, None
        self.errors, self.events = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log"]:
            self.call(f"{domain}.enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source=FRAMES)

    def _message(self):
        while b"\0" not in self.rest:
            data = os.read(self.input, 1 << 20)
            if not data:
                raise RuntimeError("the browser does not answer")
            self.rest += data
        text, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(text)
        method, details = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(details["exceptionDetails"].get("exception", {}).get("description", str(details)))
        elif method == "Log.entryAdded" and details["entry"]["level"] in ["error", "warning"]:
            self.errors.append(details["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and details["type"] in ["error", "warning", "assert"]:
            self.errors.append(str([a.get("value", a.get("description")) for a in details["args"]]))
        elif method:
            self.events.append(method)
        return message

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.output, data) :]
        while True:
            answer = self._message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def shape(self, width, height=900, theme="light", motion=True):
        features = [{"name": "prefers-color-scheme", "value": theme},
                    {"name": "prefers-reduced-motion", "value": "no-preference" if motion else "reduce"}]  # fmt: skip
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setTouchEmulationEnabled", enabled=width < 600)
        self.call("Emulation.setEmulatedMedia", features=features)

    def open(self, path):
        self.events.clear()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        while "Page.loadEventFired" not in self.events:
            self._message()

    def run(self, expression):
        """The value of a JavaScript expression; promises are awaited."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"].get("description", str(result)))
        return result["result"].get("value")

    def play(self, frames):
        """Shows so many frames of what moves, a sixtieth of a second each."""
        self.run(f"for (let i = 0; i < {frames}; i++) showFrame(1000 / 60)")

    def press(self, key, code=None):
        text = key if len(key) == 1 else ""
        for kind in ["keyDown", "keyUp"]:
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, text=text if kind == "keyDown" else "")

    def point(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path, whole=True):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 8000), "scale": 1}
        options = {"clip": clip, "captureBeyondViewport": True} if whole else {}
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png", **options)["data"]))

    def close(self):
        os.close(self.output)
        os.close(self.input)
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()
