"""Starts the broker as a process of its own and knows when it is ready; tests can kill and restart it."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from local.errors import StartError
from local.logs import new_log
from local.servicebus.command import connection_string

_ROOT = Path(__file__).resolve().parents[2]
#: Generous: a start takes half a second on an idle machine.
_READY_WITHIN = 30.0
_STOPPED_WITHIN = 10.0
_LOOK_EVERY = 0.02


class Broker:
    """A running broker process; a context manager that stops it."""

    def __init__(self, bus_spec: str, port: int, log: Path | None, lock_seconds: float | None) -> None:
        self._bus_spec = bus_spec
        self._lock_seconds = lock_seconds
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-broker-")
        self._log, self._is_own_log = log or new_log("broker"), log is None
        self._process: subprocess.Popen[bytes] | None = None
        #: 0 until the first start; the same from then on.
        self.port = port

    @classmethod
    def start(
        cls,
        bus_spec: str = "shared.topology:topology",
        port: int = 0,
        log: Path | None = None,
        *,
        lock_seconds: float | None = None,
    ) -> Self:
        """Start a broker and return when it takes connections."""
        broker = cls(bus_spec, port, log, lock_seconds)
        try:
            broker._spawn()
        except BaseException:
            broker.stop()
            raise
        return broker

    @property
    def connection_string(self) -> str:
        """What a client needs to connect."""
        return connection_string(self.port)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The running process, for those who watch over it."""
        if self._process is None:
            raise StartError("the Service Bus broker is not running: start it first")
        return self._process

    @property
    def pid(self) -> int | None:
        """The process, for those who measure it; None while it is stopped."""
        return None if self._process is None else self._process.pid

    def stop(self) -> None:
        """Stop the process and clean up; safe to call twice."""
        self._end(signal.SIGTERM)
        self._folder.cleanup()
        if self._is_own_log:
            self._log.unlink(missing_ok=True)

    def kill(self) -> None:
        """End the process as a crash would."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Start anew on the same port, with nothing of what the broker held."""
        self._end(signal.SIGTERM)
        self._spawn()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _spawn(self) -> None:
        port_file = Path(self._folder.name) / "port"
        port_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "local.servicebus", "--topology", self._bus_spec]
        command += ["--port", str(self.port), "--port-file", str(port_file)]
        if self._lock_seconds is not None:
            command += ["--lock-seconds", str(self._lock_seconds)]
        # The caller's import path too: a test's topology lives beside the test.
        paths = [str(_ROOT), *(path for path in sys.path if path)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=_ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C at the terminal is for the stack, which stops the broker after everything that still uses it.
                start_new_session=True,
            )
        self._await_ready(port_file)

    def _await_ready(self, port_file: Path) -> None:
        deadline = time.monotonic() + _READY_WITHIN
        while time.monotonic() < deadline:
            if self._process is not None and self._process.poll() is not None:
                raise self._failure(f"ended with status {self._process.returncode} before it listened")
            if port_file.exists():
                self.port = int(port_file.read_text())
                socket.create_connection(("127.0.0.1", self.port), timeout=_READY_WITHIN).close()
                return
            time.sleep(_LOOK_EVERY)
        raise self._failure(f"did not listen within {_READY_WITHIN:.0f} s")

    def _failure(self, what: str) -> StartError:
        self._end(signal.SIGKILL)
        self._process = None
        return StartError.with_log(
            f"the Service Bus broker for {self._bus_spec!r} on port {self.port} {what}", self._log
        )

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(_STOPPED_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
