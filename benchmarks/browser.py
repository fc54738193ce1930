"""A real Chromium, driven through its DevTools port in real time with the standard library alone."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
PATIENCE_S = 60.0
READY = """document.documentElement?.dataset.ready === 'yes'
    || (location.protocol === 'file:' && document.readyState === 'complete' && !document.scripts.length)"""
"""A page says that it is ready; one without a script is when it has been loaded."""


class WebSocket:
    """Just enough of RFC 6455 to talk to DevTools: text frames, masked from us, fragments joined."""

    def __init__(self, url: str) -> None:
        host, _, path = url.removeprefix("ws://").partition("/")
        name, _, port = host.partition(":")
        self.socket = socket.create_connection((name, int(port)), timeout=PATIENCE_S)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self.rest = b""
        while b"\r\n\r\n" not in self.rest:
            self.rest += self.socket.recv(4096)
        head, _, self.rest = self.rest.partition(b"\r\n\r\n")
        if b" 101 " not in head.split(b"\r\n")[0] + b" ":
            raise ConnectionError(head.decode())

    def send(self, text: str) -> None:
        data, mask = text.encode(), os.urandom(4)
        size = len(data)
        length = (
            bytes([0x80 | size])
            if size < 126
            else b"\xfe" + struct.pack(">H", size)
            if size < 65536
            else b"\xff" + struct.pack(">Q", size)
        )
        repeated = (mask * (size // 4 + 1))[:size]
        masked = (
            int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")
        ).to_bytes(size, "big")
        self.socket.sendall(b"\x81" + length + mask + masked)

    def receive(self) -> str:
        parts: list[bytes] = []
        while True:
            first, second = self._take(2)
            size = second & 0x7F
            if size == 126:
                size = struct.unpack(">H", self._take(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self._take(8))[0]
            data = self._take(size)
            if first & 0x0F in (0, 1):
                parts.append(data)
                if first & 0x80:
                    return b"".join(parts).decode()

    def _take(self, count: int) -> bytes:
        while len(self.rest) < count:
            more = self.socket.recv(1 << 16)
            if not more:
                raise ConnectionError("the browser has gone")
            self.rest += more
        data, self.rest = self.rest[:count], self.rest[count:]
        return data


class Browser:
    """One headless Chromium with one tab; remembers console errors and requests."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        self.width, self.height = width, height
        self.profile = tempfile.mkdtemp(prefix="cutaway-chromium-")
        program = (
            shutil.which("chromium") or shutil.which("google-chrome") or "chromium"
        )
        self.process = subprocess.Popen(
            [
                program,
                *FLAGS,
                f"--user-data-dir={self.profile}",
                f"--window-size={width},{height}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.number = 0
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.socket = WebSocket(self._tab())
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.size(width, height)

    def _tab(self) -> str:
        port_file = Path(self.profile, "DevToolsActivePort")
        until = time.monotonic() + PATIENCE_S
        while not (port_file.is_file() and "\n" in port_file.read_text()):
            if time.monotonic() > until or self.process.poll() is not None:
                raise RuntimeError("Chromium did not open its DevTools port")
            time.sleep(0.05)
        port = port_file.read_text().split("\n")[0]
        while True:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{port}/json/list", timeout=PATIENCE_S
            ) as answer:
                tabs = [tab for tab in json.load(answer) if tab["type"] == "page"]
            if tabs:
                return str(tabs[0]["webSocketDebuggerUrl"])
            time.sleep(0.05)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One DevTools command; events that arrive meanwhile are noted."""
        self.number += 1
        number = self.number
        self.socket.send(
            json.dumps({"id": number, "method": method, "params": parameters})
        )
        while True:
            message = json.loads(self.socket.receive())
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        method, about = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.problems.append(
                str(details.get("exception", {}).get("description") or details["text"])
            )
        elif method == "Runtime.consoleAPICalled" and about["type"] in (
            "error",
            "warning",
            "assert",
        ):
            self.problems.append(str([a.get("value") for a in about["args"]]))
        elif method == "Log.entryAdded" and about["entry"]["level"] in (
            "error",
            "warning",
        ):
            self.problems.append(about["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])

    def size(self, width: int, height: int) -> None:
        """The size of the visible part."""
        self.width, self.height = width, height
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def open(self, path: Path) -> None:
        """Load a file and wait until the page is ready."""
        self.call("Page.navigate", url="about:blank")
        self.problems.clear()
        self.requests.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait(READY)

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + PATIENCE_S
        while not self.run(condition):
            if time.monotonic() > until:
                raise TimeoutError(f"{condition}; the page said {self.problems}")
            time.sleep(0.03)

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def settle(self) -> None:
        """Wait until two frames have been drawn."""
        self.run(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
        )

    def key(self, key: str) -> None:
        """Press and release a key; a printable one carries its text."""
        text = (
            {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        )
        codes = {
            "ArrowLeft": 37,
            "ArrowRight": 39,
            "Tab": 9,
            "Enter": 13,
            "Home": 36,
            "Escape": 27,
        }
        code = {"windowsVirtualKeyCode": codes[key]} if key in codes else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **code)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **code)
        self.settle()

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag the mouse with the left button held."""
        self.mouse("mousePressed", *start)
        for share in (0.3, 0.7, 1.0):
            self.mouse(
                "mouseMoved",
                *(a + (b - a) * share for a, b in zip(start, end, strict=True)),
            )
        self.mouse("mouseReleased", *end)
        self.settle()

    def mouse(self, kind: str, x: float, y: float) -> None:
        """One mouse event."""
        button = "none" if kind == "mouseMoved" else "left"
        self.call(
            "Input.dispatchMouseEvent",
            type=kind,
            x=x,
            y=y,
            button=button,
            clickCount=1,
            buttons=1,
        )

    def dark(self, on: bool) -> None:
        """Pretend that the user prefers dark (or light) colours."""
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        ]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.settle()

    def screenshot(self, path: Path, whole: bool = True) -> None:
        """A PNG of the page; `whole` includes what one would have to scroll to."""
        before = self.width, self.height
        if whole:
            height = int(self.run("document.documentElement.scrollHeight"))
            self.size(self.width, min(height, 6000))
            self.settle()
        answer = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(answer["data"]))
        self.size(*before)

    def close(self) -> None:
        """End the browser and remove its profile."""
        try:
            self.call("Browser.close")
        except (ConnectionError, OSError):
            pass
        self.socket.socket.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
