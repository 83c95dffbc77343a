"""Starts the broker as a process of its own and knows when it is ready. Tests can kill and restart it."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self, TypedDict, Unpack

from servicebus_local.command import ENTITIES, connection_string
from servicebus_local.entities import Namespace
from servicebus_local.entities_file import document
from servicebus_local.errors import StartError
from servicebus_local.tokens import Policy, written

_ROOT = Path(__file__).resolve().parents[1]
#: A start that fails leaves its log here.
LOGS = Path(".stack") / "logs"
#: Generous: a start takes half a second on an idle machine, and a hundred times that on one that is overloaded.
_READY_WITHIN = 300.0
_STOPPED_WITHIN = 10.0
_LOOK_EVERY = 0.02


class Options(TypedDict, total=False):
    """The command's options that a launcher passes on."""

    lock_seconds: float | None
    operations_per_second: int | None
    tls: Path | None
    tls_name: str
    sas_key: str | None
    sas_policies: Sequence[Policy]


class Broker:
    """A running broker process. A context manager that stops it."""

    def __init__(self, entities: Namespace | Path, port: int, options: Options) -> None:
        self._options = options
        self._folder = tempfile.TemporaryDirectory(prefix="servicebus-local-")
        self._entities = entities.resolve() if isinstance(entities, Path) else self._write(entities)
        self._log = _new_log()
        self._process: subprocess.Popen[bytes] | None = None
        #: 0 until the first start; the same from then on.
        self.port = port

    @classmethod
    def start(
        cls,
        entities: Namespace | Path = ENTITIES,
        port: int = 0,
        **options: Unpack[Options],
    ) -> Self:
        """Start a broker of these entities, or of a file of them. Return when it takes connections."""
        broker = cls(entities, port, options)
        try:
            broker._spawn()
        except BaseException:
            broker.stop()
            raise
        return broker

    @property
    def connection_string(self) -> str:
        """The connection string of a client."""
        key = self._options.get("sas_key") or "SAS_KEY_VALUE"
        return connection_string(self.port, key, tls=self._options.get("tls") is not None)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The running process, for those who watch over it."""
        if self._process is None:
            raise StartError("the Service Bus broker is not running: start it first")
        return self._process

    @property
    def pid(self) -> int | None:
        """The process, for those who measure it. None while it is stopped."""
        return None if self._process is None else self._process.pid

    def stop(self) -> None:
        """Stop the process and clean up. Safe to call twice."""
        self._end(signal.SIGTERM)
        self._folder.cleanup()
        self._log.unlink(missing_ok=True)

    def kill(self) -> None:
        """End the process as a crash would."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Start anew on the same port, and empty."""
        self._end(signal.SIGTERM)
        self._spawn()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _write(self, namespace: Namespace) -> Path:
        file = Path(self._folder.name) / "entities.json"
        file.write_text(json.dumps(document(namespace)), encoding="utf-8")
        return file

    def connection_string_of(self, policy: Policy) -> str:
        """The connection string of a client that has the key of one policy."""
        shown = connection_string(self.port, policy.key, policy=policy.name, tls=self._options.get("tls") is not None)
        return shown + (f"EntityPath={policy.entity};" if policy.entity else "")

    def _words(self) -> list[str]:
        given = {name: value for name, value in self._options.items() if value is not None}
        if policies := self._options.get("sas_policies"):
            file = Path(self._folder.name) / "policies.json"
            file.touch(mode=0o600)
            file.write_text(written(policies), encoding="utf-8")
            given["sas_policies"] = file
        return [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]

    def _spawn(self) -> None:
        port_file = Path(self._folder.name) / "port"
        port_file.unlink(missing_ok=True)
        words = ["--entities", str(self._entities)]
        words += ["--port", str(self.port), "--port-file", str(port_file), "--end-with-stdin", *self._words()]
        path = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH", "")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
        with self._log.open("ab") as log:
            self._process = self._begin(words, environment, log)
        self._await_ready(port_file)

    @staticmethod
    def _begin(words: Sequence[str], environment: dict[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "servicebus_local", *words],
            cwd=_ROOT,
            env=environment,
            # Its end is the broker's: also where this process is killed.
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            # Ctrl-C at the terminal is for the stack, which stops the broker after everything that still uses it.
            start_new_session=True,
        )

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
        return StartError.with_log(f"the Service Bus broker for {self._entities} on port {self.port} {what}", self._log)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(_STOPPED_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None


def _new_log() -> Path:
    LOGS.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(prefix="broker-", suffix=".log", dir=LOGS.resolve(), delete=False) as log:
        return Path(log.name)
