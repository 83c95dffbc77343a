"""Azure Functions Core Tools, where they are on the PATH: the official host instead of the project's own."""

import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tools.local.errors import StackError, StartError
from tools.local.logs import new_log
from tools.local.paths import ROOT, VENV

#: `func` downloads its extension bundle at its first start.
START_DEADLINE = 180.0


class FuncHost:
    """A running `func start`."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process, self.port, self.log = process, port, log

    @property
    def base_url(self) -> str:
        """Where its HTTP functions and its admin endpoints answer."""
        return f"http://127.0.0.1:{self.port}"

    @classmethod
    def start(cls, settings: Mapping[str, str], port: int = 0) -> Self:
        """Start `func` on this app with these settings and return when its status is Running."""
        func = shutil.which("func")
        if not func:
            raise StackError("func is not on the PATH: install Azure Functions Core Tools, or leave HOST=func out")
        port = port or _free_port()
        log = new_log("func")
        with log.open("wb") as output:
            process = subprocess.Popen(
                [func, "start", "--port", str(port)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_environment(settings),
                start_new_session=True,
            )
        host = cls(process, port, log)
        try:
            host._wait_until_running(time.monotonic() + START_DEADLINE)
        except BaseException:
            host.stop()
            raise
        return host

    def stop(self) -> None:
        """End it. Its own signal handling stops the worker that it started."""
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _wait_until_running(self, end: float) -> None:
        while not self._is_running():
            if self.process.poll() is not None:
                raise StartError.with_log(f"func ended with exit status {self.process.returncode}", self.log)
            if time.monotonic() > end:
                raise StartError.with_log("func did not reach the state Running in time", self.log)
            time.sleep(0.5)

    def _is_running(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.base_url}/admin/host/status", timeout=5) as reply:  # noqa: S310 - our own http address
                return b'"Running"' in reply.read()
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return False


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment: settings win over local.settings.json, and the worker is the project's interpreter."""
    path = f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, **settings, "VIRTUAL_ENV": str(VENV), "PATH": path}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
