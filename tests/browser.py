"""A real headless Chromium for tests of pages: DevTools protocol over a pipe, no driver and no port.

with Browser(folder) as browser:
    browser.open(url, width=400)
    browser.until("document.title === 'x'")
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")

SPEAK_ON_3_AND_4 = """
import fcntl, os, sys
commands, events = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(commands, 3)
os.dup2(events, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def chromium() -> str | None:
    """Path of a Chromium on this machine."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One tab.  messages: what the page wrote to the console, errors and violations of its policy among it."""

    def __init__(self, folder: Path) -> None:
        program = chromium()
        assert program is not None
        self.messages: list[str] = []
        self._number = 0
        self._answers: dict[int, dict[str, Any]] = {}
        self._received = b""
        commands, self._to = os.pipe()
        self._from, events = os.pipe()
        arguments = [
            program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars",
            "--no-first-run", "--disable-background-networking", f"--user-data-dir={folder / 'browser'}",
            "--disable-dev-shm-usage", "about:blank",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, "-c", SPEAK_ON_3_AND_4, str(commands), str(events), *arguments],
            pass_fds=(commands, events),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(events)
        self._session = ""
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def _attach(self) -> None:
        """Open a tab and hear what happens in it."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser."""
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(self, method: str, timeout_s: float = 60.0, **parameters: Any) -> dict[str, Any]:
        """The result of a command of the protocol."""
        self._number += 1
        number = self._number
        command: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._to, json.dumps(command).encode() + b"\0")
        until = time.monotonic() + timeout_s
        while number not in self._answers:
            self._read(until, method)
        answer = self._answers.pop(number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def _read(self, until: float, what: str) -> None:
        ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
        assert ready, f"{what}: the browser does not answer"
        more = os.read(self._from, 1 << 20)
        assert more, f"{what}: the browser has ended"
        *whole, self._received = (self._received + more).split(b"\0")
        for text in whole:
            message = json.loads(text)
            if "id" in message:
                self._answers[message["id"]] = message
            elif message["method"] == "Runtime.exceptionThrown":
                self.messages.append(str(message["params"]["exceptionDetails"]))
            elif message["method"] == "Runtime.consoleAPICalled":
                self.messages.append(str(message["params"]["args"]))
            elif message["method"] == "Log.entryAdded":
                self.messages.append(str(message["params"]["entry"]))

    def open(self, url: str, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Show a page in a window of this size, in CSS pixels."""
        self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=url)

    def resize(self, width: int, height: int = 900) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript gives, as JSON has it."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, expression: str, timeout_s: float = 60.0) -> Any:
        """The value of the expression once it is true; fails when it is not in time."""
        end = time.monotonic() + timeout_s
        while not (found := self.value(expression)):
            assert time.monotonic() < end, f"{expression} is not true within {timeout_s:g} s: {found!r}"
            time.sleep(0.1)
        return found

    def picture(self, file: Path) -> None:
        """The whole page as a PNG."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))
