"""Starts a host in a process of its own and waits until it runs. For tests and for `make up`."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from functions_local_host.errors import StartError
from functions_local_host.keys import HEADER
from functions_local_host.run_folder import RunFolder, read

#: The folder that this package lies in.
_ROOT = Path(__file__).resolve().parents[1]
#: A start that fails leaves its log here.
LOGS = Path(".stack") / "logs"

#: One instance comes up in about a second; many on a loaded machine take much longer.
START_DEADLINE = 300.0
#: Beyond its drain limit a host needs little.
STOP_DEADLINE = 60.0


class Host:
    """A running host. Use it as a context manager, or call `stop`."""

    def __init__(self, process: subprocess.Popen[bytes], folder: RunFolder, log: Path) -> None:
        self.process, self.log = process, log
        self._folder = folder
        self.port = 0
        self._keys: str | None = None

    @classmethod
    def start(  # noqa: PLR0913  # all but two have defaults, a caller names what it varies
        cls,
        app: Path,
        settings: Mapping[str, str],
        *,
        instances: int = 1,
        flex: bool = False,
        port: int = 0,
        options: Sequence[str] = (),
        python: str = sys.executable,
        deadline: float = START_DEADLINE,
    ) -> Self:
        """Start in that Python and return when every instance runs. `options` are words of the command line."""
        LOGS.mkdir(parents=True, exist_ok=True)
        folder = RunFolder(Path(tempfile.mkdtemp(prefix="functions-local-host-")))
        log = LOGS.resolve() / f"{folder.path.name}.log"
        words = ["--app", str(app.resolve()), "--port", str(port), "--instances", str(instances), *options]
        command = [python, "-m", "functions_local_host", *words, "--run-folder", str(folder.path)]
        command += ["--end-with-stdin"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, *(["--flex"] if flex else [])],
                cwd=_ROOT,
                env={**os.environ, **settings},
                # Its end is the host's: also where this process is killed.
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        host = cls(process, folder, log)
        try:
            host.wait_until_running(deadline)
        except BaseException:
            host.abandon()
            raise
        return host

    @property
    def base_url(self) -> str:
        """Where the host answers."""
        return f"http://127.0.0.1:{self.port}"

    def wait_until_running(self, deadline: float = START_DEADLINE) -> None:
        """Read the status until every instance runs."""
        end = time.monotonic() + deadline
        while not self._is_running():
            if self.process.poll() is not None:
                raise StartError.with_log(
                    f"the host ended at its start with status {self.process.returncode}", self.log
                )
            if time.monotonic() > end:
                raise StartError.with_log(f"the host did not run after {deadline:g} s", self.log)
            time.sleep(0.05)

    def status(self) -> dict[str, Any]:
        """Return the document of /admin/host/status."""
        status: dict[str, Any] = self.get_json("/admin/host/status")
        return status

    def requests(self) -> dict[tuple[str, str, str], int]:
        """Return the host's own storage requests by (requester, service, method)."""
        rows = self.get_json("/admin/host/requests")["requests"]
        return {(row["requester"], row["service"], row["method"]): row["count"] for row in rows}

    def get_json(self, path: str) -> Any:
        """Return the JSON that a GET of an administrative path gives."""
        keys = read(Path(self._keys)) or {} if self._keys else {}
        request = urllib.request.Request(self.base_url + path, headers={HEADER: keys.get("master", "")})  # noqa: S310  # always http on loopback
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310  # always http on loopback
            return json.load(answer)

    def instance_pids(self) -> dict[str, int]:
        """Return the process of every running instance by name."""
        return {name: said["pid"] for name, said in self._folder.instances().items() if said}

    def kill_instance(self, name: str = "http-0") -> int:
        """End one instance by SIGKILL and return its process id. The host starts another."""
        pid = self.instance_pids()[name]
        os.kill(pid, signal.SIGKILL)
        return pid

    def stop(self) -> None:
        """Stop by SIGTERM and wait for the drain. The log goes when there is nothing to explain."""
        if self._end() == 0:
            self.log.unlink(missing_ok=True)

    def abandon(self) -> None:
        """Stop, and keep the log with any status: something went wrong before."""
        self._end()

    def _end(self) -> int:
        self.process.terminate()
        try:
            return self.process.wait(STOP_DEADLINE)
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            self.process.wait()
            raise StartError.with_log(
                f"the host did not stop within {STOP_DEADLINE:g} s and was killed", self.log
            ) from error
        finally:
            if self.process.stdin is not None:
                self.process.stdin.close()
            shutil.rmtree(self._folder.path, ignore_errors=True)

    def _is_running(self) -> bool:
        address = read(self._folder.address)
        if not address:
            return False
        self.port, self._keys = address["port"], address["keys"]
        try:
            return bool(self.status()["state"] == "Running")
        except (urllib.error.URLError, OSError, ValueError):
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self.abandon()
